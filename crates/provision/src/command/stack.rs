//! Creates or updates one stack through a change set that is shown first.

use std::collections::BTreeMap;

use tokio::time::{Instant, sleep};

use super::{CommandError, Pace, Sink, Talk, follow};
use crate::cloud::{ChangeSetRequest, ChangeSetView, Cloud, TemplateSource};
use crate::lifecycle::events::first_cause;
use crate::lifecycle::leftovers::Leftover;
use crate::lifecycle::next::StackState;
use crate::spec::ClusterSpec;
use crate::template::{CLUSTER_TAG, MAX_BODY, Stack};

/// What to do about a change set before it is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Review {
    /// Show it and ask.
    Ask,
    /// Show it and go on.
    Show,
}

/// Name of our change sets; one at a time, so one name.
const CHANGE_SET: &str = "canoe";

/// Makes (`create`) or updates the stack. `Ok(false)` when there was nothing to change.
pub async fn apply(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
    (stack, create): (&Stack, bool),
    review: Review,
    pace: Pace,
    sink: &mut impl Sink,
) -> Result<bool, CommandError> {
    let name = stack.name.as_str();
    let request = ChangeSetRequest {
        stack: name.to_owned(),
        name: CHANGE_SET.to_owned(),
        create,
        template: template(cloud, spec, stack, sink).await?,
        tags: stack_tags(spec),
    };
    // One that an interrupted run left would be in the way.
    if !create {
        match cloud.delete_change_set(name, CHANGE_SET).await {
            Err(error) if !error.is_missing() => return Err(error.into()),
            _ => {}
        }
    }
    cloud.create_change_set(&request).await?;
    let view = ready_change_set(cloud, name, pace).await?;
    if view.is_empty_change() {
        cloud.delete_change_set(name, CHANGE_SET).await?;
        sink.talk(Talk::Step(format!("stack {name} is up to date")));
        return Ok(false);
    }
    if view.status == "FAILED" {
        let reason = format!(
            "the change set of stack {name} was refused: {}",
            view.reason
        );
        return Err(CommandError::Decision(reason));
    }
    show(name, &view, sink);
    let question = format!(
        "apply these {} change(s) to stack {name}?",
        view.changes.len()
    );
    if review == Review::Ask && !sink.confirm(&question) {
        cloud.delete_change_set(name, CHANGE_SET).await?;
        if create {
            cloud.delete_stack(name).await?; // a stack in review holds nothing
        }
        return Err(CommandError::Declined);
    }
    execute(cloud, name, pace, sink).await?;
    Ok(true)
}

async fn execute(
    cloud: &impl Cloud,
    name: &str,
    pace: Pace,
    sink: &mut impl Sink,
) -> Result<(), CommandError> {
    let seen = follow::seen_events(cloud, name).await;
    let id = cloud
        .stack(name)
        .await?
        .map_or(name.to_owned(), |view| view.id);
    cloud.execute_change_set(name, CHANGE_SET).await?;
    let outcome = follow::settle(cloud, (name, &id), seen, pace, sink).await?;
    let status = outcome
        .stack
        .as_ref()
        .map_or("DELETE_COMPLETE", |view| view.status.as_str());
    if matches!(status, "CREATE_COMPLETE" | "UPDATE_COMPLETE") {
        return Ok(());
    }
    let leftover = match outcome.state() {
        StackState::Absent => Leftover::Nothing,
        _ => Leftover::Deletable,
    };
    Err(CommandError::Stack {
        stack: name.to_owned(),
        cause: first_cause(&outcome.events),
        leftover,
    })
}

/// Templates that are too large for a request go through a private bucket.
async fn template(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
    stack: &Stack,
    sink: &mut impl Sink,
) -> Result<TemplateSource, CommandError> {
    let body = stack.compact();
    if body.len() <= MAX_BODY {
        return Ok(TemplateSource::Body(body));
    }
    let account = cloud.caller().await?.account;
    let bucket = crate::policy::bucket_name(spec, &account);
    if !cloud.bucket_exists(&bucket).await? {
        sink.talk(Talk::Step(format!(
            "bucket {bucket} is made for templates over {MAX_BODY} bytes"
        )));
        cloud.create_bucket(&bucket).await?;
    }
    let url = cloud
        .put_object(&bucket, &format!("{}.json", stack.name), &body)
        .await?;
    Ok(TemplateSource::Url(url))
}

async fn ready_change_set(
    cloud: &impl Cloud,
    stack: &str,
    pace: Pace,
) -> Result<ChangeSetView, CommandError> {
    let begin = Instant::now();
    loop {
        let view = cloud.change_set(stack, CHANGE_SET).await?;
        if !matches!(
            view.status.as_str(),
            "CREATE_PENDING" | "CREATE_IN_PROGRESS"
        ) {
            return Ok(view);
        }
        if begin.elapsed() >= pace.patience {
            let minutes = pace.patience.as_secs() / 60;
            return Err(CommandError::Patience {
                stack: stack.to_owned(),
                status: view.status,
                minutes,
            });
        }
        sleep(pace.poll).await;
    }
}

fn show(stack: &str, view: &ChangeSetView, sink: &mut impl Sink) {
    sink.talk(Talk::Step(format!(
        "stack {stack}: {} change(s)",
        view.changes.len()
    )));
    for change in &view.changes {
        let replaced = if change.replacement == "True" {
            " (REPLACED)"
        } else {
            ""
        };
        sink.talk(Talk::Detail(format!(
            "{:<7} {} ({}){replaced}",
            change.action, change.resource, change.kind
        )));
    }
}

fn stack_tags(spec: &ClusterSpec) -> BTreeMap<String, String> {
    let mut tags = spec.tags.clone();
    tags.insert(CLUSTER_TAG.to_owned(), spec.name.clone());
    tags
}
