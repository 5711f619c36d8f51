//! Puts a trainer together and runs what was asked for: train, test, check gradients, take times.

mod parts;
mod test;

use std::path::{Path, PathBuf};
use std::time::Duration;

use config::{ParameterConfig, TrainerConfig};
use nn::{Network, Parameters};
use wire::Mode;
use wire::spec::Origin;

use crate::checkgrad;
use crate::error::TrainError;
use crate::loading;
use crate::log::Level;
use crate::pass_directory::{self, Extras, SERVERS, STATE};
use crate::report::Report;
use crate::rules;
use crate::saving::Saver;
use crate::settings::{Remote, Settings};
use crate::state_file;
use crate::timing::Timing;
use crate::train::Trainer;
use crate::updater::center::{CenterUpdater, Meeting, Terms};
use crate::updater::local::LocalUpdater;
use crate::updater::remote::{JobTables, RemoteUpdater};
use crate::updater::{Position, UpdateError, Updater};
use parts::{all_sources, evaluators, inspector, network, tester, train_sources};

/// What to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Job {
    /// Train.
    Train,
    /// Measure saved models on the test data.
    Test,
    /// Compare gradients with differences of the cost.
    CheckGradient {
        /// By which part of itself the cost should change.
        eps: f64,
    },
    /// Take the time of batches.
    Time,
}

/// Runs a job on its own threads.
pub fn run(
    job: &Job,
    config: &TrainerConfig,
    settings: &Settings,
    report: &mut (dyn Report + Send),
) -> Result<(), TrainError> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(settings.threads)
        .build()
        .map_err(TrainError::Threads)?;
    pool.install(|| match job {
        Job::Train => train(config, settings, report),
        Job::Test => test::run(config, settings, report),
        Job::CheckGradient { eps } => check_gradient(config, settings, *eps, report),
        Job::Time => time(config, settings, report),
    })
}

fn save_dir(config: &TrainerConfig, settings: &Settings) -> PathBuf {
    let given = settings.passes.save_dir.clone();
    given.unwrap_or_else(|| PathBuf::from(config.save_dir()))
}

/// Values to start from, and the directory that they came from.
fn starting_values(
    config: &TrainerConfig,
    network: &Network,
    settings: &Settings,
    report: &mut dyn Report,
) -> Result<(Parameters, Option<PathBuf>), TrainError> {
    report.line(
        Level::Info,
        "GradientMachine.cpp:86",
        "Initing parameters..",
    );
    let passes = &settings.passes;
    let from = match (&passes.init_model_path, passes.start) {
        (Some(path), _) => Some(path.clone()),
        (None, 0) => None,
        (None, start) => Some(pass_directory::complete(
            &save_dir(config, settings),
            start - 1,
        )?),
    };
    let by_servers = from.is_none() || settings.remote.as_ref().is_some_and(|r| r.rows_stay);
    let mut parameters = loading::draw_those(
        parameter_configs(config),
        network.parameters(),
        settings.seed,
        |spec| settings.remote.is_none() || !spec.by_row || !by_servers || spec.is_static,
    );
    report.line(
        Level::Info,
        "GradientMachine.cpp:93",
        "Init parameters done.",
    );
    if let Some(directory) = &from {
        let text = format!("Loading parameters from {}", directory.display());
        report.line(Level::Info, "ParamUtil.cpp:60", &text);
        loading::load(
            directory,
            network.parameters(),
            passes.missing,
            &mut parameters,
        )?;
    }
    Ok((parameters, from))
}

fn train(
    config: &TrainerConfig,
    settings: &Settings,
    report: &mut dyn Report,
) -> Result<(), TrainError> {
    let network = network(config)?;
    let inspector = inspector(config, settings)?;
    let (sources, test_source) = all_sources(config, network.inputs(), settings)?;
    let tester = test_source
        .map(|source| tester(config, settings, source, &inspector))
        .transpose()?;
    check_unheld(settings, &network, tester.is_some())?;
    let (mut parameters, from) = starting_values(config, &network, settings, report)?;
    let started = match &settings.remote {
        None => local(config, settings, &network, &mut parameters, from, report),
        Some(remote) => {
            let saved = from.as_deref().map(|directory| (directory, &parameters));
            connect(config, (settings, remote), &network, saved, report)
        }
    };
    let (updater, start) = match started {
        Err(TrainError::Update(UpdateError::Remote(error @ wire::Error::Finished))) => {
            report.line(Level::Info, "Trainer.cpp:110", &error.to_string());
            return Ok(());
        }
        started => started?,
    };
    let mut trainer = Trainer {
        sources,
        evaluators: (
            evaluators(config, &inspector)?,
            evaluators(config, &inspector)?,
        ),
        inspector,
        saver: (settings.trainer == 0).then(|| saver(config, settings)),
        updater,
        network,
        parameters,
        tester,
        settings,
        waited: Duration::ZERO,
    };
    trainer.run(start, report)
}

