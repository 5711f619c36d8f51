//! Columns side by side: `y = f((x₁, x₂, …) + b)`, of inputs (`concat`) or of their projections (`concat2`).

use crate::error::{BuildError, LayerError};
use crate::finish::Finish;
use crate::layer::{Backward, Build, Forward, Layer, Lookup, Reads};
use crate::matrix::Matrix;
use crate::projections::{self, Projection};
use crate::simd;

/// Concatenates the columns of its inputs.
pub(crate) struct Concat {
    size: usize,
    finish: Finish,
}

/// Builds a `concat` layer.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    let (size, total) = (build.size(), build.input_sizes.iter().sum::<usize>());
    build.expect(size == total && total > 0, || {
        format!("inputs have {total} columns in all, the layer {size}")
    })?;
    Ok(Box::new(Concat {
        size,
        finish: build.finish()?,
    }))
}

/// Copies `from` into the columns of `to` that start at `offset`.
fn put_columns(to: &mut Matrix, offset: usize, from: &Matrix) {
    let (cols, width) = (to.cols(), from.cols());
    simd::for_row_blocks(
        to.values_mut(),
        cols,
        #[inline(always)]
        |first, block| {
            for (row, to) in block.chunks_exact_mut(cols).enumerate() {
                to[offset..offset + width].copy_from_slice(from.row(first + row));
            }
        },
    );
}

impl Layer for Concat {
    fn reads(&self) -> Reads {
        self.finish.reads()
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let rows = pass.inputs.get(0).data.rows();
        let out = pass.out.value_mut();
        out.resize(rows, self.size);
        let mut offset = 0;
        for input in 0..pass.inputs.len() {
            pass.inputs.check_rows(input, rows)?;
            let x = pass.inputs.dense(input)?;
            put_columns(out, offset, x);
            offset += x.cols();
        }
        self.finish.forward(pass)
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        self.finish.backward(pass);
        let grad = pass.out.grad();
        let mut offset = 0;
        for input in 0..pass.inputs.len() {
            let source = pass.inputs.get_mut(input);
            let width = source.value().cols();
            if source.wants_grad {
                let columns = offset..offset + width;
                simd::for_row_blocks(
                    source.grad_mut().values_mut(),
                    width,
                    #[inline(always)]
                    |first, block| {
                        for (row, to) in block.chunks_exact_mut(width).enumerate() {
                            simd::add(to, &grad.row(first + row)[columns.clone()]);
                        }
                    },
                );
            }
            offset += width;
        }
    }
}

/// Concatenates the columns of projections of its inputs.
pub(crate) struct ConcatProjections {
    size: usize,
    parts: Vec<Part>,
    finish: Finish,
}

struct Part {
    projection: Box<dyn Projection>,
    /// The projection's result, or the gradient of it.
    buffer: Matrix,
    width: usize,
}

/// Builds a `concat2` layer.
pub(crate) fn build_projections(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    let config = build.config;
    let mut parts = Vec::new();
    for (input, input_config) in config.inputs.iter().enumerate() {
        let proj = input_config
            .proj_conf
            .as_ref()
            .ok_or_else(|| build.error(format!("input {input} has no projection")))?;
        parts.push(Part {
            projection: projections::projection(build, input, proj)?,
            buffer: Matrix::default(),
            width: proj.output_size as usize,
        });
    }
    let (size, total) = (
        build.size(),
        parts.iter().map(|part| part.width).sum::<usize>(),
    );
    build.expect(size == total && total > 0, || {
        format!("projections have {total} columns in all, the layer {size}")
    })?;
    Ok(Box::new(ConcatProjections {
        size,
        parts,
        finish: build.finish()?,
    }))
}

impl Layer for ConcatProjections {
    fn reads(&self) -> Reads {
        self.parts.iter().fold(self.finish.reads(), |reads, part| {
            reads.max(part.projection.reads())
        })
    }

    fn lookups(&self) -> Vec<Lookup> {
        self.parts
            .iter()
            .enumerate()
            .filter_map(|(source, part)| {
                Some(Lookup {
                    source,
                    parameter: part.projection.lookup()?,
                })
            })
            .collect()
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let rows = pass.inputs.get(0).data.rows();
        pass.out.value_mut().resize(rows, self.size);
        let mut offset = 0;
        for (input, part) in self.parts.iter_mut().enumerate() {
            pass.inputs.check_rows(input, rows)?;
            part.buffer.resize_zeroed(rows, part.width);
            part.projection.forward(pass, input, &mut part.buffer)?;
            put_columns(pass.out.value_mut(), offset, &part.buffer);
            offset += part.width;
        }
        self.finish.forward(pass)
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        self.finish.backward(pass);
        let mut offset = 0;
        for (input, part) in self.parts.iter_mut().enumerate() {
            let columns = offset..offset + part.width;
            for (to, grad) in part.buffer.iter_rows_mut().zip(pass.out.grad().iter_rows()) {
                to.copy_from_slice(&grad[columns.clone()]);
            }
            part.projection.backward(pass, input, &part.buffer);
            offset += part.width;
        }
    }
}
