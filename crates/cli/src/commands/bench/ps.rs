//! `canoe bench ps`: rounds of dense pushes and pulls beside a plain stream in the same run, of sparse ones, and whole
//! jobs.

use clap::{Args, Subcommand, ValueEnum};
use pserver::bench::Transport;
use pserver::bench::dense::Dense;
use pserver::bench::flat::{Flat, spread};
use pserver::bench::sparse::Sparse;

use super::job::{self, Model};
use crate::exit::Exit;
use crate::table::{Align, Table};

/// Arguments of `canoe bench ps`.
#[derive(Debug, Args)]
pub struct PsBench {
    #[command(subcommand)]
    workload: Workload,
    /// How to print the result.
    #[arg(long, value_enum, default_value_t = Output::Table, global = true)]
    output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people.
    Table,
    /// One object.
    Json,
}

#[derive(Debug, Subcommand)]
enum Workload {
    /// W3: every trainer pushes and pulls a model of 25 million numbers.
    Dense {
        /// Rounds that are counted.
        #[arg(long)]
        rounds: Option<u32>,
        /// Over TCP, as between hosts, instead of the unix sockets of one host.
        #[arg(long)]
        tcp: bool,
    },
    /// W4: 100,000 rows of 16 numbers pulled and pushed a step, AdaGrad on the server.
    Sparse {
        /// Rows of the table.
        #[arg(long, value_parser = row_count())]
        rows: Option<u64>,
        /// Steps that are counted.
        #[arg(long)]
        steps: Option<u32>,
    },
    /// W4's steps on tables of several sizes in turns: what an id costs must not grow with the table.
    Flat {
        /// Rows of each table.
        #[arg(long, value_delimiter = ',', value_parser = row_count())]
        rows: Option<Vec<u64>>,
        /// Turns of every table that are counted.
        #[arg(long)]
        rounds: Option<u32>,
    },
    /// One client, 10,000 rows of 16 numbers: how long a pull and a push take.
    Latency,
    /// The quick_start demo on 2 nodes, each a server and a trainer with one thread, beside one process.
    Job {
        /// Which network.
        #[arg(long, value_enum, default_value_t = Model::Lr)]
        model: Model,
        /// Pairs of runs whose median counts.
        #[arg(long, default_value_t = 3)]
        repeats: u32,
    },
}

/// Row ids have 32 bits, and 100,000 distinct ones must be found by drawing.
fn row_count() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(200_000..=u64::from(u32::MAX))
}

/// Runs the measurement.
pub fn run(bench: &PsBench) -> anyhow::Result<Exit> {
    let result = match &bench.workload {
        Workload::Dense { rounds, tcp } => dense(*rounds, *tcp)?,
        Workload::Sparse { rows, steps } => {
            let standard = Sparse::default();
            sparse(&Sparse {
                rows: rows.unwrap_or(standard.rows),
                steps: steps.unwrap_or(standard.steps),
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
        Workload::Latency => sparse(&Sparse::latency())?,
        Workload::Job { model, repeats } => job::run(*model, *repeats)?,
    };
    match bench.output {
        Output::Json => println!("{result}"),
        Output::Table => print!("{}", table(&result)),
    }
    Ok(Exit::Success)
}

/// The figures of a result, one a line.
fn table(result: &serde_json::Value) -> Table {
    let mut table = Table::new(&[("figure", Align::Left), ("value", Align::Right)]);
    for (name, value) in result.as_object().into_iter().flatten() {
        table.row([name.replace('_', " "), text(value)]);
    }
    table
}

fn text(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Number(number) if number.is_f64() => {
            let number = number.as_f64().unwrap_or(f64::NAN);
            if number.abs() < 1000.0 {
                format!("{number:.3}")
            } else {
                format!("{number:.0}")
            }
        }
        serde_json::Value::Array(values) => {
            let texts: Vec<String> = values.iter().map(text).collect();
            texts.join(", ")
        }
        other => other.to_string(),
    }
}

fn dense(rounds: Option<u32>, tcp: bool) -> anyhow::Result<serde_json::Value> {
    let standard = Dense::default();
    let dense = Dense {
        transport: if tcp { Transport::Tcp } else { Transport::Unix },
        rounds: rounds.unwrap_or(standard.rounds),
        ..standard
    };
    let result = dense.run()?;
    Ok(serde_json::json!({
        "bench": "ps dense",
        "values": dense.values,
        "transport": if tcp { "tcp" } else { "unix" },
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
