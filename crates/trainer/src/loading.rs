//! Initial values: drawn from the seed, or read from a model directory or a merged model.

use std::path::Path;

use config::ParameterConfig;
use nn::{ParameterSpec, ParameterValues, Parameters};
use optim::Initial;
use rayon::prelude::*;

use crate::checksums::DirectorySums;
use crate::error::TrainError;
use crate::merged::Merged;
use crate::parameter_file;
use crate::rules;
use crate::settings::Missing;

/// Draws all parameters. Each value is a function of seed, name and index, hence the same on every machine and for
/// every number of threads.
pub fn draw(configs: &[ParameterConfig], specs: &[ParameterSpec], seed: u64) -> Parameters {
    draw_those(configs, specs, seed, |_| true)
}

/// Draws the parameters that this trainer holds as a whole; rows of the others are fetched per batch.
pub(crate) fn draw_those(
    configs: &[ParameterConfig],
    specs: &[ParameterSpec],
    seed: u64,
    held: impl Fn(&ParameterSpec) -> bool,
) -> Parameters {
    let drawn = configs.iter().zip(specs).map(|(config, spec)| {
        if held(spec) {
            return ParameterValues::Full(draw_one(&rules::initial(config, seed), spec));
        }
        ParameterValues::Rows {
            ids: Vec::new(),
            values: Vec::new(),
        }
    });
    Parameters(drawn.collect())
}

/// Draws some rows of a parameter, as a server does when they are first used.
pub(crate) fn draw_rows(
    config: &ParameterConfig,
    spec: &ParameterSpec,
    seed: u64,
    ids: Vec<u32>,
) -> ParameterValues {
    let initial = rules::initial(config, seed);
    let mut values = vec![0.0; ids.len() * spec.cols];
    for (row, values) in ids.iter().zip(values.chunks_mut(spec.cols.max(1))) {
        initial.fill(u64::from(*row), values);
    }
    ParameterValues::Rows { ids, values }
}

fn draw_one(initial: &Initial, spec: &ParameterSpec) -> Vec<f32> {
    let mut values = vec![0.0; spec.size()];
    values
        .par_chunks_mut(spec.cols.max(1))
        .enumerate()
        .for_each(|(row, values)| initial.fill(row as u64, values));
    values
}

/// Replaces drawn values by those in a directory, or in a [merged model](crate::merged).
pub fn load(
    directory: &Path,
    specs: &[ParameterSpec],
    missing: Missing,
    parameters: &mut Parameters,
) -> Result<(), TrainError> {
    if missing == Missing::Fail {
        std::fs::metadata(directory).map_err(|source| TrainError::Read {
            path: directory.to_owned(),
            source,
        })?;
    }
    let merged = if directory.is_file() {
        Some(Merged::open(directory)?)
    } else {
        None
    };
    // A merged model has no files beside it.
    let sums = match merged {
        Some(_) => DirectorySums::default(),
        None => DirectorySums::open(directory)?,
    };
    for (spec, values) in specs.iter().zip(&mut parameters.0) {
        let ParameterValues::Full(values) = values else {
            continue;
        };
        if let Some(merged) = merged.as_ref().filter(|merged| merged.has(&spec.name)) {
            merged.read_into(&spec.name, values)?;
            continue;
        }
        let file = directory.join(&spec.name);
        match missing {
            _ if file.exists() => {
                parameter_file::read_into(&file, values)?;
                sums.check(&file)?;
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksums::{self, SUMS};

    #[test]
    fn a_damaged_file_is_not_loaded() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("w");
        parameter_file::write(&file, &[1.0, 2.0]).unwrap();
        let sums = checksums::of_directory(directory.path()).unwrap();
        std::fs::write(directory.path().join(SUMS), sums).unwrap();
        let sums = DirectorySums::open(directory.path()).unwrap();
        sums.check(&file).unwrap();
        parameter_file::write(&file, &[1.0, 3.0]).unwrap();
        let error = sums.check(&file).unwrap_err().to_string();
        assert!(error.contains("is damaged"), "{error}");
        std::fs::remove_file(directory.path().join(SUMS)).unwrap();
        let without = DirectorySums::open(directory.path()).unwrap();
        without.check(&file).unwrap();
    }

    #[test]
    fn a_directory_that_does_not_exist_is_not_one_without_files() {
        let directory = tempfile::tempdir().unwrap();
        let absent = directory.path().join("pass-00099");
        let load = |missing| load(&absent, &[], missing, &mut Parameters::default());
        assert!(
            matches!(load(Missing::Fail), Err(TrainError::Read { path, .. }) if path == absent)
        );
        assert!(load(Missing::Random).is_ok());
    }
}
