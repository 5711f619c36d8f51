//! Loops over values: compiled for the widest vectors of the machine, and spread over threads when long.
//!
//! Everything here is plain multiplication and addition in a fixed order (never a fused multiply-add, sums always
//! in 16 lanes), so every machine and every number of threads yields the same bits.

use rayon::prelude::*;

use crate::product::Accumulate;

/// Blocks with fewer values than this are not worth another thread.
const PARALLEL_NUMBERS: usize = 1 << 15;
/// Blocks of rows whose sums are kept apart, at most.
const MAX_SUMS: usize = 64;
/// Number of partial sums of a reduction.
const LANES: usize = 16;

/// Runs `work`, which is compiled once per vector extension, with the best one of this machine.
#[inline(always)]
pub(crate) fn vectorised<R>(work: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(work)
}

/// Calls `work(first_row, rows)` for blocks of rows of `values`, in parallel if there are many values.
/// `work` is compiled for the machine's vectors; mark what it calls `#[inline(always)]`.
#[inline(always)]
pub(crate) fn for_row_blocks(
    values: &mut [f32],
    cols: usize,
    work: impl Fn(usize, &mut [f32]) + Send + Sync,
) {
    if cols == 0 || values.is_empty() {
        return;
    }
    if values.len() < 2 * PARALLEL_NUMBERS || rayon::current_num_threads() == 1 {
        vectorised(
            #[inline(always)]
            || work(0, values),
        );
        return;
    }
    let rows = PARALLEL_NUMBERS.div_ceil(cols).max(1);
    values
        .par_chunks_mut(rows * cols)
        .enumerate()
        .for_each(|(block, values)| {
            vectorised(
                #[inline(always)]
                || work(block * rows, values),
            );
        });
}

/// Calls `work(first_row, rows)` for blocks of rows and adds the sum of all rows, as `work` leaves them, to `sums` (or
/// overwrites it). Blocks do not depend on the number of threads, so neither does the order of the sum.
pub(crate) fn for_row_blocks_with_sums(
    values: &mut [f32],
    cols: usize,
    sums: (&mut [f32], Accumulate),
    work: impl Fn(usize, &mut [f32]) + Send + Sync,
) {
    let (sums, mode) = sums;
    if mode == Accumulate::Overwrite {
        sums.fill(0.0);
    }
    if cols == 0 || values.is_empty() {
        return;
    }
    // Few blocks, because each has a sum of its own.
    let rows = PARALLEL_NUMBERS.max(values.len() / MAX_SUMS).div_ceil(cols);
    let mut partial = vec![0.0; values.len().div_ceil(rows * cols) * cols];
    let task = |(block, (values, partial)): (usize, (&mut [f32], &mut [f32]))| {
        work(block * rows, values);
        vectorised(
            #[inline(always)]
            || {
                for row in values.chunks_exact(cols) {
                    add(partial, row);
                }
            },
        );
    };
    if rayon::current_num_threads() == 1 {
        values
            .chunks_mut(rows * cols)
            .zip(partial.chunks_mut(cols))
            .enumerate()
            .for_each(task);
    } else {
        values
            .par_chunks_mut(rows * cols)
            .zip(partial.par_chunks_mut(cols))
            .enumerate()
            .for_each(task);
    }
    partial
        .chunks_exact(cols)
        .for_each(|partial| add(sums, partial));
}

/// Calls `work(first, values)` for blocks of `values`, each element of which costs as much as `weight` values.
#[inline(always)]
pub(crate) fn for_blocks(
    values: &mut [f32],
    weight: usize,
    work: impl Fn(usize, &mut [f32]) + Send + Sync,
) {
    if values.len() * weight < 2 * PARALLEL_NUMBERS || rayon::current_num_threads() == 1 {
        vectorised(
            #[inline(always)]
            || work(0, values),
        );
        return;
    }
    let count = PARALLEL_NUMBERS.div_ceil(weight.max(1)).max(1);
    values
        .par_chunks_mut(count)
        .enumerate()
        .for_each(|(block, values)| {
            vectorised(
                #[inline(always)]
                || work(block * count, values),
            );
        });
}

