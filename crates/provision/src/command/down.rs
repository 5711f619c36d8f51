//! `down`: takes the cluster away in AWS's order, and looks afterwards whether anything is left.

use tokio::time::sleep;

use super::nodes::Kubectl;
use super::stack::{Review, apply};
use super::up::states;
use super::{CommandError, Pace, Sink, Talk, follow, workload};
use crate::cloud::{Cloud, StackView};
use crate::lifecycle::events::first_cause;
use crate::lifecycle::leftovers::{self, Leftover, Remains};
use crate::lifecycle::next::StackState;
use crate::lifecycle::teardown::{DownStep, Inventory, Wishes, next, plan};
use crate::spec::{ClusterSpec, Mode};
use crate::template::{Layer, Render, render};

/// How to go about it.
#[derive(Debug, Clone)]
pub struct DownOptions {
    /// The file system and its key stay.
    pub keep_data: bool,
    /// Ask once, before anything is removed.
    pub ask: bool,
    /// Go on although jobs are running.
    pub force: bool,
    /// The way to the cluster: to see whether jobs run, and to let Kubernetes remove what it made.
    pub kubectl: Option<Kubectl>,
    /// Waiting.
    pub pace: Pace,
}

/// What is left afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DownReport {
    /// What stays on purpose.
    pub kept: Vec<Remains>,
    /// What AWS still lists but what costs nothing.
    pub free: Vec<Remains>,
    /// File systems and keys that went although no stack owned them; the cluster file may name them.
    pub forgotten: Vec<String>,
}

/// Takes everything away. Can be interrupted and run again.
pub async fn down(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
    options: DownOptions,
    sink: &mut impl Sink,
) -> Result<DownReport, CommandError> {
    let mut inventory = look(cloud, spec).await?;
    let kubectl = options
        .kubectl
        .as_ref()
        .filter(|_| matches!(inventory.state(Layer::Cluster), StackState::Ready(_)));
    if let Some(kubectl) = kubectl.filter(|_| !options.force) {
        workload::refuse_while_jobs_run(kubectl, sink).await?;
    }
    let lines = plan(&inventory, options.keep_data, &spec.name);
    sink.talk(Talk::Step(format!(
        "{} thing(s) of cluster {} will go",
        lines.len(),
        spec.name
    )));
    for line in &lines {
        sink.talk(Talk::Detail(line.clone()));
    }
    if options.ask && !lines.is_empty() && !sink.confirm("take all of this away?") {
        return Err(CommandError::Declined);
    }
    let kept_ids = kept_ids(cloud, spec, options.keep_data).await?;
    if let Some(kubectl) = kubectl {
        workload::release_load_balancers(kubectl, sink).await;
    }
    let mut wishes = Wishes {
        keep_data: options.keep_data,
        data_kept: false,
    };
    let mut attempts = 0;
    let mut forgotten = Vec::new();
    loop {
        let step = next(&inventory, wishes);
        if step == DownStep::Done {
            break;
        }
        if let Err(error) = act(cloud, spec, &step, options.pace, sink).await {
            attempts += 1;
            retry_or_fail(error, attempts, options.pace, sink).await?;
        }
        wishes.data_kept |= step == DownStep::KeepData;
        if let DownStep::RemoveFileSystems(ids) | DownStep::RemoveKeys(ids) = step {
            forgotten.extend(ids);
        }
        inventory = look(cloud, spec).await?;
    }
    let mut report = sweep(cloud, spec, &kept_ids, options.keep_data, sink).await?;
    report.forgotten = forgotten;
    Ok(report)
}

/// AWS releases some things slowly (interfaces, groups); a few more tries are normal.
async fn retry_or_fail(
    error: CommandError,
    attempts: u32,
    pace: Pace,
    sink: &mut impl Sink,
) -> Result<(), CommandError> {
    let retry = match &error {
        CommandError::Stack { .. } => true,
        CommandError::Cloud(error) => !error.is_expired() && !error.is_denied(),
        _ => false,
    };
    if !retry || attempts >= pace.delete_attempts {
        return Err(error);
    }
    sink.talk(Talk::Warning(format!(
        "{error}; trying again ({attempts} of {})",
        pace.delete_attempts
    )));
    sleep(pace.poll * 2u32.pow(attempts.min(6))).await; // a load balancer's interfaces take minutes to go
    Ok(())
}

