//! Matrix products: thin, safe calls of the `gemm` crate.
//!
//! Small products run on the calling thread, large ones on rayon's current pool. A cell of the result is always
//! summed in the same order, so the number of threads does not change any bit of it (there is a test).

mod packed;

use gemm::Parallelism;

use crate::parameters::ParameterIndex;

pub use packed::{PackedWeight, PackedWeights, StepWeight};

/// Whether a result replaces the old values or is added to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accumulate {
    /// Replace the old values.
    Overwrite,
    /// Add to the old values.
    Add,
}

/// Products with fewer multiplications than this stay on one thread.
const PARALLEL_MULTIPLICATIONS: usize = 1 << 21;

/// A matrix inside a slice: `rows × cols`, rows `stride` apart, read transposed after [`MatrixView::t`].
#[derive(Debug, Clone, Copy)]
pub struct MatrixView<'a> {
    values: &'a [f32],
    rows: usize,
    cols: usize,
    row_stride: usize,
    col_stride: usize,
}

impl<'a> MatrixView<'a> {
    /// `rows × cols` values, row after row.
    pub fn new(values: &'a [f32], rows: usize, cols: usize) -> Self {
        Self::strided(values, rows, cols, cols)
    }

    /// `rows × cols` values whose rows start `stride` apart.
    pub(crate) fn strided(values: &'a [f32], rows: usize, cols: usize, stride: usize) -> Self {
        assert!(
            rows == 0 || cols == 0 || (rows - 1) * stride + cols <= values.len(),
            "view within its slice"
        );
        Self {
            values,
            rows,
            cols,
            row_stride: stride,
            col_stride: 1,
        }
    }

    /// The same values, rows and columns exchanged.
    pub fn t(self) -> Self {
        Self {
            rows: self.cols,
            cols: self.rows,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
            ..self
        }
    }
}

impl MatrixView<'_> {
    /// Number of rows and columns.
    pub fn shape(&self) -> (usize, usize) {
        (self.rows, self.cols)
    }

    /// Adds the rows to a list of values, row after row.
    pub(crate) fn append_to(&self, values: &mut Vec<f32>) {
        for row in 0..self.rows {
            let start = row * self.row_stride;
            if self.col_stride == 1 {
                values.extend_from_slice(&self.values[start..start + self.cols]);
            } else {
                let columns = (0..self.cols).map(|col| self.values[start + col * self.col_stride]);
                values.extend(columns);
            }
        }
    }
}

impl<'a> From<&'a crate::Matrix> for MatrixView<'a> {
    fn from(matrix: &'a crate::Matrix) -> Self {
        MatrixView::new(matrix.values(), matrix.rows(), matrix.cols())
    }
}

/// `out = left · right` or `out += left · right`, where `out` has rows `stride` apart.
pub(crate) fn multiply_strided(
    out: &mut [f32],
    stride: usize,
    left: MatrixView<'_>,
    right: MatrixView<'_>,
    mode: Accumulate,
) {
    let work = left.rows * right.cols * left.cols;
    let parallelism = if work >= PARALLEL_MULTIPLICATIONS && rayon::current_num_threads() > 1 {
        Parallelism::Rayon(rayon::current_num_threads())
    } else {
        Parallelism::None
    };
    multiply_on(parallelism, out, stride, left, right, mode);
}

/// `out = left · weight` or `out += left · weight`, where `out` has rows `stride` apart and `weight` is the part of a
/// parameter that begins at `offset`, maybe transposed. It is packed when it is first used, if there is a place for it.
pub(crate) fn multiply_weight(
    (packed, parameter, offset): (Option<&PackedWeights>, ParameterIndex, usize),
    (out, stride): (&mut [f32], usize),
    left: MatrixView<'_>,
    weight: MatrixView<'_>,
    mode: Accumulate,
) {
    match packed.and_then(|packed| packed.get(parameter, offset, weight)) {
        Some(packed) => packed.multiply((out, stride), left, mode),
        None => multiply_strided(out, stride, left, weight, mode),
    }
}

/// `out = left · right` or `out += left · right` on the calling thread, for callers that use all threads themselves.
pub(crate) fn multiply_alone(
    out: &mut [f32],
    left: MatrixView<'_>,
    right: MatrixView<'_>,
    mode: Accumulate,
) {
    multiply_on(Parallelism::None, out, right.cols, left, right, mode);
}

thread_local! {
    /// A single row, twice.
    static TWICE: std::cell::RefCell<Vec<f32>> = const { std::cell::RefCell::new(Vec::new()) };
}