/// A test needs whole tables, and one process that plays several trainers holds one set of values.
fn check_unheld(settings: &Settings, network: &Network, tests: bool) -> Result<(), TrainError> {
    let unheld = settings.remote.as_ref().is_some_and(|r| r.rows_stay)
        && network.parameters().iter().any(|p| p.by_row);
    if tests && unheld {
        return Err(TrainError::Configuration(
            "names test data, but with --loadsave_parameters_in_pserver no trainer holds the tables to test with; leave test_list out and test the saved passes with --job=test",
        ));
    }
    Ok(())
}

type Started = (Box<dyn Updater>, Position);

fn local(
    config: &TrainerConfig,
    settings: &Settings,
    network: &Network,
    parameters: &mut Parameters,
    from: Option<PathBuf>,
    report: &mut dyn Report,
) -> Result<Started, TrainError> {
    let meets = config.opt_config.num_batches_per_send_parameter() > 1;
    if meets && settings.data.directories.len() > 1 {
        return Err(TrainError::Configuration(
            "asks for num_batches_per_send_parameter above 1: one process cannot play trainers that have values of their own",
        ));
    }
    let mut updater = local_updater(config, network, settings)?;
    // A pass directory of this run continues it exactly; a model from elsewhere is only a starting point.
    if let (Some(directory), None) = (from, &settings.passes.init_model_path) {
        resume(&mut updater, &directory, parameters, report)?;
    }
    let start = Position {
        pass: settings.passes.start,
        batch: 0,
    };
    Ok((Box::new(updater), start))
}

fn local_updater(
    config: &TrainerConfig,
    network: &Network,
    settings: &Settings,
) -> Result<LocalUpdater, TrainError> {
    let rules = rules::rules(&config.opt_config, parameter_configs(config))?;
    Ok(LocalUpdater::new(
        network.parameters(),
        rules,
        settings.seed,
    ))
}

fn connect(
    config: &TrainerConfig,
    (settings, remote): (&Settings, &Remote),
    network: &Network,
    saved: Option<(&Path, &Parameters)>,
    report: &mut dyn Report,
) -> Result<Started, TrainError> {
    let configs = parameter_configs(config);
    let initials: Vec<_> = configs
        .iter()
        .map(|p| rules::initial(p, settings.seed))
        .collect();
    let origin = saved.and_then(|(directory, _)| origin(directory, settings, remote, network));
    let exact = matches!(origin, Some(Origin::State(_)));
    if saved.is_some() && !exact {
        let text =
            "the servers start from the saved values; optimizer state and schedules start afresh";
        report.line(Level::Warning, "Trainer.cpp:130", text);
    }
    let mut rules = rules::rules(&config.opt_config, configs)?;
    let averaged = rules.iter().any(|r| r.average.is_some());
    let terms = terms(config, remote)?;
    if let Some(terms) = &terms {
        check_terms(network, averaged)?;
        rules.fill(terms.rule());
    }
    let tables = JobTables {
        specs: network.parameters(),
        rules: &rules,
        initials: &initials,
        loaded: saved.map(|(_, values)| values).filter(|_| !exact),
        origin,
        first_pass: settings.passes.start,
    };
    let mode = match config.opt_config.algorithm.as_str() {
        "async_sgd" => Mode::Async {
            staleness: remote.staleness,
        },
        _ => Mode::Sync,
    };
    let spec = tables.job_spec(remote.job.clone(), mode, remote.snapshot_every);
    let session = remote.session.clone();
    let specs = network.parameters();
    if let Some(terms) = terms {
        let local = local_updater(config, network, settings)?;
        let (updater, start) = CenterUpdater::connect(session, spec, specs, local, terms)?;
        let watch = updater.watch();
        report.waits_for(Box::new(move || watch.waits_for()));
        return Ok((Box::new(updater), start));
    }
    let (updater, start) =
        RemoteUpdater::connect(session, spec, specs, averaged, remote.rows_stay)?;
    let watch = updater.watch();
    report.waits_for(Box::new(move || watch.waits_for()));
    Ok((Box::new(updater), start))
}

