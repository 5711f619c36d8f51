//! Layers that hand their input on: another layer's output (`get_output`), and `print`, whose reading of values is the
//! business of whoever looks at [`crate::Network::output`].

use crate::error::{BuildError, LayerError};
use crate::layer::{Backward, Build, Forward, Layer, Reads};
use crate::output::Data;
use crate::simd;

/// Hands its first input on.
pub struct PassThrough;

/// Builds a `print` layer.
pub fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect(!build.input_sizes.is_empty(), || {
        "it has no input".to_owned()
    })?;
    Ok(Box::new(PassThrough))
}

/// Builds a `get_output` layer.
pub fn build_get_output(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect_inputs(1..=1)?;
    let argument = build.config.inputs[0].input_layer_argument();
    build.expect(argument.is_empty() || argument == "value", || {
        format!(
            "the output '{argument}' of layer '{}' cannot be read yet",
            build.config.inputs[0].input_layer_name
        )
    })?;
    Ok(Box::new(PassThrough))
}

impl Layer for PassThrough {
    fn reads(&self) -> Reads {
        Reads::Rows
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        match &pass.inputs.get(0).data {
            Data::Dense(x) => pass.out.value_mut().copy_from(x),
            Data::Ids(ids) => pass.out.ids_mut().clone_from(ids),
            Data::Sparse(rows) => pass.out.data = Data::Sparse(rows.clone()),
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
