//! Sequences one after another: for each sample the rows of the first input, then those of the second.

use crate::error::{BuildError, LayerError};
use crate::finish::Finish;
use crate::layer::{Backward, Build, Forward, Layer, Reads};
use crate::simd;

/// Appends sequences.
pub(crate) struct SequenceConcat {
    size: usize,
    /// For each input, the row of the result that each of its rows becomes.
    places: [Vec<u32>; 2],
    finish: Finish,
}

/// Builds a `seqconcat` layer.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect_inputs(2..=2)?;
    let size = build.size();
    build.expect(build.input_sizes == [size, size], || {
        format!(
            "inputs have widths {:?}, the layer {size}",
            build.input_sizes
        )
    })?;
    Ok(Box::new(SequenceConcat {
        size,
        places: [Vec::new(), Vec::new()],
        finish: build.finish()?,
    }))
}

impl Layer for SequenceConcat {
    fn reads(&self) -> Reads {
        Reads::Samples
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let starts = [
            pass.inputs.get(0).sequences(0)?.clone(),
            pass.inputs.get(1).sequences(1)?.clone(),
        ];
        self.places.iter_mut().for_each(Vec::clear);
        let mut offsets = vec![0u32];
        let mut end = 0;
        for (a, b) in starts[0].windows(2).zip(starts[1].windows(2)) {
            for (places, pair) in self.places.iter_mut().zip([a, b]) {
                let length = pair[1] - pair[0];
                places.extend(end..end + length);
                end += length;
            }
            offsets.push(end);
        }
        let out = pass.out.value_mut();
        out.resize(end as usize, self.size);
        for (input, places) in self.places.iter().enumerate() {
            let x = pass.inputs.dense_of(input, self.size)?;
            for (&place, x) in places.iter().zip(x.iter_rows()) {
                out.row_mut(place as usize).copy_from_slice(x);
            }
        }
        pass.out.layout.sequences = Some(offsets.into());
        pass.out.layout.subsequences = None;
        self.finish.forward(pass)
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        self.finish.backward(pass);
        for (input, places) in self.places.iter().enumerate() {
            if pass.inputs.wants_grad(input) {
                let to = pass.inputs.get_mut(input).grad_mut();
                for (to, &place) in to.iter_rows_mut().zip(places) {
                    simd::add(to, pass.out.grad().row(place as usize));
                }
            }
        }
    }
}
