//! All ways to stretch labels over the steps of a sequence, after Graves, "Supervised Sequence Labelling", 7.3.
//!
//! Between, before and after the labels there may be blanks: `L` labels make `2L + 1` segments. A path stays in a
//! segment, goes to the next, or skips a blank between two different labels. The probability of a path is the product
//! of the probabilities of its classes. Sums are kept as logarithms in double precision.

/// The sums over all paths of one sequence.
#[derive(Debug)]
pub(crate) struct Alignment<'a> {
    /// Logarithms of the probabilities of all classes at all steps.
    logs: &'a [f64],
    classes: usize,
    /// Class of each segment.
    segments: Vec<u32>,
    /// Log sum of the paths that reach a segment at a step, including that step.
    before: Vec<f64>,
    log_probability: f64,
}

impl<'a> Alignment<'a> {
    /// The alignment of labels; `None` if there are fewer steps than they need.
    pub(crate) fn new(logs: &'a [f64], classes: usize, labels: &[u32], blank: u32) -> Option<Self> {
        let steps = logs.len() / classes;
        let repeated = labels.windows(2).filter(|pair| pair[0] == pair[1]).count();
        if steps == 0 || steps < labels.len() + repeated {
            return None;
        }
        let mut segments = vec![blank; 2 * labels.len() + 1];
        segments
            .iter_mut()
            .skip(1)
            .step_by(2)
            .zip(labels)
            .for_each(|(segment, label)| *segment = *label);
        let mut alignment = Self {
            logs,
            classes,
            segments,
            before: Vec::new(),
            log_probability: 0.0,
        };
        alignment.before = alignment.reach();
        let last = &alignment.before[(steps - 1) * alignment.segments.len()..];
        alignment.log_probability = last
            .iter()
            .rev()
            .take(2)
            .fold(f64::NEG_INFINITY, |sum, &x| log_add(sum, x));
        Some(alignment)
    }

    /// `-ln` of the probability of the labels.
    pub(crate) fn cost(&self) -> f64 {
        -self.log_probability
    }

    fn log_of(&self, step: usize, segment: usize) -> f64 {
        self.logs[step * self.classes + self.segments[segment] as usize]
    }

    /// Whether a path may go from a segment to the one after the next.
    fn may_skip_from(&self, segment: usize) -> bool {
        segment + 2 < self.segments.len()
            && segment % 2 == 1
            && self.segments[segment] != self.segments[segment + 2]
    }

    fn reach(&self) -> Vec<f64> {
        let (count, steps) = (self.segments.len(), self.logs.len() / self.classes);
        let mut before = vec![f64::NEG_INFINITY; steps * count];
        let first = before.iter_mut().take(count.min(2)).enumerate();
        first.for_each(|(segment, before)| *before = self.log_of(0, segment));
        for step in 1..steps {
            let (done, now) = before.split_at_mut(step * count);
            let last = &done[(step - 1) * count..];
            for (segment, now) in now[..count].iter_mut().enumerate() {
                let mut sum = last[segment];
                if segment >= 1 {
                    sum = log_add(sum, last[segment - 1]);
                }
                if segment >= 2 && self.may_skip_from(segment - 2) {
                    sum = log_add(sum, last[segment - 2]);
                }
                *now = sum + self.log_of(step, segment);
            }
        }
        before
    }

    /// Log sums of the paths from a segment at a step to the end, without that step.
    fn remain(&self) -> Vec<f64> {
        let (count, steps) = (self.segments.len(), self.logs.len() / self.classes);
        let mut after = vec![f64::NEG_INFINITY; steps * count];
        after[(steps - 1) * count..]
            .iter_mut()
            .rev()
            .take(2)
            .for_each(|after| *after = 0.0);
        for step in (0..steps - 1).rev() {
            let (now, later) = after[step * count..].split_at_mut(count);
            for (segment, now) in now.iter_mut().enumerate() {
                let next = |to: usize| later[to] + self.log_of(step + 1, to);
                let mut sum = next(segment);
                if segment + 1 < count {
                    sum = log_add(sum, next(segment + 1));
                }
                if self.may_skip_from(segment) {
                    sum = log_add(sum, next(segment + 2));
                }
                *now = sum;
            }
        }
        after
    }

