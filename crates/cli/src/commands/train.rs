//! `canoe train`: one trainer, with v1's flags.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use run::local::lease;
use run::local::plan::RUN_VARIABLE;
use trainer::best::Keep;
use trainer::job::{self, TrainerTask};
use trainer::log::{Level, Log, Topic};
use trainer::report::Reporter as _;
use trainer::settings::{
    DataSettings, Missing, Passes, Patience, RemoteSettings, Reporting, TrainerSettings,
};
use wire::{Encoding, ServerAddress, SessionTiming, TrainerId};

use crate::exit::Exit;
use crate::flags::Flags;
use crate::gflags::GFLAGS;
use crate::observer::ConsoleObserver;
use crate::record::{self, Folder};
use crate::run_checks;
use crate::security::{self, Reach};
use crate::simulation::SimulationFolders;
use crate::status_page;
use crate::v1;
use crate::v1_flags::{COMMON, TRAIN};
use words::process::Role;

/// Runs a trainer with the arguments after `canoe train`.
pub(crate) fn run(args: &[String]) -> anyhow::Result<Exit> {
    let flags = match Flags::parse(&[COMMON, TRAIN, GFLAGS], args) {
        Ok(flags) => flags,
        Err(error) => {
            eprintln!("{}: {error}", v1::typed("train"));
            return Ok(Exit::Usage);
        }
    };
    if flags.bool("help") {
        println!(
            "canoe train: one trainer. Flags, with their defaults:\n\n{}",
            flags.help(crate::display::help_width())
        );
        return Ok(Exit::Success);
    }
    if flags.bool("version") {
        println!("{}", crate::VERSION);
        return Ok(Exit::Success);
    }
    let mut console = ConsoleObserver::new(flags.int("trainer_id") as u32);
    if let Ok(port @ 1..) = u16::try_from(flags.int("status_port")) {
        status_page::serve(port, console.figures())?;
    }
    if let Some(folder) = record::folder(flags.text("record_dir"), None, console.trainer())? {
        // A record that cannot be written is reported when it begins.
        let _ = record::announce(&folder, Role::Trainer);
    }
    let line = format!("commandline: canoe train {}", args.join(" "));
    console.line(Level::Info, Topic::CommandLine, &line);
    for warning in warnings(&flags) {
        console.line(Level::Warning, Topic::Flag, &warning);
    }
    let job = job(&flags)?;
    if !flags.bool("local")
        && let Some(text) = security::just_finished(&flags)?
    {
        console.line(Level::Info, Topic::JobEnded, &text);
        return Ok(Exit::Success);
    }
    let save_dir = save_dir(&flags)?;
    if let Some(folder) = &save_dir
        && matches!(job, TrainerTask::Train)
        && std::env::var_os(RUN_VARIABLE).is_none()
    {
        // A trainer of `canoe run` writes into the folder of its runner; others must not.
        lease::check_free(folder, &record::host())?;
    }
    let stage = stage(&flags)?;
    let (config_file, directories) = match &stage {
        Some(stage) => (stage.config.clone(), stage.directories.clone()),
        None => (config_file(&flags)?, vec![working_directory()?]),
    };
    let evaluated = config::evaluate_with_python(&config::EvaluateOptions {
        args: config_args(&flags),
        python: Some(PathBuf::from(flags.text("python_bin"))),
        python_path: python_path(&flags),
        ..config::EvaluateOptions::new(&config_file)
    });
    let config::Evaluated {
        config: evaluated,
        python,
        notes,
        instead_of,
        ..
    } = match evaluated {
        Ok(evaluated) => evaluated,
        Err(error) => {
            eprintln!("canoe: {:#}", anyhow::Error::from(error));
            return Ok(Exit::Configuration);
        }
    };
    if let Some(asked) = instead_of {
        let text = format!(
            "--python_bin={} asks for Python 2, or is no working Python: canoe runs Python 2 files itself, under {}",
            asked.display(),
            python.display()
        );
        console.line(Level::Info, Topic::Python, &text);
    }
    let mut settings = settings(&flags, config_file, python, directories)?;
    if let Some(folder) = &save_dir
        && matches!(job, TrainerTask::Train)
        && settings.trainer == 0
    {
        let newest = trainer::pass_directory::newest(folder);
        if let Some(newest) = newest.filter(|newest| *newest >= settings.passes.start)
            && std::env::var_os(RUN_VARIABLE).is_none()
        {
            // v1 does the same, and scripts depend on it.
            let text = format!(
                "{} has models of an earlier training up to pass-{newest:05}: this one replaces them pass by pass, and later ones stay (--start_pass resumes; another --save_dir keeps both)",
                folder.display()
            );
            console.line(Level::Warning, Topic::Resume, &text);
        }
    }
    settings.passes.save_dir = save_dir;
    if matches!(job, TrainerTask::Train) {
        settings.checks = run_checks::of_this_process()?;
    }
    console.passes(u64::from(settings.passes.start + settings.passes.count));
    let heart = match job {
        TrainerTask::Train => begin_record(&flags, args, &evaluated, &settings, &mut console)?,
        _ => None,
    };
    // In a job on nodes, only one trainer reports it to the runner.
    for note in notes.into_iter().filter(|_| settings.trainer == 0) {
        console.warn(Topic::Flag, note);
    }
    let result = job::run(&job, &evaluated, &settings, &mut console);
    drop(heart);
    console.end(result.as_ref().err());
    if let Err(error) = &result
        && error.is_lasting()
    {
        eprintln!("canoe: {}", words::causes::chain(error));
        return Ok(Exit::Configuration);
    }
    result?;
    Ok(Exit::Success)
}

