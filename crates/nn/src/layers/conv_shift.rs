//! Circular convolution of two vectors (`conv_shift`), as in neural Turing machines.
//!
//! `y[i] = Σ_j a[(i + j - (N - 1)/2) mod M] · b[j]` with `a` of width M and `b` of odd width N.

use crate::error::{BuildError, LayerError};
use crate::layer::{Backward, Build, Forward, Layer, Reads};
use crate::simd;

/// Convolves the first input with the second, circularly.
pub(crate) struct ConvShift {
    width: usize,
    taps: usize,
}

/// Builds `conv_shift`.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect_inputs(2..=2)?;
    let (width, taps) = (build.input_sizes[0], build.input_sizes[1]);
    build.expect(width == build.size() && width > 0, || {
        format!(
            "its first input has size {width}, but it has {}",
            build.size()
        )
    })?;
    build.expect(!taps.is_multiple_of(2), || {
        format!("its second input has size {taps}, which is not odd")
    })?;
    Ok(Box::new(ConvShift { width, taps }))
}

impl ConvShift {
    /// The column of the first input that meets column `tap` of the second in column `i` of the output.
    #[inline(always)]
    fn place(&self, i: usize, tap: usize) -> usize {
        let left = (self.taps - 1) / 2;
        // enough whole turns to stay positive
        (i + tap + left * self.width - left) % self.width
    }
}

impl Layer for ConvShift {
    fn reads(&self) -> Reads {
        Reads::Rows
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let (a, b) = (
            pass.inputs.dense_of(0, self.width)?,
            pass.inputs.dense_of(1, self.taps)?,
        );
        pass.inputs.check_rows(1, a.rows())?;
        let y = pass.out.value_mut();
        y.resize(a.rows(), self.width);
        simd::for_row_blocks(
            y.values_mut(),
            self.width,
            #[inline(always)]
            |first, block| {
                for (row, y) in block.chunks_exact_mut(self.width).enumerate() {
                    let (a, b) = (a.row(first + row), b.row(first + row));
                    for (i, y) in y.iter_mut().enumerate() {
                        *y = b
                            .iter()
                            .enumerate()
                            .map(|(tap, b)| a[self.place(i, tap)] * b)
                            .sum();
                    }
                }
            },
        );
        Ok(())
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        let arrived = pass.out.grad();
        let a_values = pass.inputs.get(0).value().clone();
        if pass.inputs.wants_grad(0) {
            let b = pass.inputs.get(1).value().clone();
            let grad = pass.inputs.get_mut(0).grad_mut();
            for (row, grad) in grad.iter_rows_mut().enumerate() {
                for (i, dy) in arrived.row(row).iter().enumerate() {
                    b.row(row)
                        .iter()
                        .enumerate()
                        .for_each(|(tap, b)| grad[self.place(i, tap)] += dy * b);
                }
            }
        }
        if pass.inputs.wants_grad(1) {
            let grad = pass.inputs.get_mut(1).grad_mut();
            for (row, grad) in grad.iter_rows_mut().enumerate() {
                let a = a_values.row(row);
                for (i, dy) in arrived.row(row).iter().enumerate() {
                    grad.iter_mut()
                        .enumerate()
                        .for_each(|(tap, grad)| *grad += dy * a[self.place(i, tap)]);
                }
            }
        }
    }
}
