//! Assembles a trainer and runs its task: train, test, check gradients, or measure times.

pub(crate) mod parts;
mod test;

use std::path::{Path, PathBuf};
use std::time::Duration;

use config::{OptimizationConfig, ParameterConfig, TrainerConfig};
use nn::{Network, Parameters};
use wire::Mode;
use wire::client::Saves;
use wire::spec::Origin;

use crate::best::{Measure, PATIENCE};
use crate::check;
use crate::checkgrad;
use crate::checksums::{self, DirectorySums};
use crate::error::TrainError;
use crate::loading;
use crate::log::{Level, Topic};
use crate::pass_directory::{self, Extras, SERVERS, STATE};
use crate::report::Reporter;
use crate::rules;
use crate::saved_note::SavedNote;
use crate::saving::Saver;
use crate::scores_file;
use crate::settings::{Patience, RemoteSettings, TrainerSettings};
use crate::state_file;
use crate::tester::Tester;
use crate::timing::TrainerTiming;
use crate::train::{TrainEvaluators, Trainer};
use crate::updater::center::{CenterUpdater, Meeting, Terms};
use crate::updater::local::LocalUpdater;
use crate::updater::remote::{JobTables, RemoteUpdater};
use crate::updater::{Position, UpdateError, Updater};
use parts::{all_sources, evaluators, inspector, network, tester, train_sources};

/// What `--job` asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum TrainerTask {
    /// Train all passes.
    Train,
    /// Measure saved models on the test data.
    Test,
    /// Compare gradients with differences of the cost.
    CheckGradient {
        /// The relative change of the cost that a step aims at.
        eps: f64,
    },
    /// Measure the time of forward, backward and update.
    Time,
}

/// Runs a job on a thread pool of its own.
pub fn run(
    job: &TrainerTask,
    config: &TrainerConfig,
    settings: &TrainerSettings,
    report: &mut (dyn Reporter + Send),
) -> Result<(), TrainError> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(settings.threads)
        .build()
        .map_err(TrainError::Threads)?;
    pool.install(|| match job {
        TrainerTask::Train => train(config, settings, report),
        TrainerTask::Test => test::run(config, settings, report),
        TrainerTask::CheckGradient { eps } => check_gradient(config, settings, *eps, report),
        TrainerTask::Time => time(config, settings, report),
    })
}

fn save_dir(config: &TrainerConfig, settings: &TrainerSettings) -> PathBuf {
    let given = settings.passes.save_dir.clone();
    given.unwrap_or_else(|| PathBuf::from(config.save_dir()))
}

/// The values that training begins with.
struct StartingValues {
    parameters: Parameters,
    /// The directory that they were loaded from, if any.
    from: Option<PathBuf>,
}

fn starting_values(
    config: &TrainerConfig,
    network: &Network,
    settings: &TrainerSettings,
    report: &mut dyn Reporter,
) -> Result<StartingValues, TrainError> {
    report.line(Level::Info, Topic::Initialize, "Initing parameters..");
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
    report.line(Level::Info, Topic::Initialized, "Init parameters done.");
    if let Some(directory) = &from {
        let text = format!("Loading parameters from {}", directory.display());
        report.line(Level::Info, Topic::Loading, &text);
        loading::load(
            directory,
            network.parameters(),
            passes.missing,
            &mut parameters,
        )?;
    }
    Ok(StartingValues { parameters, from })
}

