//! `canoe bench ps`: rounds of dense pushes and pulls, and of sparse ones, beside a plain stream in the same run.

use clap::{Args, Subcommand};
use pserver::bench::dense::Dense;
use pserver::bench::sparse::Sparse;

use crate::exit::Exit;

/// Arguments of `canoe bench ps`.
#[derive(Debug, Args)]
pub struct PsBench {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Debug, Subcommand)]
enum Workload {
    /// W3: every trainer pushes and pulls a model of 25 million numbers.
    Dense {
        /// Rounds that are counted.
        #[arg(long)]
        rounds: Option<u32>,
    },
    /// W4: 100,000 rows of 16 numbers pulled and pushed a step, AdaGrad on the server.
    Sparse {
        /// Rows of the table.
        #[arg(long)]
        rows: Option<u64>,
        /// Steps that are counted.
        #[arg(long)]
        steps: Option<u32>,
    },
    /// One client, 10,000 rows of 16 numbers: how long a pull and a push take.
    Latency,
}

/// Runs the measurement.
pub fn run(bench: &PsBench) -> anyhow::Result<Exit> {
    let result = match bench.workload {
        Workload::Dense { rounds } => dense(rounds)?,
        Workload::Sparse { rows, steps } => {
            let standard = Sparse::default();
            sparse(&Sparse {
                rows: rows.unwrap_or(standard.rows),
                steps: steps.unwrap_or(standard.steps),
                ..standard
            })?
        }
        Workload::Latency => sparse(&Sparse::latency())?,
    };
    println!("{result}");
    Ok(Exit::Success)
}

fn dense(rounds: Option<u32>) -> anyhow::Result<serde_json::Value> {
    let standard = Dense::default();
    let dense = Dense {
        rounds: rounds.unwrap_or(standard.rounds),
        ..standard
    };
    let result = dense.run()?;
    Ok(serde_json::json!({
        "bench": "ps dense",
        "values": dense.values,
        "gb_per_s": result.bytes_per_second / 1e9,
        "gb_per_cpu_s": result.bytes_per_cpu_second / 1e9,
        "median_round_s": result.median_round,
        "plain_stream_gb_per_s": result.stream.per_second / 1e9,
        "plain_stream_gb_per_cpu_s": result.stream.per_cpu_second / 1e9,
        "ratio_to_stream": result.ratio(),
        "ratio_to_stream_by_cpu": result.cpu_ratio(),
    }))
}

fn sparse(sparse: &Sparse) -> anyhow::Result<serde_json::Value> {
    let result = sparse.run()?;
    Ok(serde_json::json!({
        "bench": "ps sparse",
        "rows": sparse.rows,
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
