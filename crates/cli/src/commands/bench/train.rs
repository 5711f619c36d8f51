//! Question: how many samples does a training process handle per CPU-second, data included?
//!
//! Method: run a configuration for some passes in this process. The first pass, in which samples are read and decoded,
//! warms up; the clock and the CPU time run from its end to the end of the last pass. Nothing is saved or tested.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use trainer::job::{self, TrainerTask};
use trainer::log::{Level, Log, Topic};
use trainer::report::{Reporter, TrainerEvent};
use trainer::settings::{DataSettings, Passes, Reporting, TrainerSettings};

use super::{cpu_seconds, peak_memory};

/// Arguments of `canoe bench train`.
#[derive(Debug, Args)]
pub(super) struct TrainBench {
    /// The configuration file; data are found relative to the working directory.
    config: PathBuf,
    /// key=value,… for get_config_arg.
    #[arg(long, default_value = "")]
    config_args: String,
    /// Passes, the first of which is not counted.
    #[arg(long, default_value_t = 4)]
    passes: u32,
    /// Compute threads.
    #[arg(long, default_value_t = 1)]
    threads: usize,
}

/// Runs the measurement.
pub(super) fn run(bench: &TrainBench) -> anyhow::Result<serde_json::Value> {
    let mut config = config::evaluate(&config::EvaluateOptions {
        args: bench.config_args.clone(),
        ..config::EvaluateOptions::new(&bench.config)
    })?;
    config.test_data_config = None;
    let unsaved = tempfile::tempdir()?;
    let settings = settings(bench, unsaved.path().to_owned())?;
    let mut clock = Clock::default();
    job::run(&TrainerTask::Train, &config, &settings, &mut clock)?;
    Ok(clock.result(bench))
}

fn settings(bench: &TrainBench, save_dir: PathBuf) -> anyhow::Result<TrainerSettings> {
    Ok(TrainerSettings {
        seed: 1,
        threads: bench.threads,
        trainer: 0,
        version: crate::VERSION.to_owned(),
        config_file: bench.config.clone(),
        config_args: bench.config_args.clone(),
        passes: Passes {
            save_dir: Some(save_dir),
            ..Passes::unsaved(bench.passes)
        },
        reporting: Reporting {
            log_period: 0,
            dot_period: 0,
            parameter_period: 0,
            layer_statistics: false,
            clipping: false,
            error_clipping: false,
        },
        data: DataSettings {
            directories: vec![std::env::current_dir()?],
            python: "python3".into(),
            package: config::python::package_dir()?.to_owned(),
            python_path: None,
            workers: None,
        },
        checks: None,
        remote: None,
    })
}

/// Counts from the second pass on.
#[derive(Default)]
struct Clock {
    started: Option<(Instant, f64)>,
    samples: u64,
    last_cost: f64,
}

impl Clock {
    fn result(&self, bench: &TrainBench) -> serde_json::Value {
        let (wall, cpu) = match self.started {
            Some((instant, cpu)) => (instant.elapsed().as_secs_f64(), cpu_seconds() - cpu),
            None => (f64::NAN, f64::NAN),
        };
        serde_json::json!({
            "bench": "train",
            "config": bench.config,
            "threads": bench.threads,
            "samples": self.samples,
            "seconds": wall,
            "cpu_s": cpu,
            "samples_per_s": self.samples as f64 / wall,
            "samples_per_cpu_s": self.samples as f64 / cpu,
            "peak_rss_mb": peak_memory(),
            "cost": self.last_cost,
        })
    }
}

impl Log for Clock {
    fn line(&mut self, level: Level, _topic: Topic, text: &str) {
        if level != Level::Info {
            eprintln!("{text}");
        }
    }
}

impl Reporter for Clock {
    fn event(&mut self, event: &TrainerEvent) {
        if let TrainerEvent::PassFinished(progress) = event {
            self.last_cost = progress.cost;
            match self.started {
                Some(_) => self.samples += progress.samples,
                None => self.started = Some((Instant::now(), cpu_seconds())),
            }
        }
    }
}
