//! Reads a finished model: the parameters of a pass directory, their statistics and differences.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::checksums::SUMS;
use crate::merged::{Merged, MergedError};
use crate::parameter_file::{self, ParameterFileError};
use crate::pass_directory::{CONFIG_ARGS, STATE};
use crate::state_file;

/// Files of a pass directory that are not parameters, although one could pass the header check.
const OTHER_FILES: [&str; 5] = ["done", "path.txt", STATE, CONFIG_ARGS, SUMS];

/// Why a model directory could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The directory could not be listed.
    #[error("list model directory {path}")]
    List {
        /// Path of the directory.
        path: PathBuf,
        /// The error that the operating system returned.
        #[source]
        source: io::Error,
    },
    /// The directory has no parameter file.
    #[error("{path} holds no parameter files; give a pass directory such as output/pass-00000")]
    Empty {
        /// Path of the directory.
        path: PathBuf,
    },
    /// A parameter file could not be read.
    #[error(transparent)]
    Parameter(#[from] ParameterFileError),
    /// A merged model could not be read.
    #[error(transparent)]
    Merged(#[from] MergedError),
}

/// One parameter of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelParameter {
    /// Its name, which is its file's name.
    pub name: String,
    /// Rows and columns; one row if the directory does not have them.
    pub dims: (u64, u64),
    /// Its values, row after row.
    pub values: Vec<f32>,
}

/// Reads all parameters of a pass directory or of a [merged model](crate::merged), sorted by name.
pub fn read(directory: &Path) -> Result<Vec<ModelParameter>, ModelError> {
    if directory.is_file() {
        return Ok(Merged::open(directory)?.parameters()?);
    }
    let failed = |source| ModelError::List {
        path: directory.to_owned(),
        source,
    };
    let state = state_file::read(&directory.join(STATE)).ok();
    let mut model = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !entry.path().is_file() || OTHER_FILES.contains(&name.as_str()) {
            continue;
        }
        let values = match parameter_file::read(&entry.path()) {
            Ok(values) => values,
            // The copy of a configuration is not a parameter, nor are files that the user put there.
            Err(ParameterFileError::Foreign { .. }) => continue,
            Err(ParameterFileError::Truncated { .. }) if name.ends_with(".py") => continue,
            Err(error) => return Err(error.into()),
        };
        let known = state
            .iter()
            .flat_map(|s| &s.parameters)
            .find(|p| p.name == name);
        let dims = known
            .map(|p| p.dims)
            .filter(|(rows, cols)| rows * cols == values.len() as u64)
            .unwrap_or((1, values.len() as u64));
        model.push(ModelParameter { name, dims, values });
    }
    if model.is_empty() {
        return Err(ModelError::Empty {
            path: directory.to_owned(),
        });
    }
    model.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(model)
}

/// Statistics of one parameter's values.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize)]
pub struct Statistics {
    /// Number of values, those that are not finite included.
    pub values: u64,
    /// Mean of the finite values.
    pub mean: f64,
    /// Standard deviation of the finite values.
    pub deviation: f64,
    /// Smallest finite value.
    pub min: f32,
    /// Largest finite value.
    pub max: f32,
    /// Share of exact zeros, 0 to 1.
    pub zeros: f64,
    /// Values that are NaN or infinite; they are left out of the other figures.
    pub not_finite: u64,
}

/// Computes statistics in one pass over the values, and a second one for the deviation.
pub fn statistics(values: &[f32]) -> Statistics {
    let finite = || values.iter().copied().filter(|v| v.is_finite());
    let count = finite().count();
    if count == 0 {
        return Statistics {
            values: values.len() as u64,
            not_finite: values.len() as u64,
            ..Statistics::default()
        };
    }
    let mean = finite().map(f64::from).sum::<f64>() / count as f64;
    let variance = finite().map(|v| (f64::from(v) - mean).powi(2)).sum::<f64>() / count as f64;
    Statistics {
        values: values.len() as u64,
        mean,
        deviation: variance.sqrt(),
        min: finite().fold(f32::INFINITY, f32::min),
        max: finite().fold(f32::NEG_INFINITY, f32::max),
        zeros: finite().filter(|v| *v == 0.0).count() as f64 / count as f64,
        not_finite: (values.len() - count) as u64,
    }
}

