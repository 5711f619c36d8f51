//! `canoe node`: the entry point of a pod. Finds its peers, stages its shard, runs a server and a trainer.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use launch::display::plain::Plain;
use launch::event::JobEvent;
use launch::local::{End, Shutdown};
use launch::node::environment::Environment;
use launch::node::health;
use launch::node::run::{self as node, Start};

use super::run::TELL_EVERY;
use crate::causes::chain;
use crate::exit::Exit;
use crate::record::runner::RunnerRecord;
use crate::web::{self, Access, Site};

/// Runs a node with the arguments behind `canoe node`.
pub fn run(args: &[String]) -> anyhow::Result<Exit> {
    let program = std::env::current_exe().context("find this program")?;
    let start = match Start::from_arguments(program, std::env::vars().collect(), args) {
        Ok(start) => start,
        Err(error) => {
            eprintln!("canoe node: {error}");
            return Ok(Exit::Code(launch::node::finish::code::USAGE));
        }
    };
    if start.arguments.iter().any(|flag| flag == "--show_status") {
        print!(
            "{}",
            health::ask(start.health_port).context("ask the node on this machine")?
        );
        return Ok(Exit::Success);
    }
    let shutdown = Shutdown::new();
    shutdown.on_signals().context("watch for signals")?;
    let begun = std::time::Instant::now();
    let mut plain = Plain::new(TELL_EVERY);
    let output = Environment::read(&start.variables, start.discovery)
        .ok()
        .map(|environment| environment.job_dir().join("output"));
    if let Some(output) = &output
        && let Err(error) = serve_page(output)
    {
        eprintln!("canoe node: no page: {error:#}");
    }
    let mut record: Option<RunnerRecord> = None;
    let ended = node::run(&start, &shutdown, &mut |event| {
        if let (Some(output), JobEvent::Started { process, .. }, None) = (&output, &event, &record)
        {
            let file = output
                .join(format!("node_{}", process.node))
                .join("node.events.jsonl");
            record = RunnerRecord::append(&file).ok();
        }
        if let Some(record) = &mut record {
            record.take(&event);
        }
        // Lines of the logs go to standard output as they are; what the node itself does, to standard error.
        if let JobEvent::Line { process, line } = &event {
            println!("{process}: {line}");
        } else if let Some(line) = plain.line(begun.elapsed(), &event) {
            eprintln!("{line}");
        }
    });
    // The last line is what `canoe job status` shows of a pod that has failed.
    match &ended {
        Err(error) => eprintln!("canoe node: {}", chain(error)),
        Ok(End::Failed(cause)) => {
            let last = cause.tail.iter().rfind(|line| !line.trim().is_empty());
            let last = last.map_or(String::new(), |line| format!(": {}", line.trim()));
            eprintln!("canoe node: {}{last}", cause.reason);
        }
        Ok(_) => {}
    }
    Ok(Exit::Code(node::exit_code(&ended)))
}

/// The job's page, on loopback inside the pod: `canoe job watch --web` leads there.
fn serve_page(output: &Path) -> anyhow::Result<()> {
    let address = ([127, 0, 0, 1], web::PORT).into();
    let listener = web::listen(address, false)?;
    let folder = output.parent().unwrap_or(output);
    web::serve(
        listener,
        Arc::new(Site::of_output(output, folder)),
        Access::Loopback,
    )
}