/// The settings with which `canoe config check` reads the first samples: those of a trainer in `directory`.
pub(super) fn settings_for_check(
    config_file: PathBuf,
    python: PathBuf,
    directory: PathBuf,
    config_args: &str,
) -> anyhow::Result<TrainerSettings> {
    let args = [
        format!("--config={}", config_file.display()),
        format!("--config_args={config_args}"),
        "--data_workers=1".to_owned(),
    ];
    let flags = Flags::parse(&[COMMON, TRAIN], &args)?;
    settings(&flags, config_file, python, vec![directory])
}

/// Begins the record of this trainer, if it has a folder for it.
fn begin_record(
    flags: &Flags,
    args: &[String],
    config: &config::TrainerConfig,
    settings: &TrainerSettings,
    console: &mut ConsoleObserver,
) -> anyhow::Result<Option<record::heart::Heart>> {
    let own = settings.passes.save_dir.clone();
    let save_dir = own.unwrap_or_else(|| PathBuf::from(config.save_dir()));
    let given = flags.text("record_dir");
    let Some(folder) = record::folder(given, Some(&save_dir), settings.trainer)? else {
        return Ok(None);
    };
    let run = match &settings.remote {
        Some(remote) => remote.job.clone(),
        None => format!("{}-{}", std::process::id(), watch::recorder::now()),
    };
    let mut start = record::start(Role::Trainer, settings.trainer, &run, args);
    start.config = settings.config_file.display().to_string();
    // The record of an earlier run about the passes before stays valid, unless the values come from another folder.
    let continues = settings.passes.start > 0 && settings.passes.init_model_path.is_none();
    start.first_pass = continues.then(|| u64::from(settings.passes.start));
    start.trainers = positive(flags, "num_gradient_servers")? as u32;
    start.passes = Some(u64::from(settings.passes.start + settings.passes.count));
    let tested = config.test_data_config.is_some() && settings.passes.test_period == 0;
    start.patience = match settings.passes.patience {
        Patience::Passes(passes) => Some(passes),
        Patience::Usual if tested => Some(trainer::best::PATIENCE),
        Patience::Usual | Patience::Unlimited => None,
    };
    start.status_port = u16::try_from(flags.int("status_port"))
        .ok()
        .filter(|port| *port > 0);
    start.parameters = config
        .model_config
        .as_ref()
        .map(|model| model.parameters.iter().map(|p| p.size).sum());
    // If --record_dir is given, the caller has already handled the record of an earlier run.
    let anew = given.is_empty() && settings.passes.start == 0;
    let begun = describe(&folder, config, &settings.config_file)
        .and_then(|()| console.record(&folder, start, anew));
    if let Err(error) = begun {
        let text = format!("no record is written: {error:#}");
        console.line(Level::Warning, Topic::Record, &text);
        return Ok(None);
    }
    Ok(Some(console.heart(&folder)?))
}

