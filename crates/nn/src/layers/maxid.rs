//! The column of the greatest value of each row, as an id; the first one if several are equal.

use crate::error::{BuildError, LayerError};
use crate::layer::{Backward, Build, Forward, Layer, Reads};

/// Finds the greatest columns.
pub(crate) struct MaxId;

/// Builds a `maxid` layer.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect_inputs(1..=1)?;
    build.expect(build.config.beam_size.unwrap_or(1) == 1, || {
        "more than one id for each row cannot be computed yet".to_owned()
    })?;
    Ok(Box::new(MaxId))
}

/// The column of the greatest value, the first one if several are equal.
pub(crate) fn greatest(row: &[f32]) -> u32 {
    let mut best = 0;
    for (col, value) in row.iter().enumerate() {
        if *value > row[best] {
            best = col;
        }
    }
    best as u32
}

impl Layer for MaxId {
    fn reads(&self) -> Reads {
        Reads::Rows
    }

    fn is_differentiable(&self) -> bool {
        false
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let x = pass.inputs.dense(0)?;
        let ids = pass.out.ids_mut();
        ids.clear();
        ids.extend(x.iter_rows().map(greatest));
        Ok(())
    }

    fn backward(&mut self, _pass: &mut Backward<'_>) {}
}
