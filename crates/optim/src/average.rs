//! The moving average of a parameter's values, for testing and saving.
//!
//! After every update `sum1 += w`; the average is `(sum1 + sum2 + sum3) / (accumulated + previous)`. To keep the
//! sums exact, `sum1` moves into `sum2` every 16384 steps. The window restarts (`sum3 = sum1 + sum2`, the others
//! zero) at the end of a step when `accumulated >= least` and `accumulated >= min(longest, window * steps)`:
//! `longest` is `max_window`, or the number of batches of the last pass where that is not given; `least` is
//! `min(10000, max_window)`, and from the end of the first pass at most the number of steps in that pass.
//!
//! A row that was not touched adds its value once for every missed step when it is caught up; only the two newest
//! restarts matter for that, because everything older is out of the window. Deviation from v1: missed steps count
//! with the value that the row had at the time, not with the one after the next update.

use serde::{Deserialize, Serialize};

/// State values per parameter value: `sum1`, `sum2`, `sum3`.
pub(crate) const SLOTS: usize = 3;

/// Steps after which a running sum moves into its long-term buffer.
pub(crate) const FOLD: u64 = 16384;

/// v1's first lower bound of the window.
const LEAST: u64 = 10000;

/// The length of the averaging window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Average {
    /// The window as a fraction of all steps so far.
    pub window: f64,
    /// The longest window in batches; without it, the batches of the last pass.
    pub max_window: Option<u64>,
}

/// The current windows of one parameter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Windows {
    /// Steps in the current window.
    pub accumulated: u64,
    /// Steps in the previous window.
    pub previous: u64,
    /// The steps that ended the two newest windows, newest first; 0 for none.
    pub restarts: [u64; 2],
    /// Number of steps at the end of the last pass.
    pub pass_end: u64,
    /// Number of steps at the end of the first pass; `None` before.
    pub first_pass_end: Option<u64>,
    /// Number of batches in the last pass; `None` before the end of the first.
    pub pass_length: Option<u64>,
}

/// How one step changes the sums.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Turn {
    /// `sum1` moves into `sum2`.
    pub fold: bool,
    /// The window restarts.
    pub restart: bool,
}

impl Windows {
    /// Counts step number `step` and decides what happens to the sums.
    pub(crate) fn begin(&mut self, average: &Average, step: u64) -> Turn {
        self.accumulated += 1;
        let restart = self.is_too_long(average, step);
        if restart {
            self.previous = self.accumulated;
            self.accumulated = 0;
            self.restarts = [step, self.restarts[0]];
        }
        Turn {
            fold: step.is_multiple_of(FOLD),
            restart,
        }
    }

    fn is_too_long(&self, average: &Average, step: u64) -> bool {
        let least = LEAST
            .min(average.max_window.unwrap_or(u64::MAX))
            .min(self.first_pass_end.unwrap_or(u64::MAX));
        let longest = average.max_window.or(self.pass_length).unwrap_or(u64::MAX);
        let wanted = (step as f64 * average.window) as u64;
        self.accumulated >= least && self.accumulated >= longest.min(wanted)
    }

    /// Records the length of the pass that ended after `step` steps.
    pub(crate) fn finish_pass(&mut self, step: u64) {
        if step > self.pass_end {
            self.pass_length = Some(step - self.pass_end);
            self.pass_end = step;
            self.first_pass_end.get_or_insert(step);
        }
    }

    /// One over the number of summed steps, or `None` before the first.
    pub(crate) fn scale(&self) -> Option<f32> {
        match self.accumulated + self.previous {
            0 => None,
            steps => Some((1.0 / steps as f64) as f32),
        }
    }
}

/// Adds the values of one step to the sums (`sum1`, `sum2`, `sum3`, each as long as `value`).
pub(crate) fn add(turn: Turn, value: &[f32], sums: &mut [f32]) {
    let n = value.len();
    let (sum1, rest) = sums.split_at_mut(n);
    let (sum2, sum3) = rest.split_at_mut(n);
    pulp::Arch::new().dispatch(|| {
        for (sum, w) in sum1.iter_mut().zip(value) {
            *sum += *w;
        }
    });
    if turn.fold {
        fold(sum1, sum2);
    }
    if turn.restart {
        restart(sum1, sum2, sum3);
    }
}

/// Adds the value of a row once for every step in `last+1..=through`, restarting windows where they restarted.
pub(crate) fn add_missed(restarts: [u64; 2], last: u64, through: u64, row: Missed<'_>) {
    let n = row.value.len();
    let (sum1, rest) = row.sums.split_at_mut(n);
    let (sum2, sum3) = rest.split_at_mut(n);
    let [newest, before] = restarts;
    if newest <= last {
        accumulate(row.value, (through - last) as f32, sum1);
        if through / FOLD > last / FOLD {
            fold(sum1, sum2);
        }
        return;
    }
    if before > last {
        sum1.fill(0.0);
        sum2.fill(0.0);
    }
    accumulate(row.value, (newest - before.max(last)) as f32, sum1);
    restart(sum1, sum2, sum3);
    accumulate(row.value, (through - newest) as f32, sum1);
}

