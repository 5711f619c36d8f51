//! Stores a weight in the order in which a product reads it, for callers that multiply by the same weight many times.
//!
//! A weight of many columns is far larger than the caches. In row-major order, a product with few rows waits for
//! memory, because it reads a few values of each of many pages. Here the weight is stored as contiguous panels of 64
//! columns, so that it is read once, in ascending order. A cell of the result is one chain of fused multiply-adds over
//! the rows of the weight, so its bits depend neither on other rows and threads nor on the width of the machine's
//! vectors.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::sync::Arc;
use words::lock::Mutex;

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::{Accumulate, MatrixView, PARALLEL_MULTIPLICATIONS, multiply_strided};
use crate::parameters::ParameterIndex;

/// Columns of a panel.
const PANEL: usize = 64;
/// Bytes of a cache line.
const LINE: usize = 64;
/// Rows of the left matrix that are computed together; with four vectors of columns they fill 32 registers.
const ROWS: usize = 6;

/// A weight to multiply by.
#[derive(Debug)]
pub struct PackedWeight {
    rows: usize,
    cols: usize,
    values: Vec<f32>,
    /// Where the panels begin in `values`, so that they lie on cache lines.
    start: usize,
}

impl PackedWeight {
    /// Copies a weight of at least one row.
    pub fn new(weight: MatrixView<'_>) -> Self {
        let (rows, cols) = weight.shape();
        assert!(rows > 0, "a sum of something");
        let len = cols.div_ceil(PANEL) * rows * PANEL;
        let mut values = vec![0.0; len + LINE];
        let start = values.as_ptr().align_offset(LINE).min(LINE);
        let panels = &mut values[start..start + len];
        let lines = panels.chunks_exact_mut(PANEL).enumerate();
        for (number, line) in lines {
            let (row, first) = (number % rows, number / rows * PANEL);
            let count = PANEL.min(cols - first);
            let place = row * weight.row_stride + first * weight.col_stride;
            if weight.col_stride == 1 {
                line[..count].copy_from_slice(&weight.values[place..place + count]);
            } else {
                let from = weight.values[place..].iter().step_by(weight.col_stride);
                for (to, from) in line[..count].iter_mut().zip(from) {
                    *to = *from;
                }
            }
        }
        Self {
            rows,
            cols,
            values,
            start,
        }
    }

    /// Number of rows and columns of the weight.
    pub fn shape(&self) -> (usize, usize) {
        (self.rows, self.cols)
    }

    /// `out = left · weight` or `out += left · weight`, where `out` has rows `stride` apart.
    pub fn multiply(
        &self,
        (out, stride): (&mut [f32], usize),
        left: MatrixView<'_>,
        mode: Accumulate,
    ) {
        let (count, depth) = left.shape();
        assert_eq!(depth, self.rows, "inner dimensions agree");
        if count == 0 || self.cols == 0 {
            return;
        }
        assert!(self.cols <= stride, "rows do not overlap");
        assert!((count - 1) * stride + self.cols <= out.len(), "result fits");
        let rows_in_order;
        let left = if left.col_stride == 1 {
            left
        } else {
            let mut values = Vec::with_capacity(count * depth);
            left.append_to(&mut values);
            rows_in_order = values;
            MatrixView::new(&rows_in_order, count, depth)
        };
        let out = ResultPointer(out.as_mut_ptr());
        let panel = |(panel, lines): (usize, &[f32])| {
            let first = panel * PANEL;
            pulp::Arch::new().dispatch(Strip {
                lines,
                left,
                out: &out,
                first,
                cols: self.cols,
                stride,
                mode,
            });
        };
        let panels = &self.values[self.start..][..self.cols.div_ceil(PANEL) * depth * PANEL];
        let work = count * depth * self.cols;
        if work >= PARALLEL_MULTIPLICATIONS && rayon::current_num_threads() > 1 {
            let panels = panels.par_chunks_exact(depth * PANEL).enumerate();
            panels.with_min_len(8).for_each(panel);
        } else {
            let panels = panels.chunks_exact(depth * PANEL).enumerate();
            panels.for_each(panel);
        }
    }
}

