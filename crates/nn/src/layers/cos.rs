//! Cosine similarity: `y = scale · a·b / (|a| |b|)` of two rows (`cos`), or of a row with each of several (`cos_vm`).
//!
//! Rows of zeros have similarity 0. Lengths are computed once per stored row.

use crate::error::{BuildError, LayerError};
use crate::layer::{Backward, Build, Forward, Layer, Reads};
use crate::matrix::Matrix;
use crate::simd;

/// Compares rows of two inputs.
pub(crate) struct CosineSimilarity {
    scale: f32,
    dim: usize,
    /// 1/|row| of each input.
    inverse: [Vec<f32>; 2],
}

fn scale_of(build: &Build<'_>) -> f32 {
    build.config.cos_scale.unwrap_or(1.0) as f32
}

/// Builds a `cos` layer.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect_inputs(2..=2)?;
    build.expect(build.input_sizes[0] == build.input_sizes[1], || {
        format!(
            "inputs of widths {:?} cannot be compared",
            build.input_sizes
        )
    })?;
    build.expect(build.size() == 1, || {
        format!("size is {}, must be 1", build.size())
    })?;
    Ok(Box::new(CosineSimilarity {
        scale: scale_of(build),
        dim: build.input_sizes[0],
        inverse: [Vec::new(), Vec::new()],
    }))
}

/// 1/|row|, 0 for a row of zeros.
#[inline(always)]
fn inverse_length(row: &[f32]) -> f32 {
    let squares = simd::dot(row, row);
    if squares > 0.0 {
        1.0 / squares.sqrt()
    } else {
        0.0 * squares
    }
}

fn inverse_lengths(matrix: &Matrix, lengths: &mut Vec<f32>) {
    lengths.clear();
    simd::vectorised(
        #[inline(always)]
        || lengths.extend(matrix.iter_rows().map(inverse_length)),
    );
}

impl Layer for CosineSimilarity {
    fn reads(&self) -> Reads {
        Reads::Rows
    }

    fn gathers(&self) -> bool {
        true
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let (a, b) = (
            pass.inputs.dense_of(0, self.dim)?,
            pass.inputs.dense_of(1, self.dim)?,
        );
        let (index_a, index_b) = (pass.inputs.index(0), pass.inputs.index(1));
        let rows = index_a.map_or(a.rows(), <[u32]>::len);
        let others = index_b.map_or(b.rows(), <[u32]>::len);
        if rows != others {
            return Err(LayerError::Rows {
                input: 1,
                got: others,
                want: rows,
            });
        }
        inverse_lengths(a, &mut self.inverse[0]);
        inverse_lengths(b, &mut self.inverse[1]);
        let out = pass.out.value_mut();
        out.resize(rows, 1);
        simd::vectorised(
            #[inline(always)]
            || {
                for (row, out) in out.values_mut().iter_mut().enumerate() {
                    let i = index_a.map_or(row, |index| index[row] as usize);
                    let j = index_b.map_or(row, |index| index[row] as usize);
                    *out = self.scale
                        * simd::dot(a.row(i), b.row(j))
                        * self.inverse[0][i]
                        * self.inverse[1][j];
                }
            },
        );
        Ok(())
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        let (result, grads) = (pass.out.value().values(), pass.out.grad().values());
        for (this, other) in [(0, 1), (1, 0)] {
            if !pass.inputs.wants_grad(this) {
                continue;
            }
            let mut to = std::mem::take(pass.inputs.get_mut(this).grad_mut());
            let (x, y) = (
                pass.inputs.get(this).value(),
                pass.inputs.get(other).value(),
            );
            let (index, index_other) = (pass.inputs.index(this), pass.inputs.index(other));
            let (inverse, inverse_other) = (&self.inverse[this], &self.inverse[other]);
            simd::vectorised(
                #[inline(always)]
                || {
                    for (row, (&result, &grad)) in result.iter().zip(grads).enumerate() {
                        let i = index.map_or(row, |index| index[row] as usize);
                        let j = index_other.map_or(row, |index| index[row] as usize);
                        let across = grad * self.scale * inverse[i] * inverse_other[j];
                        let along = -grad * result * inverse[i] * inverse[i];
                        for ((to, x), y) in to.row_mut(i).iter_mut().zip(x.row(i)).zip(y.row(j)) {
                            *to += across * y + along * x;
                        }
                    }
                },
            );
            *pass.inputs.get_mut(this).grad_mut() = to;
        }
    }
}

/// Compares a row with each of several rows that are stored one after another.
pub(crate) struct CosineWithMany {
    scale: f32,
    dim: usize,
    count: usize,
}

/// Builds a `cos_vm` layer.
pub(crate) fn build_many(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect_inputs(2..=2)?;
    let (dim, count) = (build.input_sizes[0], build.size());
    build.expect(build.input_sizes[1] == dim * count, || {
        format!(
            "{count} rows of width {dim} do not make an input of width {}",
            build.input_sizes[1]
        )
    })?;
    Ok(Box::new(CosineWithMany {
        scale: scale_of(build),
        dim,
        count,
    }))
}

impl Layer for CosineWithMany {
    fn reads(&self) -> Reads {
        Reads::Rows
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let a = pass.inputs.dense_of(0, self.dim)?;
        let b = pass.inputs.dense_of(1, self.dim * self.count)?;
        pass.inputs.check_rows(1, a.rows())?;
        let out = pass.out.value_mut();
        out.resize(a.rows(), self.count);
        for ((a, b), out) in a.iter_rows().zip(b.iter_rows()).zip(out.iter_rows_mut()) {
            for (b, out) in b.chunks_exact(self.dim).zip(out) {
                *out = self.scale * simd::dot(a, b) * inverse_length(a) * inverse_length(b);
            }
        }
        Ok(())
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        for (this, other) in [(0, 1), (1, 0)] {
            if !pass.inputs.wants_grad(this) {
                continue;
            }
            let mut to = std::mem::take(pass.inputs.get_mut(this).grad_mut());
            let (x, y) = (
                pass.inputs.get(this).value(),
                pass.inputs.get(other).value(),
            );
            let (result, grad) = (pass.out.value(), pass.out.grad());
            for row in 0..x.rows() {
                for k in 0..self.count {
                    let part = |input: usize| {
                        if input == 1 {
                            k * self.dim..(k + 1) * self.dim
                        } else {
                            0..self.dim
                        }
                    };
                    let (x, y) = (&x.row(row)[part(this)], &y.row(row)[part(other)]);
                    let (g, inverse) = (grad.row(row)[k], inverse_length(x));
                    let across = g * self.scale * inverse * inverse_length(y);
                    let along = -g * result.row(row)[k] * inverse * inverse;
                    let to = &mut to.row_mut(row)[part(this)];
                    simd::add_scaled(to, across, y);
                    simd::add_scaled(to, along, x);
                }
            }
            *pass.inputs.get_mut(this).grad_mut() = to;
        }
    }
}
