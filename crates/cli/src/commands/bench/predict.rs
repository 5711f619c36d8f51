//! Question: how many samples does a model compute per CPU-second, at a batch size?
//!
//! Method: JSON lines are parsed into batches first; then one thread computes all of them again and again for some
//! seconds, the outputs included. Parsing and printing are not counted.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use clap::Args;
use predict::read::{Cutter, InputFormat, Parser};
use predict::write::Outputs;
use predict::{Model, OpenOptions};

use super::{cpu_seconds, peak_memory};

/// Arguments of `canoe bench predict`.
#[derive(Debug, Args)]
pub(super) struct PredictBench {
    /// A pass directory, or a folder that has some.
    model: PathBuf,
    /// Values for get_config_arg: name=value,name=value.
    #[arg(long, default_value = "")]
    config_args: String,
    /// JSON lines with samples.
    samples: PathBuf,
    /// Samples per batch.
    #[arg(long, default_value_t = 128)]
    batch_size: usize,
    /// Seconds of CPU time to measure.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
}

/// Runs the measurement.
pub(super) fn run(bench: &PredictBench) -> anyhow::Result<serde_json::Value> {
    let opening = (Instant::now(), cpu_seconds());
    let options = OpenOptions {
        config_args: bench.config_args.clone(),
        seed: 1,
        ..OpenOptions::default()
    };
    let model = Model::open(&bench.model, &options)?;
    let opened = (opening.0.elapsed().as_secs_f64(), cpu_seconds() - opening.1);
    let parser = Parser::new(InputFormat::JsonLines, &model.inputs, None)?;
    let file =
        File::open(&bench.samples).with_context(|| format!("read {}", bench.samples.display()))?;
    let name = bench.samples.display().to_string();
    let mut cutter = Cutter::lines(&name, BufReader::new(file), bench.batch_size.max(1));
    let mut batches = Vec::new();
    while let Some(piece) = cutter.next_piece()? {
        batches.push(parser.parse(&piece)?);
    }
    anyhow::ensure!(!batches.is_empty(), "{name} has no samples");
    let mut runner = model.runner()?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    let (samples, seconds, cpu) = pool.install(|| {
        let mut warm = true;
        let (mut samples, mut began) = (0u64, (Instant::now(), cpu_seconds()));
        loop {
            for batch in &batches {
                runner.run(batch, || name.clone())?;
                Outputs::of(&runner, &model.outputs, |_| name.clone())?;
                samples += batch.samples as u64;
            }
            if std::mem::take(&mut warm) {
                (samples, began) = (0, (Instant::now(), cpu_seconds()));
            }
            let cpu = cpu_seconds() - began.1;
            if cpu >= bench.seconds {
                return anyhow::Ok((samples, began.0.elapsed().as_secs_f64(), cpu));
            }
        }
    })?;
    Ok(serde_json::json!({
        "bench": "predict",
        "model": bench.model,
        "batch": bench.batch_size,
        "samples": samples,
        "seconds": seconds,
        "cpu_s": cpu,
        "samples_per_cpu_s": samples as f64 / cpu,
        "open_s": opened.0,
        "open_cpu_s": opened.1,
        "peak_rss_mb": peak_memory(),
    }))
}
