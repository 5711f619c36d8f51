//! Measures one training step without its update, for the networks that must be fast.
//!
//! Method: one batch shape per network, four generated batches in turn, forward and backward, after a warm-up: the
//! median time of a step, and the processor time of all steps divided by their number (on a busy machine compare the
//! latter).
//! `mlp` also times the bare `gemm` calls of the same step. Threads: first argument, 1 by default; further arguments
//! choose networks.
//!
//! ```text
//! cargo run --release -p canoe-nn --example step -- 2 mlp
//! ```
#![allow(clippy::print_stdout, reason = "a benchmark prints its result")]

mod data;
mod models;

use std::time::{Duration, Instant};

use nn::product::{Accumulate, MatrixView, multiply};
use nn::{Batch, BatchUse, Gradients, Network, ParameterValues, Parameters};

const SECONDS: f64 = 2.0;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let threads = arguments
        .next()
        .and_then(|text| text.parse().ok())
        .unwrap_or(1);
    let wanted: Vec<String> = arguments.collect();
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .expect("threads can be started");
    pool.install(|| {
        let chosen = |name: &str| wanted.is_empty() || wanted.iter().any(|w| w == name);
        if chosen("mlp") {
            let ours = report("mlp", models::mlp(), data::mlp());
            let bare = measure(&mut bare_products());
            println!(
                "mlp: bare products {:?}, processor {:?}; ratio {:.3}, processor {:.3}",
                bare.median,
                bare.processor,
                ours.median.as_secs_f64() / bare.median.as_secs_f64(),
                ours.processor.as_secs_f64() / bare.processor.as_secs_f64()
            );
        }
        for (name, model, batches) in [
            (
                "recommendation",
                models::recommendation as fn() -> config::ModelConfig,
                data::recommendation as fn() -> Vec<Batch>,
            ),
            ("cnn", models::cnn, data::text),
            ("lstm", models::lstm, data::text),
            ("lr", models::lr, data::bag_of_words),
        ] {
            if chosen(name) {
                report(name, model(), batches());
            }
        }
    });
}

fn report(name: &str, model: config::ModelConfig, batches: Vec<Batch>) -> Times {
    let mut network = Network::new(&model).expect("the model is well formed");
    let parameters = initial(&network);
    let mut gradients = Gradients::new(network.parameters());
    let mut next = 0;
    let samples = batches[0].samples;
    let mut step = || {
        let batch = &batches[next % batches.len()];
        next += 1;
        network
            .forward(&parameters, batch, BatchUse::Train { noise: next as u64 })
            .expect("the batch is well formed");
        network.backward(&parameters, &mut gradients, &mut |_, _| {});
    };
    let times = measure(&mut step);
    println!(
        "{name}: {:?} a step, processor {:?}; {:.0} samples/s, {:.0} a processor second",
        times.median,
        times.processor,
        samples as f64 / times.median.as_secs_f64(),
        samples as f64 / times.processor.as_secs_f64()
    );
    times
}

/// Duration of a step.
struct Times {
    /// Wall-clock time, the median over steps.
    median: Duration,
    /// Processor time of all threads, the mean over steps.
    processor: Duration,
}

/// Times a step over about [`SECONDS`] after a warm-up.
fn measure(step: &mut impl FnMut()) -> Times {
    for _ in 0..8 {
        step();
    }
    let (start, used) = (Instant::now(), processor_time());
    let mut times = Vec::new();
    while start.elapsed().as_secs_f64() < SECONDS || times.len() < 5 {
        let begin = Instant::now();
        step();
        times.push(begin.elapsed());
    }
    let processor = (processor_time() - used) / times.len() as u32;
    times.sort_unstable();
    Times {
        median: times[times.len() / 2],
        processor,
    }
}

/// Time that all threads of this process have spent on processors; zero where the system does not report it.
fn processor_time() -> Duration {
    let threads = std::fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten();
    let nanoseconds = threads.filter_map(|thread| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanoseconds.sum())
}

fn initial(network: &Network) -> Parameters {
    let noise = nn::noise::Noise::new(1);
    let values = network
        .parameters()
        .iter()
        .enumerate()
        .map(|(index, spec)| {
            let (part, scale) = (noise.part(index as u64), 2.0 / (spec.rows as f32).sqrt());
            ParameterValues::Full(
                (0..spec.size())
                    .map(|i| (part.uniform(i as u64) - 0.5) * scale)
                    .collect(),
            )
        });
    Parameters(values.collect())
}

/// Shape of the `mlp` step.
const ROWS: usize = 1600;
const WIDTH: usize = 256;
const LAYERS: usize = 4;

fn rows_view(values: &[f32]) -> MatrixView<'_> {
    MatrixView::new(values, ROWS, WIDTH)
}

fn weight_view(values: &[f32]) -> MatrixView<'_> {
    MatrixView::new(values, WIDTH, WIDTH)
}

/// The products of the `mlp` step alone, on as many matrices as the network has: four layers forward, weights and
/// inputs backward (no input below the first).
fn bare_products() -> impl FnMut() {
    let matrices = |count: usize, size: usize| vec![vec![0.25f32; size]; count];
    let mut values = matrices(LAYERS + 1, ROWS * WIDTH);
    let mut grads = matrices(LAYERS + 1, ROWS * WIDTH);
    let weights = matrices(LAYERS, WIDTH * WIDTH);
    let mut weight_grads = matrices(LAYERS, WIDTH * WIDTH);
    move || {
        for layer in 0..LAYERS {
            let (below, above) = values.split_at_mut(layer + 1);
            multiply(
                &mut above[0],
                rows_view(&below[layer]),
                weight_view(&weights[layer]),
                Accumulate::Overwrite,
            );
        }
        for layer in (0..LAYERS).rev() {
            let (below, above) = grads.split_at_mut(layer + 1);
            let grad = rows_view(&above[0]);
            multiply(
                &mut weight_grads[layer],
                rows_view(&values[layer]).t(),
                grad,
                Accumulate::Overwrite,
            );
            if layer > 0 {
                multiply(
                    &mut below[layer],
                    grad,
                    weight_view(&weights[layer]).t(),
                    Accumulate::Overwrite,
                );
            }
        }
    }
}
