//! Submitting: a first time, or again under the same name.

use serde_json::Value;

use super::arguments::{Mode, Target};
use super::difference::differences;
use super::kubectl::{ClusterError, Kubectl};

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Submitted {
    /// Objects were made.
    New {
        /// A line for each, as kubectl says it.
        lines: Vec<String>,
        /// What the server warned of; a warning about pod security means that no pod will be made.
        warnings: Vec<String>,
    },
    /// The same job is there already.
    Unchanged,
}

/// What to do with a Job of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// Leave it and say what differs.
    Compare,
    /// Remove it first. What is on the volume stays.
    Replace,
}

/// Applies the objects of a job unless a Job of this name is there: then says whether it is the same.
pub fn submit(
    kubectl: &Kubectl,
    target: &Target,
    objects: &[Value],
    mode: Mode,
    again: Again,
) -> Result<Submitted, ClusterError> {
    if kubectl.job(target)?.is_some() {
        let wanted = comparable(objects);
        let differences = differences(&wanted, &kubectl.same_objects(&wanted)?);
        match again {
            Again::Replace if mode == Mode::Real => kubectl.delete_jobs(target)?,
            _ if differences.is_empty() => return Ok(Submitted::Unchanged),
            _ => {
                return Err(ClusterError::Differs {
                    job: target.job.clone(),
                    differences,
                });
            }
        }
    }
    let (lines, warnings) = kubectl.apply(objects, mode)?;
    Ok(Submitted::New { lines, warnings })
}

/// Everything but the secrets: they are new each time, and no message should show them.
fn comparable(objects: &[Value]) -> Vec<Value> {
    objects
        .iter()
        .filter(|object| object["kind"] != "Secret")
        .cloned()
        .collect()
}
