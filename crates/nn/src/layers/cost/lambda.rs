//! LambdaRank: changes scores so that the normalised discounted cumulative gain (NDCG) of each list grows.
//!
//! The reported cost is the NDCG of the list, for each of its rows. The gradient is not its derivative (it has none)
//! but, for each pair whose true order is `i` above `j`, `∓|ΔDCG| / (1 + e^(sᵢ - sⱼ)) / max DCG`, with
//! `ΔDCG = (2^rᵢ - 2^rⱼ)(1/ln(i+2) - 1/ln(j+2))` by true ranks. (v1 divides by a difference of logarithms instead of
//! taking the difference of the discounts; we do not.)

use crate::error::{BuildError, LayerError};
use crate::functions::sigmoid;
use crate::layer::{Backward, Build, Forward, Layer};

/// Ranks lists.
pub(crate) struct LambdaCost {
    truncation: usize,
    /// Pairs are formed with at least one of this many first rows by true relevance; `None`: all.
    sorted: Option<usize>,
    coeff: f32,
}

/// Builds a `lambda_cost` layer: scores and true relevances, both sequences of width 1.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect_inputs(2..=2)?;
    let truncation = usize::try_from(build.config.NDCG_num()).unwrap_or(0).max(1);
    let sorted = usize::try_from(build.config.max_sort_size())
        .ok()
        .filter(|&size| size > 0);
    build.expect(sorted.is_none_or(|size| size >= truncation), || {
        format!(
            "max_sort_size {} is less than NDCG_num {truncation}",
            sorted.unwrap_or(0)
        )
    })?;
    Ok(Box::new(LambdaCost {
        truncation,
        sorted,
        coeff: build.config.coeff() as f32,
    }))
}

/// Rows by descending value, equal ones in their order.
fn ranking(values: &[f32]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[b].total_cmp(&values[a]));
    order
}

fn discount(rank: usize) -> f32 {
    1.0 / (rank as f32 + 2.0).ln()
}

impl LambdaCost {
    /// The gain of the first rows in an order.
    fn dcg(&self, relevance: &[f32], order: &[usize]) -> f32 {
        let gains = order.iter().take(self.truncation).enumerate();
        gains
            .map(|(rank, &row)| (relevance[row].exp2() - 1.0) * discount(rank))
            .sum()
    }

    fn add_list(&self, scores: &[f32], relevance: &[f32], grad: &mut [f32]) {
        let order = ranking(relevance);
        let best = self.dcg(relevance, &order);
        if best <= 0.0 {
            return;
        }
        let sorted = self.sorted.unwrap_or(order.len()).min(order.len());
        for i in 0..sorted {
            for j in i + 1..order.len() {
                let (above, below) = (order[i], order[j]);
                let lower = if j < sorted { discount(j) } else { 0.0 };
                let change =
                    (relevance[above].exp2() - relevance[below].exp2()) * (discount(i) - lower);
                let lambda =
                    self.coeff * change.abs() * sigmoid(scores[below] - scores[above]) / best;
                grad[above] -= lambda;
                grad[below] += lambda;
            }
        }
    }
}

impl Layer for LambdaCost {
    fn is_cost(&self) -> bool {
        true
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let sequences = pass.inputs.get(0).sequences(0)?.clone();
        let scores = pass.inputs.dense_of(0, 1)?;
        pass.inputs.check_rows(1, scores.rows())?;
        let relevance = pass.inputs.dense_of(1, 1)?.values();
        let out = pass.out.value_mut();
        out.resize(scores.rows(), 1);
        for pair in sequences.windows(2) {
            let range = pair[0] as usize..pair[1] as usize;
            let (scores, relevance) = (&scores.values()[range.clone()], &relevance[range.clone()]);
            let best = self.dcg(relevance, &ranking(relevance));
            let ndcg = if best > 0.0 {
                self.dcg(relevance, &ranking(scores)) / best
            } else {
                0.0
            };
            out.values_mut()[range].fill(ndcg);
        }
        Ok(())
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        if !pass.inputs.wants_grad(0) {
            return;
        }
        let Some(sequences) = pass.inputs.get(0).layout.sequences.clone() else {
            unreachable!("forward read sequences")
        };
        let relevance = pass.inputs.get(1).value().values().to_vec();
        let (grad, scores) = pass.inputs.get_mut(0).grad_and_value();
        for pair in sequences.windows(2) {
            let range = pair[0] as usize..pair[1] as usize;
            self.add_list(
                &scores.values()[range.clone()],
                &relevance[range.clone()],
                &mut grad.values_mut()[range],
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCORES: [f32; 6] = [0.3, -0.2, 0.9, 0.1, -0.7, 0.4];
    const RELEVANCE: [f32; 6] = [2.0, 0.0, 1.0, 4.0, 0.0, 3.0];

    fn discount(rank: usize) -> f64 {
        1.0 / (rank as f64 + 2.0).ln()
    }

    /// The cost that the gradient descends: for each pair of the true order, how much its exchange would change the
    /// DCG, times ln(1 + e^(lower score - upper score)).
    fn pairs(cost: &LambdaCost, scores: &[f64]) -> f64 {
        let order = ranking(&RELEVANCE);
        let gain = |rank: usize| f64::from(RELEVANCE[order[rank]]).exp2();
        let first = cost.truncation.min(order.len());
        let best: f64 = (0..first).map(|r| (gain(r) - 1.0) * discount(r)).sum();
        let sorted = cost.sorted.unwrap_or(order.len());
        let mut sum = 0.0;
        for i in 0..sorted {
            for j in i + 1..order.len() {
                let lower = if j < sorted { discount(j) } else { 0.0 };
                let change = (gain(i) - gain(j)) * (discount(i) - lower);
                let behind = scores[order[j]] - scores[order[i]];
                sum += change.abs() * behind.exp().ln_1p();
            }
        }
        sum / best
    }

    /// Against central differences of the pairwise cost: the NDCG itself jumps and has no derivative.
    fn check(cost: LambdaCost) {
        let mut grad = [0.0; 6];
        cost.add_list(&SCORES, &RELEVANCE, &mut grad);
        for place in 0..SCORES.len() {
            let at = |step: f64| {
                let mut scores = SCORES.map(f64::from);
                scores[place] += step;
                pairs(&cost, &scores)
            };
            let want = f64::from(cost.coeff) * (at(1e-4) - at(-1e-4)) / 2e-4;
            let got = f64::from(grad[place]);
            assert!((got - want).abs() < 1e-5, "{place}: {got} and not {want}");
        }
    }

    #[test]
    fn the_gradient_is_that_of_the_pairs() {
        for (sorted, coeff) in [(None, 1.0), (Some(4), 1.0), (Some(3), 0.5)] {
            check(LambdaCost {
                truncation: 3,
                sorted,
                coeff,
            });
        }
    }
}
