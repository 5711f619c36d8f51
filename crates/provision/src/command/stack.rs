//! Creates or updates one stack through a change set that is shown first.

use std::collections::BTreeSet;

use tokio::time::{Instant, sleep};

use super::boundary::BoundaryProgress;
use super::up::UpOptions;
use super::{CommandError, Pace, Sink, Talk, bucket, counted, follow, own};
use crate::cloud::{Change, ChangeSetId, ChangeSetRequest, ChangeSetView, Cloud, TemplateSource};
use crate::lifecycle::events::first_cause;
use crate::lifecycle::leftovers::Leftover;
use crate::lifecycle::next::StackState;
use crate::ownership::{ID_TAG, Tags};
use crate::spec::ClusterSpec;
use crate::statuses::{ChangeAction, ChangeSetStatus, Replacement, StackStatus};
use crate::template::{CLUSTER_TAG, MAX_BODY, Stack, StackLayer};

/// What to do about a change set before it is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeReview {
    /// Show it and ask.
    Ask,
    /// Show it and continue.
    Show,
}

/// Name of our change sets; one at a time, so one name.
pub(crate) const CHANGE_SET: &str = "canoe";

/// Makes (`create`) or updates the stack. `Ok(false)` when there was nothing to change.
pub(crate) async fn apply(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
    stack: &Stack,
    create: bool,
    options: &UpOptions,
    bounds: &mut BoundaryProgress,
    sink: &mut impl Sink,
) -> Result<bool, CommandError> {
    let (review, pace) = (options.review, options.pace);
    let name = stack.name.as_str();
    let request = ChangeSetRequest {
        stack: name.to_owned(),
        name: CHANGE_SET.to_owned(),
        create,
        template: template(cloud, spec, stack, sink).await?,
        tags: stack_tags(spec),
        role: service_role(cloud, spec).await?,
    };
    // One that an interrupted run left would be in the way.
    if !create {
        match cloud.delete_change_set(name, CHANGE_SET).await {
            Err(error) if !error.is_missing() => return Err(error.into()),
            _ => {}
        }
    }
    let made = cloud.create_change_set(&request).await?;
    let view = match ready_change_set(cloud, name, &made, pace).await {
        Err(CommandError::Cloud(error)) if error.is_missing() => return Err(crossed(name)),
        other => other?,
    };
    if view.is_empty_change() {
        withdraw(cloud, name, &made, false).await?;
        sink.talk(Talk::Step(format!("stack {name} is up to date")));
        return Ok(false);
    }
    if view.status == ChangeSetStatus::Failed {
        let reason = format!(
            "the change set of stack {name} was refused: {}",
            view.reason
        );
        return Err(CommandError::Decision(reason));
    }
    show(name, &view, sink);
    if !create && let Err(refusal) = refuse_replacement(stack, &view) {
        withdraw(cloud, name, &made, false).await?;
        return Err(refusal);
    }
    let question = format!(
        "apply {} to stack {name}?",
        match view.changes.len() {
            1 => "this change".to_owned(),
            count => format!("these {count} changes"),
        }
    );
    if review == ChangeReview::Ask && !sink.confirm(&question) {
        withdraw(cloud, name, &made, create).await?;
        return Err(CommandError::Declined(Vec::new()));
    }
    match bounds.ensure(cloud, spec, sink).await {
        // A connection that was lost says nothing; what was agreed to stays for the next run.
        Err(refusal @ (CommandError::Decision(_) | CommandError::NotOurs(_))) => {
            withdraw(cloud, name, &made, create).await?;
            return Err(refusal);
        }
        other => other?,
    }
    execute(cloud, name, &made, pace, sink).await?;
    Ok(true)
}

/// Takes back what was not agreed to: our change set, and the stack in review that was made for it, which holds nothing.
/// Another machine may have made its own of the same name meanwhile, and may be at work on it.
async fn withdraw(
    cloud: &impl Cloud,
    name: &str,
    made: &ChangeSetId,
    create: bool,
) -> Result<(), CommandError> {
    match cloud.delete_change_set(name, &made.arn).await {
        Err(error) if !error.is_missing() => return Err(error.into()),
        _ => {}
    }
    let stack = if create {
        cloud.stack(name).await?
    } else {
        None
    };
    if stack
        .is_some_and(|view| view.id == made.stack && view.status == StackStatus::ReviewInProgress)
    {
        cloud.delete_stack(&made.stack).await?;
    }
    Ok(())
}

/// What to say when the change set that was shown has gone.
fn crossed(name: &str) -> CommandError {
    CommandError::Decision(format!(
        "the change set of stack {name} has been removed meanwhile: somebody else runs `canoe cluster up`, `scale`, `upgrade` \
         or `down` for this cluster; this command has not changed the stack; run it again when the other one has ended"
    ))
}

/// The role by which CloudFormation acts, if the cluster file asks for one.
async fn service_role(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
) -> Result<Option<String>, CommandError> {
    if !spec.service_role {
        return Ok(None);
    }
    let account = cloud.caller().await?.account;
    Ok(Some(crate::policy::service_role_arn(spec, &account)))
}

