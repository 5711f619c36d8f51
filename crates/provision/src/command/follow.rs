//! Follows a stack until AWS is done with it, reporting every event once.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{CommandError, Pace, Sink, Talk};
use crate::cloud::{Cloud, StackView};
use crate::lifecycle::events::{StackEvent, usual_seconds};
use crate::lifecycle::next::StackState;
use crate::statuses::StackStatus;

/// So long nothing is said; then the slowest resource is named again, so that it does not look hung.
const SILENCE: Duration = Duration::from_secs(60);

/// Waits for what an earlier command (or another person) has begun.
pub(crate) async fn begun(
    cloud: &impl Cloud,
    name: &str,
    pace: Pace,
    sink: &mut impl Sink,
) -> Result<(), CommandError> {
    sink.talk(Talk::Step(format!(
        "stack {name} is being worked on; following it"
    )));
    let view = cloud.stack(name).await?;
    let id = view.map_or(name.to_owned(), |view| view.id);
    let seen = seen_events(cloud, &id).await;
    settle(cloud, name, &id, seen, pace, sink).await.map(drop)
}

/// Events that were there before: they belong to an earlier stack of that name.
pub(crate) async fn seen_events(cloud: &impl Cloud, stack: &str) -> BTreeSet<String> {
    let events = cloud.stack_events(stack).await.unwrap_or_default();
    events.into_iter().map(|event| event.id).collect()
}

/// How it ended.
pub(crate) struct StackOutcome {
    /// The stack; `None` when it is gone.
    pub stack: Option<StackView>,
    /// Events since the beginning, oldest first.
    pub events: Vec<StackEvent>,
}

impl StackOutcome {
    /// State of the stack.
    pub(crate) fn state(&self) -> StackState {
        self.stack.as_ref().map_or(StackState::Absent, |view| {
            StackState::from_status(view.status.clone())
        })
    }
}

/// Waits until the stack `name` is settled. `id` is its ARN, under which a deleted stack can still be queried.
pub(crate) async fn settle(
    cloud: &impl Cloud,
    name: &str,
    id: &str,
    mut seen: BTreeSet<String>,
    pace: Pace,
    sink: &mut impl Sink,
) -> Result<StackOutcome, CommandError> {
    let begin = Instant::now();
    let mut told: Vec<StackEvent> = Vec::new();
    let mut spoke = begin;
    let mut pause = pace.poll / 20;
    loop {
        // Status first: events that arrive after it are picked up by the next look, or by this one.
        let view = cloud.stack(id).await?;
        for event in cloud.stack_events(id).await.unwrap_or_default() {
            if seen.insert(event.id.clone()) {
                sink.talk(progress(name, &event, begin.elapsed()));
                told.push(event);
                spoke = Instant::now();
            }
        }
        if spoke.elapsed() >= SILENCE {
            spoke = Instant::now();
            if let Some(event) = slowest(&told) {
                sink.talk(progress(name, event, begin.elapsed()));
            }
        }
        let status = view
            .as_ref()
            .map_or(StackStatus::DeleteComplete, |view| view.status.clone());
        if StackState::from_status(status.clone()).is_settled() {
            let stack = view.filter(|view| view.status != StackStatus::DeleteComplete);
            return Ok(StackOutcome {
                stack,
                events: told,
            });
        }
        if begin.elapsed() >= pace.patience {
            let minutes = pace.patience.as_secs() / 60;
            return Err(CommandError::Patience {
                stack: name.to_owned(),
                status: status.to_string(),
                minutes,
            });
        }
        // Quick looks first: many stacks are done in a moment, and nobody likes to wait for nothing.
        sleep(pause).await;
        pause = (pause * 2).min(pace.poll);
    }
}

/// The first resource that AWS has begun with and not ended.
fn slowest(told: &[StackEvent]) -> Option<&StackEvent> {
    let busy = |event: &&StackEvent| {
        let last = told.iter().rfind(|other| other.resource == event.resource);
        last.is_some_and(|last| last.id == event.id) && event.status.is_busy()
    };
    let resources = told.iter().filter(busy);
    resources
        .clone()
        .find(|event| event.kind != "AWS::CloudFormation::Stack")
        .or_else(|| resources.clone().next())
}

fn progress(stack: &str, event: &StackEvent, elapsed: Duration) -> Talk {
    Talk::Resource {
        stack: stack.to_owned(),
        resource: event.resource.clone(),
        kind: event.kind.clone(),
        status: event.status.clone(),
        elapsed,
        usual: Duration::from_secs(u64::from(usual_seconds(&event.kind))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_is_the_first_that_has_not_ended() {
        let event = |id: &str, resource: &str, kind: &str, status: &str| StackEvent {
            id: id.to_owned(),
            time: String::new(),
            resource: resource.to_owned(),
            kind: kind.to_owned(),
            status: status.into(),
            reason: String::new(),
        };
        let stack = event(
            "1",
            "demo",
            "AWS::CloudFormation::Stack",
            "CREATE_IN_PROGRESS",
        );
        let role = event("2", "Role", "AWS::IAM::Role", "CREATE_IN_PROGRESS");
        let done = event("3", "Role", "AWS::IAM::Role", "CREATE_COMPLETE");
        let cluster = event("4", "Cluster", "AWS::EKS::Cluster", "CREATE_IN_PROGRESS");
        let told = [stack.clone(), role, done, cluster];
        assert_eq!(slowest(&told).unwrap().resource, "Cluster");
        assert_eq!(slowest(&told[..3]).unwrap().resource, "demo");
        assert!(slowest(&[]).is_none());
    }
}
