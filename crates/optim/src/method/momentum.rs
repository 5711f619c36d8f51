//! momentum: gradient descent (SGD) with optional momentum.
//!
//! ```text
//! mom = mu*mom - lr*(g + l2*w)
//! w  += mom
//! ```
//!
//! State: `mom`, only if `mu` is not zero. By row: the momentum of missed steps is caught up (v1 stopped it); L2 acts
//! after the update. Example: `w = 1`, `mu = 0.9`, `lr = 0.1`, `g = 1` twice yields 0.9, then 0.71.

use crate::elements::{self, ValueUpdate};

#[derive(Clone, Copy)]
pub(crate) struct Kernel;

impl elements::Kernel<0> for Kernel {
    #[inline(always)]
    fn element<const MOMENTUM: bool, const REGULAR: bool>(self, at: ValueUpdate<'_, 0>) -> f32 {
        at.tail
            .moved::<MOMENTUM, REGULAR>(1.0, at.g, at.w, at.momentum)
    }
}

#[cfg(test)]
mod tests {
    use crate::method::reference::{self, MethodCase};
    use crate::{Method, ParameterProgress, Rule};

    fn reference(
        case: &MethodCase,
        mom: &mut [f64; 3],
        w: f64,
        g: f64,
        lr: f64,
        _step: u64,
    ) -> f64 {
        mom[0] = case.mu * mom[0] - lr * (g + case.l2 * w);
        w + mom[0]
    }

    #[test]
    fn a_hundred_steps() {
        reference::check(Method::Momentum, true, reference);
    }

    #[test]
    fn blocks_and_rows() {
        reference::blocks(Method::Momentum);
        reference::rows_equal_dense_exactly(Method::Momentum);
        reference::rows_equal_dense_nearly(Method::Momentum, 0.9);
    }

    #[test]
    fn the_example_of_the_head() {
        let rule = Rule {
            momentum: 0.9,
            ..Rule::sgd(0.1)
        };
        let (mut progress, mut value, mut state) =
            (ParameterProgress::default(), [1.0f32], [0.0f32]);
        for want in [0.9f32, 0.71] {
            let step = rule.begin(&mut progress, 1);
            rule.update(&step, &mut value, &mut state, &[1.0]);
            assert!((value[0] - want).abs() < 1e-6);
        }
    }
}
