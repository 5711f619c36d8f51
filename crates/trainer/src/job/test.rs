//! `--job=test`: measures saved models on the test data, or writes what they output.

use std::path::Path;

use config::TrainerConfig;
use nn::Network;

use super::parts::{inspector, network, test_source, tester};
use super::save_dir;
use crate::error::TrainError;
use crate::gather::Gathering;
use crate::inspect::Inspector;
use crate::log::Level;
use crate::models;
use crate::predict;
use crate::report::Report;
use crate::settings::Settings;
use crate::tested::Model;
use crate::testing::Tester;

/// Tests every model that was asked for.
pub(super) fn run(
    config: &TrainerConfig,
    settings: &Settings,
    report: &mut dyn Report,
) -> Result<(), TrainError> {
    let mut network = network(config)?;
    let source = test_source(config, network.inputs(), settings)?
        .ok_or(TrainError::Configuration("names no test data"))?;
    let mut inspector = inspector(config, settings)?;
    let mut tester = tester(config, settings, source, &inspector)?;
    let mut gathering = gathering(settings)?;
    for directory in models::to_test(&save_dir(config, settings), &settings.passes)? {
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

/// The other trainers, if results are to be added up.
fn gathering(settings: &Settings) -> Result<Option<Gathering>, TrainError> {
    let wanted = settings.passes.distribute_test && settings.passes.predict_output_dir.is_none();
    match (&settings.remote, wanted) {
        (Some(remote), true) => Ok(Some(Gathering::join(remote)?)),
        _ => Ok(None),
    }
}

/// v1 let trainer 0 say it.
fn tell_all(settings: &Settings, tester: &Tester, report: &mut dyn Report) {
    if settings.trainer == 0 {
        let text = format!("distribute eval: {}", tester.evaluators.line());
        report.line(Level::Info, "Tester.cpp:251", &text);
    }
}

fn load(
    directory: &Path,
    config: &TrainerConfig,
    network: &Network,
    settings: &Settings,
    report: &mut dyn Report,
) -> Result<Model, TrainError> {
    let text = format!("Loading parameters from {}", directory.display());
    report.line(Level::Info, "ParamUtil.cpp:60", &text);
    let (model, unlike) = Model::load(directory, config, network, settings)?;
    for table in unlike {
        let text = format!(
            "table {table} was saved with another learning method; decay that was due and averages are left out"
        );
        report.line(Level::Warning, "ParamUtil.cpp:70", &text);
    }
    Ok(model)
}

fn measure(
    network: &mut Network,
    model: &mut Model,
    (tester, inspector): (&mut Tester, &mut Inspector),
    report: &mut dyn Report,
) -> Result<(), TrainError> {
    let meter = tester.run(network, model, inspector, report)?;
    let text = meter.test_line(&tester.evaluators.line());
    report.line(Level::Info, "Tester.cpp:115", &text);
    Ok(())
}

fn write_outputs(
    config: &TrainerConfig,
    settings: &Settings,
    network: &mut Network,
    model: &mut Model,
    (tester, directory): (&mut Tester, &Path),
    report: &mut dyn Report,
) -> Result<(), TrainError> {
    let description = config.model_config.as_ref();
    let outputs = description.map_or(&[][..], |m| &m.output_layer_names);
    let (source, trainer) = (&mut tester.source, settings.trainer);
    let written = predict::write(network, model, source, outputs, directory, trainer)?;
    let text = format!("wrote {}", written.display());
    report.line(Level::Info, "Tester.cpp:200", &text);
    Ok(())
}
