//! How long is one training step without its update, for the networks that we promise to be fast?
//!
//! Method: one batch shape a network, four generated batches in turn, forward and backward, median of the timed steps
//! after a warm-up. `mlp` also times the bare `gemm` calls of the same step. Threads: first argument, 1 by default;
//! further arguments choose networks.
//!
//! ```text
//! cargo run --release -p canoe-nn --example step -- 2 mlp
//! ```
#![allow(clippy::print_stdout, reason = "a benchmark prints its result")]

mod data;
mod models;

use std::time::{Duration, Instant};

use nn::product::{Accumulate, View, multiply};
use nn::{Batch, Gradients, Network, Parameters, Pass, Values};

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
            let bare = median(&mut bare_products());
            println!(
                "mlp: bare products {bare:?}, ratio {:.3}",
                ours.as_secs_f64() / bare.as_secs_f64()
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

fn report(name: &str, model: config::ModelConfig, batches: Vec<Batch>) -> Duration {
    let mut network = Network::new(&model).expect("the model is well formed");
    let parameters = initial(&network);
    let mut gradients = Gradients::new(network.parameters());
    let mut next = 0;
    let samples = batches[0].samples;
    let mut step = || {
        let batch = &batches[next % batches.len()];
        next += 1;
        network
            .forward(&parameters, batch, Pass::Train { noise: next as u64 })
            .expect("the batch is well formed");
        network.backward(&parameters, &mut gradients, &mut |_, _| {});
    };
    let time = median(&mut step);
    println!(
        "{name}: {time:?} a step, {:.0} samples/s",
        samples as f64 / time.as_secs_f64()
    );
    time
}

/// The median time of a step, over about [`SECONDS`] after a warm-up.
fn median(step: &mut impl FnMut()) -> Duration {
    for _ in 0..8 {
        step();
    }
    let start = Instant::now();
    let mut times = Vec::new();
    while start.elapsed().as_secs_f64() < SECONDS || times.len() < 5 {
        let begin = Instant::now();
        step();
        times.push(begin.elapsed());
    }
    times.sort_unstable();
    times[times.len() / 2]
}

fn initial(network: &Network) -> Parameters {
    let noise = nn::noise::Noise::new(1);
    let values = network
        .parameters()
        .iter()
        .enumerate()
        .map(|(index, spec)| {
            let (part, scale) = (noise.part(index as u64), 2.0 / (spec.rows as f32).sqrt());
            Values::Full(
                (0..spec.size())
                    .map(|i| (part.uniform(i as u64) - 0.5) * scale)
                    .collect(),
            )
        });
    Parameters(values.collect())
}

/// The products of the `mlp` step alone: four layers forward, weights and inputs backward (no input below the first).
fn bare_products() -> impl FnMut() {
    let (rows, width) = (1600, 256);
    let a = vec![0.5f32; rows * width];
    let w = vec![0.25f32; width * width];
    let mut layer = vec![0.0f32; rows * width];
    let mut weight = vec![0.0f32; width * width];
    move || {
        for index in 0..4 {
            multiply(
                &mut layer,
                View::new(&a, rows, width),
                View::new(&w, width, width),
                Accumulate::Overwrite,
            );
            multiply(
                &mut weight,
                View::new(&a, rows, width).t(),
                View::new(&a, rows, width),
                Accumulate::Overwrite,
            );
            if index > 0 {
                multiply(
                    &mut layer,
                    View::new(&a, rows, width),
                    View::new(&w, width, width).t(),
                    Accumulate::Overwrite,
                );
            }
        }
    }
}