/// A row whose sums must be caught up.
pub(crate) struct Missed<'a> {
    pub value: &'a [f32],
    pub sums: &'a mut [f32],
}

/// The average itself, from the sums.
pub(crate) fn mean(scale: f32, sums: &[f32], out: &mut [f32]) {
    let n = out.len();
    let (sum1, rest) = sums.split_at(n);
    let (sum2, sum3) = rest.split_at(n);
    for (i, out) in out.iter_mut().enumerate() {
        *out = (sum1[i] + sum2[i] + sum3[i]) * scale;
    }
}

fn accumulate(value: &[f32], steps: f32, sum: &mut [f32]) {
    for (sum, w) in sum.iter_mut().zip(value) {
        *sum += *w * steps;
    }
}

/// Moves a running sum into its long-term buffer.
pub(crate) fn fold(from: &mut [f32], into: &mut [f32]) {
    for (into, from) in into.iter_mut().zip(from) {
        *into += *from;
        *from = 0.0;
    }
}

fn restart(sum1: &mut [f32], sum2: &mut [f32], sum3: &mut [f32]) {
    for i in 0..sum3.len() {
        sum3[i] = sum1[i] + sum2[i];
        sum1[i] = 0.0;
        sum2[i] = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use crate::{Average, ParameterProgress, Rule};

    fn rule(window: f64, max_window: Option<u64>) -> Rule {
        Rule {
            average: Some(Average { window, max_window }),
            ..Rule::sgd(0.1)
        }
    }

    /// Values 1, 2, 3, …: the rate is chosen so that each step adds one.
    fn run(rule: &Rule, passes: &[u64]) -> (ParameterProgress, Vec<f32>, Vec<f32>) {
        let mut progress = ParameterProgress::default();
        let mut value = vec![0.0f32];
        let mut state = vec![0.0f32; rule.slots()];
        for (pass, batches) in passes.iter().enumerate() {
            rule.start_pass(&mut progress, pass as u64);
            for _ in 0..*batches {
                let step = rule.begin(&mut progress, 1);
                rule.update(&step, &mut value, &mut state, &[-10.0]);
            }
            rule.finish_pass(&mut progress);
        }
        (progress, value, state)
    }

    fn averaged(
        rule: &Rule,
        (progress, value, state): &(ParameterProgress, Vec<f32>, Vec<f32>),
    ) -> f32 {
        let mut out = [0.0f32];
        rule.averaged(progress, value, state, &mut out);
        out[0]
    }

    #[test]
    fn averages_everything_while_the_window_is_open() {
        let rule = rule(0.5, None);
        assert_eq!(averaged(&rule, &run(&rule, &[9])), 5.0);
    }

    #[test]
    fn before_the_first_step_the_average_is_the_value() {
        let rule = rule(0.5, None);
        let start = (ParameterProgress::default(), vec![7.0], vec![0.0; 3]);
        assert_eq!(averaged(&rule, &start), 7.0);
    }

    #[test]
    fn restarts_keep_one_old_window() {
        // At most 4 steps per window: restarts after steps 4 and 8; at step 10 the sums hold steps 5..=10.
        let rule = rule(1.0, Some(4));
        let end = run(&rule, &[10]);
        assert_eq!(end.0.average.restarts, [8, 4]);
        assert!((averaged(&rule, &end) - 7.5).abs() < 1e-5);
    }

    #[test]
    fn without_a_limit_the_window_is_a_pass() {
        let rule = rule(1.0, None);
        let end = run(&rule, &[5, 5, 2]);
        // Pass 0 has no limit yet; then least = 5 and longest = 5: restart at 6 (6 accumulated) and at 11.
        assert_eq!(end.0.average.restarts, [11, 6]);
    }

    #[test]
    fn a_row_that_missed_restarts_equals_one_that_did_not() {
        let rule = rule(1.0, Some(4));
        for touched in [1u64, 3, 4, 5, 7, 8, 9] {
            for end in touched..=20 {
                let mut progress = ParameterProgress::default();
                let mut lazy = vec![0.5f32, 0.0, 0.0, 0.0];
                let mut last = 0;
                let mut value = vec![0.5f32];
                let mut state = vec![0.0f32; 3];
                for step in 1..=end {
                    let now = rule.begin(&mut progress, 1);
                    let grad = [if step == touched { 2.5 } else { 0.0 }];
                    rule.update(&now, &mut value, &mut state, &grad);
                    if step == touched {
                        rule.update_row(&now, &mut lazy, &mut last, &grad);
                    }
                }
                rule.catch_up(&progress, &mut lazy, &mut last);
                assert_eq!(lazy[0], value[0]);
                let mut dense = [0.0];
                let mut row = [0.0];
                rule.averaged(&progress, &value, &state, &mut dense);
                rule.averaged(&progress, &lazy[..1], &lazy[1..], &mut row);
                assert!(
                    (dense[0] - row[0]).abs() < 1e-6,
                    "{touched} {end} {dense:?} {row:?}"
                );
            }
        }
    }
}
