//! torch_momentum: momentum whose rate is multiplied by `1 - mu` after the first batch.
//!
//! ```text
//! mom = mu*mom - lr*k*(g + l2*w)      k = 1 in the first step, 1 - mu afterwards
//! w  += mom
//! ```
//!
//! State, rows and kernel: as momentum. The factor is for the gradient; L1 and L2 after the update use `lr`.

/// The factor on the rate in step number `step`.
pub(crate) fn factor(momentum: f64, step: u64) -> f64 {
    if step == 1 { 1.0 } else { 1.0 - momentum }
}

#[cfg(test)]
mod tests {
    use crate::Method;
    use crate::method::reference::{self, MethodCase};

    fn reference(case: &MethodCase, mom: &mut [f64; 3], w: f64, g: f64, lr: f64, step: u64) -> f64 {
        let lr = if step > 1 { lr * (1.0 - case.mu) } else { lr };
        mom[0] = case.mu * mom[0] - lr * (g + case.l2 * w);
        w + mom[0]
    }

    #[test]
    fn a_hundred_steps() {
        reference::check(Method::TorchMomentum, true, reference);
    }

    #[test]
    fn blocks_and_rows() {
        reference::blocks(Method::TorchMomentum);
        reference::rows_equal_dense_exactly(Method::TorchMomentum);
        reference::rows_equal_dense_nearly(Method::TorchMomentum, 0.8);
    }
}
