//! A piece of each sequence: rows `offset .. offset + size`. Inputs: sequence, offset and size of each (ids).

use crate::error::{BuildError, LayerError};
use crate::finish::Finish;
use crate::layer::{Backward, Build, Forward, Layer, Reads};
use crate::output::{gather_rows, scatter_add_rows};

/// Cuts pieces out of sequences.
pub(crate) struct SubSequence {
    /// Row of the input for each row of the result.
    rows: Vec<u32>,
    finish: Finish,
}

/// Builds a `subseq` layer.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect_inputs(3..=3)?;
    Ok(Box::new(SubSequence {
        rows: Vec::new(),
        finish: build.finish()?,
    }))
}

impl Layer for SubSequence {
    fn reads(&self) -> Reads {
        Reads::Samples
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let sequences = pass.inputs.get(0).sequences(0)?;
        let x = pass.inputs.dense(0)?;
        let (offsets, sizes) = (pass.inputs.get(1).ids(1)?, pass.inputs.get(2).ids(2)?);
        pass.inputs.check_rows(1, sequences.len() - 1)?;
        pass.inputs.check_rows(2, sequences.len() - 1)?;
        self.rows.clear();
        let mut starts = vec![0u32];
        for (pair, (&offset, &size)) in sequences.windows(2).zip(offsets.iter().zip(sizes)) {
            let end = u64::from(pair[0]) + u64::from(offset) + u64::from(size);
            if end > u64::from(pair[1]) {
                let length = pair[1] - pair[0];
                return Err(LayerError::Value(format!(
                    "rows {offset} to {} of a sequence of {length} do not exist",
                    offset + size
                )));
            }
            self.rows.extend(pair[0] + offset..pair[0] + offset + size);
            starts.push(self.rows.len() as u32);
        }
        gather_rows(pass.out.value_mut(), x, &self.rows);
        pass.out.layout.sequences = Some(starts.into());
        pass.out.layout.subsequences = None;
        self.finish.forward(pass)
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        self.finish.backward(pass);
        if pass.inputs.wants_grad(0) {
            scatter_add_rows(
                pass.inputs.get_mut(0).grad_mut(),
                pass.out.grad().values(),
                &self.rows,
            );
        }
    }
}
