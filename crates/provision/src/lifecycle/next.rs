//! What `up` does next, given the state of each stack. Running it again from any state ends well.

use serde::Serialize;

use crate::template::Layer;

/// State of a stack, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StackState {
    /// There is none (or it has been deleted).
    Absent,
    /// AWS is working on it; the status as AWS spells it.
    Busy(String),
    /// It exists and can be updated.
    Ready(String),
    /// Its creation failed or was never finished: nothing in it can be used, it has to go first.
    Broken(String),
    /// An update failed and so did its undoing: only a person can say how to go on.
    Stuck(String),
}

impl StackState {
    /// Reads AWS's status.
    pub fn from_status(status: &str) -> Self {
        let text = status.to_owned();
        match status {
            "DELETE_COMPLETE" => Self::Absent,
            "CREATE_COMPLETE"
            | "UPDATE_COMPLETE"
            | "UPDATE_ROLLBACK_COMPLETE"
            | "IMPORT_COMPLETE"
            | "IMPORT_ROLLBACK_COMPLETE" => Self::Ready(text),
            "CREATE_FAILED" | "ROLLBACK_COMPLETE" | "ROLLBACK_FAILED" | "DELETE_FAILED"
            | "REVIEW_IN_PROGRESS" => Self::Broken(text),
            "UPDATE_ROLLBACK_FAILED" | "UPDATE_FAILED" | "IMPORT_ROLLBACK_FAILED" => {
                Self::Stuck(text)
            }
            other if other.ends_with("_IN_PROGRESS") => Self::Busy(text),
            _ => Self::Stuck(text),
        }
    }

    /// Whether AWS has come to an end with it, good or bad.
    pub fn is_settled(&self) -> bool {
        !matches!(self, Self::Busy(_))
    }
}

/// One step of `up`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Wait until AWS is done with this stack, then look again.
    Wait(Layer),
    /// Remove what is left of a failed creation, then look again.
    Clear(Layer),
    /// Make the stack.
    Create(Layer),
    /// Bring it up to date, which may turn out to need no change.
    Update(Layer),
    /// Nothing can be done without a decision: the sentence says which.
    Stop(Layer, String),
    /// All stacks are there and up to date.
    Done,
}

/// The next step. `updated` are the layers that this run has already brought up to date.
pub fn next(states: &[(Layer, StackState)], updated: &[Layer], name: &str) -> Step {
    for (layer, state) in states {
        let layer = *layer;
        match state {
            StackState::Absent => return Step::Create(layer),
            StackState::Busy(_) => return Step::Wait(layer),
            StackState::Broken(_) => return Step::Clear(layer),
            StackState::Stuck(status) => {
                return Step::Stop(layer, stuck(&layer.stack_name(name), status));
            }
            StackState::Ready(_) if !updated.contains(&layer) => return Step::Update(layer),
            StackState::Ready(_) => {}
        }
    }
    Step::Done
}

fn stuck(stack: &str, status: &str) -> String {
    format!(
        "stack {stack} is {status}: an update failed and could not be undone; look at its events, remove what blocks \
         it, run `aws cloudformation continue-update-rollback --stack-name {stack}`, then this command again; or take \
         the cluster down"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every status that CloudFormation documents.
    const STATUSES: [&str; 23] = [
        "CREATE_COMPLETE",
        "CREATE_IN_PROGRESS",
        "CREATE_FAILED",
        "DELETE_COMPLETE",
        "DELETE_FAILED",
        "DELETE_IN_PROGRESS",
        "REVIEW_IN_PROGRESS",
        "ROLLBACK_COMPLETE",
        "ROLLBACK_FAILED",
        "ROLLBACK_IN_PROGRESS",
        "UPDATE_COMPLETE",
        "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS",
        "UPDATE_FAILED",
        "UPDATE_IN_PROGRESS",
        "UPDATE_ROLLBACK_COMPLETE",
        "UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS",
        "UPDATE_ROLLBACK_FAILED",
        "UPDATE_ROLLBACK_IN_PROGRESS",
        "IMPORT_IN_PROGRESS",
        "IMPORT_COMPLETE",
        "IMPORT_ROLLBACK_IN_PROGRESS",
        "IMPORT_ROLLBACK_FAILED",
        "IMPORT_ROLLBACK_COMPLETE",
    ];

    fn all(status: &str) -> Vec<(Layer, StackState)> {
        Layer::ALL
            .map(|layer| (layer, StackState::from_status(status)))
            .to_vec()
    }

    #[test]
    fn every_status_leads_somewhere() {
        for status in STATUSES {
            let step = next(&all(status), &[], "demo");
            let expected = match status {
                "DELETE_COMPLETE" => Step::Create(Layer::Base),
                "CREATE_COMPLETE"
                | "UPDATE_COMPLETE"
                | "UPDATE_ROLLBACK_COMPLETE"
                | "IMPORT_COMPLETE"
                | "IMPORT_ROLLBACK_COMPLETE" => Step::Update(Layer::Base),
                "CREATE_FAILED" | "ROLLBACK_COMPLETE" | "ROLLBACK_FAILED" | "DELETE_FAILED"
                | "REVIEW_IN_PROGRESS" => Step::Clear(Layer::Base),
                _ if status.ends_with("IN_PROGRESS") => Step::Wait(Layer::Base),
                _ => {
                    assert!(
                        matches!(&step, Step::Stop(Layer::Base, text) if text.contains("demo-base")),
                        "{step:?}"
                    );
                    continue;
                }
            };
            assert_eq!(step, expected, "{status}");
        }
        assert!(matches!(
            next(&all("NEW_KIND_OF_TROUBLE"), &[], "demo"),
            Step::Stop(..)
        ));
    }

    #[test]
    fn goes_on_where_it_was_interrupted() {
        let mut states = all("CREATE_COMPLETE");
        states[1].1 = StackState::Busy("CREATE_IN_PROGRESS".to_owned());
        states[2].1 = StackState::Absent;
        assert_eq!(
            next(&states, &[Layer::Base], "demo"),
            Step::Wait(Layer::Storage)
        );
        states[1].1 = StackState::from_status("CREATE_COMPLETE");
        assert_eq!(
            next(&states, &[Layer::Base], "demo"),
            Step::Update(Layer::Storage)
        );
        assert_eq!(
            next(&states, &[Layer::Base, Layer::Storage], "demo"),
            Step::Create(Layer::Cluster)
        );
        states[2].1 = StackState::from_status("CREATE_COMPLETE");
        assert_eq!(next(&states, &Layer::ALL, "demo"), Step::Done);
    }
}
