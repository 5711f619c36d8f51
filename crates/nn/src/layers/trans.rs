//! The batch as a matrix, rows and columns exchanged.

use crate::domain::{Domain, Layout};
use crate::error::{BuildError, LayerError};
use crate::layer::{Backward, Build, Forward, Layer};

/// Transposes the batch.
pub(crate) struct Transpose;

/// Builds a `trans` layer.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect_inputs(1..=1)?;
    Ok(Box::new(Transpose))
}

impl Layer for Transpose {
    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let x = pass.inputs.dense(0)?;
        pass.out.layout = Layout::units(Domain::whole(x.cols()));
        let out = pass.out.value_mut();
        out.resize(x.cols(), x.rows());
        for (row, x) in x.iter_rows().enumerate() {
            for (col, &x) in x.iter().enumerate() {
                out.row_mut(col)[row] = x;
            }
        }
        Ok(())
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        if !pass.inputs.wants_grad(0) {
            return;
        }
        let grad = pass.out.grad();
        for (row, to) in pass
            .inputs
            .get_mut(0)
            .grad_mut()
            .iter_rows_mut()
            .enumerate()
        {
            for (col, to) in to.iter_mut().enumerate() {
                *to += grad.row(col)[row];
            }
        }
    }
}
