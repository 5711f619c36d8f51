//! `canoe bench ps`: rounds of dense pushes and pulls compared with a plain stream in the same run, of sparse ones, and
//! whole jobs.

use clap::{Args, Subcommand};
use pserver::bench::Transport;
use pserver::bench::dense::Dense;
use pserver::bench::flat::{Flat, spread};
use pserver::bench::restore::Restore;
use pserver::bench::snapshot::Snapshots;
use pserver::bench::sparse::Sparse;
use pserver::bench::wide::{SMALL_MODEL, Wide};
use std::path::{Path, PathBuf};

use super::job::{self, BenchModel};
use super::scale::{self, ScaleArgs};

/// Arguments of `canoe bench ps`.
#[derive(Debug, Args)]
pub(super) struct PsBench {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Debug, Subcommand)]
enum Workload {
    /// W3: every trainer pushes and pulls a dense model of 25 million values.
    Dense {
        /// Number of measured rounds.
        #[arg(long)]
        rounds: Option<u32>,
        #[command(flatten)]
        over: Over,
    },
    /// W4: 100,000 rows of 16 values pulled and pushed per step, AdaGrad on the server.
    Sparse {
        /// Rows of the table.
        #[arg(long, value_parser = row_count())]
        rows: Option<u64>,
        /// Number of measured steps.
        #[arg(long)]
        steps: Option<u32>,
        #[command(flatten)]
        over: Over,
    },
    /// W4's steps, alternating between tables of several sizes: the cost per id must not grow with the table.
    Flat {
        /// Rows of each table.
        #[arg(long, value_delimiter = ',', value_parser = row_count())]
        rows: Option<Vec<u64>>,
        /// Number of measured turns per table.
        #[arg(long)]
        rounds: Option<u32>,
    },
    /// W4's steps with and without snapshots: the longest pause of a step, and what they cost on average.
    Snapshot {
        /// Rows of the table.
        #[arg(long, default_value_t = 10_000_000, value_parser = row_count())]
        rows: u64,
        /// Number of measured steps, each time.
        #[arg(long, default_value_t = 200)]
        steps: u32,
        /// Steps between two snapshots.
        #[arg(long, default_value_t = 100)]
        every: u64,
        /// A folder on the disk to be measured; nothing is left in it.
        #[arg(long, default_value = "/tmp")]
        dir: PathBuf,
    },
    /// A job continues from a snapshot of a large table: seconds and memory.
    Restore {
        /// Rows of the table.
        #[arg(long, default_value_t = 10_000_000, value_parser = row_count())]
        rows: u64,
        /// Values per row.
        #[arg(long, default_value_t = 16)]
        cols: u32,
        /// A folder on the disk to be measured; nothing is left in it.
        #[arg(long, default_value = "/tmp")]
        dir: PathBuf,
    },
    /// One client, 10,000 rows of 16 values: latency of a pull and a push.
    Latency {
        #[command(flatten)]
        over: Over,
    },
    /// A small model, many trainers and servers: CPU time, threads and memory of a pair of trainer and server.
    Wide {
        /// Trainers; they compute nothing.
        #[arg(long, default_value_t = 32)]
        trainers: u32,
        /// Servers.
        #[arg(long, default_value_t = 8)]
        servers: u32,
        /// Number of measured steps.
        #[arg(long, default_value_t = 50)]
        steps: u32,
        /// Values of the model.
        #[arg(long, default_value_t = SMALL_MODEL)]
        values: u64,
        #[command(flatten)]
        over: Over,
    },
    /// The time of a step on 10 to 1,000 nodes, simulated from measured costs.
    Scale(ScaleArgs),
    /// The quick_start demo on 2 nodes, each with a server and a single-threaded trainer, compared with one process.
    Job {
        /// Which network.
        #[arg(long, value_enum, default_value_t = BenchModel::Lr)]
        model: BenchModel,
        /// Number of pairs of runs; the median is reported.
        #[arg(long, default_value_t = 3)]
        repeats: u32,
        #[command(flatten)]
        over: Over,
    },
}

