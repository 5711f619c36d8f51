//! A fully connected layer on a window over neighbours, and optionally the maximum over the sequence above it, fused
//! into one.
//!
//! With weights `W = (W₀; …; W_{n-1})`, one block per neighbour, `z[t] = Σₖ x[t+s+k] Wₖ`. The products `x Wₖ` are
//! computed once per stored row of `x` (each distinct word, not each position) and added up at each position.
//! A maximum commutes with the bias and a monotone activation, so those are applied to the maxima only; and its
//! gradient reaches one position per sequence and column, so backward visits only these.

mod grads;

use std::sync::Arc;

use crate::error::{BuildError, LayerError};
use crate::finish::Finish;
use crate::kept_products::{FoundProducts, KeptProducts};
use crate::layer::{Backward, Build, Forward, Layer, Reads};
use crate::matrix::Matrix;
use crate::output::Output;
use crate::parameters::ParameterIndex;
use crate::product::{Accumulate, MatrixView, multiply_strided};
use crate::projections::{ContextWindow, NeighbourValues};
use crate::simd;
use grads::Buffers;

/// The fused layers.
pub(crate) struct SequenceConv {
    window: ContextWindow,
    size: usize,
    weight: ParameterIndex,
    finish: Finish,
    /// Whether the maximum over the sequence is taken.
    maximum: bool,
    sequences: Arc<[u32]>,
    /// The rows of the input, then those of the padding; used only if there is a padding.
    padded: Matrix,
    /// For each of these rows its products with all blocks, side by side; in backward their gradients.
    products: Matrix,
    /// Position of each maximum; `u32::MAX` for none.
    winners: Vec<u32>,
    buffers: Buffers,
    kept: KeptProducts,
}

impl SequenceConv {
    /// Fuses a window and a fully connected layer, each built from its own description, and optionally a maximum.
    pub(crate) fn new(
        window: &mut Build<'_>,
        connected: &mut Build<'_>,
        maximum: bool,
    ) -> Result<Self, BuildError> {
        let proj = window.config.inputs[0]
            .proj_conf
            .as_ref()
            .ok_or_else(|| window.error("it has no projection"))?;
        let built = ContextWindow::new(window, 0, proj)?;
        let size = connected.size();
        Ok(Self {
            weight: connected.input_parameter(0, built.length * built.dim * size)?,
            finish: connected.finish()?,
            maximum,
            sequences: Vec::new().into(),
            window: built,
            size,
            padded: Matrix::default(),
            products: Matrix::default(),
            winners: Vec::new(),
            buffers: Buffers::default(),
            kept: KeptProducts::default(),
        })
    }

    /// Index of a neighbour's row in the products, if it has one.
    #[inline(always)]
    fn row(&self, rows: usize, index: Option<&[u32]>, neighbour: NeighbourValues) -> Option<usize> {
        match neighbour {
            NeighbourValues::Position(at) => Some(index.map_or(at, |index| index[at] as usize)),
            NeighbourValues::Padding(row) if self.window.padding.is_some() => Some(rows + row),
            NeighbourValues::Padding(_) => None,
        }
    }

    fn multiply(&mut self, x: &Matrix, weight: &[f32]) {
        let mut products = std::mem::take(&mut self.products);
        products.resize(x.rows(), self.window.length * self.size);
        self.multiply_into(x, weight, products.values_mut());
        self.products = products;
    }

    /// The products of rows with all blocks of the weight, side by side.
    fn multiply_into(&self, x: &Matrix, weight: &[f32], products: &mut [f32]) {
        let (length, dim, size) = (self.window.length, self.window.dim, self.size);
        for (k, block) in weight.chunks_exact(dim * size).enumerate() {
            let out = products.get_mut(k * size..).unwrap_or_default();
            multiply_strided(
                out,
                length * size,
                x.into(),
                MatrixView::new(block, dim, size),
                Accumulate::Overwrite,
            );
        }
    }

    /// `z` at a position: the sum of its neighbours' products.
    #[inline(always)]
    fn sum_at(
        &self,
        range: &std::ops::Range<usize>,
        position: usize,
        rows: usize,
        (products, index): (&Matrix, Option<&[u32]>),
        z: &mut [f32],
    ) {
        let size = self.size;
        z.fill(0.0);
        for k in 0..self.window.length {
            if let Some(row) = self.row(rows, index, self.window.neighbour(range, position, k)) {
                simd::add(z, &products.row(row)[k * size..(k + 1) * size]);
            }
        }
    }

    fn write_positions(
        &self,
        sequences: &[u32],
        rows: usize,
        source: (&Matrix, Option<&[u32]>),
        out: &mut Matrix,
    ) {
        out.resize(sequences.last().map_or(0, |&end| end as usize), self.size);
        let cols = self.size;
        simd::for_row_blocks(
            out.values_mut(),
            cols,
            #[inline(always)]
            |first, block| {
                let mut sequence = sequences.partition_point(|&start| start as usize <= first) - 1;
                for (offset, z) in block.chunks_exact_mut(cols).enumerate() {
                    let position = first + offset;
                    while sequences[sequence + 1] as usize <= position {
                        sequence += 1;
                    }
                    let range = sequences[sequence] as usize..sequences[sequence + 1] as usize;
                    self.sum_at(&range, position, rows, source, z);
                }
            },
        );
    }