    /// The probability that a path is in each class at each step, given the labels.
    pub(crate) fn chances(&self) -> Vec<f64> {
        let count = self.segments.len();
        let after = self.remain();
        let mut chances = vec![0.0; self.logs.len()];
        for (place, (before, after)) in self.before.iter().zip(&after).enumerate() {
            let (step, segment) = (place / count, place % count);
            let log = before + after - self.log_probability;
            if log > f64::NEG_INFINITY {
                chances[step * self.classes + self.segments[segment] as usize] += libm::exp(log);
            }
        }
        chances
    }
}

/// `ln(eᵃ + eᵇ)`.
fn log_add(a: f64, b: f64) -> f64 {
    let (high, low) = if a > b { (a, b) } else { (b, a) };
    if low == f64::NEG_INFINITY {
        high
    } else {
        high + libm::log1p(libm::exp(low - high))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::Noise;

    const CLASSES: usize = 3;
    const BLANK: u32 = 2;

    fn probabilities(steps: usize) -> Vec<f64> {
        let noise = Noise::new(4);
        let mut p: Vec<f64> = (0..steps * CLASSES)
            .map(|i| f64::from(noise.uniform(i as u64)) + 0.1)
            .collect();
        for row in p.chunks_exact_mut(CLASSES) {
            let sum: f64 = row.iter().sum();
            row.iter_mut().for_each(|x| *x /= sum);
        }
        p
    }

    /// The labels of a path: repeats merged, blanks removed.
    fn meaning(path: &[u32]) -> Vec<u32> {
        let mut labels = path.to_vec();
        labels.dedup();
        labels.retain(|&label| label != BLANK);
        labels
    }

    /// All paths of a length with their probabilities.
    fn paths(p: &[f64]) -> Vec<(Vec<u32>, f64)> {
        let steps = p.len() / CLASSES;
        (0..CLASSES.pow(steps as u32))
            .map(|number| {
                let path: Vec<u32> = (0..steps)
                    .map(|step| (number / CLASSES.pow(step as u32) % CLASSES) as u32)
                    .collect();
                let chance = path
                    .iter()
                    .enumerate()
                    .map(|(step, &class)| p[step * CLASSES + class as usize])
                    .product();
                (path, chance)
            })
            .collect()
    }

    #[test]
    fn costs_and_chances_are_sums_over_all_paths() {
        for labels in [
            vec![],
            vec![0],
            vec![0, 1],
            vec![1, 1],
            vec![0, 1, 0],
            vec![0, 0, 0],
        ] {
            for steps in 1..7 {
                let p = probabilities(steps);
                let logs: Vec<f64> = p.iter().map(|p| p.ln()).collect();
                let fitting: Vec<_> = paths(&p)
                    .into_iter()
                    .filter(|(path, _)| meaning(path) == labels)
                    .collect();
                let total: f64 = fitting.iter().map(|(_, chance)| chance).sum();
                let Some(alignment) = Alignment::new(&logs, CLASSES, &labels, BLANK) else {
                    assert!(fitting.is_empty(), "{labels:?} in {steps} steps");
                    continue;
                };
                assert!(
                    (alignment.cost() + total.ln()).abs() < 1e-10,
                    "{labels:?} in {steps} steps"
                );
                let chances = alignment.chances();
                for (place, got) in chances.iter().enumerate() {
                    let (step, class) = (place / CLASSES, (place % CLASSES) as u32);
                    let through = fitting.iter().filter(|(path, _)| path[step] == class);
                    let want: f64 = through.map(|(_, chance)| chance / total).sum();
                    assert!(
                        (got - want).abs() < 1e-10,
                        "{labels:?} at {step}: {got} {want}"
                    );
                }
            }
        }
    }

    #[test]
    fn improbable_labels_have_a_great_cost() {
        let logs = vec![-50.0; 40 * CLASSES];
        let cost = Alignment::new(&logs, CLASSES, &[0, 1], BLANK)
            .unwrap()
            .cost();
        assert!(cost > 1900.0 && cost <= 2000.0, "{cost}");
    }
}
