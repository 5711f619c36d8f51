//! First values: drawn from the seed, or read from a model directory.

use std::path::Path;

use config::ParameterConfig;
use nn::{ParameterSpec, Parameters, Values};
use optim::Initial;
use rayon::prelude::*;

use crate::error::TrainError;
use crate::parameter_file;
use crate::rules;
use crate::settings::Missing;

/// Draws all parameters. Each value is a function of seed, name and place, hence the same on every machine and for
/// every number of threads.
pub fn draw(configs: &[ParameterConfig], specs: &[ParameterSpec], seed: u64) -> Parameters {
    draw_those(configs, specs, seed, |_| true)
}

/// Draws the parameters that this trainer is to hold; of the others it gets rows when it needs them.
pub fn draw_those(
    configs: &[ParameterConfig],
    specs: &[ParameterSpec],
    seed: u64,
    held: impl Fn(&ParameterSpec) -> bool,
) -> Parameters {
    let drawn = configs.iter().zip(specs).map(|(config, spec)| {
        if held(spec) {
            return Values::Full(draw_one(&rules::initial(config, seed), spec));
        }
        Values::Rows {
            ids: Vec::new(),
            values: Vec::new(),
        }
    });
    Parameters(drawn.collect())
}

fn draw_one(initial: &Initial, spec: &ParameterSpec) -> Vec<f32> {
    let mut values = vec![0.0; spec.size()];
    values
        .par_chunks_mut(spec.cols.max(1))
        .enumerate()
        .for_each(|(row, values)| initial.fill(row as u64, values));
    values
}

/// Replaces drawn values by those of a directory.
pub fn load(
    directory: &Path,
    specs: &[ParameterSpec],
    missing: Missing,
    parameters: &mut Parameters,
) -> Result<(), TrainError> {
    for (spec, values) in specs.iter().zip(&mut parameters.0) {
        let Values::Full(values) = values else {
            continue;
        };
        let file = directory.join(&spec.name);
        match missing {
            _ if file.exists() => parameter_file::read_into(&file, values)?,
            Missing::Fail => {
                return Err(TrainError::MissingParameter {
                    directory: directory.to_owned(),
                    parameter: spec.name.clone(),
                });
            }
            Missing::Zero => values.fill(0.0),
            Missing::Random => {}
        }
    }
    Ok(())
}
