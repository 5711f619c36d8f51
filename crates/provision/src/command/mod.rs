//! The commands of `canoe cluster`, as plain functions over [`Cloud`](crate::cloud::Cloud).
//!
//! They decide nothing themselves (see [`crate::lifecycle`]) and print nothing: what happens is reported
//! to a [`Sink`], which also answers questions. Every wait is bounded by a [`Pace`].

pub mod api_server;
mod boundary;
mod bucket;
pub mod down;
pub(crate) mod encrypt;
pub(crate) mod follow;
pub mod nodes;
pub(crate) mod own;
mod remember;
pub mod roll;
pub mod stack;
mod standing;
pub mod status;
pub mod up;
pub mod validate;
pub(crate) mod volume;
pub(crate) mod workload;

use std::time::Duration;

use crate::assets::AssetError;
use crate::cloud::CloudError;
use crate::lifecycle::events::StackFailure;
use crate::lifecycle::leftovers::Leftover;
use crate::statuses::ResourceStatus;

/// Something worth telling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Talk {
    /// What begins or has ended.
    Step(String),
    /// A line of a plan or table.
    Detail(String),
    /// A resource has changed its state.
    Resource {
        /// Stack name.
        stack: String,
        /// Logical id.
        resource: String,
        /// Type.
        kind: String,
        /// Its state.
        status: ResourceStatus,
        /// Since the command began to follow the stack.
        elapsed: Duration,
        /// How long this type usually takes.
        usual: Duration,
    },
    /// Unexpected, but it continues.
    Warning(String),
}

/// Who listens and answers.
pub trait Sink: Send {
    /// Told what happens.
    fn talk(&mut self, talk: Talk);
    /// Asked before something costs money or is lost.
    fn confirm(&mut self, question: &str) -> bool;
}

/// How often to look, and how long to be patient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Between two looks.
    pub poll: Duration,
    /// For one stack.
    pub patience: Duration,
    /// Times that a stack is asked again to go.
    pub delete_attempts: u32,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            poll: Duration::from_secs(5),
            patience: Duration::from_secs(45 * 60),
            delete_attempts: 5,
        }
    }
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the variants are documented")]
pub enum CommandError {
    /// A call failed. AWS's words and the way out make one sentence, so there is no cause below it.
    #[error("{0}; {advice}", advice = .0.advice())]
    Cloud(CloudError),
    /// A stack failed.
    #[error("stack {stack} failed: {}; {leftover}", cause_words(.cause.as_ref()))]
    Stack {
        stack: String,
        /// First cause, if the events name one.
        cause: Option<StackFailure>,
        /// What is left.
        leftover: Leftover,
    },
    /// Only a person can decide how to continue.
    #[error("{0}")]
    Decision(String),
    /// AWS took too long.
    #[error(
        "stack {stack} is still {status} after {minutes} minutes; AWS continues with it; run this again to keep waiting"
    )]
    Patience {
        stack: String,
        status: String,
        minutes: u64,
    },
    /// The user said no. What this run had made before stays.
    #[error("stopped; {}", made_before(.0))]
    Declined(Vec<String>),
    /// There is no id, or something of the cluster's names belongs to others. The remedy is a person's choice.
    #[error("{}; nothing was changed", not_ours(.0))]
    NotOurs(Vec<String>),
    /// The cluster file asks for what cannot change while the cluster is up.
    #[error("this cannot be changed while the cluster is up: {}; or take the cluster down, which keeps the data, and up again, or make a second one; nothing was changed", .0.join("; "))]
    Fixed(Vec<String>),
    /// The cluster file or account is not fit.
    #[error("{} found; nothing was changed", counted(.0.len(), "problem"))]
    Unfit(Vec<String>),
    /// A file.
    #[error(transparent)]
    Asset(#[from] AssetError),
    /// Something that costs money is left.
    #[error("of the cluster {} left; run `canoe cluster down` again or remove by hand what is named above", left(.0.len()))]
    Leftovers(Vec<String>),
}

impl From<CloudError> for CommandError {
    fn from(error: CloudError) -> Self {
        Self::Cloud(error)
    }
}

/// Refuses when the cluster's names or its id are another's; for commands that edit the cluster file first.
pub async fn refuse_strangers(
    cloud: &impl crate::cloud::Cloud,
    spec: &crate::spec::ClusterSpec,
) -> Result<(), CommandError> {
    own::refuse_strangers(cloud, spec).await
}

/// Whether the cluster has been made: its last stack is there.
pub async fn is_made(
    cloud: &impl crate::cloud::Cloud,
    spec: &crate::spec::ClusterSpec,
) -> Result<bool, CommandError> {
    let stack = own::stack(cloud, spec, crate::template::StackLayer::Cluster).await?;
    Ok(stack.is_some())
}

/// A number and what it counts: `1 change`, `3 changes`.
pub fn counted(count: usize, what: &str) -> String {
    let plural = match what {
        _ if count == 1 => "",
        _ if what.ends_with('s') => "es",
        _ => "s",
    };
    format!("{count} {what}{plural}")
}

fn left(count: usize) -> String {
    let verb = if count == 1 { "is" } else { "are" };
    format!("{} {verb}", counted(count, "resource"))
}

fn not_ours(reasons: &[String]) -> String {
    let named = reasons.join("; ");
    let other_remedy = [
        "has no id",
        "it is a copy",
        "choose another name",
        "no stack has it",
        "may delete it",
    ];
    if other_remedy.iter().any(|words| named.contains(words)) {
        return named;
    }
    format!(
        "{named}; it is not this cluster's: choose another name in cluster.yaml, or remove it yourself"
    )
}

fn made_before(made: &[String]) -> String {
    if made.is_empty() {
        return "nothing was changed".to_owned();
    }
    format!(
        "made before and still there: {}; it may cost money: `canoe cluster up` continues, `canoe cluster down` removes it",
        made.join(", ")
    )
}

fn cause_words(cause: Option<&StackFailure>) -> String {
    match cause {
        Some(cause) => format!(
            "{} ({}): {}; {}",
            cause.resource, cause.kind, cause.reason, cause.remedy
        ),
        None => "AWS names no cause; look at its events".to_owned(),
    }
}

#[cfg(test)]
mod api_server_tests;
#[cfg(test)]
mod options_tests;
#[cfg(test)]
mod ownership_tests;
#[cfg(test)]
mod safety_tests;
#[cfg(test)]
mod tests;
