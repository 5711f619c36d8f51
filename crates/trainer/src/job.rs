//! Puts a trainer together and runs what was asked for: train, test, check gradients, take times.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use config::{DataConfig, ParameterConfig, TrainerConfig};
use nn::{Evaluators, Gradients, Network, Parameters, Pass};
use wire::Mode;

use crate::checkgrad;
use crate::data::{self, Source};
use crate::error::TrainError;
use crate::loading;
use crate::log::Level;
use crate::models;
use crate::number::general;
use crate::pass_directory::{self, Extras, STATE};
use crate::predict;
use crate::report::Report;
use crate::rules;
use crate::saving::Saver;
use crate::settings::{Remote, Settings};
use crate::state_file;
use crate::testing::Tester;
use crate::train::Trainer;
use crate::updater::local::LocalUpdater;
use crate::updater::remote::{JobTables, RemoteUpdater};
use crate::updater::{Position, Updater};

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
        Job::Test => test(config, settings, report),
        Job::CheckGradient { eps } => check_gradient(config, settings, *eps, report),
        Job::Time => time(config, settings, report),
    })
}

fn network(config: &TrainerConfig) -> Result<Network, TrainError> {
    let model = config
        .model_config
        .as_ref()
        .ok_or(TrainError::Configuration("describes no network"))?;
    Ok(Network::new(model)?)
}

fn test_source(
    config: &TrainerConfig,
    network: &Network,
    settings: &Settings,
) -> Result<Option<Source>, TrainError> {
    let Some(data) = &config.test_data_config else {
        return Ok(None);
    };
    open(data, config, network, settings, (0, false)).map(Some)
}

/// The training data of each trainer that this process plays.
fn train_sources(
    config: &TrainerConfig,
    network: &Network,
    settings: &Settings,
) -> Result<Vec<Source>, TrainError> {
    let data = config
        .data_config
        .as_ref()
        .ok_or(TrainError::Configuration("names no training data"))?;
    (0..settings.data.directories.len())
        .map(|played| open(data, config, network, settings, (played, true)))
        .collect()
}

fn open(
    data: &DataConfig,
    config: &TrainerConfig,
    network: &Network,
    settings: &Settings,
    (played, training): (usize, bool),
) -> Result<Source, TrainError> {
    let inputs = network.inputs().iter().map(|input| data::Input {
        name: input.name.clone(),
        size: input.size,
    });
    let inputs: Vec<_> = inputs.collect();
    let files = &settings.data;
    let options = data::Options {
        seed: settings.seed,
        trainer: settings.trainer + played as u32,
        training,
        batch_size: u64::try_from(config.opt_config.batch_size)
            .unwrap_or(1)
            .max(1),
        directory: files.directories.get(played).cloned().unwrap_or_default(),
        config_directory: settings.config_file.parent().map(Path::to_owned),
        python: files.python.clone(),
        package: files.package.clone(),
        workers: files.workers,
    };
    Ok(data::open(data, &inputs, &options)?)
}

