//! `canoe node`: the entry point of a pod. Finds its peers, stages its shard, runs a server and a trainer.

use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use k8s::cluster::InCluster;
use run::display::plain::Plain;
use run::event::JobEvent;
use run::local::{RunEnd, Shutdown};
use run::node::environment::{Environment, Peers};
use run::node::health;
use run::node::plan::Arguments;
use run::node::run::{self as node, NodeStart};

use super::run::TELL_EVERY;
use crate::exit::Exit;
use crate::record::cluster_job::ClusterJobRecord;
use crate::record::runner::RunnerRecord;
use crate::security;
use crate::web::{self, PageAccess, Site};
use words::causes::chain;
use words::last_words::error_line;

const HELP: &str = "\
canoe node: the entry point of a pod of a training job. It reads v1's variables
(JOB_NAME, CONF_PADDLE_PORT, …; docs/kubernetes.md lists them), finds the other
nodes, and runs a server and a trainer. Flags, with their defaults:

  --discovery=indexed   indexed: by completion index; podlist: by listing the
                        job's pods
  --health_port=8471    port of /healthz, /readyz and /status
  --metrics_port=0      port of /metrics for a Prometheus in the cluster; 0: none
  --patience=SECONDS    how long to wait for other nodes and for data
  --grace=50            seconds to end in, with a snapshot
  --show_status         print what the node on this machine does, and exit

All other flags are passed to the trainer; `canoe train --help` lists them.";

/// Runs a node with the arguments after `canoe node`.
pub(crate) fn run(args: &[String]) -> anyhow::Result<Exit> {
    if args.iter().any(|arg| arg == "--help") {
        println!("{HELP}");
        return Ok(Exit::Success);
    }
    let program = std::env::current_exe().context("find this program")?;
    let pods = Arc::new(InCluster);
    let start = match NodeStart::from_arguments(program, std::env::vars().collect(), args, pods) {
        Ok(start) => start,
        Err(error) => {
            eprintln!("canoe node: {error}");
            return Ok(Exit::Code(run::node::finish::code::USAGE));
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
    let environment = Environment::read(&start.variables, start.discovery).ok();
    let output = environment
        .as_ref()
        .map(|environment| environment.job_dir().join("output"));
    let job = environment.and_then(|environment| job_record(&start, &environment));
    let mut is_first = job.as_ref().is_some_and(|job| job.node == Some(0));
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
            is_first = process.node == 0;
            if let Some(job) = job.as_ref().filter(|_| is_first) {
                job.record.begin();
            }
        }
        if let Some(record) = &mut record {
            record.take(&event);
        }
        // Lines of the logs go to standard output unchanged; what the node itself does goes to standard error.
        if let JobEvent::Line { process, line } = &event {
            // If the reader of the log closes it, the node must continue.
            let _ = writeln!(io::stdout(), "{process}: {line}");
        } else if let Some(line) = plain.line(begun.elapsed(), &event) {
            let _ = writeln!(io::stderr(), "{line}");
        }
    });
    if let (Some(job), Ok(end), true) = (&job, &ended, is_first) {
        job.record.end(end);
    }
    // The last line is what `canoe job status` shows for a pod that has failed.
    match &ended {
        Err(error) => eprintln!("canoe node: {}", chain(error)),
        Ok(RunEnd::Failed(cause)) => {
            let lines: Vec<&str> = cause.tail.iter().map(String::as_str).collect();
            let last = error_line(&lines).map_or(String::new(), |line| format!(": {line}"));
            eprintln!("canoe node: {}{last}", cause.reason);
        }
        Ok(_) => {}
    }
    Ok(Exit::Code(node::exit_code(&ended)))
}

/// The record of the whole job, which one of its nodes writes.
struct SharedRecord {
    record: ClusterJobRecord,
    /// The id of this node, if it has one from the start.
    node: Option<u32>,
}

fn job_record(start: &NodeStart, environment: &Environment) -> Option<SharedRecord> {
    let token = node::token(start, environment).ok()?;
    let arguments = Arguments::sort(&start.arguments);
    let passes = arguments.trainer_flags.iter().rev();
    let run = words::event::Run {
        first_pass: None,
        run: security::run_name(&wire::Token::new(token.as_bytes())?),
        nodes: environment.nodes,
        passes: passes
            .filter_map(|flag| flag.trim_start_matches('-').strip_prefix("num_passes="))
            .find_map(|passes| passes.parse().ok()),
        config: arguments
            .config
            .map(|path| path.display().to_string())
            .unwrap_or_default(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let node = match environment.peers {
        Peers::Indexed { index } => Some(index),
        Peers::Podlist { .. } => None,
    };
    let output = environment.job_dir().join("output");
    let record = ClusterJobRecord::new(&output, run);
    Some(SharedRecord { record, node })
}

/// The job's page, on loopback inside the pod: `canoe job watch --web` forwards to it.
fn serve_page(output: &Path) -> anyhow::Result<()> {
    let address = ([127, 0, 0, 1], web::PORT).into();
    let listener = web::listen(address, false)?;
    let folder = output.parent().unwrap_or(output);
    web::serve(
        listener,
        Arc::new(Site::of_output(output, folder)),
        PageAccess::Loopback,
    )
}
