//! The values of a sequence split into rows of another width (`seqreshape`), or those of the whole batch (`resize`).

use crate::domain::{Domain, Layout};
use crate::error::{BuildError, LayerError};
use crate::finish::Finish;
use crate::layer::{Backward, Build, Forward, Layer, Reads};
use crate::simd;

/// Splits values into rows of another width.
pub(crate) struct Reshape {
    size: usize,
    by_sequence: bool,
    finish: Finish,
}

/// Builds a `seqreshape` layer.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build_any(build, true)
}

/// Builds a `resize` layer.
pub(crate) fn build_resize(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build_any(build, false)
}

fn build_any(build: &mut Build<'_>, by_sequence: bool) -> Result<Box<dyn Layer>, BuildError> {
    build.expect_inputs(1..=1)?;
    build.expect(build.size() > 0, || "size is 0".to_owned())?;
    Ok(Box::new(Reshape {
        size: build.size(),
        by_sequence,
        finish: build.finish()?,
    }))
}

impl Reshape {
    /// Number of rows for `numbers` values.
    fn rows(&self, numbers: usize) -> Result<usize, LayerError> {
        if numbers.is_multiple_of(self.size) {
            return Ok(numbers / self.size);
        }
        Err(LayerError::Value(format!(
            "{numbers} numbers cannot be cut into rows of {}",
            self.size
        )))
    }
}

impl Layer for Reshape {
    fn reads(&self) -> Reads {
        if self.by_sequence {
            Reads::Samples
        } else {
            Reads::Batch
        }
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let x = pass.inputs.dense(0)?;
        let rows = self.rows(x.values().len())?;
        if self.by_sequence {
            let sequences = pass.inputs.get(0).sequences(0)?;
            let offsets = sequences
                .iter()
                .map(|&start| Ok(self.rows(start as usize * x.cols())? as u32));
            pass.out.layout.sequences =
                Some(offsets.collect::<Result<Vec<u32>, LayerError>>()?.into());
            pass.out.layout.subsequences = None;
        } else {
            pass.out.layout = Layout::units(Domain::whole(rows));
        }
        let out = pass.out.value_mut();
        out.resize(rows, self.size);
        out.values_mut().copy_from_slice(x.values());
        self.finish.forward(pass)
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        self.finish.backward(pass);
        if pass.inputs.wants_grad(0) {
            simd::add(
                pass.inputs.get_mut(0).grad_mut().values_mut(),
                pass.out.grad().values(),
            );
        }
    }
}