/// Like [`for_row_blocks`], with a second matrix of the same number of rows to write.
#[inline(always)]
pub(crate) fn for_row_blocks2<T: Send>(
    first: (&mut [f32], usize),
    second: (&mut [T], usize),
    work: impl Fn(usize, &mut [f32], &mut [T]) + Send + Sync,
) {
    let ((a, a_cols), (b, b_cols)) = (first, second);
    if a_cols == 0 || b_cols == 0 || a.is_empty() {
        return;
    }
    if a.len() < 2 * PARALLEL_NUMBERS || rayon::current_num_threads() == 1 {
        vectorised(
            #[inline(always)]
            || work(0, a, b),
        );
        return;
    }
    let rows = PARALLEL_NUMBERS.div_ceil(a_cols).max(1);
    a.par_chunks_mut(rows * a_cols)
        .zip(b.par_chunks_mut(rows * b_cols))
        .enumerate()
        .for_each(|(block, (a, b))| {
            vectorised(
                #[inline(always)]
                || work(block * rows, a, b),
            );
        });
}

/// `out += values`, element by element.
#[inline(always)]
pub(crate) fn add(out: &mut [f32], values: &[f32]) {
    for (out, value) in out.iter_mut().zip(values) {
        *out += value;
    }
}

/// `out += scale * values`, element by element.
#[inline(always)]
pub(crate) fn add_scaled(out: &mut [f32], scale: f32, values: &[f32]) {
    for (out, value) in out.iter_mut().zip(values) {
        *out += scale * value;
    }
}

/// `out += a * b`, element by element.
#[inline(always)]
pub(crate) fn add_product(out: &mut [f32], a: &[f32], b: &[f32]) {
    for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
        *out += a * b;
    }
}

/// The scalar product, summed in 16 lanes.
#[inline(always)]
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    reduce(
        a,
        b,
        #[inline(always)]
        |a, b| a * b,
    )
}

/// The squared distance, summed in 16 lanes.
#[inline(always)]
pub(crate) fn squared_distance(a: &[f32], b: &[f32]) -> f32 {
    reduce(
        a,
        b,
        #[inline(always)]
        |a, b| (a - b) * (a - b),
    )
}

/// The sum, in 16 lanes.
#[inline(always)]
pub(crate) fn sum(a: &[f32]) -> f32 {
    reduce(
        a,
        a,
        #[inline(always)]
        |a, _| a,
    )
}

#[inline(always)]
fn reduce(a: &[f32], b: &[f32], term: impl Fn(f32, f32) -> f32) -> f32 {
    let mut lanes = [0.0f32; LANES];
    let (a_blocks, b_blocks) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let (a_rest, b_rest) = (a_blocks.remainder(), b_blocks.remainder());
    for (a, b) in a_blocks.zip(b_blocks) {
        for lane in 0..LANES {
            lanes[lane] += term(a[lane], b[lane]);
        }
    }
    for (lane, (a, b)) in a_rest.iter().zip(b_rest).enumerate() {
        lanes[lane] += term(*a, *b);
    }
    let mut width = LANES;
    while width > 1 {
        width /= 2;
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
    }
    lanes[0]
}

/// The greatest element; `-inf` for none. NaNs are ignored.
#[inline(always)]
pub(crate) fn max(a: &[f32]) -> f32 {
    const WIDE: usize = 4 * LANES;
    let greater = |max: f32, x: f32| if x > max { x } else { max };
    if a.len() < WIDE {
        return a.iter().fold(f32::NEG_INFINITY, |max, &x| greater(max, x));
    }
    let mut lanes = [f32::NEG_INFINITY; WIDE];
    let blocks = a.chunks_exact(lanes.len());
    let rest = blocks.remainder();
    for block in blocks {
        for lane in 0..lanes.len() {
            lanes[lane] = greater(lanes[lane], block[lane]);
        }
    }
    let lanes = lanes.iter().chain(rest);
    lanes.fold(f32::NEG_INFINITY, |max, &x| greater(max, x))
}