fn multiply_on(
    parallelism: Parallelism,
    out: &mut [f32],
    stride: usize,
    left: MatrixView<'_>,
    right: MatrixView<'_>,
    mode: Accumulate,
) {
    let (m, n, k) = (left.rows, right.cols, left.cols);
    assert_eq!(k, right.rows, "inner dimensions agree");
    if m == 0 || n == 0 {
        return;
    }
    assert!((m - 1) * stride + n <= out.len(), "result fits");
    if m == 1 && n > 1 {
        // A single row takes another path in `gemm`, which rounds differently. The bits of a sample must not depend on
        // the samples that are computed with it, so the row is computed twice, as two equal ones.
        return TWICE.with_borrow_mut(|twice| {
            twice.clear();
            twice.extend_from_slice(&out[..n]);
            twice.extend_from_slice(&out[..n]);
            let two = MatrixView {
                rows: 2,
                row_stride: 0,
                ..left
            };
            multiply_on(parallelism, twice, n, two, right, mode);
            out[..n].copy_from_slice(&twice[..n]);
        });
    }
    // SAFETY: the asserts above and in `MatrixView::strided` keep every access inside the three slices, and `out` is
    // borrowed exclusively.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.as_mut_ptr(),
            1,
            stride as isize,
            mode == Accumulate::Add,
            left.values.as_ptr(),
            left.col_stride as isize,
            left.row_stride as isize,
            right.values.as_ptr(),
            right.col_stride as isize,
            right.row_stride as isize,
            1.0,
            1.0,
            false,
            false,
            false,
            parallelism,
        );
    }
}

/// `out = left · right` or `out += left · right`, `out` dense.
pub fn multiply(out: &mut [f32], left: MatrixView<'_>, right: MatrixView<'_>, mode: Accumulate) {
    multiply_strided(out, right.cols, left, right, mode);
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
    fn the_bits_of_a_row_do_not_depend_on_the_other_rows() {
        for (m, n, k) in [
            (5, 7, 3),
            (33, 512, 128),
            (40, 2, 700),
            (9, 1, 64),
            (17, 300, 1500),
        ] {
            let (left, right) = (values(m * k, 1), values(k * n, 2));
            for mode in [Accumulate::Overwrite, Accumulate::Add] {
                let mut all = values(m * n, 3);
                let before = all.clone();
                let right = MatrixView::new(&right, k, n);
                multiply(&mut all, MatrixView::new(&left, m, k), right, mode);
                for row in 0..m {
                    for rows in [1, 2.min(m - row)] {
                        let part = row * n..(row + rows) * n;
                        let mut own = before[part.clone()].to_vec();
                        let left = MatrixView::new(&left[row * k..(row + rows) * k], rows, k);
                        multiply(&mut own, left, right, mode);
                        assert_eq!(own, all[part], "{rows} rows from {row} of {m} x {n} x {k}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_product_equals_its_definition() {
        for (m, n, k) in [
            (1, 1, 1),
            (3, 5, 7),
            (17, 2, 30),
            (2, 1, 9),
            (1, 33, 4),
            (5, 4, 0),
        ] {
            let (a, b) = (values(m * k, 1), values(k * n, 2));
            let mut out = vec![1.0; m * n];
            multiply(
                &mut out,
                MatrixView::new(&a, m, k),
                MatrixView::new(&b, k, n),
                Accumulate::Add,
            );
            for i in 0..m {
                for j in 0..n {
                    let want: f32 = 1.0 + (0..k).map(|l| a[i * k + l] * b[l * n + j]).sum::<f32>();
                    assert!((out[i * n + j] - want).abs() < 1e-4, "{m}x{n}x{k}");
                }
            }
        }
    }

    #[test]
    fn the_number_of_threads_does_not_change_a_bit() {
        for (m, n, k) in [
            (1600, 256, 256),
            (256, 256, 1600),
            (70, 1280, 256),
            (4000, 2, 300),
            (1, 512, 4096),
        ] {
            let (a, b) = (values(m * k, 3), values(k * n, 4));
            let run = |threads: usize| {
                let pool = rayon::ThreadPoolBuilder::new()
                    .num_threads(threads)
                    .build()
                    .unwrap();
                let mut out = vec![0.5; m * n];
                pool.install(|| {
                    multiply(
                        &mut out,
                        MatrixView::new(&a, k, m).t(),
                        MatrixView::new(&b, k, n),
                        Accumulate::Add,
                    );
                    multiply(
                        &mut out,
                        MatrixView::new(&a, m, k),
                        MatrixView::new(&b, n, k).t(),
                        Accumulate::Add,
                    );
                });
                out
            };
            let one = run(1);
            for threads in [2, 3, 7] {
                assert!(one == run(threads), "{m}x{n}x{k} with {threads} threads");
            }
        }
    }
}
