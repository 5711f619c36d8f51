//! adam: bias-corrected running moments.
//!
//! ```text
//! g  = g + l2*w
//! m  = b1*m + (1-b1)*g
//! v  = b2*v + (1-b2)*g^2
//! w -= lr * sqrt(1-b2^t)/(1-b1^t) * m/(sqrt(v) + eps)       t = step, from 1
//! ```
//!
//! State: `m`, `v`; the momentum coefficient is ignored. By row (refused by v1) the method is lazy: `m` and `v`
//! change only when the row is touched, with the parameter's `t`; a row touched in every step has the dense bytes.
//! Deviations from v1: schedule, L2 and L1 apply. L2 enters the gradient before the moments (not decoupled), dense
//! and by row; missed steps of a row decay with `w /= 1 + lr*l2*n`. L1 shrinks by `lr*l1` after the update.
//! Reference: Kingma, Ba, arXiv 1412.6980. Example: the first step moves a value by almost exactly `lr`.

use crate::elements::{self, ValueUpdate};

/// The bias correction on the rate in step number `step`.
pub(crate) fn correction(beta1: f64, beta2: f64, step: u64) -> f64 {
    let t = step as f64;
    libm::sqrt(1.0 - libm::pow(beta2, t)) / (1.0 - libm::pow(beta1, t))
}

#[derive(Clone, Copy)]
pub(crate) struct Kernel {
    beta1: f32,
    rest1: f32,
    beta2: f32,
    rest2: f32,
    epsilon: f32,
}

impl Kernel {
    pub(crate) fn new(beta1: f64, beta2: f64, epsilon: f64) -> Self {
        Self {
            beta1: beta1 as f32,
            rest1: (1.0 - beta1) as f32,
            beta2: beta2 as f32,
            rest2: (1.0 - beta2) as f32,
            epsilon: epsilon as f32,
        }
    }
}

impl elements::Kernel<2> for Kernel {
    #[inline(always)]
    fn element<const MOMENTUM: bool, const REGULAR: bool>(self, at: ValueUpdate<'_, 2>) -> f32 {
        let [first, second] = at.own;
        let g = at.tail.decayed(at.g, at.w);
        *first = self.beta1 * *first + self.rest1 * g;
        *second = self.beta2 * *second + self.rest2 * (g * g);
        let moved = at.w - (*first * at.tail.method_rate) / (second.sqrt() + self.epsilon);
        at.tail.regularized::<REGULAR>(moved, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use crate::method::reference::{self, MethodCase};
    use crate::{Method, ParameterProgress, Rule};

    const METHOD: Method = Method::Adam {
        beta1: 0.9,
        beta2: 0.999,
        epsilon: 1e-8,
    };

    fn reference(case: &MethodCase, s: &mut [f64; 3], w: f64, g: f64, lr: f64, step: u64) -> f64 {
        let g = g + case.l2 * w;
        s[0] = 0.9 * s[0] + 0.1 * g;
        s[1] = 0.999 * s[1] + 0.001 * g * g;
        let t = step as i32;
        let rate = lr * (1.0 - 0.999f64.powi(t)).sqrt() / (1.0 - 0.9f64.powi(t));
        w - rate * s[0] / (s[1].sqrt() + 1e-8)
    }

    #[test]
    fn a_hundred_steps() {
        reference::check(METHOD, false, reference);
    }

    #[test]
    fn blocks_and_rows() {
        reference::blocks(METHOD);
        reference::rows_touched_always_equal_dense(METHOD);
    }

    #[test]
    fn an_untouched_row_keeps_its_state_and_decays() {
        let rule = Rule {
            method: METHOD,
            l2: 0.1,
            ..Rule::sgd(0.01)
        };
        let mut progress = ParameterProgress::default();
        let (mut row, mut last) = (vec![1.0f32, 0.0, 0.0], 0);
        let step = rule.begin(&mut progress, 1);
        rule.update_row(&step, &mut row, &mut last, &[2.0]);
        let touched = row.clone();
        for _ in 0..10 {
            rule.begin(&mut progress, 1);
        }
        rule.catch_up(&progress, &mut row, &mut last);
        assert_eq!(row[1..], touched[1..]);
        assert_eq!(row[0], touched[0] / (1.0 + 0.1f32 * 0.1));
    }
}