/// How one parameter differs between two models.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum Difference {
    /// The values are the same, bit for bit.
    Equal,
    /// Same size, other values.
    Changed {
        /// How many values differ.
        values: u64,
        /// Largest absolute difference.
        max: f64,
        /// Root of the mean squared difference.
        rms: f64,
    },
    /// The sizes differ.
    Resized {
        /// Values in the first model.
        left: u64,
        /// Values in the second model.
        right: u64,
    },
    /// Only the first model has the parameter.
    OnlyLeft,
    /// Only the second model has the parameter.
    OnlyRight,
}

/// Compares two models parameter by parameter, in the order of names.
pub fn diff(left: &[ModelParameter], right: &[ModelParameter]) -> Vec<(String, Difference)> {
    let mut names: Vec<&str> = left.iter().chain(right).map(|p| p.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let find = |model: &'_ [ModelParameter], name: &str| model.iter().position(|p| p.name == name);
    names
        .into_iter()
        .map(|name| {
            let difference = match (find(left, name), find(right, name)) {
                (Some(a), Some(b)) => compare(&left[a].values, &right[b].values),
                (Some(_), None) => Difference::OnlyLeft,
                _ => Difference::OnlyRight,
            };
            (name.to_owned(), difference)
        })
        .collect()
}

fn compare(left: &[f32], right: &[f32]) -> Difference {
    if left.len() != right.len() {
        return Difference::Resized {
            left: left.len() as u64,
            right: right.len() as u64,
        };
    }
    let pairs = || left.iter().zip(right);
    let values = pairs().filter(|(a, b)| a.to_bits() != b.to_bits()).count() as u64;
    if values == 0 {
        return Difference::Equal;
    }
    let distance = |(a, b): (&f32, &f32)| (f64::from(*a) - f64::from(*b)).abs();
    let squares: f64 = pairs().map(|p| distance(p).powi(2)).sum();
    Difference::Changed {
        values,
        max: pairs().map(distance).fold(0.0, f64::max),
        rms: (squares / left.len() as f64).sqrt(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameter(name: &str, values: &[f32]) -> ModelParameter {
        ModelParameter {
            name: name.into(),
            dims: (1, values.len() as u64),
            values: values.to_vec(),
        }
    }

    #[test]
    fn statistics_leave_out_what_is_not_finite() {
        let s = statistics(&[0.0, 2.0, 4.0, f32::NAN]);
        assert_eq!((s.values, s.not_finite), (4, 1));
        assert_eq!((s.mean, s.min, s.max), (2.0, 0.0, 4.0));
        assert!((s.deviation - (8.0f64 / 3.0).sqrt()).abs() < 1e-12);
        assert!((s.zeros - 1.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn every_kind_of_difference_is_told() {
        let left = [
            parameter("a", &[1.0, 2.0]),
            parameter("b", &[1.0]),
            parameter("c", &[1.0]),
            parameter("d", &[3.0]),
        ];
        let right = [
            parameter("a", &[1.0, 4.0]),
            parameter("b", &[1.0, 1.0]),
            parameter("d", &[3.0]),
            parameter("e", &[0.0]),
        ];
        let told = diff(&left, &right);
        let names: Vec<_> = told.iter().map(|(n, _)| n.as_str()).collect();
        assert_eq!(names, ["a", "b", "c", "d", "e"]);
        assert!(
            matches!(told[0].1, Difference::Changed { values: 1, max, .. } if max == 2.0),
            "{told:?}"
        );
        assert_eq!(told[1].1, Difference::Resized { left: 1, right: 2 });
        assert_eq!(told[2].1, Difference::OnlyLeft);
        assert_eq!(told[3].1, Difference::Equal);
        assert_eq!(told[4].1, Difference::OnlyRight);
    }

    #[test]
    fn a_directory_without_parameters_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("trainer_config.py"), "x = 1").unwrap();
        assert!(matches!(read(dir.path()), Err(ModelError::Empty { .. })));
        parameter_file::write(&dir.path().join("_w"), &[1.0]).unwrap();
        assert_eq!(read(dir.path()).unwrap(), [parameter("_w", &[1.0])]);
    }
}