fn train(
    config: &TrainerConfig,
    settings: &TrainerSettings,
    report: &mut dyn Reporter,
) -> Result<(), TrainError> {
    if settings.trainer == 0 {
        put_in_order(&save_dir(config, settings))?;
    }
    let network = network(config)?;
    check::trainable(&config.opt_config)?;
    if !network.has_cost() && settings.trainer == 0 {
        report.warn(Topic::Initialize, check::NO_COST.to_owned());
    }
    let inspector = inspector(config, settings)?;
    let data = all_sources(config, network.inputs(), settings)?;
    let tester = data
        .test
        .map(|source| tester(config, settings, source, &inspector))
        .transpose()?;
    check_unheld(settings, &network, tester.is_some())?;
    let measure = measure(config, settings, tester.as_ref())?;
    let patience = patience(settings, measure.is_some())?;
    let StartingValues {
        mut parameters,
        from,
    } = starting_values(config, &network, settings, report)?;
    if let (0, Some(remote)) = (settings.trainer, &settings.remote) {
        tell_damage(config, settings, remote, report)?;
    }
    let started = match &settings.remote {
        None => local(config, settings, &network, &mut parameters, from, report),
        Some(remote) => {
            let saved = from.as_deref().map(|directory| (directory, &parameters));
            connect(config, settings, remote, &network, saved, report)
        }
    };
    let (updater, start) = match started {
        Err(TrainError::Update(UpdateError::Remote(error @ wire::Error::Finished))) => {
            report.line(Level::Info, Topic::JobEnded, &error.to_string());
            if settings.trainer == 0 {
                saver(config, settings, measure)?.check_last(&settings.passes, patience)?;
            }
            return Ok(());
        }
        started => started?,
    };
    let saver = (settings.trainer == 0)
        .then(|| saver(config, settings, measure))
        .transpose()?;
    if let Some(saver) = &saver {
        // Checked before training, because otherwise the user would see it only after the first pass.
        pass_directory::check_writable(&saver.save_dir)?;
    }
    if let Some(saver) = &saver {
        tell_lost_scores(saver, report);
        if scores_file::is_taken(&saver.save_dir) {
            let best = saver.save_dir.join(scores_file::BEST);
            let text = format!(
                "{} is not a link, so it is not changed and does not name the best model; move it away to get the link",
                best.display()
            );
            report.warn(Topic::Saving, text);
        }
    }
    let mut trainer = Trainer {
        sources: data.train,
        evaluators: TrainEvaluators {
            pass: evaluators(config, &inspector)?,
            recent: evaluators(config, &inspector)?,
        },
        inspector,
        saver,
        patience,
        updater,
        network,
        parameters,
        tester,
        settings,
        waited: Duration::ZERO,
    };
    trainer.run(start, report)
}

/// Repairs pass directories: a process of this job may have crashed while it saved.
fn put_in_order(save_dir: &Path) -> Result<(), TrainError> {
    pass_directory::recover(save_dir).map_err(|source| TrainError::Write {
        path: save_dir.to_owned(),
        source,
    })
}

/// Refuses test data if tables stay on the servers: a test during training needs whole tables.
fn check_unheld(
    settings: &TrainerSettings,
    network: &Network,
    tests: bool,
) -> Result<(), TrainError> {
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
    settings: &TrainerSettings,
    network: &Network,
    parameters: &mut Parameters,
    from: Option<PathBuf>,
    report: &mut dyn Reporter,
) -> Result<Started, TrainError> {
    let meets = config.opt_config.num_batches_per_send_parameter() > 1;
    if meets && settings.data.directories.len() > 1 {
        return Err(TrainError::Configuration(
            "asks for num_batches_per_send_parameter above 1: one process cannot simulate trainers that each have their own values",
        ));
    }
    let mut updater = local_updater(config, network, settings)?;
    // A pass directory of this run continues it exactly; a model from elsewhere is only a starting point.
    if let (Some(directory), None) = (from, &settings.passes.init_model_path) {
        resume(&mut updater, &directory, parameters, report)?;
    }
    let start = Position {
        pass: settings.passes.start,
        ..Position::default()
    };
    Ok((Box::new(updater), start))
}

fn local_updater(
    config: &TrainerConfig,
    network: &Network,
    settings: &TrainerSettings,
) -> Result<LocalUpdater, TrainError> {
    rules::is_asynchronous(&config.opt_config)?;
    let rules = rules::rules(&config.opt_config, parameter_configs(config))?;
    Ok(LocalUpdater::new(
        network.parameters(),
        rules,
        settings.seed,
    ))
}

