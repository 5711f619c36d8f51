//! Small layers that output ids: whether an id ends a sequence (`eos_id`), an id drawn from each row (`sampling_id`).

use crate::error::{BuildError, LayerError};
use crate::layer::{Backward, Build, Forward, Layer, Reads};

/// 1 where the id is the one that ends sequences, else 0.
pub(crate) struct EndOfSequence {
    id: u32,
}

/// Builds an `eos_id` layer.
pub(crate) fn build_eos(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect_inputs(1..=1)?;
    Ok(Box::new(EndOfSequence {
        id: build.config.eos_id(),
    }))
}

impl Layer for EndOfSequence {
    fn reads(&self) -> Reads {
        Reads::Rows
    }

    fn is_differentiable(&self) -> bool {
        false
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let ids = pass.inputs.get(0).ids(0)?;
        let out = pass.out.ids_mut();
        out.clear();
        out.extend(ids.iter().map(|&id| u32::from(id == self.id)));
        Ok(())
    }

    fn backward(&mut self, _pass: &mut Backward<'_>) {}
}

/// Draws an id from each row, taken as a distribution.
pub(crate) struct Sampling;

/// Builds a `sampling_id` layer.
pub(crate) fn build_sampling(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect_inputs(1..=1)?;
    Ok(Box::new(Sampling))
}

/// The first column at which the sum of the row exceeds `u`; the last one if none does.
fn draw(row: &[f32], u: f32) -> u32 {
    let mut rest = u;
    for (col, p) in row.iter().enumerate() {
        rest -= p;
        if rest < 0.0 {
            return col as u32;
        }
    }
    row.len().saturating_sub(1) as u32
}

impl Layer for Sampling {
    fn is_differentiable(&self) -> bool {
        false
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let x = pass.inputs.dense(0)?;
        let noise = pass.noise;
        let out = pass.out.ids_mut();
        out.clear();
        out.extend(
            x.iter_rows()
                .enumerate()
                .map(|(row, x)| draw(x, noise.uniform(row as u64))),
        );
        Ok(())
    }

    fn backward(&mut self, _pass: &mut Backward<'_>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_follow_the_distribution() {
        assert_eq!(
            [0.0, 0.24, 0.26, 0.99].map(|u| draw(&[0.25, 0.0, 0.75], u)),
            [0, 0, 2, 2]
        );
        assert_eq!(draw(&[0.5, 0.4], 0.95), 1);
    }
}
