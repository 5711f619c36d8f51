//! adamax: Adam with the infinity norm.
//!
//! ```text
//! g  = g + l2*w
//! m  = b1*m + (1-b1)*g
//! u  = max(b2*u, |g|)
//! w -= lr/(1-b1^t) * m/u             t = step, from 1
//! ```
//!
//! State: `m`, `u`. By row and decay: as Adam. Deviations from v1: schedule, L2 and L1 apply, and a value whose
//! gradient has always been zero stays (v1 computed 0/0, there is no epsilon).

use crate::elements::{self, ValueUpdate};

/// The bias correction on the rate in step number `step`.
pub(crate) fn correction(beta1: f64, step: u64) -> f64 {
    1.0 / (1.0 - libm::pow(beta1, step as f64))
}

#[derive(Clone, Copy)]
pub(crate) struct Kernel {
    beta1: f32,
    rest1: f32,
    beta2: f32,
}

impl Kernel {
    pub(crate) fn new(beta1: f64, beta2: f64) -> Self {
        Self {
            beta1: beta1 as f32,
            rest1: (1.0 - beta1) as f32,
            beta2: beta2 as f32,
        }
    }
}

impl elements::Kernel<2> for Kernel {
    #[inline(always)]
    fn element<const MOMENTUM: bool, const REGULAR: bool>(self, at: ValueUpdate<'_, 2>) -> f32 {
        let [first, norm] = at.own;
        let g = at.tail.decayed(at.g, at.w);
        *first = self.beta1 * *first + self.rest1 * g;
        let (kept, new) = (self.beta2 * *norm, g.abs());
        *norm = if kept > new { kept } else { new };
        let ratio = if *norm == 0.0 { 0.0 } else { *first / *norm };
        at.tail
            .regularized::<REGULAR>(at.w - at.tail.method_rate * ratio, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use crate::method::reference::{self, MethodCase};
    use crate::{Method, ParameterProgress, Rule};

    const METHOD: Method = Method::AdaMax {
        beta1: 0.9,
        beta2: 0.999,
    };

    fn reference(case: &MethodCase, s: &mut [f64; 3], w: f64, g: f64, lr: f64, step: u64) -> f64 {
        let g = g + case.l2 * w;
        s[0] = 0.9 * s[0] + 0.1 * g;
        s[1] = (0.999 * s[1]).max(g.abs());
        w - lr / (1.0 - 0.9f64.powi(step as i32)) * s[0] / s[1]
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
    fn a_value_without_gradient_stays() {
        let rule = Rule {
            method: METHOD,
            ..Rule::sgd(0.1)
        };
        let mut progress = ParameterProgress::default();
        let (mut value, mut state) = ([0.3f32], [0.0f32; 2]);
        let step = rule.begin(&mut progress, 1);
        rule.update(&step, &mut value, &mut state, &[0.0]);
        assert_eq!(value, [0.3]);
    }
}
