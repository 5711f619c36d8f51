//! `canoe bench`: reproducible measurements. Each prints one JSON object on standard output.

mod job;
mod ps;
mod train;

use clap::{Args, Subcommand};

use crate::exit::Exit;

/// Arguments of `canoe bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// Train a configuration in this process and count samples per CPU-second after the first pass.
    Train(train::TrainBench),
    /// Parameter servers on this machine: bytes and rows a second.
    Ps(ps::PsBench),
}

/// Runs the command.
pub fn run(args: BenchArgs) -> anyhow::Result<Exit> {
    match args.command {
        BenchCommand::Train(bench) => train::run(&bench),
        BenchCommand::Ps(bench) => ps::run(&bench),
    }
}

/// CPU time of this process, user and system, in seconds.
fn cpu_seconds() -> f64 {
    used(libc::RUSAGE_SELF)
}

/// CPU time of all processes that this one has started and that have ended, and theirs.
fn children_cpu_seconds() -> f64 {
    used(libc::RUSAGE_CHILDREN)
}

fn used(whose: libc::c_int) -> f64 {
    // SAFETY: `rusage` is plain data for which all zeros is a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is valid for the call.
    unsafe { libc::getrusage(whose, &mut usage) };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 * 1e-6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// Largest memory that this process has had, in MiB.
fn peak_memory() -> f64 {
    // SAFETY: `rusage` is plain data for which all zeros is a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is valid for the call.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    usage.ru_maxrss as f64 / 1024.0
}