async fn act(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
    step: &DownStep,
    pace: Pace,
    sink: &mut impl Sink,
) -> Result<(), CommandError> {
    match step {
        DownStep::Done => {}
        DownStep::Wait(layer) => wait(cloud, &layer.stack_name(&spec.name), pace, sink).await?,
        DownStep::RemoveLoadBalancers(arns) => {
            for arn in arns {
                sink.talk(Talk::Step(format!("load balancer {arn}")));
                gone(cloud.delete_load_balancer(arn).await)?;
            }
        }
        DownStep::RemoveVolumes(ids) => {
            for id in ids {
                sink.talk(Talk::Step(format!("disk {id}")));
                gone(cloud.delete_volume(id).await)?;
            }
        }
        DownStep::RemoveInterfaces(ids) => {
            for id in ids {
                sink.talk(Talk::Step(format!(
                    "network interface {id}, left by the cluster"
                )));
                gone(cloud.delete_interface(id).await)?;
            }
        }
        DownStep::RemoveGroups(ids) => {
            for id in ids {
                sink.talk(Talk::Step(format!(
                    "security group {id}, made by Kubernetes"
                )));
                gone(cloud.delete_group(id).await)?;
            }
        }
        DownStep::RemoveFileSystems(ids) => {
            for id in ids {
                sink.talk(Talk::Step(format!("file system {id}")));
                gone(cloud.delete_file_system(id).await)?;
            }
        }
        DownStep::RemoveKeys(arns) => {
            for arn in arns {
                sink.talk(Talk::Step(format!("key {arn}")));
                gone(cloud.schedule_key_deletion(arn).await)?;
            }
        }
        DownStep::KeepData => keep_data(cloud, spec, pace, sink).await?,
        DownStep::DeleteStack(layer) => {
            delete(cloud, &layer.stack_name(&spec.name), pace, sink).await?
        }
        DownStep::RemoveBucket(bucket) => {
            sink.talk(Talk::Step(format!("bucket {bucket}")));
            for key in cloud.objects(bucket).await? {
                gone(cloud.delete_object(bucket, &key).await)?;
            }
            gone(cloud.delete_bucket(bucket).await)?;
        }
        DownStep::RemoveLogGroups(groups) => {
            for group in groups {
                sink.talk(Talk::Step(format!("log group {group}")));
                gone(cloud.delete_log_group(group).await)?;
            }
        }
    }
    Ok(())
}

/// Removing what is not there is success.
fn gone(result: Result<(), crate::cloud::CloudError>) -> Result<(), CommandError> {
    match result {
        Err(error) if !error.is_missing() => Err(error.into()),
        _ => Ok(()),
    }
}

async fn delete(
    cloud: &impl Cloud,
    name: &str,
    pace: Pace,
    sink: &mut impl Sink,
) -> Result<(), CommandError> {
    sink.talk(Talk::Step(format!("stack {name} goes")));
    let id = cloud
        .stack(name)
        .await?
        .map_or(name.to_owned(), |view| view.id);
    let seen = follow::seen_events(cloud, &id).await;
    gone(cloud.delete_stack(name).await)?;
    let outcome = follow::settle(cloud, (name, &id), seen, pace, sink).await?;
    if outcome.state() == StackState::Absent {
        return Ok(());
    }
    let cause = first_cause(&outcome.events);
    Err(CommandError::Stack {
        stack: name.to_owned(),
        cause,
        leftover: Leftover::Deletable,
    })
}

async fn wait(
    cloud: &impl Cloud,
    name: &str,
    pace: Pace,
    sink: &mut impl Sink,
) -> Result<(), CommandError> {
    sink.talk(Talk::Step(format!(
        "stack {name} is being worked on; following it"
    )));
    let id = cloud
        .stack(name)
        .await?
        .map_or(name.to_owned(), |view| view.id);
    let seen = follow::seen_events(cloud, &id).await;
    follow::settle(cloud, (name, &id), seen, pace, sink)
        .await
        .map(drop)
}

/// Tells storage and base to leave file system and key behind when they go.
async fn keep_data(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
    pace: Pace,
    sink: &mut impl Sink,
) -> Result<(), CommandError> {
    let options = Render {
        keep_data: true,
        ..Render::default()
    };
    for stack in render(spec, &options) {
        if stack.layer != Layer::Cluster && cloud.stack(&stack.name).await?.is_some() {
            apply(cloud, spec, (&stack, false), Review::Show, pace, sink).await?;
        }
    }
    Ok(())
}

