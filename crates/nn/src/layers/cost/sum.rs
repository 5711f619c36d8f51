//! The sum of a row as its cost.

use crate::error::{BuildError, LayerError};
use crate::layer::{Backward, Build, Forward, Layer};
use crate::simd;

/// Sums rows.
pub(crate) struct SumCost {
    coeff: f32,
}

/// Builds a `sum_cost` layer.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect_inputs(1..=1)?;
    Ok(Box::new(SumCost {
        coeff: build.config.coeff() as f32,
    }))
}

impl Layer for SumCost {
    fn is_cost(&self) -> bool {
        true
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let x = pass.inputs.dense(0)?;
        let out = pass.out.value_mut();
        out.resize(x.rows(), 1);
        for (cost, x) in out.values_mut().iter_mut().zip(x.iter_rows()) {
            *cost = simd::sum(x);
        }
        Ok(())
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        if pass.inputs.wants_grad(0) {
            let grad = pass.inputs.get_mut(0).grad_mut();
            grad.values_mut()
                .iter_mut()
                .for_each(|grad| *grad += self.coeff);
        }
    }
}