    fn write_maxima(
        &self,
        sequences: &[u32],
        rows: usize,
        source: (&Matrix, Option<&[u32]>),
        (out, winners): (&mut Matrix, &mut Vec<u32>),
    ) {
        let size = self.size;
        let count = sequences.len() - 1;
        out.resize(count, size);
        winners.resize(count * size, 0);
        simd::for_row_blocks2(
            (out.values_mut(), size),
            (winners, size),
            #[inline(always)]
            |first, best, winners| {
                let mut z = vec![0.0; size];
                for (offset, (best, winners)) in best
                    .chunks_exact_mut(size)
                    .zip(winners.chunks_exact_mut(size))
                    .enumerate()
                {
                    let range =
                        sequences[first + offset] as usize..sequences[first + offset + 1] as usize;
                    best.fill(f32::NEG_INFINITY);
                    winners.fill(u32::MAX);
                    for position in range.clone() {
                        self.sum_at(&range, position, rows, source, &mut z);
                        for ((best, winner), &z) in best.iter_mut().zip(winners.iter_mut()).zip(&z)
                        {
                            let wins = z > *best;
                            *best = if wins { z } else { *best };
                            *winner = if wins { position as u32 } else { *winner };
                        }
                    }
                    if range.is_empty() {
                        best.fill(0.0);
                    }
                }
            },
        );
    }

    /// Writes the sums of all positions, or their maxima.
    fn write(
        &mut self,
        sequences: &[u32],
        rows: usize,
        source: (&Matrix, Option<&[u32]>),
        out: &mut Output,
    ) {
        if self.maximum {
            let mut winners = std::mem::take(&mut self.winners);
            self.write_maxima(sequences, rows, source, (out.value_mut(), &mut winners));
            self.winners = winners;
        } else {
            self.write_positions(sequences, rows, source, out.value_mut());
        }
    }

    /// Sequences without any position have no maximum: their rows are zero, whatever bias and activation are.
    fn clear_empty(&self, rows: &mut Matrix) {
        for (row, winners) in rows
            .iter_rows_mut()
            .zip(self.winners.chunks_exact(self.size))
        {
            if winners.first() == Some(&u32::MAX) {
                row.fill(0.0);
            }
        }
    }
}

impl Layer for SequenceConv {
    fn reads(&self) -> Reads {
        Reads::Samples
    }

    fn gathers(&self) -> bool {
        true
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let sequences = pass.out.sequences(0)?.clone();
        let x = pass.inputs.dense_of(0, self.window.dim)?;
        let weight = pass.parameters.full(self.weight)?;
        let rows = x.rows();
        if let Some(padding) = self.window.padding {
            let padding = pass.parameters.full(padding)?;
            let mut padded = std::mem::take(&mut self.padded);
            padded.resize(rows + self.window.padding_rows(), self.window.dim);
            padded.values_mut()[..x.values().len()].copy_from_slice(x.values());
            padded.values_mut()[x.values().len()..].copy_from_slice(padding);
            self.multiply(&padded, weight);
            self.padded = padded;
        }
        self.sequences = sequences.clone();
        let mut kept = std::mem::take(&mut self.kept);
        let found = match self.window.padding {
            Some(_) => None,
            None => {
                let width = self.window.length * self.size;
                kept.get(pass, 0, (self.weight, width), |x, out| {
                    self.multiply_into(x, weight, out);
                })
            }
        };
        let index = pass.inputs.index(0);
        match found {
            Some(FoundProducts { products, places }) => {
                let place = |row: &u32| places[*row as usize];
                let moved: Vec<u32> = match index {
                    Some(index) => index.iter().map(place).collect(),
                    None => places.to_vec(),
                };
                self.write(&sequences, rows, (products, Some(&moved)), pass.out);
            }
            None => {
                if self.window.padding.is_none() {
                    self.multiply(x, weight);
                }
                let products = std::mem::take(&mut self.products);
                self.write(&sequences, rows, (&products, index), pass.out);
                self.products = products;
            }
        }
        self.kept = kept;
        if !self.maximum {
            return self.finish.forward(pass);
        }
        pass.out.layout = pass.out.layout.pooled();
        self.finish.forward(pass)?;
        self.clear_empty(pass.out.value_mut());
        Ok(())
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        if self.maximum {
            self.clear_empty(pass.out.grad_mut());
        }
        self.finish.backward(pass);
        if self.maximum && self.visiting_winners_is_cheaper(pass.inputs.get(0).data.rows()) {
            self.visit_winners(pass);
        } else {
            self.scatter(pass);
            self.multiply_back(pass);
        }
        self.hand_down(pass);
    }
}