/// What the connections use, instead of the unix sockets and the shared memory of one host.
#[derive(Debug, Clone, Copy, Args)]
struct Over {
    /// Over TCP, as between hosts.
    #[arg(long, conflicts_with = "tls")]
    tcp: bool,
    /// Over TLS, as between hosts of a cluster; the keys are made for the measurement.
    #[arg(long)]
    tls: bool,
}

impl Over {
    fn transport(self) -> Transport {
        match self {
            Self { tls: true, .. } => Transport::Tls,
            Self { tcp: true, .. } => Transport::Tcp,
            _ => Transport::Unix,
        }
    }
}

/// Row ids have 32 bits, and 100,000 distinct ones must be found by drawing.
fn row_count() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(200_000..=u64::from(u32::MAX))
}

/// Runs the measurement.
pub(super) fn run(bench: &PsBench) -> anyhow::Result<serde_json::Value> {
    let result = match &bench.workload {
        Workload::Dense { rounds, over } => dense(*rounds, over.transport())?,
        Workload::Sparse { rows, steps, over } => {
            let standard = Sparse::default();
            sparse(&Sparse {
                rows: rows.unwrap_or(standard.rows),
                steps: steps.unwrap_or(standard.steps),
                transport: over.transport(),
                ..standard
            })?
        }
        Workload::Flat { rows, rounds } => {
            let standard = Flat::default();
            flat(&Flat {
                rows: rows.clone().unwrap_or(standard.rows),
                rounds: rounds.unwrap_or(standard.rounds),
                ..standard
            })?
        }
        Workload::Snapshot {
            rows,
            steps,
            every,
            dir,
        } => snapshot(*rows, *steps, *every, dir)?,
        Workload::Restore { rows, cols, dir } => restore(*rows, *cols, dir)?,
        Workload::Latency { over } => sparse(&Sparse {
            transport: over.transport(),
            ..Sparse::latency()
        })?,
        Workload::Wide {
            trainers,
            servers,
            steps,
            values,
            over,
        } => wide(&Wide {
            trainers: *trainers,
            servers: *servers,
            steps: *steps,
            values: *values,
            transport: over.transport(),
        })?,
        Workload::Scale(scale) => scale::run(scale)?,
        Workload::Job {
            model,
            repeats,
            over,
        } => job::run(*model, *repeats, over.transport())?,
    };
    Ok(result)
}

fn dense(rounds: Option<u32>, transport: Transport) -> anyhow::Result<serde_json::Value> {
    let standard = Dense::default();
    let dense = Dense {
        transport,
        rounds: rounds.unwrap_or(standard.rounds),
        ..standard
    };
    let result = dense.run()?;
    Ok(serde_json::json!({
        "bench": "ps dense",
        "values": dense.values,
        "transport": transport.name(),
        "gb_per_s": result.bytes_per_second / 1e9,
        "gb_per_cpu_s": result.bytes_per_cpu_second / 1e9,
        "median_round_s": result.median_round,
        "plain_stream_gb_per_s": result.stream.per_second / 1e9,
        "plain_stream_gb_per_cpu_s": result.stream.per_cpu_second / 1e9,
        "plain_stream_of_model_gb_per_s": result.memory_stream.per_second / 1e9,
        "plain_stream_of_model_gb_per_cpu_s": result.memory_stream.per_cpu_second / 1e9,
        "ratio_to_stream": result.ratio(),
        "mean_ratio_to_stream": result.mean_ratio(),
        "ratio_to_stream_by_cpu": result.cpu_ratio(),
    }))
}