async fn execute(
    cloud: &impl Cloud,
    name: &str,
    made: &ChangeSetId,
    pace: Pace,
    sink: &mut impl Sink,
) -> Result<(), CommandError> {
    let seen = follow::seen_events(cloud, name).await;
    let id = cloud
        .stack(name)
        .await?
        .map_or(name.to_owned(), |view| view.id);
    match cloud.execute_change_set(name, &made.arn).await {
        Err(error) if error.is_missing() => return Err(crossed(name)),
        other => other?,
    }
    let outcome = follow::settle(cloud, name, &id, seen, pace, sink).await?;
    let status = outcome.stack.as_ref().map(|view| &view.status);
    if matches!(
        status,
        Some(StackStatus::CreateComplete | StackStatus::UpdateComplete)
    ) {
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

/// Removes a stack of ours: protection off, then delete, then wait until it has gone.
pub async fn remove(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
    layer: StackLayer,
    pace: Pace,
    sink: &mut impl Sink,
) -> Result<(), CommandError> {
    let name = layer.stack_name(&spec.name);
    let Some(view) = own::stack(cloud, spec, layer).await? else {
        return Ok(());
    };
    let seen = follow::seen_events(cloud, &view.id).await;
    if view.protected {
        cloud.protect_stack(&name, false).await?;
    }
    match cloud.delete_stack(&name).await {
        Err(error) if !error.is_missing() => return Err(error.into()),
        _ => {}
    }
    let outcome = follow::settle(cloud, &name, &view.id, seen, pace, sink).await?;
    if outcome.state() == StackState::Absent {
        return Ok(());
    }
    Err(CommandError::Stack {
        cause: first_cause(&outcome.events),
        stack: name,
        leftover: Leftover::Deletable,
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
    let why = format!("templates over {MAX_BODY} bytes");
    let bucket = bucket::ready(cloud, spec, &why, sink).await?;
    let url = cloud
        .put_object(&bucket, &bucket::template_key(&stack.name), &body)
        .await?;
    Ok(TemplateSource::Url(url))
}

/// Resources whose replacement cannot succeed: the name of the one and the address of the other are in use until
/// they have gone.
const IRREPLACEABLE: [&str; 2] = ["Cluster", "Controller"];

/// What cannot be replaced: these, and whatever the stack exports. Other stacks use it, so AWS refuses to change it under
/// them, after minutes, and what is made anew would be empty: another file system, another key.
fn irreplaceable(stack: &Stack) -> BTreeSet<&str> {
    let outputs = stack.body["Outputs"].as_object().into_iter().flatten();
    let exported = outputs.filter(|(_, output)| !output["Export"].is_null());
    exported
        .filter_map(|(_, output)| {
            let value = &output["Value"];
            value["Ref"].as_str().or(value["Fn::GetAtt"][0].as_str())
        })
        .chain(IRREPLACEABLE)
        .collect()
}

/// Refuses a change set that would replace one of these, or take the shared files away from a zone whose workers may be
/// using them.
fn refuse_replacement(stack: &Stack, view: &ChangeSetView) -> Result<(), CommandError> {
    let fixed = irreplaceable(stack);
    let list = |wanted: &dyn Fn(&Change) -> bool| -> Vec<String> {
        let found = view.changes.iter().filter(|change| wanted(change));
        found.map(|change| change.resource.clone()).collect()
    };
    let replaced = list(&|change| {
        change.replacement == Replacement::Yes && fixed.contains(change.resource.as_str())
    });
    let removed = list(&|change| {
        change.action == ChangeAction::Remove && change.kind == "AWS::EFS::MountTarget"
    });
    let (verb, names) = match (replaced.is_empty(), removed.is_empty()) {
        (true, true) => return Ok(()),
        (false, _) => ("replace", replaced),
        (true, false) => ("remove", removed),
    };
    let name = &stack.name;
    Err(CommandError::Decision(format!(
        "the change of stack {name} would {verb} {}, with what depends on it; undo the change of cluster.yaml (zones, networks, \
         subnets, addresses, key pair, encryption, file system and its directory cannot be changed while the cluster is up), or take \
         the cluster down, which keeps the data, and up again, or make a second cluster; stack {name} was not changed",
        names.join(" and ")
    )))
}

async fn ready_change_set(
    cloud: &impl Cloud,
    stack: &str,
    made: &ChangeSetId,
    pace: Pace,
) -> Result<ChangeSetView, CommandError> {
    let begin = Instant::now();
    loop {
        let view = cloud.change_set(stack, &made.arn).await?;
        if !matches!(
            view.status,
            ChangeSetStatus::CreatePending | ChangeSetStatus::CreateInProgress
        ) {
            return Ok(view);
        }
        if begin.elapsed() >= pace.patience {
            let minutes = pace.patience.as_secs() / 60;
            return Err(CommandError::Patience {
                stack: stack.to_owned(),
                status: view.status.to_string(),
                minutes,
            });
        }
        sleep(pace.poll).await;
    }
}

fn show(stack: &str, view: &ChangeSetView, sink: &mut impl Sink) {
    sink.talk(Talk::Step(format!(
        "stack {stack}: {}",
        counted(view.changes.len(), "change")
    )));
    for change in &view.changes {
        let replaced = if change.replacement == Replacement::Yes {
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

pub(super) fn stack_tags(spec: &ClusterSpec) -> Tags {
    let mut tags = spec.tags.clone();
    tags.insert(CLUSTER_TAG.to_owned(), spec.name.clone());
    tags.extend(spec.id.clone().map(|id| (ID_TAG.to_owned(), id)));
    tags
}
