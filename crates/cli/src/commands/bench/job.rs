//! Question: what does a whole job on two nodes cost, servers and data included, and what does the second node gain?
//!
//! Method: the quick_start demo, written to a temporary directory and split in two. Each figure is the difference of two
//! runs of the real program that differ in their number of passes, so that start, first reading of the data and saving
//! are excluded. CPU time is that of all processes of the run. Nothing is tested; one model is saved in both runs.
//! Every figure is the median of several such pairs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::Context;
use clap::ValueEnum;
use pserver::bench::Transport;
use pserver::bench::keys::BenchKeys;

/// Which network of the demo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum BenchModel {
    /// Logistic regression over words.
    Lr,
    /// A convolution over embedded words.
    Cnn,
}

impl BenchModel {
    fn config(self) -> &'static str {
        match self {
            BenchModel::Lr => "trainer_config.lr.py",
            BenchModel::Cnn => "trainer_config.cnn.py",
        }
    }

    fn size(self) -> BenchSize {
        match self {
            BenchModel::Lr => BenchSize {
                short: 2,
                long: 102,
                samples: 20_000,
            },
            BenchModel::Cnn => BenchSize {
                short: 1,
                long: 5,
                samples: 8_000,
            },
        }
    }
}

/// How much a pair of runs computes.
struct BenchSize {
    /// Passes of the short run.
    short: u32,
    /// Passes of the long run.
    long: u32,
    /// Training samples.
    samples: u32,
}

/// Resources that a run used.
#[derive(Debug, Clone, Copy, Default)]
struct Spent {
    seconds: f64,
    cpu: f64,
}

/// The result of a pair of runs.
#[derive(Debug, Clone, Copy)]
struct Rate {
    per_second: f64,
    per_cpu_second: f64,
}

/// Measures a model on two nodes and in one process, each with one thread.
pub(super) fn run(
    model: BenchModel,
    repeats: u32,
    transport: Transport,
) -> anyhow::Result<serde_json::Value> {
    let folder = tempfile::tempdir().context("create a directory for the job")?;
    let job = folder.path().join("job");
    let program = std::env::current_exe().context("find this program")?;
    let network = network(transport, folder.path())?;
    let bench = Bench {
        program,
        job,
        model,
        transport,
        network,
    };
    let samples = format!("--train-samples={}", model.size().samples);
    bench.canoe(
        folder.path(),
        &["demo", "quick_start", "job", "--shards=2", &samples],
    )?;
    let (mut nodes, mut alone) = (Vec::new(), Vec::new());
    for _ in 0..repeats.max(1) {
        nodes.push(bench.pair(Bench::on_nodes)?);
        alone.push(bench.pair(Bench::in_one_process)?);
    }
    let (nodes, alone) = (median(&nodes), median(&alone));
    Ok(serde_json::json!({
        "bench": "ps job",
        "model": if model == BenchModel::Lr { "lr" } else { "cnn" },
        "transport": transport.name(),
        "nodes": 2,
        "servers": 2,
        "trainers": 2,
        "samples_per_cpu_s": nodes.per_cpu_second,
        "samples_per_s": nodes.per_second,
        "one_process_samples_per_cpu_s": alone.per_cpu_second,
        "one_process_samples_per_s": alone.per_second,
        "ratio_to_one_process": nodes.per_second / alone.per_second,
        "ratio_to_one_process_by_cpu": nodes.per_cpu_second / alone.per_cpu_second,
    }))
}

struct Bench {
    program: PathBuf,
    job: PathBuf,
    model: BenchModel,
    transport: Transport,
    /// Options of `canoe run` for the connections between nodes.
    network: Vec<String>,
}

/// The options of `canoe run` for a transport; keys are written to the folder.
fn network(transport: Transport, folder: &Path) -> anyhow::Result<Vec<String>> {
    if transport != Transport::Tls {
        return Ok(Vec::new());
    }
    let keys = BenchKeys::new()?;
    let files = [
        ("tls-ca", keys.authority),
        ("tls-cert", keys.identity.certificates),
        ("tls-key", keys.identity.key),
    ];
    let mut options = Vec::new();
    for (name, pem) in files {
        let path = folder.join(format!("{name}.pem"));
        std::fs::write(&path, pem).with_context(|| format!("write {}", path.display()))?;
        options.push(format!("--{name}={}", path.display()));
    }
    Ok(options)
}

impl Bench {
    fn pair(&self, run: fn(&Bench, passes: u32) -> anyhow::Result<Spent>) -> anyhow::Result<Rate> {
        let BenchSize {
            short,
            long,
            samples,
        } = self.model.size();
        let (one, other) = (run(self, short)?, run(self, long)?);
        let counted = f64::from(samples) * f64::from(long - short);
        Ok(Rate {
            per_second: counted / (other.seconds - one.seconds).max(f64::EPSILON),
            per_cpu_second: counted / (other.cpu - one.cpu).max(f64::EPSILON),
        })
    }

    fn on_nodes(&self, passes: u32) -> anyhow::Result<Spent> {
        let passes = format!("--passes={passes}");
        let job = self.job.display().to_string();
        let mut args = vec!["run", &job, "--nodes=2", "--config", self.model.config()];
        args.extend(self.network.iter().map(String::as_str));
        // Each is a new run; otherwise it would continue after the passes of the previous one.
        args.extend([passes.as_str(), "--fresh", "--"]);
        args.extend(QUIET);
        if self.transport == Transport::Tcp {
            args.push("--local_sockets=false");
        }
        self.canoe(&self.job, &args)
    }

    fn in_one_process(&self, passes: u32) -> anyhow::Result<Spent> {
        let passes = format!("--num_passes={passes}");
        let config = format!("--config=quick_start/{}", self.model.config());
        let mut args = vec!["train", &config, &passes, "--save_dir=alone"];
        args.extend(QUIET);
        self.canoe(&self.job, &args)
    }

    fn canoe(&self, directory: &Path, args: &[&str]) -> anyhow::Result<Spent> {
        let (begun, cpu) = (Instant::now(), super::children_cpu_seconds());
        let out = Command::new(&self.program)
            .args(args)
            .current_dir(directory)
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("run canoe {}", args[0]))?;
        anyhow::ensure!(
            out.status.success(),
            "canoe {} failed:\n{}",
            args.join(" "),
            String::from_utf8_lossy(&out.stderr)
        );
        Ok(Spent {
            seconds: begun.elapsed().as_secs_f64(),
            cpu: super::children_cpu_seconds() - cpu,
        })
    }
}

/// One thread, no tests, two saved models, few lines.
const QUIET: [&str; 6] = [
    "--trainer_count=1",
    "--data_workers=1",
    "--test_period=1000000000",
    "--saving_period=1000000000",
    "--log_period=0",
    "--dot_period=0",
];

fn median(rates: &[Rate]) -> Rate {
    let middle = |of: fn(&Rate) -> f64| {
        let mut sorted: Vec<f64> = rates.iter().map(of).collect();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    };
    Rate {
        per_second: middle(|rate| rate.per_second),
        per_cpu_second: middle(|rate| rate.per_cpu_second),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_has_its_own_median() {
        let rate = |per_second, per_cpu_second| Rate {
            per_second,
            per_cpu_second,
        };
        let middle = median(&[rate(1.0, 9.0), rate(3.0, 8.0), rate(2.0, 7.0)]);
        assert_eq!((middle.per_second, middle.per_cpu_second), (2.0, 8.0));
    }
}
