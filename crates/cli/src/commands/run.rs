//! `canoe run JOB_DIR --nodes N`: a job folder on this machine, each node a parameter server and a trainer.

/// Prints a message to standard error. Unlike std's macro of this name, it ignores a closed standard error, which must
/// not end a job.
macro_rules! eprintln {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($text)*);
    }};
}

mod beginning;
mod choice;
mod refusal;

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use run::display::summary;
use run::event::JobEvent;
use run::local::claim::StartOptions;
use run::local::layout::FirstLine;
use run::local::lease::LEASE_VARIABLE;
use run::local::plan::RUN_VARIABLE;
use run::local::run_file;
use run::local::watchdog::StallLimits;
use run::local::{
    self, FolderOptions, RestartPolicy, RunEnd, RunLimits, RunOptions, RunPlan, Shutdown,
    SupervisorOptions,
};

use super::dashboard::Invitation;
use crate::display::Display;
use crate::exit::Exit;
use crate::flags::Flags;
use crate::form::Form;
use crate::gflags::GFLAGS;
use crate::record::runner::RunnerRecord;
use crate::security;
use crate::v1_flags::{COMMON, TRAIN};
use crate::web::{self, Audience, PageAccess, Site};

/// Arguments of `canoe run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The job folder: a configuration folder and data (`canoe demo` writes one).
    job: PathBuf,
    /// How many nodes: each is one parameter server and one trainer.
    #[arg(long, default_value_t = 1, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    nodes: u32,
    /// The configuration file (needed if there are several).
    #[arg(long)]
    config: Option<PathBuf>,
    /// The folder with the configuration, inside the job folder.
    #[arg(long)]
    config_dir: Option<PathBuf>,
    /// How many passes to run.
    #[arg(long, visible_alias = "num_passes", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..))]
    passes: Option<u64>,
    /// Which models stay: best, last:N, best,last:N or all (default: the best and the last three).
    #[arg(long, value_parser = keep)]
    keep: Option<String>,
    /// End after this many passes without improvement of the test result; 0 never ends early (default: 3 if the
    /// configuration has test data and --passes is not given).
    #[arg(long, value_name = "PASSES", allow_negative_numbers = true)]
    patience: Option<u32>,
    /// The value by which passes are compared: an evaluator, or cost.
    #[arg(long, visible_alias = "best_by", value_name = "EVALUATOR")]
    best_by: Option<String>,
    /// Ports of each server for dense parameters.
    #[arg(long, default_value_t = 1, visible_alias = "ports_num")]
    ports: u16,
    /// Ports of each server for sparse parameters.
    #[arg(long, default_value_t = 1, visible_alias = "ports_num_for_sparse")]
    sparse_ports: u16,
    /// The first line of each training file is like the others, even if it looks like the names of columns.
    #[arg(long)]
    no_header: bool,
    /// Batches between recovery snapshots.
    #[arg(long, visible_alias = "snapshot_period")]
    snapshot_period: Option<u64>,
    /// How many parameter servers (default: one per node).
    #[arg(long)]
    servers: Option<u32>,
    /// Continue after finished passes: number of the first pass to run.
    #[arg(long, visible_alias = "start_pass", allow_negative_numbers = true)]
    start_pass: Option<u32>,
    /// A model to start from.
    #[arg(long, visible_alias = "init_model_path")]
    init_model_path: Option<PathBuf>,
    /// Encoding of values on the network: f32, f16 or bf16.
    #[arg(long, visible_alias = "wire_precision")]
    wire_precision: Option<String>,
    /// CA that signed the certificates of servers and trainers (PEM); turns on TLS.
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
    /// Restart crashed processes and resume from the last snapshot.
    #[arg(long)]
    keep_going: bool,
    /// Seconds that a step may wait for a trainer that runs, before --keep-going replaces it.
    #[arg(long, value_name = "SECONDS")]
    stall_timeout: Option<f64>,
    /// Start again although an earlier run did not finish; its results are moved aside.
    #[arg(long)]
    fresh: bool,
    /// Keep serving the page after the job has ended, until Ctrl-C.
    #[arg(long)]
    stay: bool,
    /// Run more nodes than this machine can carry.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    form: Form,
    /// Address of the job's page, or `off`; if it is not on loopback, the page asks for a token.
    #[arg(long, value_name = "ADDRESS")]
    watch: Option<String>,
    /// Flags for the trainers; see `canoe train --help`.
    #[arg(last = true)]
    trainer_flags: Vec<String>,
}

/// The text of `--keep`, checked before anything starts.
fn keep(text: &str) -> Result<String, trainer::best::KeepError> {
    text.parse::<trainer::best::Keep>().map(|_| text.to_owned())
}

