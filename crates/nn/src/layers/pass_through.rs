//! Layers that pass their input on unchanged: another layer's output (`get_output`), and `print`, whose values the
//! caller reads with [`crate::Network::output`].

use crate::error::{BuildError, LayerError};
use crate::layer::{Backward, Build, Forward, Layer, Reads};
use crate::output::OutputValues;
use crate::simd;

/// Passes its first input on.
pub(crate) struct PassThrough;

/// Builds a `print` layer.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect(!build.input_sizes.is_empty(), || {
        "it has no input".to_owned()
    })?;
    Ok(Box::new(PassThrough))
}

/// Builds a `get_output` layer; the network connects it to the output that it names.
pub(crate) fn build_get_output(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect_inputs(1..=1)?;
    Ok(Box::new(PassThrough))
}

impl Layer for PassThrough {
    fn reads(&self) -> Reads {
        Reads::Rows
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        match &pass.inputs.get(0).data {
            OutputValues::Dense(x) => pass.out.value_mut().copy_from(x),
            OutputValues::Ids(ids) => pass.out.ids_mut().clone_from(ids),
            OutputValues::Sparse(rows) => pass.out.data = OutputValues::Sparse(rows.clone()),
        }
        Ok(())
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        if pass.inputs.wants_grad(0) {
            simd::add(
                pass.inputs.get_mut(0).grad_mut().values_mut(),
                pass.out.grad().values(),
            );
        }
    }
}
