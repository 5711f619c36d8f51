//! `canoe node`: the entry point of a pod. Finds its peers, stages its shard, runs a server and a trainer.

use anyhow::Context;
use launch::display::plain::Plain;
use launch::event::JobEvent;
use launch::local::{End, Shutdown};
use launch::node::health;
use launch::node::run::{self as node, Start};

use super::run::TELL_EVERY;
use crate::exit::Exit;

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
    let ended = node::run(&start, &shutdown, &mut |event| {
        // Lines of the logs go to standard output as they are; what the node itself does, to standard error.
        if let JobEvent::Line { process, line } = &event {
            println!("{process}: {line}");
        } else if let Some(line) = plain.line(begun.elapsed(), &event) {
            eprintln!("{line}");
        }
    });
    // The last line is what `canoe job status` shows of a pod that has failed.
    match &ended {
        Err(error) => eprintln!("canoe node: {:#}", Chain(error)),
        Ok(End::Failed(cause)) => {
            let last = cause.tail.iter().rfind(|line| !line.trim().is_empty());
            let last = last.map_or(String::new(), |line| format!(": {}", line.trim()));
            eprintln!("canoe node: {}{last}", cause.reason);
        }
        Ok(_) => {}
    }
    Ok(Exit::Code(node::exit_code(&ended)))
}

/// An error with all its causes.
struct Chain<'a>(&'a dyn std::error::Error);

impl std::fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)?;
        let mut next = self.0.source();
        while let Some(cause) = next {
            write!(f, ": {cause}")?;
            next = cause.source();
        }
        Ok(())
    }
}
