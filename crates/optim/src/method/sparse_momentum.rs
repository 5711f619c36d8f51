//! sparse_momentum: momentum for rows that are seldom touched, exact whatever the gaps.
//!
//! v1 keeps two vectors `u`, `v` per row and three scalars per parameter:
//!
//! ```text
//! tau += beta/alpha;  alpha /= mu;  beta /= 1 + l2*lr
//! u -= alpha*lr*g;  v += tau*alpha*lr*g;  w = (tau/beta + 1/alpha)*u + v/beta
//! ```
//!
//! Substituting `mom = u/alpha` yields the same `w` in a form that needs no scalars, no restart of a growing `alpha`
//! and half the state; that is what this file computes:
//!
//! ```text
//! mom = mu*mom - lr*g
//! w   = w/(1 + l2*lr) + mom
//! missed steps: w = w*d^n + mom*sum(mu^k * d^(n-k), k = 1..n);  mom *= mu^n    with d = 1/(1 + l2*lr)
//! ```
//!
//! State: `mom`, only if `mu` is not zero (v1 divided by zero then). Dense parameters use momentum's formula, as v1.
//! Deviations: v1's `beta` shrinks, so its L2 makes values grow by `1 + l2*lr` per step; ours makes them shrink by it
//! (`beta *= 1 + l2*lr`). Missed steps decay with the rate of the last completed step; v1 used each step's own.

use crate::elements::{self, ValueUpdate, shrunk};

/// The factor by which a value shrinks in a step; `decay` is rate times L2.
pub(crate) fn kept(decay: f64) -> f64 {
    1.0 / (1.0 + decay)
}

#[derive(Clone, Copy)]
pub(crate) struct Kernel;

impl elements::Kernel<0> for Kernel {
    #[inline(always)]
    fn element<const MOMENTUM: bool, const REGULAR: bool>(self, at: ValueUpdate<'_, 0>) -> f32 {
        let change = at.tail.change::<MOMENTUM>(1.0, at.g, at.w, at.momentum);
        if !REGULAR {
            return at.w + change;
        }
        let decayed = at.w / (1.0 + at.tail.rate * at.tail.after_l2);
        shrunk(decayed + change, at.tail.rate * at.tail.after_l1)
    }
}

#[cfg(test)]
mod tests {
    use crate::method::reference::{self, MethodCase, TestGradients};
    use crate::{Method, ParameterProgress, Rule};

    fn dense(case: &MethodCase, mom: &mut [f64; 3], w: f64, g: f64, lr: f64, _step: u64) -> f64 {
        mom[0] = case.mu * mom[0] - lr * (g + case.l2 * w);
        w + mom[0]
    }

    #[test]
    fn a_hundred_steps() {
        reference::check(Method::SparseMomentum, true, dense);
    }

    #[test]
    fn blocks_and_rows() {
        reference::blocks(Method::SparseMomentum);
        reference::rows_equal_dense_exactly(Method::SparseMomentum);
        reference::rows_equal_dense_nearly(Method::SparseMomentum, 0.9);
    }

    /// v1's form with `u`, `v`, `alpha`, `beta`, `tau`, in f64, restarts included, with the sign of L2 corrected.
    #[test]
    fn rows_follow_the_two_slot_form() {
        for (mu, l2) in [(0.9, 0.0), (0.9, 0.05), (0.6, 0.3)] {
            let rule = Rule {
                method: Method::SparseMomentum,
                momentum: mu,
                l2,
                ..Rule::sgd(0.05)
            };
            let mut progress = ParameterProgress::default();
            let (mut row, mut last) = (vec![0.7f32, 0.0], 0);
            let (mut alpha, mut beta, mut tau) = (1.0f64, 1.0f64, -1.0f64);
            let (mut u, mut v, mut w) = (0.0f64, 0.7f64, 0.7f64);
            let mut noise = TestGradients::new(5);
            for number in 1..=100u64 {
                tau += beta / alpha;
                alpha /= mu;
                beta *= 1.0 + l2 * 0.05;
                let step = rule.begin(&mut progress, 1);
                if number % 3 == 0 || number % 11 == 0 {
                    let g = noise.next();
                    rule.update_row(&step, &mut row, &mut last, &[g]);
                    u -= alpha * 0.05 * f64::from(g);
                    v += tau * alpha * 0.05 * f64::from(g);
                }
                w = (tau / beta + 1.0 / alpha) * u + v / beta;
                if alpha > 1e6 {
                    (u, v) = (u / alpha, w);
                    (alpha, beta, tau) = (1.0, 1.0, -1.0);
                }
            }
            rule.catch_up(&progress, &mut row, &mut last);
            assert!(
                (f64::from(row[0]) - w).abs() < 1e-5,
                "{} is not {w}",
                row[0]
            );
        }
    }
}
