//! adadelta: step factors from running averages of squared gradients and squared changes.
//!
//! ```text
//! a    = rho*a + (1-rho)*g^2
//! r    = sqrt((d + eps)/(a + eps))
//! d    = rho*d + (1-rho)*(g*r)^2
//! mom  = mu*mom - lr*r*(g + l2*w)
//! w   += mom
//! ```
//!
//! State: `a`, `d`, and `mom` if `mu` is not zero. By row (refused by v1): both averages decay by `rho^n` for missed
//! steps, which is the dense result to rounding while there is no momentum.
//! Reference: Zeiler, arXiv 1212.5701; there `lr` is 1.

use crate::elements::{self, ValueUpdate};

/// The step factor `r` of the formula above.
#[inline(always)]
pub(crate) fn factor(squares: f32, changes: f32, epsilon: f32) -> f32 {
    ((changes + epsilon) / (squares + epsilon)).sqrt()
}

#[derive(Clone, Copy)]
pub(crate) struct Kernel {
    rho: f32,
    rest: f32,
    epsilon: f32,
}

impl Kernel {
    pub(crate) fn new(rho: f64, epsilon: f64) -> Self {
        Self {
            rho: rho as f32,
            rest: (1.0 - rho) as f32,
            epsilon: epsilon as f32,
        }
    }
}

impl elements::Kernel<2> for Kernel {
    #[inline(always)]
    fn element<const MOMENTUM: bool, const REGULAR: bool>(self, at: ValueUpdate<'_, 2>) -> f32 {
        let [squares, changes] = at.own;
        *squares = self.rho * *squares + self.rest * (at.g * at.g);
        let r = factor(*squares, *changes, self.epsilon);
        let moved = at.g * r;
        *changes = self.rho * *changes + self.rest * (moved * moved);
        at.tail
            .moved::<MOMENTUM, REGULAR>(r, at.g, at.w, at.momentum)
    }
}

#[cfg(test)]
mod tests {
    use crate::Method;
    use crate::method::reference::{self, MethodCase};

    const METHOD: Method = Method::AdaDelta {
        rho: 0.95,
        epsilon: 1e-6,
    };

    fn reference(case: &MethodCase, s: &mut [f64; 3], w: f64, g: f64, lr: f64, _step: u64) -> f64 {
        s[0] = 0.95 * s[0] + 0.05 * g * g;
        let r = ((s[1] + 1e-6) / (s[0] + 1e-6)).sqrt();
        s[1] = 0.95 * s[1] + 0.05 * (g * r).powi(2);
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
        reference::rows_equal_dense_nearly(METHOD, 0.0);
    }
}
