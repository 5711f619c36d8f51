//! Runs a job folder with a given program, as `canoe run` does, and prints the events as JSON lines.
//!
//! `cargo run -p canoe-run --example run_job -- PROGRAM JOB_DIR NODES`. The tests start it as a
//! process of its own in order to kill it.

#![allow(clippy::print_stdout, reason = "an example is a program")]

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use run::local::{
    self, FolderLayout, FolderOptions, RunLimits, RunOptions, RunPlan, Shutdown, SupervisorOptions,
    token,
};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, program, job, nodes] = arguments.as_slice() else {
        return Err("usage: run_job PROGRAM JOB_DIR NODES".into());
    };
    let options = RunOptions {
        nodes: nodes.parse()?,
        servers: nodes.parse()?,
        ..RunOptions::default()
    };
    let layout = FolderLayout::read(Path::new(job), options.nodes, &FolderOptions::default())?;
    let plan = RunPlan::new(program.into(), layout, options, token::generate()?)?;
    let shutdown = Shutdown::new();
    shutdown.on_signals()?;
    let limits = RunLimits {
        grace: Duration::from_secs(1),
        ..RunLimits::default()
    };
    let supervision = SupervisorOptions {
        limits,
        ..SupervisorOptions::default()
    };
    let outcome = local::run(plan, &supervision, &shutdown, &mut |event| {
        if let Ok(json) = serde_json::to_string(&event) {
            println!("{json}");
            drop(std::io::stdout().flush());
        }
    })?;
    Ok(ExitCode::from(outcome.exit_code()))
}
