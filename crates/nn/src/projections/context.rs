//! A window over neighbours: `y[t] = (x[t+s], …, x[t+s+n-1])` for context start `s` and length `n`.
//!
//! Positions outside the sequence are zeros, or rows of a trainable padding: the first `max(0, -s)` rows are for
//! positions before the beginning (the last of them is position -1), the others for positions after the end.

use config::ProjectionConfig;

use super::Projection;
use crate::error::{BuildError, LayerError};
use crate::layer::{Backward, Build, Forward, Reads};
use crate::matrix::Matrix;
use crate::parameters::ParameterIndex;
use crate::simd;

/// Concatenates the columns of neighbours.
#[derive(Debug, Clone)]
pub(crate) struct ContextWindow {
    /// Offset of the first neighbour.
    pub start: i64,
    /// Number of neighbours.
    pub length: usize,
    /// Width of one neighbour.
    pub dim: usize,
    /// Rows for positions outside the sequence.
    pub padding: Option<ParameterIndex>,
}

/// Where the values of a neighbour are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NeighbourValues {
    /// At a position of the sequence.
    Position(usize),
    /// In a row of the padding.
    Padding(usize),
}

impl ContextWindow {
    /// The window that a projection describes.
    pub(crate) fn new(
        build: &mut Build<'_>,
        input: usize,
        config: &ProjectionConfig,
    ) -> Result<Self, BuildError> {
        let dim = build.input_sizes[input];
        let mut window = Self {
            start: i64::from(config.context_start()),
            length: config.context_length().max(0) as usize,
            dim,
            padding: None,
        };
        build.expect(config.output_size as usize == dim * window.length, || {
            format!(
                "{} neighbours of width {dim} are not {} columns",
                window.length, config.output_size
            )
        })?;
        if config.trainable_padding() && window.padding_rows() > 0 {
            window.padding = Some(build.input_parameter(input, window.padding_rows() * dim)?);
        }
        Ok(window)
    }

    fn before(&self) -> usize {
        (-self.start).max(0) as usize
    }

    /// Rows that a trainable padding has.
    pub(crate) fn padding_rows(&self) -> usize {
        self.before() + (self.start + self.length as i64 - 1).max(0) as usize
    }

    /// Neighbour `k` of a position in the sequence `range`.
    #[inline(always)]
    pub(crate) fn neighbour(
        &self,
        range: &std::ops::Range<usize>,
        position: usize,
        k: usize,
    ) -> NeighbourValues {
        let at = position as i64 + self.start + k as i64;
        if at < range.start as i64 {
            NeighbourValues::Padding((self.before() as i64 + at - range.start as i64) as usize)
        } else if at >= range.end as i64 {
            NeighbourValues::Padding((self.before() as i64 + at - range.end as i64) as usize)
        } else {
            NeighbourValues::Position(at as usize)
        }
    }

    /// Calls `visit(position, k, neighbour)` for every position of all sequences.
    #[inline(always)]
    fn visit(&self, sequences: &[u32], mut visit: impl FnMut(usize, usize, NeighbourValues)) {
        for pair in sequences.windows(2) {
            let range = pair[0] as usize..pair[1] as usize;
            for position in range.clone() {
                for k in 0..self.length {
                    visit(position, k, self.neighbour(&range, position, k));
                }
            }
        }
    }
}

impl Projection for ContextWindow {
    fn reads(&self) -> Reads {
        Reads::Samples
    }

    fn forward(
        &mut self,
        pass: &Forward<'_>,
        input: usize,
        out: &mut Matrix,
    ) -> Result<(), LayerError> {
        let sequences = pass.inputs.get(input).sequences(input)?;
        let x = pass.inputs.dense_of(input, self.dim)?;
        let padding = match self.padding {
            Some(padding) => Some(pass.parameters.full(padding)?),
            None => None,
        };
        let dim = self.dim;
        self.visit(sequences, |position, k, neighbour| {
            let from = match (neighbour, padding) {
                (NeighbourValues::Position(at), _) => x.row(at),
                (NeighbourValues::Padding(row), Some(padding)) => {
                    &padding[row * dim..(row + 1) * dim]
                }
                (NeighbourValues::Padding(_), None) => return,
            };
            simd::add(&mut out.row_mut(position)[k * dim..(k + 1) * dim], from);
        });
        Ok(())
    }

    fn backward(&mut self, pass: &mut Backward<'_>, input: usize, grad: &Matrix) {
        let Some(sequences) = pass.inputs.get(input).layout.sequences.clone() else {
            unreachable!("forward read sequences")
        };
        let dim = self.dim;
        if pass.inputs.wants_grad(input) {
            let input_grad = pass.inputs.get_mut(input).grad_mut();
            self.visit(&sequences, |position, k, neighbour| {
                if let NeighbourValues::Position(at) = neighbour {
                    simd::add(
                        input_grad.row_mut(at),
                        &grad.row(position)[k * dim..(k + 1) * dim],
                    );
                }
            });
        }
        if let Some(padding) = self
            .padding
            .and_then(|padding| pass.gradients.dense_zeroed(padding))
        {
            self.visit(&sequences, |position, k, neighbour| {
                if let NeighbourValues::Padding(row) = neighbour {
                    let from = &grad.row(position)[k * dim..(k + 1) * dim];
                    simd::add(&mut padding[row * dim..(row + 1) * dim], from);
                }
            });
        }
    }
}
