//! Measures recurrent groups: one step of training without its update, or a generation.
//!
//! The configuration is a Python file; its data layers are fed by their names: `dense` (rows), `source`, `target` and
//! `next` (ids), ragged sequences of 10 to 50 positions that `bench/peers/translation_peer.py` makes, too. Prints one
//! line of JSON; compare processor time.
//!
//! ```text
//! cargo run --release -p canoe-nn --example groups -- bench/groups/translation.py words=1000 --batch 50
//! ```
#![allow(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::time::{Duration, Instant};

use nn::{Batch, BatchUse, Gradients, Network, ParameterValues, Parameters, Slot, SlotData};

/// Processor time to measure, in seconds.
const SECONDS: f64 = 4.0;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str, default: usize| {
        let place = arguments.iter().position(|argument| argument == name);
        let value = place.and_then(|place| arguments.get(place + 1)?.parse().ok());
        value.unwrap_or(default)
    };
    let (batch_size, threads) = (number("--batch", 50), number("--threads", 1));
    let [file, args, ..] = arguments.as_slice() else {
        println!("usage: groups CONFIGURATION ARGUMENTS [--batch 50] [--threads 1]");
        return;
    };
    let options = config::EvaluateOptions {
        args: args.clone(),
        ..config::EvaluateOptions::new(file)
    };
    let config = config::evaluate(&options).expect("the configuration can be evaluated");
    let model = config.model_config.expect("it describes a network");
    let mut network = Network::new(&model).expect("it can be executed");
    let parameters = parameters(&network);
    let batch = batch(&network, batch_size);
    let mut gradients = Gradients::new(network.parameters());
    let generates = !network.has_cost();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.expect("threads can be started").install(|| {
        let mut step = || {
            let pass = if generates {
                BatchUse::Test
            } else {
                BatchUse::Train { noise: 1 }
            };
            let cost = network.forward(&parameters, &batch, pass);
            let cost = cost.expect("the batch fits");
            if !generates {
                network.backward(&parameters, &mut gradients, &mut |_, _| {});
            }
            cost
        };
        step();
        let (start, processor) = (Instant::now(), processor_time());
        let (mut steps, mut cost) = (0, 0.0);
        while steps < 2 || (processor_time() - processor).as_secs_f64() < SECONDS {
            cost = step();
            steps += 1;
        }
        let cpu = (processor_time() - processor).as_secs_f64();
        let samples = steps * batch_size;
        println!(
            "{{\"system\": \"canoe\", \"samples\": {samples}, \"cpu_s\": {cpu:.3}, \"seconds\": {:.3}, \"cost\": {cost}, \
             \"samples_per_cpu_s\": {:.3}}}",
            start.elapsed().as_secs_f64(),
            samples as f64 / cpu
        );
    });
}

/// Small values that are the same in every run.
fn parameters(network: &Network) -> Parameters {
    let values = network
        .parameters()
        .iter()
        .enumerate()
        .map(|(index, spec)| {
            let noise = nn::noise::Noise::new(index as u64);
            let value = |place: usize| (noise.uniform(place as u64) - 0.5) * 0.1;
            ParameterValues::Full((0..spec.size()).map(value).collect())
        });
    Parameters(values.collect())
}

fn batch(network: &Network, samples: usize) -> Batch {
    let slots = network.inputs().iter().map(|input| {
        let factor = if input.name == "source" { 7 } else { 11 };
        let mut offsets = vec![0u32];
        let (mut ids, mut values) = (Vec::new(), Vec::new());
        for sample in 0..samples {
            let length = 10 + (sample * factor) % 41;
            offsets.push(offsets[sample] + length as u32);
            for at in 0..length {
                let at = at + usize::from(input.name == "next");
                let id = 2 + (sample * 131 + at * 7919) % input.size.saturating_sub(2).max(1);
                ids.push(id as u32);
                if input.name == "dense" {
                    values.extend((0..input.size).map(|i| ((at + i) % 7) as f32 * 0.1));
                }
            }
        }
        let data = if input.name == "dense" {
            SlotData::Dense {
                dim: input.size,
                values,
            }
        } else {
            SlotData::Ids(ids)
        };
        Slot::sequence(data, offsets)
    });
    Batch {
        samples,
        slots: slots.collect(),
    }
}

/// Processor time of this process (user and system), from the kernel's clock ticks of 10 ms.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = text.rsplit(')').next().unwrap_or_default();
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks = |place: usize| fields.get(place).and_then(|f| f.parse::<u64>().ok());
    let ticks = ticks(11).unwrap_or(0) + ticks(12).unwrap_or(0);
    Duration::from_millis(ticks * 10)
}