/// Weights that were packed while the parameters do not change: in the steps of a recurrent group.
#[derive(Debug, Default)]
pub struct PackedWeights(Mutex<HashMap<WeightKey, Arc<PackedWeight>>>);

/// Parameter and offset; rows, columns and their strides.
type WeightKey = (ParameterIndex, usize, [usize; 4]);

/// A panel with more rows than this is too large for the caches that are to keep it.
const MAX_ROWS: usize = 2048;

impl PackedWeights {
    /// The weight at `offset` in a parameter; `None` if it is not worth packing, which depends only on its shape.
    pub fn get(
        &self,
        parameter: ParameterIndex,
        offset: usize,
        weight: MatrixView<'_>,
    ) -> Option<Arc<PackedWeight>> {
        let shape = [
            weight.rows,
            weight.cols,
            weight.row_stride,
            weight.col_stride,
        ];
        if !is_worth_packing(weight) {
            return None;
        }
        // A packed weight is complete before it is in the table, so a panic elsewhere leaves nothing half done.
        let mut table = self.0.lock();
        let packed = table.entry((parameter, offset, shape));
        Some(
            packed
                .or_insert_with(|| Arc::new(PackedWeight::new(weight)))
                .clone(),
        )
    }
}

/// Whether a weight that is used several times is packed, which depends only on its shape: the product rounds differently,
/// and the bits of a sample must not depend on how many steps others have.
fn is_worth_packing(weight: MatrixView<'_>) -> bool {
    (1..=MAX_ROWS).contains(&weight.rows)
}

/// A weight that all steps of a batch multiply by; it is packed for the first of them.
pub struct StepWeight<'a> {
    weight: MatrixView<'a>,
    packed: OnceCell<PackedWeight>,
}

impl<'a> StepWeight<'a> {
    /// Nothing is copied yet.
    pub fn new(weight: MatrixView<'a>) -> Self {
        Self {
            weight,
            packed: OnceCell::new(),
        }
    }

    /// `out = left · weight` or `out += left · weight`, where `out` has rows `stride` apart.
    pub fn multiply(
        &self,
        (out, stride): (&mut [f32], usize),
        left: MatrixView<'_>,
        mode: Accumulate,
    ) {
        if is_worth_packing(self.weight) {
            let packed = self.packed.get_or_init(|| PackedWeight::new(self.weight));
            packed.multiply((out, stride), left, mode);
        } else {
            multiply_strided(out, stride, left, self.weight, mode);
        }
    }
}

/// The result: strips of columns are written by different threads.
struct ResultPointer(*mut f32);

// SAFETY: `PackedWeight::multiply` holds the exclusive borrow, and each strip writes columns of its own.
unsafe impl Sync for ResultPointer {}

/// The columns of one panel.
struct Strip<'a> {
    lines: &'a [f32],
    /// Values of a row follow each other.
    left: MatrixView<'a>,
    out: &'a ResultPointer,
    first: usize,
    cols: usize,
    stride: usize,
    mode: Accumulate,
}

impl WithSimd for Strip<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if S::REGISTER_COUNT >= 32 {
            self.run::<S, 4>(simd);
        } else {
            self.run::<S, 2>(simd);
        }
    }
}

