//! Builds the parts of a job: network, data, evaluators.

use std::panic::resume_unwind;
use std::path::{Path, PathBuf};

use config::{DataConfig, ModelConfig, TrainerConfig};
use nn::{Evaluators, InputSpec, Network};

use crate::data::{self, DataSource};
use crate::error::TrainError;
use crate::inspect::Inspector;
use crate::settings::TrainerSettings;
use crate::tester::Tester;

pub(crate) fn model(config: &TrainerConfig) -> Result<&ModelConfig, TrainError> {
    let model = config.model_config.as_ref();
    model.ok_or(TrainError::Configuration("describes no network"))
}

pub(crate) fn network(config: &TrainerConfig) -> Result<Network, TrainError> {
    Ok(Network::new(model(config)?)?)
}

pub(crate) fn inspector(
    config: &TrainerConfig,
    settings: &TrainerSettings,
) -> Result<Inspector, TrainError> {
    let directory = settings.data.directories.first();
    let directory = directory.map_or(Path::new(""), PathBuf::as_path);
    Ok(Inspector::new(
        model(config)?,
        settings.reporting,
        directory,
    ))
}

pub(crate) fn test_source(
    config: &TrainerConfig,
    inputs: &[InputSpec],
    settings: &TrainerSettings,
) -> Result<Option<DataSource>, TrainError> {
    let Some(data) = &config.test_data_config else {
        return Ok(None);
    };
    open(data, config, inputs, settings, 0, false).map(Some)
}

/// The training data of each trainer that this process plays.
pub(crate) fn train_sources(
    config: &TrainerConfig,
    inputs: &[InputSpec],
    settings: &TrainerSettings,
) -> Result<Vec<DataSource>, TrainError> {
    let data = config
        .data_config
        .as_ref()
        .ok_or(TrainError::Configuration("names no training data"))?;
    (0..settings.data.directories.len())
        .map(|played| open(data, config, inputs, settings, played, true))
        .collect()
}

/// The opened data of a job.
pub(crate) struct OpenedData {
    /// The training data of each trainer that this process plays.
    pub(crate) train: Vec<DataSource>,
    pub(crate) test: Option<DataSource>,
}

/// Training and test data. Both are opened at the same time, because each may wait for Python to start.
pub(crate) fn all_sources(
    config: &TrainerConfig,
    inputs: &[InputSpec],
    settings: &TrainerSettings,
) -> Result<OpenedData, TrainError> {
    std::thread::scope(|scope| {
        let test = std::thread::Builder::new()
            .spawn_scoped(scope, || test_source(config, inputs, settings))
            .map_err(data::DataError::NoThread)?;
        let train = train_sources(config, inputs, settings);
        let test = test.join().unwrap_or_else(|panic| resume_unwind(panic));
        Ok(OpenedData {
            train: train?,
            test: test?,
        })
    })
}

fn open(
    data: &DataConfig,
    config: &TrainerConfig,
    inputs: &[InputSpec],
    settings: &TrainerSettings,
    played: usize,
    training: bool,
) -> Result<DataSource, TrainError> {
    let inputs = inputs.iter().map(|input| data::DataInput {
        name: input.name.clone(),
        size: input.size,
    });
    let inputs: Vec<_> = inputs.collect();
    let files = &settings.data;
    let options = data::DataOptions {
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
        python_path: files.python_path.clone(),
        workers: files.workers,
        needed: None,
    };
    Ok(data::open(data, &inputs, &options)?)
}

pub(crate) fn evaluators(
    config: &TrainerConfig,
    inspector: &Inspector,
) -> Result<Evaluators, TrainError> {
    let mut evaluators = Evaluators::new(model(config)?)?;
    inspector.load_dictionaries(&mut evaluators)?;
    Ok(evaluators)
}

pub(crate) fn tester(
    config: &TrainerConfig,
    settings: &TrainerSettings,
    source: DataSource,
    inspector: &Inspector,
) -> Result<Tester, TrainError> {
    let file = settings.passes.predict_file.clone();
    let evaluators = evaluators(config, inspector)?;
    Ok(Tester::new(source, evaluators, file))
}
