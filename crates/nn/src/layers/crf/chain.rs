//! A linear chain over one sequence of scores.
//!
//! The score of labels `s` is `a[s₀] + b[s_T] + Σ x[k, s_k] + Σ w[s_{k-1}, s_k]`, and their probability `e^score / Z`
//! with `Z` the sum over all sequences of labels. The parameter has `classes + 2` rows: `a`, `b`, then `w`.
//!
//! Sums run in double precision and every step is normalised, so that long sequences neither overflow nor vanish.

/// A chain with its parameter.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    classes: usize,
    /// The parameter, and `e` to the power of it.
    scores: Vec<f64>,
    factors: Vec<f64>,
}

/// Both directions of the sum over all sequences of labels.
struct Sums {
    /// `e^(x - max x)` of each step.
    local: Vec<f64>,
    /// Sum over everything before and at a step, normalised.
    before: Vec<f64>,
    log_total: f64,
}

impl Chain {
    /// A chain of `classes` classes with this parameter.
    pub(crate) fn new(classes: usize, parameter: &[f32]) -> Self {
        let scores: Vec<f64> = parameter.iter().map(|&x| f64::from(x)).collect();
        let factors = scores.iter().map(|&x| libm::exp(x)).collect();
        Self {
            classes,
            scores,
            factors,
        }
    }

    /// Values of the parameter: `classes · (classes + 2)`.
    pub(crate) fn parameter_size(classes: usize) -> usize {
        classes * (classes + 2)
    }

    fn start(values: &[f64], classes: usize) -> &[f64] {
        &values[..classes]
    }

    fn end(values: &[f64], classes: usize) -> &[f64] {
        &values[classes..2 * classes]
    }

    fn transitions(values: &[f64], classes: usize) -> &[f64] {
        &values[2 * classes..]
    }

    /// `-ln` of the probability of the labels, given the scores `x` of all classes at all steps.
    pub(crate) fn cost(&self, x: &[f32], labels: &[u32]) -> f64 {
        if labels.is_empty() {
            return 0.0;
        }
        self.sums(x).log_total - self.score(x, labels)
    }

    /// The score of the labels.
    pub(crate) fn score(&self, x: &[f32], labels: &[u32]) -> f64 {
        let n = self.classes;
        let (Some(&first), Some(&last)) = (labels.first(), labels.last()) else {
            return 0.0;
        };
        let ends = Self::start(&self.scores, n)[first as usize]
            + Self::end(&self.scores, n)[last as usize];
        let local = labels
            .iter()
            .enumerate()
            .map(|(step, &label)| f64::from(x[step * n + label as usize]));
        let transitions = Self::transitions(&self.scores, n);
        let pairs = labels
            .windows(2)
            .map(|pair| transitions[pair[0] as usize * n + pair[1] as usize]);
        ends + local.sum::<f64>() + pairs.sum::<f64>()
    }

    fn sums(&self, x: &[f32]) -> Sums {
        let n = self.classes;
        let mut local = vec![0.0; x.len()];
        let mut before = vec![0.0; x.len()];
        let mut log_total = 0.0;
        let transitions = Self::transitions(&self.factors, n);
        for (step, x) in x.chunks_exact(n).enumerate() {
            let max = x
                .iter()
                .fold(f64::NEG_INFINITY, |max, &x| max.max(f64::from(x)));
            let local = &mut local[step * n..(step + 1) * n];
            local
                .iter_mut()
                .zip(x)
                .for_each(|(local, &x)| *local = libm::exp(f64::from(x) - max));
            let (done, rest) = before.split_at_mut(step * n);
            let now = &mut rest[..n];
            match done.chunks_exact(n).next_back() {
                None => now.copy_from_slice(Self::start(&self.factors, n)),
                Some(last) => {
                    for (from, last) in last.iter().enumerate() {
                        let row = &transitions[from * n..(from + 1) * n];
                        now.iter_mut()
                            .zip(row)
                            .for_each(|(now, factor)| *now += last * factor);
                    }
                }
            }
            now.iter_mut()
                .zip(local)
                .for_each(|(now, local)| *now *= *local);
            log_total += max + libm::log(normalise(now));
        }
        let last = &before[before.len() - n..];
        let total: f64 = last
            .iter()
            .zip(Self::end(&self.factors, n))
            .map(|(last, end)| last * end)
            .sum();
        Sums {
            local,
            before,
            log_total: log_total + libm::log(total),
        }
    }

