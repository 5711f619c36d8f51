//! Cost per sample over a pass and since the last line, and the progress lines that v1 printed from it.

use nn::number::general;

/// Adds up costs of batches.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CostMeter {
    pass: Sum,
    recent: Sum,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Sum {
    cost: f64,
    samples: u64,
}

impl Sum {
    fn average(self) -> f64 {
        self.cost / self.samples.max(1) as f64
    }
}

impl CostMeter {
    /// Counts a batch whose cost, summed over its samples, is `cost`.
    pub fn add(&mut self, cost: f64, samples: u64) {
        for sum in [&mut self.pass, &mut self.recent] {
            sum.cost += cost;
            sum.samples += samples;
        }
    }

    /// Starts a new reporting period within the pass.
    pub(crate) fn reset_recent(&mut self) {
        self.recent = Sum::default();
    }

    /// Number of samples since the start of the pass.
    pub fn samples(&self) -> u64 {
        self.pass.samples
    }

    /// Cost per sample since the start of the pass.
    pub(crate) fn average_cost(&self) -> f64 {
        self.pass.average()
    }

    /// Cost per sample since the last line.
    pub fn current_cost(&self) -> f64 {
        self.recent.average()
    }

    /// The line inside a pass. Evaluator texts end with a blank each, hence the double blanks.
    pub(crate) fn batch_line(&self, batch: u64, eval: &str, current_eval: &str) -> String {
        format!(
            " Batch={batch} samples={} AvgCost={} CurrentCost={} Eval: {eval} CurrentEval: {current_eval}",
            self.samples(),
            general(self.average_cost()),
            general(self.current_cost()),
        )
    }

    /// The line at the end of a pass.
    pub(crate) fn pass_line(&self, pass: u32, batches: u64, eval: &str) -> String {
        format!(
            " Pass={pass} Batch={batches} samples={} AvgCost={} Eval: {eval}",
            self.samples(),
            general(self.average_cost()),
        )
    }

    /// The line of a test.
    pub(crate) fn test_line(&self, eval: &str) -> String {
        format!(
            " Test samples={} cost={} Eval: {eval}",
            self.samples(),
            general(self.average_cost())
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_v1() {
        let mut meter = CostMeter::default();
        meter.add(0.628761 * 2560.0, 2560);
        let eval = "classification_error_evaluator=0.304297 ";
        assert_eq!(
            meter.batch_line(20, eval, eval),
            " Batch=20 samples=2560 AvgCost=0.628761 CurrentCost=0.628761 \
             Eval: classification_error_evaluator=0.304297  CurrentEval: classification_error_evaluator=0.304297 "
        );
        assert_eq!(
            meter.batch_line(20, "", ""),
            " Batch=20 samples=2560 AvgCost=0.628761 CurrentCost=0.628761 Eval:  CurrentEval: "
        );
        assert_eq!(
            meter.pass_line(0, 20, eval),
            " Pass=0 Batch=20 samples=2560 AvgCost=0.628761 Eval: classification_error_evaluator=0.304297 "
        );
        assert_eq!(
            meter.test_line(""),
            " Test samples=2560 cost=0.628761 Eval: "
        );
    }

    #[test]
    fn a_new_period_forgets_only_the_recent_part() {
        let mut meter = CostMeter::default();
        meter.add(4.0, 2);
        meter.reset_recent();
        meter.add(1.0, 2);
        assert_eq!(meter.current_cost(), 0.5);
        assert_eq!(meter.average_cost(), 1.25);
    }
}
