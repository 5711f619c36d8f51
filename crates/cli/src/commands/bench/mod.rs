//! `canoe bench`: reproducible measurements, as a table or as one JSON object.

mod job;
mod predict;
mod ps;
mod scale;
mod train;

use clap::{Args, Subcommand};

use crate::exit::Exit;
use crate::table::{Align, TextTable};

/// Arguments of `canoe bench`.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    command: BenchCommand,
    /// Print JSON, for programs.
    #[arg(long, global = true)]
    json: bool,
    /// The former name of --json.
    #[arg(long, value_name = "FORM", global = true, hide = true)]
    output: Option<String>,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// Train a configuration in this process and count samples per CPU-second after the first pass.
    Train(train::TrainBench),
    /// Apply a model with one thread and count samples per CPU-second.
    Predict(predict::PredictBench),
    /// Parameter servers on this machine: bytes and rows per second.
    Ps(ps::PsBench),
}

pub(crate) fn run(args: BenchArgs) -> anyhow::Result<Exit> {
    let result = match args.command {
        BenchCommand::Train(bench) => train::run(&bench)?,
        BenchCommand::Predict(bench) => predict::run(&bench)?,
        BenchCommand::Ps(bench) => ps::run(&bench)?,
    };
    if args.json || args.output.as_deref() == Some("json") {
        println!("{result}");
    } else {
        print!("{}", table(&result));
    }
    Ok(Exit::Success)
}

/// The figures of a result, one per line.
fn table(result: &serde_json::Value) -> TextTable {
    let mut table = TextTable::new(&[("figure", Align::Left), ("value", Align::Right)]);
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

/// CPU time of this process, user and system, in seconds.
fn cpu_seconds() -> f64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 * 1e-9
}

/// CPU time of all processes that this one has started and that have ended, and of their descendants.
fn children_cpu_seconds() -> f64 {
    let usage = usage(libc::RUSAGE_CHILDREN);
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 * 1e-6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// Calls `getrusage`, which rustix does not have.
fn usage(whose: libc::c_int) -> libc::rusage {
    // SAFETY: `rusage` is plain data for which all zeros is a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is valid for the call.
    unsafe { libc::getrusage(whose, &mut usage) };
    usage
}

/// Peak resident memory of this process, in MiB.
fn peak_memory() -> f64 {
    usage(libc::RUSAGE_SELF).ru_maxrss as f64 / 1024.0
}
