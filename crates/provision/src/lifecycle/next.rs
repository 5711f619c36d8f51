//! What `up` does next, given the state of each stack. Running it again from any state ends well.

use serde::Serialize;

use crate::statuses::StackStatus;
use crate::template::StackLayer;

/// State of a stack, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StackState {
    /// There is none (or it has been deleted).
    Absent,
    /// AWS is working on it.
    Busy(StackStatus),
    /// It exists and can be updated.
    Ready(StackStatus),
    /// Its creation failed or was never finished: nothing in it can be used, it has to go first.
    Broken(StackStatus),
    /// An update failed and so did its undoing: only a person can say how to continue.
    Stuck(StackStatus),
}

impl StackState {
    /// What AWS's status means here.
    pub(crate) fn from_status(status: impl Into<StackStatus>) -> Self {
        use StackStatus as S;
        match status.into() {
            S::DeleteComplete => Self::Absent,
            status @ (S::CreateComplete
            | S::UpdateComplete
            | S::UpdateRollbackComplete
            | S::ImportComplete
            | S::ImportRollbackComplete) => Self::Ready(status),
            status @ (S::CreateFailed
            | S::RollbackComplete
            | S::RollbackFailed
            | S::DeleteFailed
            | S::ReviewInProgress) => Self::Broken(status),
            status if status.is_busy() => Self::Busy(status),
            status => Self::Stuck(status),
        }
    }

    /// Whether AWS has come to an end with it, good or bad.
    pub(crate) fn is_settled(&self) -> bool {
        !matches!(self, Self::Busy(_))
    }
}

/// One step of `up`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpStep {
    /// Wait until AWS is done with this stack, then look again.
    Wait(StackLayer),
    /// Remove what is left of a failed creation or deletion, then look again.
    Clear(StackLayer, StackStatus),
    /// Make the stack.
    Create(StackLayer),
    /// Bring it up to date, which may turn out to need no change.
    Update(StackLayer),
    /// Nothing can be done without a decision: the sentence says which.
    Stop(StackLayer, String),
    /// All stacks are there and up to date.
    Done,
}

/// The next step. `updated` are the layers that this run has already brought up to date.
pub(crate) fn next(
    states: &[(StackLayer, StackState)],
    updated: &[StackLayer],
    (name, region): (&str, &str),
) -> UpStep {
    for (layer, state) in states {
        let layer = *layer;
        match state {
            StackState::Absent => return UpStep::Create(layer),
            StackState::Busy(_) => return UpStep::Wait(layer),
            StackState::Broken(status) => return UpStep::Clear(layer, status.clone()),
            StackState::Stuck(status) => {
                return UpStep::Stop(layer, stuck(&layer.stack_name(name), region, status));
            }
            StackState::Ready(_) if !updated.contains(&layer) => return UpStep::Update(layer),
            StackState::Ready(_) => {}
        }
    }
    UpStep::Done
}

fn stuck(stack: &str, region: &str, status: &StackStatus) -> String {
    format!(
        "stack {stack} is {status}: an update failed and could not be undone; look at its events, remove what blocks \
         it, run `aws cloudformation continue-update-rollback --stack-name {stack} --region {region}`, then this command again; or take \
         the cluster down"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEMO: (&str, &str) = ("demo", "us-west-2");

    fn all(status: &str) -> Vec<(StackLayer, StackState)> {
        StackLayer::ALL
            .map(|layer| (layer, StackState::from_status(status)))
            .to_vec()
    }

    #[test]
    fn every_status_leads_somewhere() {
        for status in StackStatus::ALL.iter().map(StackStatus::as_str) {
            let step = next(&all(status), &[], DEMO);
            let expected = match status {
                "DELETE_COMPLETE" => UpStep::Create(StackLayer::Base),
                "CREATE_COMPLETE"
                | "UPDATE_COMPLETE"
                | "UPDATE_ROLLBACK_COMPLETE"
                | "IMPORT_COMPLETE"
                | "IMPORT_ROLLBACK_COMPLETE" => UpStep::Update(StackLayer::Base),
                "CREATE_FAILED" | "ROLLBACK_COMPLETE" | "ROLLBACK_FAILED" | "DELETE_FAILED"
                | "REVIEW_IN_PROGRESS" => UpStep::Clear(StackLayer::Base, status.into()),
                _ if status.ends_with("IN_PROGRESS") => UpStep::Wait(StackLayer::Base),
                _ => {
                    assert!(
                        matches!(&step, UpStep::Stop(StackLayer::Base, text) if text.contains("--stack-name demo-base --region us-west-2")),
                        "{step:?}"
                    );
                    continue;
                }
            };
            assert_eq!(step, expected, "{status}");
        }
        assert!(matches!(
            next(&all("NEW_KIND_OF_TROUBLE"), &[], DEMO),
            UpStep::Stop(..)
        ));
    }

    #[test]
    fn continues_where_it_was_interrupted() {
        let mut states = all("CREATE_COMPLETE");
        states[1].1 = StackState::Busy(StackStatus::CreateInProgress);
        states[2].1 = StackState::Absent;
        assert_eq!(
            next(&states, &[StackLayer::Base], DEMO),
            UpStep::Wait(StackLayer::Storage)
        );
        states[1].1 = StackState::from_status("CREATE_COMPLETE");
        assert_eq!(
            next(&states, &[StackLayer::Base], DEMO),
            UpStep::Update(StackLayer::Storage)
        );
        assert_eq!(
            next(&states, &[StackLayer::Base, StackLayer::Storage], DEMO),
            UpStep::Create(StackLayer::Cluster)
        );
        states[2].1 = StackState::from_status("CREATE_COMPLETE");
        assert_eq!(next(&states, &StackLayer::ALL, DEMO), UpStep::Done);
    }
}
