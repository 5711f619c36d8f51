//! `canoe run JOB_DIR --nodes N`: a job folder on this machine, each node a parameter server and a trainer.

/// Says something beside the result. A reader that went away is no reason to end a job, as std's macro of this name would.
macro_rules! eprintln {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($text)*);
    }};
}

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
use run::local::claim::{self, Beginning, ClaimError, RunFile, RunSettings, StartOptions};
use run::local::layout::{FirstLine, JobData};
use run::local::lease::Owner;
use run::local::plan::RUN_VARIABLE;
use run::local::watchdog::StallLimits;
use run::local::{
    self, FolderLayout, FolderOptions, RestartPolicy, RunEnd, RunLimits, RunOptions, RunPlan,
    Shutdown, SupervisorOptions,
};

use super::dashboard::Invitation;
use super::shell;
use crate::display::Display;
use crate::exit::Exit;
use crate::flags::Flags;
use crate::form::Form;
use crate::gflags::GFLAGS;
use crate::record::{self, runner::RunnerRecord};
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
    /// What passes are compared by: an evaluator, or cost.
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
    /// Seconds that a step may wait for a trainer that lives, before --keep-going replaces it.
    #[arg(long, value_name = "SECONDS")]
    stall_timeout: Option<f64>,
    /// Start again although an earlier run did not finish; its results are moved aside.
    #[arg(long)]
    fresh: bool,
    /// Keep the page after the job has ended, until Ctrl-C.
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
    let wish = FolderOptions {
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
    let layout = choice::layout(&job, args.nodes, wish)?;
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
    let wanted = StartOptions {
        fresh: args.fresh,
        in_place: args.start_pass.is_some() || starts_from(&args, &output),
    };
    let (best_by, start_pass) = (args.best_by.clone(), args.start_pass);
    let mut wishes = wishes(args)?;
    let passes = wishes.num_passes;
    let program = std::env::current_exe().context("find this program")?;
    let token = local::token::generate().context("create a job token")?;
    let shutdown = Shutdown::new();
    shutdown.on_signals().context("watch for Ctrl-C")?;
    // What is wrong with the command must show before anything is moved or claimed.
    let flags = Flags::parse(&[COMMON, TRAIN, GFLAGS], &wishes.trainer_flags);
    security::server_tls(&flags.context("flags after --")?)?;
    if let Some(text) = refusal::check(&layout, &wishes.trainer_flags)? {
        eprintln!("canoe run: {text}");
        return Ok(Exit::Configuration);
    }
    RunPlan::new(
        program.clone(),
        layout.clone(),
        wishes.clone(),
        token.clone(),
    )?;
    if let Some(best_by) = &best_by {
        choice::check_measure(&layout, &wishes.trainer_flags, best_by)?;
    }
    choice::check_start(&output, start_pass.unwrap_or(0), &wishes.trainer_flags)?;
    let listener = page.map(|page| {
        web::listen(page.address, page.or_free)
            .context("--watch: the page needs another port; 0 stands for a free one")
    });
    let listener = listener.transpose()?;
    let (_owner, mut file) = begin(&output, settings(&layout, &wishes)?, wanted, &shutdown)?;
    if file.start_pass > 0 {
        let done = file.start_pass;
        record.first_pass = Some(done);
        wishes.trainer_flags.push(format!("--start_pass={done}"));
        wishes.num_passes = wishes.num_passes.map(|passes| passes.saturating_sub(done));
    }
    record.run.clone_from(&file.run);
    let name = (RUN_VARIABLE.to_owned(), file.run.clone());
    wishes.environment.extend([name]);
    let plan = RunPlan::new(program, layout, wishes, token.clone())?;
    let mut recorder = RunnerRecord::append(&output.join("events.jsonl"))?;
    recorder.begin(record);
    let site = listener.map(|listener| serve_page(listener, &output, &job, &token));
    let site = site.transpose()?;

    let options = SupervisorOptions {
        limits: RunLimits {
            restart: keep_going.then(RestartPolicy::default),
            ..RunLimits::default()
        },
        patience,
        ..SupervisorOptions::default()
    };
    let mut display = Display::new(passes);
    let outcome = local::run(plan, &options, &shutdown, &mut |event| {
        recorder.take(&event);
        display.take(&event);
    })?;
    recorder.end(&outcome.end);
    if outcome.end == RunEnd::Succeeded {
        file.finished = true;
        claim::write(&output, &file)?;
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
                shell::word(&args_job)
            );
        }
    }
    if outcome.end == RunEnd::Interrupted && !form.json() {
        let _ = writeln!(
            std::io::stderr(),
            "the same command resumes the job; with --fresh it starts again"
        );
    }
    if stay && watched && outcome.end != RunEnd::Interrupted {
        let _ = writeln!(std::io::stderr(), "the page stays; Ctrl-C ends it");
        while shutdown.requests() == 0 {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    if let RunEnd::Failed(cause) = &outcome.end {
        let text = summary::failure(cause);
        let _ = writeln!(std::io::stderr(), "canoe run: {text}");
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

/// Prints the result. A reader that went away changes neither how the job ended nor what is left to do.
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

/// Whether the job reads a model that an earlier run left in its own output folder.
fn starts_from(args: &RunArgs, output: &Path) -> bool {
    let inside = |path: &Path| std::path::absolute(path).is_ok_and(|path| path.starts_with(output));
    let flags = args
        .trainer_flags
        .iter()
        .filter_map(|flag| flag.split_once('='));
    args.init_model_path.as_deref().is_some_and(inside)
        || flags.into_iter().any(|(_, value)| inside(Path::new(value)))
}

/// What decides the results of a run, to tell whether an earlier one can be resumed.
fn settings(layout: &FolderLayout, wishes: &RunOptions) -> anyhow::Result<RunSettings> {
    let files = claim::config_files(&layout.config_dir, &layout.job);
    let configuration = layout.config_dir.join(&layout.config);
    let configuration = configuration
        .strip_prefix(&layout.job)
        .unwrap_or(&configuration);
    // Flat data are split into their own folder before the run, so that their checksum would change.
    let data = match &layout.data {
        JobData::Shards(folders) => Some(claim::data_checksum(folders)),
        JobData::Listed(listed) => Some(claim::data_checksum(&listed.paths()?)),
        JobData::Flat(_) => None,
    };
    let data = data.transpose().context("read the data")?;
    Ok(RunSettings {
        config: configuration.display().to_string(),
        config_files: Some(files.context("read the configuration folder")?),
        nodes: wishes.nodes,
        trainer_flags: deciding(&wishes.trainer_flags),
        data_checksum: data,
        passes: wishes.num_passes,
    })
}

/// The flags that decide what a pass computes. How many passes there are and which of them stay can change when a run is
/// resumed.
fn deciding(flags: &[String]) -> Vec<String> {
    let length = ["--keep=", "--patience=", "--best_by="];
    let decides = |flag: &&String| !length.iter().any(|name| flag.starts_with(name));
    flags.iter().filter(decides).cloned().collect()
}

/// Claims the output folder and says in one line what becomes of what is there.
fn begin(
    output: &Path,
    settings: RunSettings,
    wanted: StartOptions,
    shutdown: &Shutdown,
) -> anyhow::Result<(Owner, RunFile)> {
    let create = || {
        std::fs::create_dir_all(output).with_context(|| {
            format!(
                "create the output folder {}; if something else is there under this name, move it away",
                output.display()
            )
        })
    };
    let new_name = || -> anyhow::Result<String> {
        let random = local::token::generate().context("name the run")?;
        Ok(random[..16].to_owned())
    };
    let claim = || {
        let (stop, folder) = (shutdown.clone(), output.to_owned());
        Owner::claim(output, &record::host(), move |other| {
            eprintln!(
                "canoe run: process {} on {} has taken {} over, because this one was stopped for too long; it ends here",
                other.pid,
                other.host,
                folder.display()
            );
            stop.request();
        })
    };
    create()?;
    let mut owner = claim()?;
    let found = match claim::read(output) {
        // Whatever it was, it is moved aside.
        Err(ClaimError::Damaged { .. }) if wanted.fresh => None,
        found => found?,
    };
    let mut start_pass = found.as_ref().map_or(0, |found| found.start_pass);
    let work = claim::find_work(output);
    let beginning = claim::decide(found.as_ref(), &settings, wanted, work);
    let continues = matches!(beginning, Beginning::Resume(_) | Beginning::More(_));
    let run = match beginning {
        Beginning::Resume(run) => {
            eprintln!(
                "resuming the run in {} that did not finish (--fresh starts again)",
                output.display()
            );
            run
        }
        Beginning::More(passes) => {
            let done = match passes {
                1 => "its pass".to_owned(),
                _ => format!("its {passes} passes"),
            };
            eprintln!(
                "continuing the run in {} after {done} (--fresh starts again)",
                output.display()
            );
            start_pass = passes;
            new_name()?
        }
        Beginning::Differs(differences) => {
            let folder = output.to_owned();
            let error = ClaimError::Differs {
                folder,
                differences,
            };
            return Err(error.into());
        }
        Beginning::Nameless(file) => {
            let folder = output.to_owned();
            return Err(ClaimError::Nameless { folder, file }.into());
        }
        Beginning::New => {
            start_pass = 0;
            new_name()?
        }
        Beginning::Archive(why) => {
            start_pass = 0;
            drop(owner);
            if let Some(moved) = claim::archive(output)? {
                let moved = moved.display();
                match why.as_str() {
                    "" => eprintln!("the results of an earlier run are now in {moved}"),
                    why => eprintln!(
                        "the results of an earlier run are now in {moved}: more passes cannot continue after them, because {why}"
                    ),
                }
            }
            create()?;
            owner = claim()?;
            new_name()?
        }
    };
    let settings = match &found {
        Some(found) if continues => settings.continuing(&found.settings),
        _ => settings,
    };
    let file = RunFile {
        run,
        settings,
        finished: false,
        start_pass,
    };
    claim::write(output, &file)?;
    Ok((owner, file))
}

/// Where the page of a run is served.
struct PageListen {
    address: SocketAddr,
    /// Whether another port may be used.
    or_free: bool,
}

/// What `--watch` says; `None`: no page.
fn page_address(wish: Option<&str>) -> anyhow::Result<Option<PageListen>> {
    match wish {
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
    // The job's token also opens the tables: the page has one of its own, and accepts the other too.
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

fn wishes(args: RunArgs) -> anyhow::Result<RunOptions> {
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
