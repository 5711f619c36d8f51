//! Measures the product of rows with a weight of 512 x 30,000 as recurrent groups meet it: its value (plain, and by a
//! packed weight) and both gradients, on one thread, by processor time. `bench/peers/translation_peer.py products` measures PyTorch's.
//!
//! ```text
//! cargo run --release -p canoe-nn --example products
//! ```
#![allow(clippy::print_stdout, reason = "a benchmark prints its result")]

use nn::noise::Noise;
use nn::product::{Accumulate, MatrixView, PackedWeight, multiply};

const SIZE: usize = 512;
const WORDS: usize = 30_000;

fn main() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
    pool.expect("a thread can be started").install(|| {
        let weight = values(SIZE * WORDS);
        let packed = PackedWeight::new(MatrixView::new(&weight, SIZE, WORDS));
        let weight = MatrixView::new(&weight, SIZE, WORDS);
        for rows in [30, 100, 500] {
            let (x, mut y) = (values(rows * SIZE), vec![0.0; rows * WORDS]);
            let x = MatrixView::new(&x, rows, SIZE);
            let mode = Accumulate::Overwrite;
            measure("plain", rows, || multiply(&mut y, x, weight, mode));
            measure("packed", rows, || {
                packed.multiply((&mut y, WORDS), x, mode);
            });
            let grads = MatrixView::new(&y, rows, WORDS);
            let mut out = vec![0.0; rows * SIZE];
            measure("gradient of the rows", rows, || {
                multiply(&mut out, grads, weight.t(), mode);
            });
            let mut out = vec![0.0; SIZE * WORDS];
            measure("gradient of the weight", rows, || {
                multiply(&mut out, x.t(), grads, mode);
            });
        }
    });
}

fn values(count: usize) -> Vec<f32> {
    let noise = Noise::new(1);
    (0..count)
        .map(|at| noise.uniform(at as u64) - 0.5)
        .collect()
}

/// The best of five rounds, after one that is not counted.
fn measure(what: &str, rows: usize, mut product: impl FnMut()) {
    product();
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        let start = processor_seconds();
        product();
        best = best.min(processor_seconds() - start);
    }
    let operations = 2.0 * (rows * SIZE * WORDS) as f64;
    println!(
        "{rows:4} rows, {what:22}: {:6.1} ms, {:5.1} GFLOPS",
        best * 1e3,
        operations / best / 1e9
    );
}

/// Processor time of this thread, from the kernel's scheduler.
fn processor_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text
        .split_whitespace()
        .next()
        .and_then(|field| field.parse().ok());
    nanoseconds.unwrap_or(0.0) * 1e-9
}
