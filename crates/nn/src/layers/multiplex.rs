//! Chooses among inputs: row r of the output is row r of the input that the first input's id names, counted from the
//! second input.

use crate::error::{BuildError, LayerError};
use crate::finish::Finish;
use crate::layer::{Backward, Build, Forward, Layer, Reads};
use crate::simd;

/// Chooses a row of one input.
pub(crate) struct Multiplex {
    size: usize,
    finish: Finish,
}

/// Builds a `multiplex` layer.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    let size = build.size();
    build.expect(build.input_sizes.len() > 1, || {
        "it needs an index and at least one input to choose from".to_owned()
    })?;
    build.expect(
        build.input_sizes[1..].iter().all(|&own| own == size),
        || {
            format!(
                "its inputs have widths {:?}, the layer {size}",
                &build.input_sizes[1..]
            )
        },
    )?;
    Ok(Box::new(Multiplex {
        size,
        finish: build.finish()?,
    }))
}

impl Layer for Multiplex {
    fn reads(&self) -> Reads {
        self.finish.reads()
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let chosen = pass.inputs.get(0).ids(0)?;
        let choices = pass.inputs.len() - 1;
        for input in 1..=choices {
            pass.inputs.dense_of(input, self.size)?;
            pass.inputs.check_rows(input, chosen.len())?;
        }
        let out = pass.out.value_mut();
        out.resize(chosen.len(), self.size);
        for (row, &id) in chosen.iter().enumerate() {
            if id as usize >= choices {
                return Err(LayerError::Id { id, limit: choices });
            }
            let from = pass.inputs.dense(id as usize + 1)?;
            out.row_mut(row).copy_from_slice(from.row(row));
        }
        self.finish.forward(pass)
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        self.finish.backward(pass);
        let grad = pass.out.grad();
        for input in 1..pass.inputs.len() {
            if !pass.inputs.wants_grad(input) {
                continue;
            }
            let Ok(chosen) = pass.inputs.get(0).ids(0) else {
                unreachable!("forward read ids")
            };
            let rows: Vec<usize> = (0..chosen.len())
                .filter(|&row| chosen[row] as usize + 1 == input)
                .collect();
            let to = pass.inputs.get_mut(input).grad_mut();
            for row in rows {
                simd::add(to.row_mut(row), grad.row(row));
            }
        }
    }
}
