//! rmsprop: step factors from the running variance of the gradient (Graves' variant, as v1 computes it).
//!
//! ```text
//! a    = rho*a + (1-rho)*g^2          in the first step: a = rho*a + g^2
//! f    = rho*f + (1-rho)*g
//! r    = 1/sqrt(max(a - f^2, 0) + eps)
//! mom  = mu*mom - lr*r*(g + l2*w)
//! w   += mom
//! ```
//!
//! State: `a`, `f`, and `mom` if `mu` is not zero. By row, as v1: the first step is the row's first touch, and the
//! averages decay by `rho^n` for missed steps. Deviation: the variance is clamped at zero; v1 took the root of rounding
//! errors, which can be negative, when gradients are large and steady.
//! Reference: Graves, arXiv 1308.0850, equations 38 to 45.

use crate::elements::{self, ValueUpdate};

/// The step factor `r` of the formula above.
#[inline(always)]
pub(crate) fn factor(squares: f32, mean: f32, epsilon: f32) -> f32 {
    let variance = squares - mean * mean;
    let variance = if variance < 0.0 { 0.0 } else { variance };
    1.0 / (variance + epsilon).sqrt()
}

#[derive(Clone, Copy)]
pub(crate) struct Kernel {
    rho: f32,
    /// Factor on a new square: 1 in the first step.
    new_square: f32,
    rest: f32,
    epsilon: f32,
}

impl Kernel {
    pub(crate) fn new(rho: f64, epsilon: f64, first: bool) -> Self {
        let rest = (1.0 - rho) as f32;
        Self {
            rho: rho as f32,
            new_square: if first { 1.0 } else { rest },
            rest,
            epsilon: epsilon as f32,
        }
    }
}

impl elements::Kernel<2> for Kernel {
    #[inline(always)]
    fn element<const MOMENTUM: bool, const REGULAR: bool>(self, at: ValueUpdate<'_, 2>) -> f32 {
        let [squares, mean] = at.own;
        *squares = self.rho * *squares + self.new_square * (at.g * at.g);
        *mean = self.rho * *mean + self.rest * at.g;
        let r = factor(*squares, *mean, self.epsilon);
        at.tail
            .moved::<MOMENTUM, REGULAR>(r, at.g, at.w, at.momentum)
    }
}

#[cfg(test)]
mod tests {
    use crate::method::reference::{self, MethodCase, TestGradients};
    use crate::{Method, ParameterProgress, Rule};

    const METHOD: Method = Method::RmsProp {
        rho: 0.95,
        epsilon: 1e-6,
    };

    fn reference(case: &MethodCase, s: &mut [f64; 3], w: f64, g: f64, lr: f64, step: u64) -> f64 {
        let new = if step == 1 { 1.0 } else { 0.05 };
        s[0] = 0.95 * s[0] + new * g * g;
        s[1] = 0.95 * s[1] + 0.05 * g;
        let r = 1.0 / (s[0] - s[1] * s[1] + 1e-6).sqrt();
        s[2] = case.mu * s[2] - lr * r * (g + case.l2 * w);
        w + s[2]
    }

    #[test]
    fn a_hundred_steps() {
        reference::check(METHOD, true, reference);
    }

    #[test]
    fn blocks() {
        reference::blocks(METHOD);
    }

    #[test]
    fn rows_decay_by_the_missed_steps_and_start_at_their_first_touch() {
        let rule = Rule {
            method: METHOD,
            ..Rule::sgd(0.01)
        };
        let mut progress = ParameterProgress::default();
        let (mut row, mut last) = (vec![0.2f32, 0.0, 0.0], 0);
        let (mut a, mut f, mut w, mut seen) = (0.0f64, 0.0f64, 0.2f64, 0u64);
        let mut noise = TestGradients::new(3);
        for number in 1..=100u64 {
            if number % 5 == 0 {
                rule.catch_up(&progress, &mut row, &mut last);
            }
            let step = rule.begin(&mut progress, 1);
            if number % 5 == 0 || number % 7 == 0 {
                let g = noise.next();
                rule.update_row(&step, &mut row, &mut last, &[g]);
                let g = f64::from(g);
                let kept = 0.95f64.powi((number - seen) as i32);
                a = kept * a + if seen == 0 { g * g } else { 0.05 * g * g };
                f = kept * f + 0.05 * g;
                w -= 0.01 / (a - f * f + 1e-6).sqrt() * g;
                seen = number;
            }
        }
        assert!(
            (f64::from(row[0]) - w).abs() < 1e-4,
            "{} is not {w}",
            row[0]
        );
    }

    #[test]
    fn large_steady_gradients_stay_finite() {
        let rule = Rule {
            method: METHOD,
            ..Rule::sgd(1e-6)
        };
        let (mut progress, mut value, mut state) = (
            ParameterProgress::default(),
            vec![0.0f32; 8],
            vec![0.0f32; 16],
        );
        let grad: Vec<f32> = (0..8).map(|i| 1e6 + i as f32 * 777.7).collect();
        for _ in 0..2000 {
            let step = rule.begin(&mut progress, 1);
            rule.update(&step, &mut value, &mut state, &grad);
        }
        assert!(value.iter().all(|w| w.is_finite()), "{value:?}");
    }
}
