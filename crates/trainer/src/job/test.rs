//! `--job=test`: measures saved models on the test data, or writes their outputs.

use std::path::Path;

use config::TrainerConfig;
use nn::Network;

use super::parts::{inspector, network, test_source, tester};
use super::save_dir;
use crate::error::TrainError;
use crate::gather::Gathering;
use crate::inspect::Inspector;
use crate::log::{Level, Topic};
use crate::passes_to_test;
use crate::predict;
use crate::report::Reporter;
use crate::settings::TrainerSettings;
use crate::tested_model::TestedModel;
use crate::tester::Tester;

/// Tests every model that was asked for.
pub(super) fn run(
    config: &TrainerConfig,
    settings: &TrainerSettings,
    report: &mut dyn Reporter,
) -> Result<(), TrainError> {
    let mut network = network(config)?;
    let source = test_source(config, network.inputs(), settings)?
        .ok_or(TrainError::Configuration("names no test data"))?;
    let mut inspector = inspector(config, settings)?;
    let mut tester = tester(config, settings, source, &inspector)?;
    let mut gathering = gathering(settings)?;
    for directory in passes_to_test::to_test(&save_dir(config, settings), &settings.passes)? {
        let mut model = load(&directory?, config, &network, settings, report)?;
        if let Some(out) = &settings.passes.predict_output_dir {
            write_outputs(
                config,
                settings,
                &mut network,
                &mut model,
                (&mut tester, out),
                report,
            )?;
        } else {
            measure(
                &mut network,
                &mut model,
                (&mut tester, &mut inspector),
                report,
            )?;
            if let Some(gathering) = &mut gathering {
                gathering.gather(&mut tester.evaluators)?;
                tell_all(settings, &tester, report);
            }
        }
    }
    gathering.map_or(Ok(()), Gathering::leave)?;
    Ok(())
}

/// A session with the other trainers, if results are summed over them (`--distribute_test`).
fn gathering(settings: &TrainerSettings) -> Result<Option<Gathering>, TrainError> {
    let wanted = settings.passes.distribute_test && settings.passes.predict_output_dir.is_none();
    match (&settings.remote, wanted) {
        (Some(remote), true) => Ok(Some(Gathering::join(remote)?)),
        _ => Ok(None),
    }
}

/// Logs the result of all trainers together; only on trainer 0, as in v1.
fn tell_all(settings: &TrainerSettings, tester: &Tester, report: &mut dyn Reporter) {
    if settings.trainer == 0 {
        let text = format!("distribute eval: {}", tester.evaluators.line());
        report.line(Level::Info, Topic::DistributedTest, &text);
    }
}

fn load(
    directory: &Path,
    config: &TrainerConfig,
    network: &Network,
    settings: &TrainerSettings,
    report: &mut dyn Reporter,
) -> Result<TestedModel, TrainError> {
    let text = format!("Loading parameters from {}", directory.display());
    report.line(Level::Info, Topic::Loading, &text);
    let loaded = TestedModel::load(directory, config, network, settings)?;
    for table in loaded.unlike {
        let text = format!(
            "table {table} was saved with another learning method; decay that was due and averages are left out"
        );
        report.line(Level::Warning, Topic::LoadingIncomplete, &text);
    }
    Ok(loaded.model)
}

fn measure(
    network: &mut Network,
    model: &mut TestedModel,
    (tester, inspector): (&mut Tester, &mut Inspector),
    report: &mut dyn Reporter,
) -> Result<(), TrainError> {
    let meter = tester.run(network, model, inspector, report)?;
    let text = meter.test_line(&tester.evaluators.line());
    report.line(Level::Info, Topic::Test, &text);
    Ok(())
}

fn write_outputs(
    config: &TrainerConfig,
    settings: &TrainerSettings,
    network: &mut Network,
    model: &mut TestedModel,
    (tester, directory): (&mut Tester, &Path),
    report: &mut dyn Reporter,
) -> Result<(), TrainError> {
    let description = config.model_config.as_ref();
    let outputs = description.map_or(&[][..], |m| &m.output_layer_names);
    let (source, trainer) = (&mut tester.source, settings.trainer);
    let written = predict::write(network, model, source, outputs, directory, trainer)?;
    let text = format!("wrote {}", written.display());
    report.line(Level::Info, Topic::Prediction, &text);
    Ok(())
}