/// `out += ` the sum of all rows of `values` (or `out = `), rows in order, columns spread over threads.
pub(crate) fn column_sums(out: &mut [f32], values: &[f32], mode: Accumulate) {
    let cols = out.len();
    if cols == 0 {
        return;
    }
    if mode == Accumulate::Overwrite {
        out.fill(0.0);
    }
    let block = if values.len() < 4 * PARALLEL_NUMBERS {
        cols
    } else {
        cols.div_ceil(rayon::current_num_threads()).max(64)
    };
    let work = |(index, out): (usize, &mut [f32])| {
        let first = index * block;
        vectorised(
            #[inline(always)]
            || {
                for row in values.chunks_exact(cols) {
                    add(out, &row[first..first + out.len()]);
                }
            },
        );
    };
    if block >= cols {
        work((0, out));
    } else {
        out.par_chunks_mut(block).enumerate().for_each(work);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::Noise;

    #[test]
    fn reductions_equal_their_definition_at_every_length() {
        let noise = Noise::new(1);
        for n in 0..70 {
            let a: Vec<f32> = (0..n).map(|i| noise.uniform(i) - 0.5).collect();
            let b: Vec<f32> = (0..n).map(|i| noise.uniform(i + 1000) - 0.5).collect();
            let want: f64 = a
                .iter()
                .zip(&b)
                .map(|(a, b)| f64::from(*a) * f64::from(*b))
                .sum();
            assert!((f64::from(dot(&a, &b)) - want).abs() < 1e-5);
            assert_eq!(
                dot(&a, &b),
                vectorised(
                    #[inline(always)]
                    || dot(&a, &b)
                )
            );
            let total: f64 = a.iter().map(|a| f64::from(*a)).sum();
            assert!((f64::from(sum(&a)) - total).abs() < 1e-5);
        }
    }

    #[test]
    fn the_greatest_element_is_found_at_every_place() {
        let noise = Noise::new(3);
        for n in 0..200 {
            let mut a: Vec<f32> = (0..n).map(|i| noise.uniform(i) - 0.5).collect();
            for place in [0, n as usize / 2, n as usize] {
                let fold = a
                    .iter()
                    .fold(f32::NEG_INFINITY, |max, &x| if x > max { x } else { max });
                assert_eq!(max(&a), fold, "{n} elements");
                if let Some(x) = a.get_mut(place) {
                    *x = if place == 0 { f32::NAN } else { 2.0 };
                }
            }
        }
    }

    #[test]
    fn column_sums_do_not_depend_on_threads() {
        let noise = Noise::new(2);
        let (rows, cols) = (2000, 200);
        let values: Vec<f32> = (0..rows * cols).map(|i| noise.uniform(i as u64)).collect();
        let run = |threads| {
            let mut out = vec![1.0; cols];
            rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap()
                .install(|| column_sums(&mut out, &values, Accumulate::Add));
            out
        };
        let with_work = |threads| {
            let (mut out, mut values) = (vec![1.0; cols], values.clone());
            let double = |_: usize, block: &mut [f32]| block.iter_mut().for_each(|x| *x *= 2.0);
            rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap()
                .install(|| {
                    for_row_blocks_with_sums(
                        &mut values,
                        cols,
                        (&mut out, Accumulate::Overwrite),
                        double,
                    );
                });
            out
        };
        assert_eq!(with_work(1), with_work(3));
        assert!((with_work(1)[0] - 2000.0).abs() < 80.0);
        assert_eq!(run(1), run(3));
        assert!((run(1)[0] - 1001.0).abs() < 40.0);
    }
}
