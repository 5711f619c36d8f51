//! Measures the speed of updates: nanoseconds per value and GB/s of memory traffic, for every method.
//!
//! Run with `cargo run --release -p canoe-optim --example update_speed`. A dense update should be bound by memory:
//! compare its GB/s with the copy in the first line. By row: 64 values per row, every 50th row of a table.

#![allow(clippy::print_stdout)]

use std::time::Instant;

use optim::{Initial, Method, OptimizerSettings, ParameterProgress, ParameterSettings, Rule};

fn main() -> Result<(), optim::SettingsError> {
    for values in [60_004usize, 4_000_000] {
        println!("{values} values");
        copy(values);
        for name in Method::NAMES {
            let settings = OptimizerSettings {
                learning_method: name.to_owned(),
                ..OptimizerSettings::default()
            };
            let rule = Rule::new(&settings, &ParameterSettings::default())?;
            dense(name, &rule, values);
        }
    }
    for name in ["momentum", "adagrad", "adam"] {
        let settings = OptimizerSettings {
            learning_method: name.to_owned(),
            ..OptimizerSettings::default()
        };
        rows(name, &Rule::new(&settings, &ParameterSettings::default())?);
    }
    initial();
    Ok(())
}

fn report(name: &str, values: usize, seconds: f64, bytes: usize) {
    let nanoseconds = seconds * 1e9 / values as f64;
    let speed = bytes as f64 / seconds / 1e9;
    println!("  {name:<16} {nanoseconds:6.3} ns/value {speed:6.1} GB/s");
}

/// The best of some rounds, in seconds.
fn best(mut work: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..9 {
        let start = Instant::now();
        work();
        best = best.min(start.elapsed().as_secs_f64());
    }
    best
}

fn copy(values: usize) {
    let from = vec![1.0f32; values];
    let mut to = vec![0.0f32; values];
    let seconds =
        best(|| std::hint::black_box(&mut to).copy_from_slice(std::hint::black_box(&from)));
    report("(copy)", values, seconds, values * 8);
}

fn dense(name: &str, rule: &Rule, values: usize) {
    let mut value = vec![0.5f32; values];
    let mut state = vec![0.0f32; rule.slots() * values];
    let grad: Vec<f32> = (0..values).map(|i| (i % 17) as f32 * 1e-3 - 8e-3).collect();
    let mut progress = ParameterProgress::default();
    let seconds = best(|| {
        let step = rule.begin(&mut progress, 128);
        rule.update(&step, &mut value, &mut state, &grad);
    });
    report(name, values, seconds, values * 4 * (3 + 2 * rule.slots()));
}

fn rows(name: &str, rule: &Rule) {
    let (rows, dim) = (200_000usize, 64usize);
    let width = dim * (1 + rule.slots());
    let mut table = vec![0.1f32; rows * width];
    let mut marks = vec![0u32; rows];
    let grad = vec![0.01f32; dim];
    let mut progress = ParameterProgress::default();
    let seconds = best(|| {
        let step = rule.begin(&mut progress, 128);
        for row in (0..rows).step_by(50) {
            let at = row * width;
            rule.update_row(&step, &mut table[at..at + width], &mut marks[row], &grad);
        }
    });
    let touched = rows / 50 * dim;
    report(
        &format!("{name} by row"),
        touched,
        seconds,
        touched * 4 * (2 + 2 * rule.slots()),
    );
}

fn initial() {
    let initial = Initial {
        distribution: optim::Distribution::Normal {
            mean: 0.0,
            std: 0.01,
        },
        seed: 1,
    };
    let mut out = vec![0.0f32; 1_000_000];
    let seconds = best(|| initial.fill(7, &mut out));
    report("normal values", out.len(), seconds, out.len() * 4);
}
