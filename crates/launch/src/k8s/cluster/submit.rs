//! Submitting: a first time, or again under the same name.

use serde_json::Value;

use super::arguments::{Mode, Target};
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

/// Applies the objects of a job unless a Job of this name is there: then says whether it is the same.
pub fn submit(
    kubectl: &Kubectl,
    target: &Target,
    objects: &[Value],
    mode: Mode,
) -> Result<Submitted, ClusterError> {
    if kubectl.job(target)?.is_some() {
        return match kubectl.difference(&comparable(objects))? {
            None => Ok(Submitted::Unchanged),
            Some(difference) => Err(ClusterError::Differs {
                job: target.job.clone(),
                difference,
            }),
        };
    }
    let (lines, warnings) = kubectl.apply(objects, mode)?;
    Ok(Submitted::New { lines, warnings })
}

/// Everything but the secrets: they are new each time, and no diff should show them.
fn comparable(objects: &[Value]) -> Vec<Value> {
    objects
        .iter()
        .filter(|object| object["kind"] != "Secret")
        .cloned()
        .collect()
}