fn sparse(sparse: &Sparse) -> anyhow::Result<serde_json::Value> {
    let result = sparse.run()?;
    Ok(serde_json::json!({
        "bench": "ps sparse",
        "rows": sparse.rows,
        "transport": sparse.transport.name(),
        "ids_a_step": sparse.ids,
        "ids_per_s": result.ids_per_second,
        "ids_per_cpu_s": result.ids_per_cpu_second,
        "median_pull_ms": 1e3 * result.median_pull,
        "median_push_ms": 1e3 * result.median_push,
        "bytes_a_row": result.bytes_per_row,
        "values_and_state_a_row": result.ideal_bytes_per_row,
        "peak_rss_mb": super::peak_memory(),
    }))
}

fn wide(wide: &Wide) -> anyhow::Result<serde_json::Value> {
    let result = wide.run()?;
    Ok(serde_json::json!({
        "bench": "ps wide",
        "trainers": wide.trainers,
        "servers": wide.servers,
        "transport": wide.transport.name(),
        "servers_that_hold_tables": result.holders,
        "cpu_us_per_pair_and_step": 1e6 * result.cpu_per_pair,
        "cpu_us_per_exchange": 1e6 * result.cpu_per_pair * f64::from(wide.servers) / f64::from(result.holders),
        "cpu_ms_per_step": 1e3 * result.cpu_per_pair * f64::from(wide.servers * wide.trainers),
        "step_ms": 1e3 * result.step,
        "join_s": result.joined,
        "threads": result.threads,
        "memory_mb": result.memory as f64 / 1e6,
    }))
}

fn restore(rows: u64, cols: u32, dir: &Path) -> anyhow::Result<serde_json::Value> {
    let folder = tempfile::Builder::new()
        .prefix("canoe-bench-")
        .tempdir_in(dir)?;
    let directory = folder.path().to_owned();
    let result = Restore {
        rows,
        cols,
        directory,
    }
    .run()?;
    Ok(serde_json::json!({
        "bench": "ps restore",
        "rows": rows,
        "values_a_row": cols,
        "written_s": result.written,
        "restored_s": result.restored,
        "mb_on_disk": result.bytes as f64 / 1e6,
        "mb_of_table": result.table as f64 / 1e6,
        "peak_rss_mb": super::peak_memory(),
    }))
}

fn snapshot(rows: u64, steps: u32, every: u64, dir: &Path) -> anyhow::Result<serde_json::Value> {
    let folder = tempfile::Builder::new()
        .prefix("canoe-bench-")
        .tempdir_in(dir)?;
    let bench = Snapshots {
        rows,
        cols: 16,
        ids: 100_000,
        steps,
        every,
        directory: folder.path().to_owned(),
    };
    let result = bench.run()?;
    Ok(serde_json::json!({
        "bench": "ps snapshot",
        "rows": rows,
        "steps_between_snapshots": every,
        "snapshots": result.written,
        "mb_in_memory": result.bytes as f64 / 1e6,
        "mean_step_ms": 1e3 * result.plain,
        "mean_step_with_snapshots_ms": 1e3 * result.with,
        "share_of_time": result.share(),
        "longest_step_ms": 1e3 * result.longest_plain,
        "longest_step_with_snapshots_ms": 1e3 * result.longest_with,
    }))
}

fn flat(flat: &Flat) -> anyhow::Result<serde_json::Value> {
    let result = flat.run()?;
    let nanoseconds = |costs: &[f64]| -> Vec<f64> { costs.iter().map(|cost| 1e9 * cost).collect() };
    Ok(serde_json::json!({
        "bench": "ps flat",
        "rows": flat.rows,
        "ids_a_step": flat.ids,
        "zipf_cpu_ns_an_id": nanoseconds(&result.zipf),
        "zipf_spread": spread(&result.zipf),
        "uniform_cpu_ns_an_id": nanoseconds(&result.uniform),
        "uniform_spread": spread(&result.uniform),
        "fill_s": result.filled,
        "bytes_a_row": result.bytes_per_row,
        "peak_rss_mb": super::peak_memory(),
    }))
}