    /// Sum over everything after a step, normalised.
    fn after(&self, local: &[f64]) -> Vec<f64> {
        let n = self.classes;
        let mut after = vec![0.0; local.len()];
        let steps = local.len() / n;
        let transitions = Self::transitions(&self.factors, n);
        after[(steps - 1) * n..].copy_from_slice(Self::end(&self.factors, n));
        normalise(&mut after[(steps - 1) * n..]);
        for step in (0..steps - 1).rev() {
            let (now, later) = after[step * n..].split_at_mut(n);
            let local = &local[(step + 1) * n..(step + 2) * n];
            for (from, now) in now.iter_mut().enumerate() {
                let row = &transitions[from * n..(from + 1) * n];
                *now = (0..n).map(|to| row[to] * later[to] * local[to]).sum();
            }
            normalise(now);
        }
        after
    }

    /// Adds `scale · ` the derivative of the cost to the gradient of `x` and to that of the parameter.
    pub(crate) fn add_gradient(
        &self,
        x: &[f32],
        labels: &[u32],
        scale: f32,
        grad: &mut [f32],
        parameter: &mut [f64],
    ) {
        if labels.is_empty() {
            return;
        }
        let n = self.classes;
        let Sums { local, before, .. } = self.sums(x);
        let after = self.after(&local);
        let weight = f64::from(scale);
        let steps = labels.len();
        for (step, &label) in labels.iter().enumerate() {
            let at = step * n..(step + 1) * n;
            let mut chance: Vec<f64> = before[at.clone()]
                .iter()
                .zip(&after[at.clone()])
                .map(|(b, a)| b * a)
                .collect();
            normalise(&mut chance);
            chance[label as usize] -= 1.0;
            grad[at]
                .iter_mut()
                .zip(&chance)
                .for_each(|(grad, chance)| *grad += (weight * chance) as f32);
            for (is_end, start) in [(step == 0, 0), (step + 1 == steps, n)] {
                if is_end {
                    parameter[start..start + n]
                        .iter_mut()
                        .zip(&chance)
                        .for_each(|(p, chance)| *p += weight * chance);
                }
            }
        }
        for step in 1..steps {
            let pair = (labels[step - 1] as usize, labels[step] as usize);
            let (from, to) = (&before[(step - 1) * n..step * n], step * n..(step + 1) * n);
            let later: Vec<f64> = local[to.clone()]
                .iter()
                .zip(&after[to])
                .map(|(l, a)| l * a)
                .collect();
            self.add_pairs(from, &later, weight, pair, &mut parameter[2 * n..]);
        }
    }

    /// Adds `weight` times the probability of every transition of one step, minus `weight` for the true one.
    fn add_pairs(
        &self,
        from: &[f64],
        to: &[f64],
        weight: f64,
        pair: (usize, usize),
        grad: &mut [f64],
    ) {
        let n = self.classes;
        let factors = Self::transitions(&self.factors, n);
        let total: f64 = (0..n)
            .map(|i| from[i] * (0..n).map(|j| factors[i * n + j] * to[j]).sum::<f64>())
            .sum();
        for i in 0..n {
            let share = weight * from[i] / total;
            for j in 0..n {
                grad[i * n + j] += share * factors[i * n + j] * to[j];
            }
        }
        grad[pair.0 * n + pair.1] -= weight;
    }