/// Trainer 0 writes a drawing of the network and the text of the configuration.
fn describe(folder: &Folder, config: &config::TrainerConfig, file: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder.own())?;
    if folder.node != 0 {
        return Ok(());
    }
    if let Some(model) = &config.model_config {
        let svg = config::diagram::diagram(model, config::diagram::DiagramFormat::Svg);
        std::fs::write(folder.file("network.svg"), svg)?;
    }
    if let Ok(text) = std::fs::read(file) {
        std::fs::write(folder.file("config.txt"), text)?;
    }
    Ok(())
}

fn working_directory() -> anyhow::Result<PathBuf> {
    std::env::current_dir().context("find the working directory")
}

/// `PYTHONPATH` with the directories of `--python_path` in front; `None` without the flag.
pub(crate) fn python_path(flags: &Flags) -> Option<OsString> {
    let more = flags.text("python_path");
    if more.is_empty() {
        return None;
    }
    let inherited = std::env::var_os("PYTHONPATH").filter(|path| !path.is_empty());
    let parts = [Some(OsString::from(more)), inherited];
    Some(
        parts
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(OsStr::new(":")),
    )
}

/// `--save_dir` as an absolute path, because a simulation changes the working directory.
fn save_dir(flags: &Flags) -> anyhow::Result<Option<PathBuf>> {
    match flags.text("save_dir") {
        "" => Ok(None),
        given => Ok(Some(std::path::absolute(given).context("--save_dir")?)),
    }
}

fn stage(flags: &Flags) -> anyhow::Result<Option<SimulationFolders>> {
    let nodes = natural(flags, "simulate_nodes")? as u32;
    if nodes == 0 {
        return Ok(None);
    }
    let config = Some(PathBuf::from(flags.text("config"))).filter(|c| !c.as_os_str().is_empty());
    let stage = SimulationFolders::set(Path::new(flags.text("job_path")), nodes, config)?;
    Ok(Some(stage))
}

fn warnings(flags: &Flags) -> Vec<String> {
    let mut warnings = flags.warnings();
    if flags.bool("use_gpu") {
        warnings.push("--use_gpu=1 has no effect: training runs on the CPU".to_owned());
    }
    if flags.bool("distribute_test") && (flags.bool("local") || flags.text("job") != "test") {
        let text = "--distribute_test has no effect without --job=test and --local=0";
        warnings.push(text.to_owned());
    }
    warnings
}

fn job(flags: &Flags) -> anyhow::Result<TrainerTask> {
    Ok(match flags.text("job") {
        "train" => TrainerTask::Train,
        "test" => TrainerTask::Test,
        "checkgrad" => TrainerTask::CheckGradient {
            eps: flags.float("checkgrad_eps"),
        },
        "time" => TrainerTask::Time,
        other => anyhow::bail!("--job={other}: train, test, checkgrad or time is expected"),
    })
}

/// The configuration: the flag, or the one that a model directory names.
fn config_file(flags: &Flags) -> anyhow::Result<PathBuf> {
    let given = flags.text("config");
    if !given.is_empty() {
        return Ok(PathBuf::from(given));
    }
    let directory = match (flags.text("init_model_path"), flags.int("start_pass")) {
        ("", 0) => anyhow::bail!("--config is missing; give the path of a trainer_config.py"),
        ("", start) => Path::new(flags.text("save_dir")).join(format!("pass-{:05}", start - 1)),
        (path, _) => PathBuf::from(path),
    };
    let name = directory.join("path.txt");
    let base = std::fs::read_to_string(&name)
        .with_context(|| format!("read {} (or give --config)", name.display()))?;
    Ok(directory.join(base.trim()))
}

/// The arguments that the configuration reads with `get_config_arg`; v1 put these before the user's own.
pub(crate) fn config_args(flags: &Flags) -> String {
    let mut args = format!(
        "trainer_id={},local={},with_cost={},use_gpu=0,parallel_nn=0,cudnn_version=0",
        flags.int("trainer_id"),
        i32::from(flags.bool("local")),
        i32::from(flags.bool("with_cost")),
    );
    let own = flags.text("config_args");
    if !own.is_empty() {
        args.push(',');
        args.push_str(own);
    }
    args
}

