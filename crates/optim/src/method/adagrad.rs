//! adagrad: step factors from the sum of squared gradients.
//!
//! ```text
//! a   += g^2
//! r    = 1/sqrt(a_old + a + eps)
//! mom  = mu*mom - lr*r*(g + l2*w)
//! w   += mom
//! ```
//!
//! State: `a_old`, `a`, and `mom` if `mu` is not zero. Every 16384 steps `a` moves into `a_old`, so that small
//! squares are not lost in a large sum. By row: bit for bit the dense result (without L1, L2 and momentum), since a
//! zero gradient changes nothing; the move is caught up when the row is touched again.
//! Deviation from v1: the schedule applies. Reference: Duchi, Hazan, Singer 2011.

use crate::average;
use crate::elements::{self, ValueUpdate};

/// The step factor `r` of the formula above.
#[inline(always)]
pub(crate) fn factor(old: f32, sum: f32, epsilon: f32) -> f32 {
    1.0 / (old + sum + epsilon).sqrt()
}

/// Moves the sum into the long-term buffer.
pub(crate) fn fold(own: &mut [f32], dim: usize) {
    let (old, sum) = own.split_at_mut(dim);
    average::fold(sum, old);
}

#[derive(Clone, Copy)]
pub(crate) struct Kernel {
    epsilon: f32,
}

impl Kernel {
    pub(crate) fn new(epsilon: f64) -> Self {
        Self {
            epsilon: epsilon as f32,
        }
    }
}

impl elements::Kernel<2> for Kernel {
    #[inline(always)]
    fn element<const MOMENTUM: bool, const REGULAR: bool>(self, at: ValueUpdate<'_, 2>) -> f32 {
        let [old, sum] = at.own;
        *sum += at.g * at.g;
        let r = factor(*old, *sum, self.epsilon);
        at.tail
            .moved::<MOMENTUM, REGULAR>(r, at.g, at.w, at.momentum)
    }
}

#[cfg(test)]
mod tests {
    use crate::method::reference::{self, MethodCase};
    use crate::{Method, ParameterProgress, Rule};

    const METHOD: Method = Method::AdaGrad { epsilon: 1e-6 };

    fn reference(case: &MethodCase, s: &mut [f64; 3], w: f64, g: f64, lr: f64, _step: u64) -> f64 {
        s[0] += g * g;
        let r = 1.0 / (s[0] + 1e-6).sqrt();
        s[2] = case.mu * s[2] - lr * r * (g + case.l2 * w);
        w + s[2]
    }

    #[test]
    fn a_hundred_steps() {
        reference::check(METHOD, true, reference);
    }

    #[test]
    fn blocks_and_rows() {
        reference::blocks(METHOD);
        reference::rows_equal_dense_exactly(METHOD);
        reference::rows_equal_dense_nearly(METHOD, 0.9);
    }

    #[test]
    fn rows_that_slept_over_the_move_equal_the_dense_parameter() {
        let rule = Rule {
            method: METHOD,
            ..Rule::sgd(0.1)
        };
        let mut progress = ParameterProgress::default();
        let (mut value, mut state) = ([0.5f32], [0.0f32; 2]);
        let (mut row, mut last) = (vec![0.5f32, 0.0, 0.0], 0);
        for number in 1..=33_000u64 {
            let step = rule.begin(&mut progress, 1);
            let touched = matches!(number, 3 | 9 | 16_385 | 32_768);
            let grad = [if touched { 1.25 } else { 0.0 }];
            rule.update(&step, &mut value, &mut state, &grad);
            if touched {
                rule.update_row(&step, &mut row, &mut last, &grad);
            }
        }
        rule.catch_up(&progress, &mut row, &mut last);
        assert_eq!(row[0], value[0]);
        assert_eq!(row[1..], state);
        assert_eq!(state[1], 0.0);
    }
}
