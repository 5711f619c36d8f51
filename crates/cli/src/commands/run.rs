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
    /// How many parameter servers, if not one a node.
    #[arg(long)]
    servers: Option<u32>,
    /// Go on behind the passes that are done: the first pass to run.
    #[arg(long, visible_alias = "start_pass")]
    start_pass: Option<u32>,
    /// A model to start from.
    #[arg(long, visible_alias = "init_model_path")]
    init_model_path: Option<PathBuf>,
    /// How numbers travel: f32, f16 or bf16.
    #[arg(long, visible_alias = "wire_precision")]
    wire_precision: Option<String>,
    /// Authority that signed the certificates of servers and trainers (PEM); turns on TLS.
    #[arg(long, visible_alias = "tls_ca", requires = "tls_cert")]
    tls_ca: Option<PathBuf>,
    /// Certificate of servers and trainers (PEM).
    #[arg(long, visible_alias = "tls_cert", requires_all = ["tls_ca", "tls_key"])]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM).
    #[arg(long, visible_alias = "tls_key", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
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
    let wishes = wishes(args, &output)?;
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

fn wishes(args: RunArgs, output: &Path) -> anyhow::Result<Wishes> {
    let flag = |name: &str, value: String| format!("--{name}={value}");
    let path = |name: &str, path: &Option<PathBuf>| -> anyhow::Result<Option<String>> {
        let absolute = path.as_ref().map(std::path::absolute).transpose();
        let absolute = absolute.with_context(|| format!("--{name}"))?;
        Ok(absolute.map(|path| flag(name, path.display().to_string())))
    };
    let timeout = args
        .peer_timeout
        .map(|seconds| flag("peer_timeout", seconds.to_string()));
    let both: Vec<String> = [
        Some(flag("record_dir", output.display().to_string())),
        timeout,
        path("tls_ca", &args.tls_ca)?,
        path("tls_cert", &args.tls_cert)?,
        path("tls_key", &args.tls_key)?,
    ]
    .into_iter()
    .flatten()
    .collect();
    let trainers = [
        args.snapshot_period
            .map(|period| flag("snapshot_period", period.to_string())),
        args.start_pass
            .map(|pass| flag("start_pass", pass.to_string())),
        path("init_model_path", &args.init_model_path)?,
        args.wire_precision
            .map(|precision| flag("wire_precision", precision)),
    ];
    Ok(Wishes {
        nodes: args.nodes,
        servers: args.servers.unwrap_or(args.nodes),
        ports_num: args.ports,
        ports_num_for_sparse: args.sparse_ports,
        num_passes: args.passes,
        trainer_flags: args
            .trainer_flags
            .into_iter()
            .chain(trainers.into_iter().flatten())
            .chain(both.iter().cloned())
            .collect(),
        pserver_flags: both,
        ..Wishes::default()
    })
}

/// How often a trainer's progress is told where there is no terminal.
pub const TELL_EVERY: Duration = Duration::from_secs(5);