fn evaluators(config: &TrainerConfig) -> Result<Evaluators, TrainError> {
    let model = config.model_config.as_ref();
    Ok(Evaluators::new(model.ok_or(TrainError::Configuration(
        "describes no network",
    ))?)?)
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
    let mut parameters = loading::draw(
        parameter_configs(config),
        network.parameters(),
        settings.seed,
    );
    report.line(
        Level::Info,
        "GradientMachine.cpp:93",
        "Init parameters done.",
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
    let tester = test_source(config, &network, settings)?
        .map(|source| {
            Ok::<_, TrainError>(Tester {
                source,
                evaluators: evaluators(config)?,
            })
        })
        .transpose()?;
    let sources = train_sources(config, &network, settings)?;
    let (mut parameters, from) = starting_values(config, &network, settings, report)?;
    let (updater, start) = match &settings.remote {
        None => local(config, settings, &network, &mut parameters, from, report)?,
        Some(remote) => {
            let loaded = from.is_some().then_some(&parameters);
            connect(config, (settings, remote), &network, loaded, report)?
        }
    };
    let mut trainer = Trainer {
        sources,
        evaluators: (evaluators(config)?, evaluators(config)?),
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

type Started = (Box<dyn Updater>, Position);

fn local(
    config: &TrainerConfig,
    settings: &Settings,
    network: &Network,
    parameters: &mut Parameters,
    from: Option<PathBuf>,
    report: &mut dyn Report,
) -> Result<Started, TrainError> {
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
    loaded: Option<&Parameters>,
    report: &mut dyn Report,
) -> Result<Started, TrainError> {
    if loaded.is_some() {
        check_loadable(network, report)?;
    }
    let configs = parameter_configs(config);
    let rules = rules::rules(&config.opt_config, configs)?;
    let initials: Vec<_> = configs
        .iter()
        .map(|p| rules::initial(p, settings.seed))
        .collect();
    let tables = JobTables {
        specs: network.parameters(),
        rules: &rules,
        initials: &initials,
        loaded,
    };
    let mode = match config.opt_config.algorithm.as_str() {
        "async_sgd" => Mode::Async {
            staleness: remote.staleness,
        },
        _ => Mode::Sync,
    };
    let spec = tables.job_spec(remote.job.clone(), mode, remote.snapshot_every);
    let averaged = rules.iter().any(|r| r.average.is_some());
    let session = remote.session.clone();
    let first_pass = settings.passes.start;
    let (updater, start) =
        RemoteUpdater::connect(session, spec, network.parameters(), averaged, first_pass)?;
    let watch = updater.watch();
    report.waits_for(Box::new(move || watch.waits_for()));
    Ok((Box::new(updater), start))
}

/// What a saved model cannot bring back on servers is refused or said.
fn check_loadable(network: &Network, report: &mut dyn Report) -> Result<(), TrainError> {
    if network.parameters().iter().any(|p| p.by_row) {
        return Err(TrainError::Configuration(
            "has parameters with sparse_update, whose saved values cannot be loaded into servers yet; train it locally, or without sparse_update",
        ));
    }
    let text =
        "the servers start from the saved values; optimizer state and schedules start afresh";
    report.line(Level::Warning, "Trainer.cpp:130", text);
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

fn test(
    config: &TrainerConfig,
    settings: &Settings,
    report: &mut dyn Report,
) -> Result<(), TrainError> {
    let mut network = network(config)?;
    let source = test_source(config, &network, settings)?
        .ok_or(TrainError::Configuration("names no test data"))?;
    let mut tester = Tester {
        source,
        evaluators: evaluators(config)?,
    };
    for directory in models::to_test(&save_dir(config, settings), &settings.passes)? {
        let directory = directory?;
        let text = format!("Loading parameters from {}", directory.display());
        report.line(Level::Info, "ParamUtil.cpp:60", &text);
        let mut parameters = loading::draw(
            parameter_configs(config),
            network.parameters(),
            settings.seed,
        );
        let missing = settings.passes.missing;
        loading::load(&directory, network.parameters(), missing, &mut parameters)?;
        if let Some(out) = &settings.passes.predict_output_dir {
            let outputs = config
                .model_config
                .iter()
                .flat_map(|m| m.output_layer_names.clone());
            let outputs: Vec<_> = outputs.collect();
            let written = predict::write(
                &mut network,
                &parameters,
                &mut tester.source,
                &outputs,
                out,
                settings.trainer,
            )?;
            report.line(
                Level::Info,
                "Tester.cpp:200",
                &format!("wrote {}", written.display()),
            );
        } else {
            let meter = tester.run(&mut network, &parameters)?;
            report.line(
                Level::Info,
                "Tester.cpp:115",
                &meter.test_line(&tester.evaluators.line()),
            );
        }
    }
    Ok(())
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
    let mut sources = train_sources(config, network, settings)?;
    let source = &mut sources[0];
    source.start_pass(0, 0);
    source
        .next_batch()?
        .ok_or(TrainError::Configuration("yields no training samples"))
}

/// Batches that are run before the clock starts.
const WARM_UP: u64 = 10;

fn time(
    config: &TrainerConfig,
    settings: &Settings,
    report: &mut dyn Report,
) -> Result<(), TrainError> {
    let mut network = network(config)?;
    let (mut parameters, _) = starting_values(config, &network, settings, report)?;
    let mut updater = local_updater(config, &network, settings)?;
    let batch = first_batch(config, &network, settings)?;
    let mut gradients = Gradients::new(network.parameters());
    let rounds = settings.passes.test_period.max(1);
    let mut spent = [0.0; 3];
    for round in 0..WARM_UP + rounds {
        let started = Instant::now();
        let cost = network
            .forward(&parameters, &batch, Pass::Train { noise: round })
            .map_err(|source| TrainError::Execute {
                pass: 0,
                batch: round,
                source,
            })?;
        let forward = started.elapsed();
        network.backward(&parameters, &mut gradients, &mut |_, _| {});
        let backward = started.elapsed();
        updater.finish_batch(&gradients, batch.samples as u64, cost, &mut parameters)?;
        let update = started.elapsed();
        if round >= WARM_UP {
            for (sum, part) in
                spent
                    .iter_mut()
                    .zip([forward, backward - forward, update - backward])
            {
                *sum += part.as_secs_f64();
            }
        }
    }
    let total: f64 = spent.iter().sum();
    for (name, seconds) in ["forward", "backward", "update"].iter().zip(spent) {
        let text = format!(
            "{name:<10} {} ms a batch",
            general(1e3 * seconds / rounds as f64)
        );
        report.line(Level::Info, "TrainerBenchmark.cpp:60", &text);
    }
    let rate = rounds as f64 * batch.samples as f64 / total;
    let text = format!(
        "{rounds} batches of {} samples: {} samples/s",
        batch.samples,
        general(rate)
    );
    report.line(Level::Info, "TrainerBenchmark.cpp:66", &text);
    Ok(())
}