pub(crate) fn run(args: RunArgs) -> anyhow::Result<Exit> {
    let job = std::path::absolute(&args.job).context("find the job folder")?;
    let options = FolderOptions {
        config: args.config.clone(),
        config_dir: args.config_dir.clone(),
        header: if args.no_header {
            FirstLine::Sample
        } else {
            FirstLine::Unknown
        },
        ..FolderOptions::default()
    };
    if !args.force {
        choice::check_capacity(args.nodes, args.servers.unwrap_or(args.nodes))?;
    }
    let (form, stay) = (args.form, args.stay);
    let layout = choice::layout(&job, args.nodes, options)?;
    let (keep_going, args_job) = (args.keep_going, args.job.clone());
    let mut patience = StallLimits::default();
    if let Some(seconds) = args.stall_timeout {
        patience.stall = Duration::try_from_secs_f64(seconds).context("--stall-timeout")?;
    }
    let page = page_address(args.watch.as_deref())?;
    let watched = page.is_some();
    let output = layout.output();
    let mut record = words::event::Run {
        run: String::new(),
        nodes: args.nodes,
        passes: args
            .passes
            .map(|passes| passes.saturating_add(u64::from(args.start_pass.unwrap_or(0)))),
        first_pass: args.start_pass.filter(|pass| *pass > 0).map(u64::from),
        config: layout.config.display().to_string(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let (best_by, fresh) = (args.best_by.clone(), args.fresh);
    let mut options = run_options(args)?;
    let start_pass = run_file::start_pass(&options.trainer_flags);
    let wanted = StartOptions {
        fresh,
        in_place: start_pass > 0,
    };
    let passes = options.num_passes;
    let program = std::env::current_exe().context("find this program")?;
    let token = local::token::generate().context("create a job token")?;
    let shutdown = Shutdown::new();
    shutdown.on_signals().context("watch for Ctrl-C")?;
    // Errors of the command line are reported before anything is moved or claimed.
    let flags = Flags::parse(&[COMMON, TRAIN, GFLAGS], &options.trainer_flags);
    security::server_tls(&flags.context("flags after --")?)?;
    let inside = beginning::inside(&options.trainer_flags, &output);
    let followed = beginning::followed(&options.trainer_flags, &inside, &output);
    if let Some(text) = refusal::check(&layout, &followed)? {
        eprintln!("canoe run: {text}");
        return Ok(Exit::Configuration);
    }
    RunPlan::new(
        program.clone(),
        layout.clone(),
        options.clone(),
        token.clone(),
    )?;
    if let Some(best_by) = &best_by {
        choice::check_measure(&layout, &options.trainer_flags, best_by)?;
    }
    choice::check_start(&output, start_pass, wanted.fresh, &options.trainer_flags)?;
    let listener = page.map(|page| {
        web::listen(page.address, page.or_free)
            .context("--watch: the page needs another port; 0 stands for a free one")
    });
    let listener = listener.transpose()?;
    let settings = beginning::settings(&layout, &options)?;
    let (owner, mut file) = beginning::begin(&output, settings, wanted, &inside, &shutdown)?;
    if let Some(moved) = &file.moved_to {
        for flag in &inside {
            flag.follow(moved, &mut options.trainer_flags);
        }
    }
    if file.start_pass > 0 {
        let done = file.start_pass;
        record.first_pass = Some(done);
        options.trainer_flags.push(format!("--start_pass={done}"));
        options.num_passes = options.num_passes.map(|passes| passes.saturating_sub(done));
    }
    record.run.clone_from(&file.run);
    let name = (RUN_VARIABLE.to_owned(), file.run.clone());
    let lease = (LEASE_VARIABLE.to_owned(), owner.lease().text());
    options.environment.extend([name, lease]);
    let plan = RunPlan::new(program, layout, options, token.clone())?;
    let shards = plan.shards.clone();
    let mut recorder = RunnerRecord::append(&output.join("events.jsonl"))?;
    recorder.begin(record);
    let site = listener.map(|listener| serve_page(listener, &output, &job, &token));
    let site = site.transpose()?;

    let supervision = SupervisorOptions {
        limits: RunLimits {
            restart: keep_going.then(RestartPolicy::default),
            ..RunLimits::default()
        },
        patience,
        ..SupervisorOptions::default()
    };
    let mut display = Display::new(passes);
    let outcome = local::run(plan, &supervision, &shutdown, &mut |event| {
        if owner.is_lost() {
            return;
        }
        if let JobEvent::Started { .. } = event {
            beginning::note_data(&output, &mut file, &shards);
        }
        recorder.take(&event);
        display.take(&event);
    })?;
    if let Err(lost) = owner.lease().check() {
        if !owner.is_lost() {
            eprintln!("canoe run: {lost}");
        }
        return Ok(Exit::JobFailed);
    }
    recorder.end(&outcome.end);
    if outcome.end == RunEnd::Succeeded {
        file.finished = true;
        file.done = beginning::done(&output, &file, outcome.tally.stopped);
        run_file::write(&output, &file)?;
    }
    display.end();
    if form.json() {
        let mut result = outcome.tally.json(&job, outcome.elapsed);
        result["outcome"] = outcome_name(&outcome.end).into();
        say(&serde_json::to_string_pretty(&result)?);
    } else {
        say(outcome.tally.table(&job, outcome.elapsed).trim_end());
        if watched {
            let _ = writeln!(
                std::io::stderr(),
                "see it again: canoe dashboard {}",
                words::shell::word(&args_job)
            );
        }
    }
    if stay && watched && outcome.end != RunEnd::Interrupted {
        let _ = writeln!(
            std::io::stderr(),
            "the page remains available; Ctrl-C ends it"
        );
        while shutdown.requests() == 0 {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    if let RunEnd::Failed(cause) = &outcome.end {
        let text = summary::failure(cause);
        let _ = writeln!(std::io::stderr(), "canoe run: {text}");
    }
    let resumes = match &outcome.end {
        RunEnd::Succeeded => None,
        RunEnd::Interrupted => Some("the same command resumes the job"),
        RunEnd::Failed(_) => Some("once the cause is removed, the same command resumes the job"),
    };
    if let Some(text) = resumes.filter(|_| !form.json()) {
        let _ = writeln!(std::io::stderr(), "{text}; with --fresh it starts again");
    }
    if let Some(site) = &site {
        say_goodbye(site, &shutdown);
    }
    Ok(match outcome.end {
        RunEnd::Succeeded => Exit::Success,
        RunEnd::Interrupted => Exit::Interrupted,
        RunEnd::Failed(_) => Exit::JobFailed,
    })
}

/// Prints the result. A closed standard output changes neither the exit code nor the remaining work.
fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

fn outcome_name(end: &RunEnd) -> &'static str {
    match end {
        RunEnd::Succeeded => "finished",
        RunEnd::Interrupted => "interrupted",
        RunEnd::Failed(_) => "failed",
    }
}

/// Where the page of a run is served.
struct PageListen {
    address: SocketAddr,
    /// Whether another port may be used.
    or_free: bool,
}

/// The address that `--watch` gives; `None`: no page.
fn page_address(listen: Option<&str>) -> anyhow::Result<Option<PageListen>> {
    match listen {
        None => Ok(Some(PageListen {
            address: ([127, 0, 0, 1], web::PORT).into(),
            or_free: true,
        })),
        Some("off") => Ok(None),
        Some(address) => {
            let address = address.parse().with_context(|| {
                format!(
                    "--watch={address}: an address such as 127.0.0.1:{} or off is expected",
                    web::PORT
                )
            })?;
            Ok(Some(PageListen {
                address,
                or_free: false,
            }))
        }
    }
}

fn serve_page(
    listener: TcpListener,
    output: &Path,
    job: &Path,
    token: &str,
) -> anyhow::Result<Arc<Site>> {
    let address = listener.local_addr()?;
    // The job's token also gives access to the tables, so the page has a token of its own; it accepts the job's too.
    let page_token = local::token::generate().context("create a token for the page")?;
    // A closed standard error is no reason not to run the job.
    let _ = writeln!(
        std::io::stderr(),
        "{}",
        Invitation {
            address,
            token: &page_token
        }
    );
    let access = PageAccess::at(address.ip(), vec![page_token.clone(), token.to_owned()]);
    let site = Arc::new(Site::of_output(output, job));
    web::serve(listener, site.clone(), access)?;
    Ok(site)
}

/// Waits until the open pages have shown how the job ended, within limits; Ctrl-C ends the wait.
fn say_goodbye(site: &Site, shutdown: &Shutdown) {
    let (begun, requests) = (Instant::now(), shutdown.requests());
    let open = || site.audience().is_waiting(Instant::now()) && begun.elapsed() < Audience::LIMIT;
    while open() && shutdown.requests() == requests {
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn run_options(args: RunArgs) -> anyhow::Result<RunOptions> {
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
        args.keep.map(|keep| flag("keep", keep)),
        args.patience
            .map(|patience| flag("patience", patience.to_string())),
        args.best_by.map(|name| flag("best_by", name)),
    ];
    Ok(RunOptions {
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
        ..RunOptions::default()
    })
}

/// How often a trainer's progress is printed where there is no terminal.
pub(crate) const TELL_EVERY: Duration = Duration::from_secs(5);