fn settings(
    flags: &Flags,
    config_file: PathBuf,
    python: PathBuf,
    directories: Vec<PathBuf>,
) -> anyhow::Result<TrainerSettings> {
    Ok(TrainerSettings {
        seed: seed(flags),
        threads: positive(flags, "trainer_count")?,
        trainer: natural(flags, "trainer_id")? as u32,
        version: crate::VERSION.to_owned(),
        config_file,
        config_args: flags.text("config_args").to_owned(),
        passes: passes(flags)?,
        reporting: Reporting {
            log_period: natural(flags, "log_period")?,
            dot_period: natural(flags, "dot_period")?,
            parameter_period: natural(flags, "show_parameter_stats_period")?,
            layer_statistics: flags.bool("show_layer_stat"),
            clipping: flags.bool("log_clipping"),
            error_clipping: flags.bool("log_error_clipping"),
        },
        data: DataSettings {
            directories,
            python,
            package: config::python::package_dir()?.to_owned(),
            python_path: python_path(flags),
            workers: Some(natural(flags, "data_workers")? as usize).filter(|n| *n > 0),
        },
        remote: if flags.bool("local") {
            None
        } else {
            Some(remote(flags)?)
        },
        checks: None,
    })
}

fn remote(flags: &Flags) -> anyhow::Result<RemoteSettings> {
    let servers = servers(flags)?;
    let reach = Reach::of(servers.iter().map(|server| server.host.as_str()));
    let token = security::token(reach)?;
    let job = security::run_name(&token);
    let session = wire::SessionConfig {
        servers,
        ports: positive(flags, "ports_num")? as u32,
        sparse_ports: natural(flags, "ports_num_for_sparse")? as u32,
        trainer: TrainerId(natural(flags, "trainer_id")? as u32),
        trainers: positive(flags, "num_gradient_servers")? as u32,
        tls: security::client_tls(flags)?,
        encoding: match flags.text("wire_precision") {
            "f32" => Encoding::F32,
            "f16" => Encoding::F16,
            "bf16" => Encoding::Bf16,
            other => anyhow::bail!("--wire_precision={other}: f32, f16 or bf16 is expected"),
        },
        local_sockets: flags.bool("local_sockets"),
        timing: SessionTiming {
            silence: Duration::from_secs_f64(flags.float("peer_timeout").max(1.0)),
            join: Duration::from_secs_f64(flags.float("join_timeout").max(1.0)),
            ..SessionTiming::default()
        },
        addresses: addresses(flags),
        saves: None,
        watch: wire::Watch::default(),
        fresh: flags.bool("fresh"),
        token,
    };
    Ok(RemoteSettings {
        session,
        job,
        staleness: natural(flags, "async_staleness")? as u32,
        snapshot_every: natural(flags, "snapshot_period")?,
        rows_stay: flags.bool("loadsave_parameters_in_pserver"),
    })
}

/// The addresses that the pods of a job have written to the volume.
fn addresses(flags: &Flags) -> Option<wire::AddressBook> {
    let folder = Some(PathBuf::from(flags.text("address_dir")));
    let folder = folder.filter(|folder| !folder.as_os_str().is_empty())?;
    let find = move |host: &str| run::node::addresses::find(&folder, host);
    Some(wire::AddressBook::new(find))
}

/// `host[:port],…`; servers without a port listen on `--port`.
fn servers(flags: &Flags) -> anyhow::Result<Vec<ServerAddress>> {
    let default = u16::try_from(flags.int("port")).context("--port: 0 to 65535 is expected")?;
    let list = flags.text("pservers").split(',').map(str::trim);
    list.filter(|s| !s.is_empty())
        .map(|server| {
            let (host, port) = match server.rsplit_once(':') {
                Some((host, port)) => {
                    let port = port.parse();
                    (
                        host,
                        port.with_context(|| format!("--pservers: port of '{server}'"))?,
                    )
                }
                None => (server, default),
            };
            Ok(ServerAddress {
                host: host.to_owned(),
                port,
            })
        })
        .collect()
}

fn seed(flags: &Flags) -> u64 {
    match flags.int("seed") {
        0 => std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(1, |d| d.as_nanos() as u64),
        seed => seed as u64,
    }
}