    /// The labels with the greatest score, the smaller label where scores are equal.
    pub(crate) fn decode(&self, x: &[f32], labels: &mut [u32]) {
        let n = self.classes;
        let Some(last) = labels.len().checked_sub(1) else {
            return;
        };
        let transitions = Self::transitions(&self.scores, n);
        let mut best: Vec<f64> = Self::start(&self.scores, n)
            .iter()
            .zip(x)
            .map(|(start, &x)| start + f64::from(x))
            .collect();
        let mut came_from = vec![0u32; labels.len() * n];
        for step in 1..=last {
            let previous = best.clone();
            for to in 0..n {
                let (from, score) =
                    greatest((0..n).map(|from| previous[from] + transitions[from * n + to]));
                best[to] = score + f64::from(x[step * n + to]);
                came_from[step * n + to] = from as u32;
            }
        }
        let ends = Self::end(&self.scores, n);
        let (mut label, _) = greatest((0..n).map(|label| best[label] + ends[label]));
        for step in (0..=last).rev() {
            labels[step] = label as u32;
            label = came_from[step * n + label] as usize;
        }
    }
}

/// Index and value of the first maximum.
fn greatest(scores: impl Iterator<Item = f64>) -> (usize, f64) {
    let first = (0, f64::NEG_INFINITY);
    scores
        .enumerate()
        .fold(first, |best, now| if now.1 > best.1 { now } else { best })
}

/// Scales the sum to 1 and returns the old sum.
fn normalise(values: &mut [f64]) -> f64 {
    let sum: f64 = values.iter().sum();
    values.iter_mut().for_each(|value| *value /= sum);
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::Noise;

    const CLASSES: usize = 3;

    fn random(n: usize, seed: u64, range: f32) -> Vec<f32> {
        let noise = Noise::new(seed);
        (0..n)
            .map(|i| (noise.uniform(i as u64) - 0.5) * range)
            .collect()
    }

    fn chain() -> Chain {
        Chain::new(CLASSES, &random(Chain::parameter_size(CLASSES), 1, 3.0))
    }

    /// All sequences of labels of a length.
    fn all_labels(steps: usize) -> Vec<Vec<u32>> {
        (0..CLASSES.pow(steps as u32))
            .map(|number| {
                (0..steps)
                    .map(|step| (number / CLASSES.pow(step as u32) % CLASSES) as u32)
                    .collect()
            })
            .collect()
    }

    #[test]
    fn the_probabilities_of_all_sequences_are_those_of_their_scores() {
        let chain = chain();
        for steps in 1..6 {
            let x = random(steps * CLASSES, 7, 4.0);
            let all = all_labels(steps);
            let total: f64 = all.iter().map(|labels| chain.score(&x, labels).exp()).sum();
            for labels in &all {
                let want = total.ln() - chain.score(&x, labels);
                assert!(
                    (chain.cost(&x, labels) - want).abs() < 1e-9,
                    "{steps} steps"
                );
            }
        }
    }

    #[test]
    fn decoding_finds_the_best_of_all_sequences() {
        let chain = chain();
        for seed in 0..20 {
            for steps in 1..6 {
                let x = random(steps * CLASSES, seed, 2.0);
                let scores = all_labels(steps)
                    .into_iter()
                    .map(|labels| (chain.score(&x, &labels), labels));
                let best = scores.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap().1;
                let mut got = vec![9; steps];
                chain.decode(&x, &mut got);
                assert_eq!(got, best);
            }
        }
    }

    #[test]
    fn long_sequences_with_great_scores_stay_finite() {
        let chain = chain();
        let steps = 5000;
        let x = random(steps * CLASSES, 3, 200.0);
        let labels: Vec<u32> = (0..steps as u32).map(|i| i % 3).collect();
        let mut grad = vec![0.0; x.len()];
        let mut parameter = vec![0.0; Chain::parameter_size(CLASSES)];
        assert!(chain.cost(&x, &labels).is_finite());
        chain.add_gradient(&x, &labels, 1.0, &mut grad, &mut parameter);
        assert!(grad.iter().all(|g| g.is_finite()) && parameter.iter().all(|g| g.is_finite()));
    }

    #[test]
    fn an_empty_sequence_costs_nothing() {
        assert_eq!(chain().cost(&[], &[]), 0.0);
        chain().add_gradient(&[], &[], 1.0, &mut [], &mut []);
        chain().decode(&[], &mut []);
    }
}