impl Strip<'_> {
    /// Computes tiles of `ROWS` rows and `VECTORS` vectors of columns; of the last tile only about the rows that exist.
    #[inline(always)]
    fn run<S: Simd, const VECTORS: usize>(&self, simd: S) {
        let mut sums = [[0.0; PANEL]; ROWS];
        for row in (0..self.left.rows).step_by(ROWS) {
            match self.left.rows - row {
                1 => self.tile::<S, VECTORS, 1>(simd, row, &mut sums),
                2 => self.tile::<S, VECTORS, 2>(simd, row, &mut sums),
                3 | 4 => self.tile::<S, VECTORS, 4>(simd, row, &mut sums),
                _ => self.tile::<S, VECTORS, ROWS>(simd, row, &mut sums),
            }
            self.store(row, &sums);
        }
    }

    /// The sums of `COUNT` rows; where there are not as many, of the last one again.
    #[inline(always)]
    fn tile<S: Simd, const VECTORS: usize, const COUNT: usize>(
        &self,
        simd: S,
        first_row: usize,
        sums: &mut [[f32; PANEL]; ROWS],
    ) {
        let MatrixView {
            values,
            rows,
            cols: depth,
            row_stride,
            ..
        } = self.left;
        let left: [&[f32]; COUNT] = std::array::from_fn(|row| {
            let row = (first_row + row).min(rows - 1);
            &values[row * row_stride..][..depth]
        });
        let width = VECTORS * S::F32_LANES;
        for from in (0..PANEL).step_by(width) {
            let mut cells = [[simd.splat_f32s(0.0); VECTORS]; COUNT];
            let lines = self.lines.chunks_exact(PANEL).take(depth);
            for (at, line) in lines.enumerate() {
                let (line, _) = S::as_simd_f32s(&line[from..from + width]);
                let Ok(line) = <&[S::f32s; VECTORS]>::try_from(line) else {
                    continue;
                };
                for (cells, left) in cells.iter_mut().zip(&left) {
                    let left = simd.splat_f32s(left[at]);
                    for (cell, &value) in cells.iter_mut().zip(line) {
                        *cell = simd.mul_add_f32s(left, value, *cell);
                    }
                }
            }
            for (sums, cells) in sums.iter_mut().zip(&cells) {
                let (sums, _) = S::as_mut_simd_f32s(&mut sums[from..from + width]);
                sums.copy_from_slice(cells);
            }
        }
    }

    #[inline(always)]
    fn store(&self, first_row: usize, sums: &[[f32; PANEL]; ROWS]) {
        let width = PANEL.min(self.cols - self.first);
        for (row, sums) in (first_row..self.left.rows).zip(sums) {
            // SAFETY: the row is below the left matrix's rows and the strip ends within `cols`, so the range lies in the result; no other
            // strip has these columns.
            let out = unsafe {
                let start = self.out.0.add(row * self.stride + self.first);
                std::slice::from_raw_parts_mut(start, width)
            };
            match self.mode {
                Accumulate::Overwrite => out.copy_from_slice(&sums[..width]),
                Accumulate::Add => out.iter_mut().zip(sums).for_each(|(out, sum)| *out += sum),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::Noise;

    fn values(n: usize, seed: u64) -> Vec<f32> {
        let noise = Noise::new(seed);
        (0..n).map(|i| noise.uniform(i as u64) - 0.5).collect()
    }

    #[test]
    fn a_product_is_one_chain_of_multiply_adds_per_cell_with_any_rows_and_threads() {
        for (m, n, k) in [
            (1, 1, 1),
            (2, 70, 40),
            (9, 64, 5),
            (10, 30, 6),
            (7, 64, 5),
            (13, 150, 33),
            (70, 300, 200),
            (3, 65, 1),
        ] {
            let (a, b, before) = (values(m * k, 1), values(k * n, 2), values(m * n, 3));
            let chain = |i: usize, j: usize| {
                (0..k).fold(0.0f32, |sum, l| a[i * k + l].mul_add(b[l * n + j], sum))
            };
            let transposed: Vec<f32> = (0..n * k).map(|at| b[at % k * n + at / k]).collect();
            for weight in [
                MatrixView::new(&b, k, n),
                MatrixView::new(&transposed, n, k).t(),
            ] {
                let packed = PackedWeight::new(weight);
                assert_eq!(packed.shape(), (k, n));
                for (threads, mode) in [
                    (1, Accumulate::Overwrite),
                    (3, Accumulate::Overwrite),
                    (1, Accumulate::Add),
                ] {
                    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
                    let mut out = before.clone();
                    pool.build().unwrap().install(|| {
                        packed.multiply((&mut out, n), MatrixView::new(&a, m, k), mode);
                    });
                    for i in 0..m {
                        for j in 0..n {
                            let added = match mode {
                                Accumulate::Overwrite => chain(i, j),
                                Accumulate::Add => before[i * n + j] + chain(i, j),
                            };
                            assert_eq!(out[i * n + j], added, "{m}x{n}x{k} at {i}, {j}");
                        }
                    }
                }
            }
        }
    }
}
