//! One row for a whole sequence: the first input's rows, repeated along the sequences of the second input.
//!
//! With `trans_type: "seq"` the first input has one row per sub-sequence of the second. Rows are not copied: the
//! positions of the result share them.

use crate::domain::Layout;
use crate::error::{BuildError, LayerError};
use crate::finish::Finish;
use crate::layer::{Backward, Build, Forward, Layer, Reads};
use crate::output::{gather_rows, scatter_add_rows};
use crate::simd;

/// Spreads rows over sequences.
pub(crate) struct Expand {
    nested: bool,
    /// Row of the first input for each position.
    rows: Vec<u32>,
    shared: bool,
    finish: Finish,
}

/// Builds an `expand` layer.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect_inputs(2..=2)?;
    Ok(Box::new(Expand {
        nested: build.config.trans_type() == "seq",
        rows: Vec::new(),
        shared: false,
        finish: build.finish()?,
    }))
}

impl Layer for Expand {
    fn reads(&self) -> Reads {
        Reads::Samples
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let x = pass.inputs.dense(0)?;
        let shape = &pass.inputs.get(1).layout;
        let sequences = shape
            .sequences
            .clone()
            .ok_or(LayerError::NotSequence { input: 1 })?;
        let starts = if self.nested {
            shape
                .subsequences
                .clone()
                .ok_or(LayerError::NotNested { input: 1 })?
        } else {
            sequences.clone()
        };
        if x.rows() + 1 != starts.len() {
            return Err(LayerError::Rows {
                input: 0,
                got: x.rows(),
                want: starts.len() - 1,
            });
        }
        self.rows.clear();
        for (row, pair) in starts.windows(2).enumerate() {
            self.rows
                .resize(self.rows.len() + (pair[1] - pair[0]) as usize, row as u32);
        }
        self.shared = pass.share && self.finish.reads() == Reads::Rows;
        let layout = Layout {
            domain: shape.domain.clone(),
            subsequences: shape.subsequences.clone(),
            sequences: Some(sequences),
            rows: self.shared.then(|| self.rows.as_slice().into()),
        };
        let out = pass.out.value_mut();
        if self.shared {
            out.copy_from(x);
        } else {
            gather_rows(out, x, &self.rows);
        }
        pass.out.layout = layout;
        self.finish.forward(pass)
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        self.finish.backward(pass);
        if !pass.inputs.wants_grad(0) {
            return;
        }
        let to = pass.inputs.get_mut(0).grad_mut();
        if self.shared {
            simd::add(to.values_mut(), pass.out.grad().values());
        } else {
            scatter_add_rows(to, pass.out.grad().values(), &self.rows);
        }
    }
}