/// What the servers read themselves. A pass directory of this run continues it exactly; a model from elsewhere is only
/// a starting point.
fn origin(
    directory: &Path,
    settings: &Settings,
    remote: &Remote,
    network: &Network,
) -> Option<Origin> {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let state = directory.join(SERVERS);
    if settings.passes.init_model_path.is_none() && state.is_dir() {
        return Some(Origin::State(text(&state)));
    }
    let by_row = network.parameters().iter().any(|p| p.by_row);
    (remote.rows_stay && by_row).then(|| Origin::Rows(text(directory)))
}

/// Whether trainers update by themselves and meet now and then, and how.
fn terms(config: &TrainerConfig, remote: &Remote) -> Result<Option<Terms>, TrainError> {
    let settings = &config.opt_config;
    let every = settings.num_batches_per_send_parameter();
    if every <= 1 {
        return Ok(None);
    }
    let meeting = Meeting::named(settings.center_parameter_update_method()).ok_or(
        TrainError::Configuration(
            "has a center_parameter_update_method that is neither average nor elastic_average",
        ),
    )?;
    Ok(Some(Terms {
        every: every as u64,
        meeting,
        rate: settings.delta_add_rate() / f64::from(remote.session.trainers.max(1)),
    }))
}

/// What trainers that update by themselves cannot do.
fn check_terms(network: &Network, averaged: bool) -> Result<(), TrainError> {
    if network.parameters().iter().any(|p| p.by_row) {
        return Err(TrainError::Configuration(
            "asks for num_batches_per_send_parameter above 1 and for sparse_update, which do not go together: every trainer would have to hold the whole table",
        ));
    }
    if averaged {
        return Err(TrainError::Configuration(
            "asks for num_batches_per_send_parameter above 1 and for a ModelAverage, which do not go together: what is saved is the average over trainers",
        ));
    }
    Ok(())
}

fn parameter_configs(config: &TrainerConfig) -> &[ParameterConfig] {
    config
        .model_config
        .as_ref()
        .map_or(&[], |model| &model.parameters)
}

fn resume(
    updater: &mut LocalUpdater,
    directory: &Path,
    parameters: &mut Parameters,
    report: &mut dyn Report,
) -> Result<(), TrainError> {
    let file = directory.join(STATE);
    if !file.exists() {
        let text = format!(
            "{} has no {STATE}: optimizer state and schedules start afresh",
            directory.display()
        );
        report.line(Level::Warning, "Trainer.cpp:120", &text);
        return Ok(());
    }
    let saved = state_file::read(&file)?;
    for name in updater.restore(&saved, parameters) {
        let text = format!(
            "the saved optimizer state does not fit parameter '{name}', which starts afresh"
        );
        report.line(Level::Warning, "Trainer.cpp:125", &text);
    }
    Ok(())
}

fn saver(config: &TrainerConfig, settings: &Settings) -> Saver {
    let passes = &settings.passes;
    Saver {
        save_dir: save_dir(config, settings),
        extras: Extras {
            version: settings.version.clone(),
            config: Some(settings.config_file.clone()),
            config_files: config.config_files.iter().map(PathBuf::from).collect(),
        },
        replaces: passes.save_only_one.then_some(passes.saving_period),
    }
}

fn check_gradient(
    config: &TrainerConfig,
    settings: &Settings,
    eps: f64,
    report: &mut dyn Report,
) -> Result<(), TrainError> {
    let mut network = network(config)?;
    let (mut parameters, _) = starting_values(config, &network, settings, report)?;
    let batch = first_batch(config, &network, settings)?;
    checkgrad::check(&mut network, &mut parameters, &batch, eps, report)
}

fn first_batch(
    config: &TrainerConfig,
    network: &Network,
    settings: &Settings,
) -> Result<nn::Batch, TrainError> {
    let mut sources = train_sources(config, network.inputs(), settings)?;
    let source = &mut sources[0];
    source.start_pass(0, 0);
    source
        .next_batch()?
        .ok_or(TrainError::Configuration("yields no training samples"))
}

fn time(
    config: &TrainerConfig,
    settings: &Settings,
    report: &mut dyn Report,
) -> Result<(), TrainError> {
    let mut network = network(config)?;
    let mut sources = train_sources(config, network.inputs(), settings)?;
    let (mut parameters, _) = starting_values(config, &network, settings, report)?;
    let mut updater = local_updater(config, &network, settings)?;
    sources[0].start_pass(0, 0);
    let timing = Timing {
        network: &mut network,
        parameters: &mut parameters,
        updater: &mut updater,
        source: &mut sources[0],
        feeds: settings.passes.feed_data,
    };
    timing.run(settings.passes.test_period.max(1), report)
}
