//! decayed_adagrad: step factors from the running average of squared gradients.
//!
//! ```text
//! a    = rho*a + (1-rho)*g^2          in the first step: a = rho*a + g^2
//! r    = 1/sqrt(a + eps)
//! mom  = mu*mom - lr*r*(g + l2*w)
//! w   += mom
//! ```
//!
//! State: `a`, and `mom` if `mu` is not zero. By row, as in v1: the first step is the row's first touch, and `a` decays
//! by `rho^n` for missed steps. Other frameworks call this method RMSProp.

use crate::elements::{self, ValueUpdate};

/// The step factor `r` of the formula above.
#[inline(always)]
pub(crate) fn factor(squares: f32, epsilon: f32) -> f32 {
    1.0 / (squares + epsilon).sqrt()
}

#[derive(Clone, Copy)]
pub(crate) struct Kernel {
    rho: f32,
    new_square: f32,
    epsilon: f32,
}

impl Kernel {
    pub(crate) fn new(rho: f64, epsilon: f64, first: bool) -> Self {
        Self {
            rho: rho as f32,
            new_square: if first { 1.0 } else { (1.0 - rho) as f32 },
            epsilon: epsilon as f32,
        }
    }
}

impl elements::Kernel<1> for Kernel {
    #[inline(always)]
    fn element<const MOMENTUM: bool, const REGULAR: bool>(self, at: ValueUpdate<'_, 1>) -> f32 {
        let [squares] = at.own;
        *squares = self.rho * *squares + self.new_square * (at.g * at.g);
        let r = factor(*squares, self.epsilon);
        at.tail
            .moved::<MOMENTUM, REGULAR>(r, at.g, at.w, at.momentum)
    }
}

#[cfg(test)]
mod tests {
    use crate::method::reference::{self, MethodCase, TestGradients};
    use crate::{Method, ParameterProgress, Rule};

    const METHOD: Method = Method::DecayedAdaGrad {
        rho: 0.95,
        epsilon: 1e-6,
    };

    fn reference(case: &MethodCase, s: &mut [f64; 3], w: f64, g: f64, lr: f64, step: u64) -> f64 {
        let new = if step == 1 { 1.0 } else { 0.05 };
        s[0] = 0.95 * s[0] + new * g * g;
        let r = 1.0 / (s[0] + 1e-6).sqrt();
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
    fn rows_decay_by_the_missed_steps_and_by_l2_behind_the_update() {
        let rule = Rule {
            method: METHOD,
            l2: 0.2,
            ..Rule::sgd(0.01)
        };
        let mut progress = ParameterProgress::default();
        let (mut row, mut last) = (vec![0.2f32, 0.0], 0);
        let (mut a, mut w, mut seen, mut r) = (0.0f64, 0.2f64, 0u64, 1.0 / 1e-6f64.sqrt());
        let mut noise = TestGradients::new(4);
        for number in 1..=100u64 {
            let step = rule.begin(&mut progress, 1);
            if number % 4 == 0 {
                let g = noise.next();
                rule.update_row(&step, &mut row, &mut last, &[g]);
                let g = f64::from(g);
                let idle = (number - seen - 1) as f64;
                w /= 1.0 + 0.01 * r * 0.2 * idle;
                let kept = 0.95f64.powi((number - seen) as i32);
                a = kept * a + if seen == 0 { g * g } else { 0.05 * g * g };
                r = 1.0 / (a + 1e-6).sqrt();
                w = (w - 0.01 * r * g) / (1.0 + 0.01 * r * 0.2);
                seen = number;
            }
        }
        assert!(
            (f64::from(row[0]) - w).abs() < 1e-5,
            "{} is not {w}",
            row[0]
        );
    }
}
