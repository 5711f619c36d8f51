//! `canoe run JOB_DIR --nodes N`: a job folder on this machine, each node a parameter server and a trainer.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use launch::display::summary;
use launch::local::{
    self, End, Layout, Limits, Options, Plan, RestartPolicy, Shutdown, Wish, Wishes,
};

use super::dashboard::Invitation;
use crate::display::Display;
use crate::exit::Exit;
use crate::record::runner::{self, RunnerRecord};
use crate::web::{self, Access, Site};

/// Arguments of `canoe run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The job folder: a configuration folder and data (`canoe demo` writes one).
    job: PathBuf,
    /// How many nodes: each is one parameter server and one trainer.
    #[arg(long, default_value_t = 1)]
    nodes: u32,
    /// The configuration file, if there are several.
    #[arg(long)]
    config: Option<PathBuf>,
    /// The folder with the configuration, inside the job folder.
    #[arg(long)]
    config_dir: Option<PathBuf>,
    /// How many passes to run.
    #[arg(long, visible_alias = "num_passes")]
    passes: Option<u64>,
    /// Ports of each server for dense parameters.
    #[arg(long, default_value_t = 1, visible_alias = "ports_num")]
    ports: u16,
    /// Ports of each server for sparse parameters.
    #[arg(long, default_value_t = 1, visible_alias = "ports_num_for_sparse")]
    sparse_ports: u16,
    /// Batches between recovery snapshots.
    #[arg(long, visible_alias = "snapshot_period")]
    snapshot_period: Option<u64>,
    /// Seconds after which a silent process counts as lost.
    #[arg(long, visible_alias = "peer_timeout")]
    peer_timeout: Option<f64>,
    /// Start a process that died again, and go on from the last snapshot.
    #[arg(long)]
    keep_going: bool,
    /// Where the job's page is served, or `off`; elsewhere than on loopback it asks for a token.
    #[arg(long, value_name = "ADDRESS")]
    watch: Option<String>,
    /// Flags for the trainers, as `canoe train` takes them.
    #[arg(last = true)]
    trainer_flags: Vec<String>,
}

/// Runs the command.
pub fn run(args: RunArgs) -> anyhow::Result<Exit> {
    let job = std::path::absolute(&args.job).context("find the job folder")?;
    let wish = Wish {
        config: args.config.clone(),
        config_dir: args.config_dir.clone(),
    };
    let layout = Layout::read(&job, args.nodes, &wish)?;
    let keep_going = args.keep_going;
    let page = page_address(args.watch.as_deref())?;
    let output = layout.output();
    let record = watch::record::Run {
        nodes: args.nodes,
        passes: args.passes,
        config: layout.config.display().to_string(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let wishes = wishes(args, &output);
    let passes = wishes.num_passes;
    let program = std::env::current_exe().context("find this program")?;
    let token = local::token::generate().context("make a job token")?;
    let plan = Plan::new(program, layout, wishes, token.clone())?;
    runner::clear(&output).context("remove the record of an earlier run")?;
    let mut recorder = RunnerRecord::append(&output.join("events.jsonl"))?;
    recorder.begin(record);
    if let Some((address, or_free)) = page {
        serve_page(address, or_free, &output, &job, &token)?;
    }

    let shutdown = Shutdown::new();
    shutdown.on_signals().context("watch for Ctrl-C")?;
    let options = Options {
        limits: Limits {
            restart: keep_going.then(RestartPolicy::default),
            ..Limits::default()
        },
        ..Options::default()
    };
    let mut display = Display::new(passes);
    let outcome = local::run(plan, &options, &shutdown, &mut |event| {
        recorder.take(&event);
        display.take(&event);
    })?;
    recorder.end(&outcome.end);
    display.end();
    println!("{}", outcome.tally.table(&job, outcome.elapsed).trim_end());
    Ok(match outcome.end {
        End::Succeeded => Exit::Success,
        End::Interrupted => Exit::Interrupted,
        End::Failed(cause) => {
            eprintln!("canoe run: {}", summary::failure(&cause));
            Exit::JobFailed
        }
    })
}

/// Where `--watch` wants the page, and whether another port will do; `None` for nowhere.
fn page_address(wish: Option<&str>) -> anyhow::Result<Option<(SocketAddr, bool)>> {
    match wish {
        None => Ok(Some((([127, 0, 0, 1], web::PORT).into(), true))),
        Some("off") => Ok(None),
        Some(address) => {
            let address = address.parse().with_context(|| {
                format!(
                    "--watch={address}: an address such as 127.0.0.1:{} or off is expected",
                    web::PORT
                )
            })?;
            Ok(Some((address, false)))
        }
    }
}

fn serve_page(
    address: SocketAddr,
    or_free: bool,
    output: &Path,
    job: &Path,
    token: &str,
) -> anyhow::Result<()> {
    let listener = web::listen(address, or_free).context("--watch")?;
    let address = listener.local_addr()?;
    // The job's token opens the tables too: the page has one of its own, and takes the other if somebody has it.
    let page_token = local::token::generate().context("make a token for the page")?;
    eprintln!(
        "{}",
        Invitation {
            address,
            token: &page_token
        }
    );
    let access = Access::at(address.ip(), vec![page_token.clone(), token.to_owned()]);
    web::serve(listener, Arc::new(Site::of_output(output, job)), access)
}

fn wishes(args: RunArgs, output: &Path) -> Wishes {
    let snapshots = args
        .snapshot_period
        .map(|period| format!("--snapshot_period={period}"));
    let timeout = args
        .peer_timeout
        .map(|seconds| format!("--peer_timeout={seconds}"));
    let record = format!("--record_dir={}", output.display());
    Wishes {
        pserver_flags: timeout
            .clone()
            .into_iter()
            .chain([record.clone()])
            .collect(),
        nodes: args.nodes,
        ports_num: args.ports,
        ports_num_for_sparse: args.sparse_ports,
        num_passes: args.passes,
        trainer_flags: args
            .trainer_flags
            .into_iter()
            .chain(snapshots)
            .chain(timeout)
            .chain([record])
            .collect(),
        ..Wishes::default()
    }
}

/// How often a trainer's progress is told where there is no terminal.
pub const TELL_EVERY: Duration = Duration::from_secs(5);