fn passes(flags: &Flags) -> anyhow::Result<Passes> {
    let path =
        |name: &str| Some(PathBuf::from(flags.text(name))).filter(|p| !p.as_os_str().is_empty());
    Ok(Passes {
        count: natural(flags, "num_passes")? as u32,
        start: natural(flags, "start_pass")? as u32,
        init_model_path: path("init_model_path"),
        missing: match flags.text("load_missing_parameter_strategy") {
            "fail" => Missing::Fail,
            "rand" => Missing::Random,
            "zero" => Missing::Zero,
            other => anyhow::bail!(
                "--load_missing_parameter_strategy={other}: fail, rand or zero is expected"
            ),
        },
        save_dir: None,
        saving_period: positive(flags, "saving_period")? as u32,
        saving_period_by_batches: natural(flags, "saving_period_by_batches")?,
        keep: keep(flags)?,
        patience: patience(flags)?,
        best_by: Some(flags.text("best_by").to_owned()).filter(|name| !name.is_empty()),
        test_period: natural(flags, "test_period")?,
        average_test_period: natural(flags, "average_test_period")?,
        test_pass: u32::try_from(flags.int("test_pass")).ok(),
        test_wait: flags.bool("test_wait"),
        model_list: path("model_list"),
        predict_output_dir: path("predict_output_dir"),
        predict_file: path("predict_file"),
        distribute_test: flags.bool("distribute_test"),
        feed_data: flags.bool("feed_data"),
    })
}

/// `--keep` or v1's `--save_only_one`: the last of two wins. (`paddle train` begins with `--keep=all`.)
fn keep(flags: &Flags) -> anyhow::Result<Keep> {
    if flags.bool("save_only_one") && !flags.given_after("keep", "save_only_one") {
        return Ok(Keep::NEWEST);
    }
    let text = flags.text("keep");
    text.parse().with_context(|| format!("--keep={text}"))
}

/// `--patience`. If only the number of passes is given, exactly that many are trained.
fn patience(flags: &Flags) -> anyhow::Result<Patience> {
    match flags.text("patience") {
        "auto" if flags.given("num_passes") => Ok(Patience::Unlimited),
        "auto" => Ok(Patience::Usual),
        text => match text.parse() {
            Ok(0) => Ok(Patience::Unlimited),
            Ok(passes) => Ok(Patience::Passes(passes)),
            Err(_) => anyhow::bail!(
                "--patience={text}: a number of passes, 0 (do not stop early) or auto is expected"
            ),
        },
    }
}

fn natural(flags: &Flags, name: &str) -> anyhow::Result<u64> {
    let value = flags.int(name);
    u64::try_from(value).map_err(|_| anyhow::anyhow!("--{name}={value}: it cannot be negative"))
}

fn positive(flags: &Flags, name: &str) -> anyhow::Result<usize> {
    match natural(flags, name)? {
        0 => anyhow::bail!("--{name}=0: it must be at least 1"),
        n => Ok(n as usize),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(args: &[&str]) -> Flags {
        let args: Vec<String> = args.iter().map(|a| (*a).to_owned()).collect();
        Flags::parse(&[COMMON, TRAIN, GFLAGS], &args).unwrap()
    }

    #[test]
    fn every_flag_that_is_asked_for_exists() {
        let flags = flags(&["--config=c.py"]);
        job(&flags).unwrap();
        save_dir(&flags).unwrap();
        stage(&flags).unwrap();
        config_file(&flags).unwrap();
        servers(&flags).unwrap();
        let settings = settings(&flags, "c.py".into(), "python3".into(), vec![]).unwrap();
        assert_eq!((settings.passes.count, settings.threads), (100, 1));
    }

    #[test]
    fn the_configuration_is_told_what_v1_told_it() {
        assert_eq!(
            config_args(&flags(&["--trainer_id=2", "--config_args=a=1"])),
            "trainer_id=2,local=1,with_cost=1,use_gpu=0,parallel_nn=0,cudnn_version=0,a=1"
        );
    }

    #[test]
    fn servers_have_their_own_port_or_the_common_one() {
        let flags = flags(&["--pservers=10.0.0.1, ps-1:7000", "--port=7164"]);
        let list: Vec<_> = servers(&flags).unwrap().iter().map(|s| s.text()).collect();
        assert_eq!(list, ["10.0.0.1:7164", "ps-1:7000"]);
    }

    #[test]
    fn impossible_numbers_are_refused_by_name() {
        let error = |args: &[&str]| {
            let flags = flags(args);
            let settings = settings(&flags, "c.py".into(), "python3".into(), vec![]);
            settings.unwrap_err().to_string()
        };
        assert!(error(&["--trainer_count=0"]).contains("--trainer_count=0"));
        assert!(error(&["--num_passes=-1"]).contains("--num_passes=-1"));
        assert!(error(&["--load_missing_parameter_strategy=guess"]).contains("guess"));
    }
}