fn connect(
    config: &TrainerConfig,
    settings: &TrainerSettings,
    remote: &RemoteSettings,
    network: &Network,
    saved: Option<(&Path, &Parameters)>,
    report: &mut dyn Reporter,
) -> Result<Started, TrainError> {
    let configs = parameter_configs(config);
    let initials: Vec<_> = configs
        .iter()
        .map(|p| rules::initial(p, settings.seed))
        .collect();
    let origin = match saved {
        Some((directory, _)) => origin(directory, settings, remote, network)?,
        None => None,
    };
    let exact = matches!(origin, Some(Origin::State(_)));
    let mut rules = rules::rules(&config.opt_config, configs)?;
    let averaged = rules.iter().any(|r| r.average.is_some());
    let terms = terms(&config.opt_config, network, remote.session.trainers)?;
    if let Some(terms) = &terms {
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
    let mode = match rules::is_asynchronous(&config.opt_config)? {
        true => Mode::Async {
            staleness: remote.staleness,
        },
        false => Mode::Sync,
    };
    let spec = tables.job_spec(remote.job.clone(), mode, remote.snapshot_every);
    let mut session = remote.session.clone();
    let watch = session.watch.clone();
    report.waits_for(Box::new(move || watch.waits_for()));
    let specs = network.parameters();
    let saves = (settings.trainer == 0).then(|| {
        let (folder, run) = (save_dir(config, settings), remote.job.clone());
        Saves::new(move |usable| SavedNote::open(&folder, &run).find(usable))
    });
    session.saves.clone_from(&saves);
    let tell = |start: Position, report: &mut dyn Reporter| {
        if let Some(saves) = &saves {
            tell_continued(saves, report);
        }
        let is_new = (start.pass, start.batch) == (settings.passes.start, 0);
        if saved.is_some() && !exact && is_new {
            let text = "the servers start from the saved values; optimizer state and schedules start afresh";
            report.warn(Topic::Resume, text.to_owned());
        }
    };
    if let Some(terms) = terms {
        let local = local_updater(config, network, settings)?;
        let (updater, start) = CenterUpdater::connect(session, spec, specs, local, terms)?;
        tell(start, report);
        return Ok((Box::new(updater), start));
    }
    let (updater, start) =
        RemoteUpdater::connect(session, spec, specs, averaged, remote.rows_stay)?;
    tell(start, report);
    Ok((Box::new(updater), start))
}

/// Reports which saved states could not be restored, and from which one the job continues because no snapshot is newer.
fn tell_continued(saves: &Saves, report: &mut dyn Reporter) {
    for reason in saves.refusals() {
        let text = format!("a saved state cannot be restored, so an older one is used: {reason}");
        report.warn(Topic::Resume, text);
    }
    if let Some(saved) = saves.continued() {
        let text = format!(
            "the job continues from {} (step {}): no newer snapshot is on all servers",
            saved.directory, saved.step
        );
        report.warn(Topic::Resume, text);
    }
}

/// The model that the servers load themselves. A pass directory of this run continues it exactly; a model from
/// elsewhere is only a starting point.
fn origin(
    directory: &Path,
    settings: &TrainerSettings,
    remote: &RemoteSettings,
    network: &Network,
) -> Result<Option<Origin>, TrainError> {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let state = directory.join(SERVERS);
    if settings.passes.init_model_path.is_none() && state.is_dir() {
        let wrong =
            checksums::wrong_state(directory).unwrap_or_else(|error| Some(error.to_string()));
        if let Some(reason) = wrong {
            return Err(TrainError::WrongState {
                path: directory.to_owned(),
                reason,
            });
        }
        // Models of trainers that update locally had an empty directory before these wrote their state.
        if checksums::has_servers(directory).unwrap_or(true) {
            return Ok(Some(Origin::State(text(&state))));
        }
    }
    let by_row = network.parameters().iter().any(|p| p.by_row);
    Ok((remote.rows_stay && by_row).then(|| Origin::Rows(text(directory))))
}

/// When and how trainers that update locally synchronize; `None` if the servers update.
pub(crate) fn terms(
    settings: &OptimizationConfig,
    network: &Network,
    trainers: u32,
) -> Result<Option<Terms>, TrainError> {
    let every = settings.num_batches_per_send_parameter();
    if every <= 1 {
        return Ok(None);
    }
    let meeting = Meeting::named(settings.center_parameter_update_method()).ok_or(
        TrainError::Configuration(
            "has a center_parameter_update_method that is neither average nor elastic_average",
        ),
    )?;
    check_terms(network, settings.average_window() > 0.0)?;
    Ok(Some(Terms {
        every: every as u64,
        meeting,
        rate: settings.delta_add_rate() / f64::from(trainers.max(1)),
    }))
}

/// Refuses what trainers that update locally cannot do.
fn check_terms(network: &Network, averaged: bool) -> Result<(), TrainError> {
    if network.parameters().iter().any(|p| p.by_row) {
        return Err(TrainError::Configuration(
            "asks for num_batches_per_send_parameter above 1 and for sparse_update, which cannot be combined: every trainer would have to hold the whole table",
        ));
    }
    if averaged {
        return Err(TrainError::Configuration(
            "asks for num_batches_per_send_parameter above 1 and for a ModelAverage, which cannot be combined: the average over trainers is what is saved",
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
    report: &mut dyn Reporter,
) -> Result<(), TrainError> {
    let file = directory.join(STATE);
    if !file.exists() {
        let text = format!(
            "{} has no {STATE}: optimizer state and schedules start from the beginning",
            directory.display()
        );
        report.warn(Topic::Resume, text);
        return Ok(());
    }
    let saved = state_file::read(&file)?;
    DirectorySums::open(directory)?.check(&file)?;
    for name in updater.restore(&saved, parameters) {
        let text = format!(
            "the saved optimizer state does not match parameter '{name}', whose state starts from the beginning"
        );
        report.warn(Topic::Resume, text);
    }
    Ok(())
}

/// The measure by which passes are compared; `None` if they are not tested.
fn measure(
    config: &TrainerConfig,
    settings: &TrainerSettings,
    tester: Option<&Tester>,
) -> Result<Option<Measure>, TrainError> {
    let passes = &settings.passes;
    let ends_are_tested = passes.test_period == 0 || matches!(passes.patience, Patience::Passes(_));
    let Some(tester) = tester.filter(|_| ends_are_tested) else {
        return Ok(None);
    };
    let wanted = passes.best_by.as_deref();
    let measure = Measure::choose(wanted, &tester.evaluators.values(), parts::model(config)?)?;
    Ok(Some(measure))
}

/// The number of passes without improvement after which training ends. Depends on flags and configuration only, so it is
/// the same on all trainers.
fn patience(settings: &TrainerSettings, measured: bool) -> Result<Option<u32>, TrainError> {
    match settings.passes.patience {
        Patience::Unlimited => Ok(None),
        Patience::Usual => Ok(measured.then_some(PATIENCE)),
        Patience::Passes(passes) if measured => Ok(Some(passes)),
        Patience::Passes(_) => Err(TrainError::Configuration(
            "names no test data, so --patience has nothing to compare passes by; add test_list to define_py_data_sources2, or leave the flag out",
        )),
    }
}

/// Reports which test results of this run are missing: without them another pass may be the best.
fn tell_lost_scores(saver: &Saver, report: &mut dyn Reporter) {
    let known = |pass: &u32| saver.scores.passes.contains_key(pass);
    let mut tested = saver.note.iter().flat_map(SavedNote::tested_passes);
    let Some(first) = tested.find(|pass| !known(pass)) else {
        return;
    };
    let text = format!(
        "{} lacks test results that this run had, from pass {first} on: the best model is chosen among the passes that it has, and models of the others stay",
        saver.save_dir.join(scores_file::SCORES).display()
    );
    report.warn(Topic::Resume, text);
}

/// Reports damage to the directories that this run has saved before.
fn tell_damage(
    config: &TrainerConfig,
    settings: &TrainerSettings,
    remote: &RemoteSettings,
    report: &mut dyn Reporter,
) -> Result<(), TrainError> {
    let save_dir = save_dir(config, settings);
    let scores = scores_file::read(&save_dir)?;
    let kept = |pass| scores.passes.get(&pass).is_none_or(|score| score.kept);
    for text in SavedNote::open(&save_dir, &remote.job).problems(kept) {
        report.warn(Topic::Resume, text);
    }
    Ok(())
}

fn saver(
    config: &TrainerConfig,
    settings: &TrainerSettings,
    measure: Option<Measure>,
) -> Result<Saver, TrainError> {
    let passes = &settings.passes;
    let save_dir = save_dir(config, settings);
    let mut scores = scores_file::read(&save_dir)?;
    scores.measured_by(measure);
    let remote = settings.remote.as_ref();
    let mut saver = Saver {
        note: remote.map(|remote| SavedNote::open(&save_dir, &remote.job)),
        save_dir,
        extras: Extras {
            version: settings.version.clone(),
            config: Some(settings.config_file.clone()),
            config_args: settings.config_args.clone(),
            config_files: config.config_files.iter().map(PathBuf::from).collect(),
        },
        checks: settings.checks.clone(),
        keep: passes.keep,
        needed: passes.start.checked_sub(1),
        scores,
    };
    saver.check_kept();
    Ok(saver)
}

fn check_gradient(
    config: &TrainerConfig,
    settings: &TrainerSettings,
    eps: f64,
    report: &mut dyn Reporter,
) -> Result<(), TrainError> {
    let mut network = network(config)?;
    let mut parameters = starting_values(config, &network, settings, report)?.parameters;
    let batch = first_batch(config, &network, settings)?;
    checkgrad::check(&mut network, &mut parameters, &batch, eps, report)
}

fn first_batch(
    config: &TrainerConfig,
    network: &Network,
    settings: &TrainerSettings,
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
    settings: &TrainerSettings,
    report: &mut dyn Reporter,
) -> Result<(), TrainError> {
    let mut network = network(config)?;
    let mut sources = train_sources(config, network.inputs(), settings)?;
    let mut parameters = starting_values(config, &network, settings, report)?.parameters;
    let mut updater = local_updater(config, &network, settings)?;
    sources[0].start_pass(0, 0);
    let timing = TrainerTiming {
        network: &mut network,
        parameters: &mut parameters,
        updater: &mut updater,
        source: &mut sources[0],
        feeds: settings.passes.feed_data,
    };
    timing.run(settings.passes.test_period.max(1), report)
}