/// Everything of the cluster that is there now.
pub async fn look(cloud: &impl Cloud, spec: &ClusterSpec) -> Result<Inventory, CommandError> {
    let mut inventory = Inventory {
        stacks: states(cloud, spec).await?,
        ..Inventory::default()
    };
    inventory
        .stacks
        .retain(|(_, state)| *state != StackState::Absent);
    let base = cloud.stack(&Layer::Base.stack_name(&spec.name)).await?;
    if let Some(vpc) = base.as_ref().and_then(|view| view.outputs.get("VpcId")) {
        inventory.load_balancers = cloud.foreign_load_balancers(vpc).await?;
        inventory.interfaces = cloud.interfaces(vpc).await?;
    }
    inventory.volumes = cloud.volumes(&spec.name).await?;
    inventory.file_systems = cloud.file_systems(&spec.name).await?;
    inventory.given_file_system = spec.storage.file_system_id.clone();
    if inventory.given_file_system.is_none() {
        let storage = cloud.stack(&Layer::Storage.stack_name(&spec.name)).await?;
        inventory.stack_file_system =
            storage.and_then(|view| view.outputs.get("FileSystemId").cloned());
    }
    if inventory.state(Layer::Cluster) == &StackState::Absent {
        inventory.groups = cloud.leftover_groups(&spec.name).await?;
    }
    if inventory.stacks.is_empty() {
        inventory.keys = enabled_keys(cloud, &cloud.tagged(&spec.name).await?).await?;
    }
    let account = cloud.caller().await?.account;
    let bucket = crate::policy::bucket_name(spec, &account);
    if cloud.bucket_exists(&bucket).await? {
        inventory.bucket = Some(bucket);
    }
    if spec.control_plane.mode == Mode::Eks {
        inventory.log_groups = cloud
            .log_groups(&format!("/aws/eks/{}/", spec.name))
            .await?;
    }
    Ok(inventory)
}

/// Keys among `arns` that are not on their way out.
async fn enabled_keys(cloud: &impl Cloud, arns: &[String]) -> Result<Vec<String>, CommandError> {
    let mut keys = Vec::new();
    for arn in arns.iter().filter(|arn| is_key(arn)) {
        match cloud.key_state(arn).await {
            Ok(state) if state != "PendingDeletion" => keys.push(arn.clone()),
            Err(error) if !error.is_missing() => return Err(error.into()),
            _ => {}
        }
    }
    Ok(keys)
}

fn is_key(arn: &str) -> bool {
    arn.contains(":kms:")
}

/// Ids of what stays on purpose.
async fn kept_ids(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
    keep_data: bool,
) -> Result<Vec<String>, CommandError> {
    let mut ids = Vec::new();
    if keep_data {
        let output = |view: Option<StackView>, key: &str| {
            view.and_then(|view| view.outputs.get(key).cloned())
        };
        let base = cloud.stack(&Layer::Base.stack_name(&spec.name)).await?;
        let storage = cloud.stack(&Layer::Storage.stack_name(&spec.name)).await?;
        ids.extend(output(base, "KeyArn"));
        ids.extend(output(storage, "FileSystemId"));
        ids.extend(cloud.file_systems(&spec.name).await?);
    }
    Ok(ids)
}

/// The check by tag at the end.
async fn sweep(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
    kept: &[String],
    keep_data: bool,
    sink: &mut impl Sink,
) -> Result<DownReport, CommandError> {
    let found = cloud.tagged(&spec.name).await?;
    let mut present = Vec::new();
    let mut kept = kept.to_vec();
    for arn in found {
        if is_key(&arn)
            && cloud
                .key_state(&arn)
                .await
                .is_ok_and(|state| state == "PendingDeletion")
        {
            sink.talk(Talk::Detail(format!(
                "key {arn} is scheduled for deletion and costs nothing until then"
            )));
            continue;
        }
        if keep_data && is_key(&arn) {
            kept.push(arn.clone());
        }
        present.push(arn);
    }
    let (kept, left) = leftovers::sort(&present, &kept);
    for remains in &kept {
        sink.talk(Talk::Detail(format!(
            "kept: {} {}",
            remains.what, remains.arn
        )));
    }
    let (costly, free): (Vec<Remains>, Vec<Remains>) =
        left.into_iter().partition(|remains| remains.costs);
    if costly.is_empty() {
        let other = if kept.is_empty() { "" } else { " else" };
        sink.talk(Talk::Step(format!(
            "nothing{other} that costs money is left"
        )));
        return Ok(DownReport {
            kept,
            free,
            forgotten: Vec::new(),
        });
    }
    let words = |remains: &Remains| format!("{} {}: {}", remains.what, remains.arn, remains.remedy);
    Err(CommandError::Leftovers(costly.iter().map(words).collect()))
}
