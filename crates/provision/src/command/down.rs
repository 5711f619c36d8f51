//! `down`: takes the cluster away in AWS's order, and looks afterwards whether anything is left.
//!
//! It touches only what carries the cluster's id, and the data only when it is told to.

use std::slice;

use tokio::time::sleep;

use super::nodes::Kubectl;
use super::stack::remove;
use super::up::states;
use super::{CommandError, Pace, Sink, Talk, boundary, counted, follow, own, volume, workload};
use crate::cloud::Cloud;
use crate::lifecycle::leftovers::{self, Remains};
use crate::lifecycle::next::StackState;
use crate::lifecycle::teardown::{
    DataFate, DownStep, Inventory, data_ids, has_data, kept, next, plan,
};
use crate::ownership::{
    Thing, etcd_disk_name, is_our_bucket, is_ours, made_by_kubernetes, own_ids, stranger,
};
use crate::spec::{ClusterSpec, ControlPlaneMode};
use crate::statuses::KeyState;
use crate::template::StackLayer;
use crate::template::base::IMAGES_OUTPUT;

/// How to go about it.
#[derive(Debug, Clone)]
pub struct DownOptions {
    /// What becomes of the data; `None` asks, and no answer keeps them.
    pub data: Option<DataFate>,
    /// Ask once, before anything is removed.
    pub ask: bool,
    /// Continue although jobs are running, or although the cluster cannot be asked.
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
    /// Of what stays, the disk with etcd.
    pub etcd_volume: Option<String>,
    /// Whether anything of the cluster was there at all, in this account and region.
    pub found: bool,
    /// File systems, keys and disks that went although no stack owned them; the cluster file may name them.
    pub forgotten: Vec<String>,
}

/// Takes everything away. Can be interrupted and run again.
pub async fn down(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
    options: DownOptions,
    sink: &mut impl Sink,
) -> Result<DownReport, CommandError> {
    let caller = cloud.caller().await?;
    sink.talk(Talk::Step(format!(
        "account {}, as {}",
        caller.account, caller.arn
    )));
    own::refuse_strangers(cloud, spec).await?;
    let mut inventory = look(cloud, spec).await?;
    let running = matches!(inventory.state(StackLayer::Cluster), StackState::Ready(_));
    let kubectl = options.kubectl.as_ref().filter(|_| running);
    if running && !options.force {
        workload::refuse_while_jobs_run(kubectl).await?;
    }
    if let Some(kubectl) = kubectl
        && volume::tell(kubectl, spec, sink).await
        && options.ask
        && options.data.is_none()
        && !sink.confirm("continue? (no: fetch the models first, with the commands above)")
    {
        return Err(CommandError::Declined);
    }
    let data = fate(&inventory, &options, sink);
    let found = propose(&inventory, data, spec, options.ask, sink)?;
    if !found {
        sink.talk(Talk::Step(format!(
            "nothing of cluster {} (id {}) is in account {}, region {}; if it was made by another account or in another region, it is still there: \
             run this with those credentials, or with that region in cluster.yaml",
            spec.name,
            own::id(spec)?,
            caller.account,
            spec.region
        )));
    }
    if let Some(kubectl) = kubectl {
        workload::release_load_balancers(kubectl, sink).await;
    }
    let kept_ids: Vec<String> = match data {
        DataFate::Keep => data_ids(&inventory),
        DataFate::Delete => Vec::new(),
    };
    let mut attempts = 0;
    let mut forgotten = Vec::new();
    loop {
        let step = next(&inventory, data, &spec.name);
        if step == DownStep::Done {
            break;
        }
        if let Err(error) = act(cloud, spec, &step, options.pace, sink).await {
            attempts += 1;
            retry_or_fail(error, attempts, options.pace, sink).await?;
        }
        if let DownStep::RemoveFileSystems(ids)
        | DownStep::RemoveKeys(ids)
        | DownStep::RemoveVolumes(ids) = step
        {
            forgotten.extend(ids);
        }
        inventory = look(cloud, spec).await?;
    }
    boundary::remove(cloud, spec, sink).await?;
    let mut report = sweep(cloud, spec, &kept_ids, sink).await?;
    report.etcd_volume = inventory.etcd_volume.filter(|_| data == DataFate::Keep);
    report.forgotten = forgotten;
    report.found = found;
    Ok(report)
}

/// What becomes of the data. Only a clear word deletes them.
fn fate(inventory: &Inventory, options: &DownOptions, sink: &mut impl Sink) -> DataFate {
    match options.data {
        Some(data) => data,
        None if !has_data(inventory) => DataFate::Keep,
        None => {
            let question =
                "delete the data too? (no: the file system and the key stay and are billed)";
            if sink.confirm(question) {
                DataFate::Delete
            } else {
                DataFate::Keep
            }
        }
    }
}

/// Says what goes and what stays, and asks. Returns whether there is anything.
fn propose(
    inventory: &Inventory,
    data: DataFate,
    spec: &ClusterSpec,
    ask: bool,
    sink: &mut impl Sink,
) -> Result<bool, CommandError> {
    let goes = plan(inventory, data, &spec.name);
    let stays = kept(inventory, data);
    for (lines, verb) in [(&goes, "will be deleted"), (&stays, "will stay")] {
        if lines.is_empty() {
            continue;
        }
        sink.talk(Talk::Step(format!(
            "{} of cluster {} {verb}",
            counted(lines.len(), "resource"),
            spec.name
        )));
        for line in lines {
            sink.talk(Talk::Detail(line.clone()));
        }
    }
    if ask && !goes.is_empty() && !sink.confirm("delete all of this?") {
        return Err(CommandError::Declined);
    }
    Ok(!goes.is_empty() || !stays.is_empty())
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
        DownStep::Wait(layer) => {
            follow::begun(cloud, &layer.stack_name(&spec.name), pace, sink).await?
        }
        DownStep::RemoveLoadBalancers(arns) => {
            for arn in arns {
                sink.talk(Talk::Step(format!("deleting load balancer {arn}")));
                gone(cloud.delete_load_balancer(arn).await)?;
            }
        }
        DownStep::RemoveVolumes(ids) => {
            for id in ids {
                sink.talk(Talk::Step(format!("deleting disk {id}")));
                gone(cloud.delete_volume(id).await)?;
            }
        }
        DownStep::RemoveInterfaces(ids) => {
            for id in ids {
                sink.talk(Talk::Step(format!(
                    "deleting network interface {id}, left by the cluster"
                )));
                gone(cloud.delete_interface(id).await)?;
            }
        }
        DownStep::RemoveGroups(ids) => {
            for id in ids {
                sink.talk(Talk::Step(format!(
                    "deleting security group {id}, made by Kubernetes"
                )));
                gone(cloud.delete_group(id).await)?;
            }
        }
        DownStep::RemoveFileSystems(ids) => {
            for id in ids {
                sink.talk(Talk::Step(format!("deleting file system {id}")));
                gone(cloud.delete_file_system(id).await)?;
            }
        }
        DownStep::RemoveKeys(arns) => {
            for arn in arns {
                sink.talk(Talk::Step(format!("scheduling the deletion of key {arn}")));
                gone(cloud.schedule_key_deletion(arn).await)?;
            }
        }
        DownStep::DeleteStack(layer) => {
            let name = layer.stack_name(&spec.name);
            sink.talk(Talk::Step(format!("deleting stack {name}")));
            remove(cloud, spec, *layer, pace, sink).await?
        }
        DownStep::RemoveBucket(bucket) => {
            sink.talk(Talk::Step(format!("deleting bucket {bucket}")));
            for key in cloud.objects(bucket).await? {
                gone(cloud.delete_object(bucket, &key).await)?;
            }
            gone(cloud.delete_bucket(bucket).await)?;
        }
        DownStep::RemoveLogGroups(groups) => {
            for group in groups {
                sink.talk(Talk::Step(format!("deleting log group {group}")));
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

/// Everything of the cluster that is there now, and nothing of anybody else.
pub async fn look(cloud: &impl Cloud, spec: &ClusterSpec) -> Result<Inventory, CommandError> {
    let id = own::id(spec)?;
    let mut inventory = Inventory {
        stacks: states(cloud, spec).await?,
        ..Inventory::default()
    };
    inventory
        .stacks
        .retain(|(_, state)| *state != StackState::Absent);
    let base = own::stack(cloud, spec, StackLayer::Base).await?;
    if let Some(vpc) = base.as_ref().and_then(|view| view.outputs.get("VpcId")) {
        inventory.load_balancers = of_kubernetes(cloud.load_balancers(vpc).await?, spec);
        inventory.interfaces = cloud.interfaces(vpc).await?;
        if inventory.state(StackLayer::Cluster) == &StackState::Absent {
            inventory.groups = of_kubernetes(cloud.groups(vpc).await?, spec);
        }
    }
    let images = base
        .as_ref()
        .and_then(|view| view.outputs.get(IMAGES_OUTPUT));
    inventory.images = images.cloned();
    let etcd = etcd_disk_name(&spec.name);
    for volume in cloud.volumes(&spec.name, id).await? {
        if volume.tags.get("Name") == Some(&etcd) && is_ours(&volume.tags, Some(id)) {
            inventory.etcd_volume = Some(volume.id);
            continue;
        }
        sort_out(
            volume,
            "disk",
            id,
            &mut inventory.volumes,
            &mut inventory.strangers,
        );
    }
    inventory.file_systems = own_ids(cloud.file_systems().await?, Some(id));
    inventory.given_file_system = spec.storage.file_system_id.clone();
    inventory.keys = enabled_keys(cloud, &cloud.tagged(id).await?).await?;
    let bucket = crate::policy::bucket_name(id);
    let tags = cloud.bucket_tags(&bucket).await?;
    if tags.is_some_and(|tags| is_our_bucket(&bucket, &tags, spec)) {
        inventory.bucket = Some(bucket);
        inventory.bucket_has_data = spec.control_plane.mode == ControlPlaneMode::SelfManaged;
    }
    if spec.control_plane.mode == ControlPlaneMode::Eks {
        let prefix = format!("/aws/eks/{}/", spec.name);
        for group in cloud.log_groups(&prefix).await? {
            sort_out(
                group,
                "log group",
                id,
                &mut inventory.log_groups,
                &mut inventory.strangers,
            );
        }
    }
    Ok(inventory)
}

/// Things in our own VPC that Kubernetes made for this cluster.
fn of_kubernetes(things: Vec<Thing>, spec: &ClusterSpec) -> Vec<String> {
    let made = things
        .into_iter()
        .filter(|thing| made_by_kubernetes(&thing.tags, &spec.name));
    made.map(|thing| thing.id).collect()
}

fn sort_out(
    thing: Thing,
    what: &str,
    id: &str,
    ours: &mut Vec<String>,
    strangers: &mut Vec<String>,
) {
    if is_ours(&thing.tags, Some(id)) {
        ours.push(thing.id);
    } else {
        let named = format!("{what} {}", thing.id);
        strangers.push(stranger(&named, &thing.tags, Some(id)));
    }
}

/// Keys among `arns` that are not on their way out.
async fn enabled_keys(cloud: &impl Cloud, arns: &[String]) -> Result<Vec<String>, CommandError> {
    let mut keys = Vec::new();
    for arn in arns.iter().filter(|arn| is_key(arn)) {
        match cloud.key_state(arn).await {
            Ok(state) if state != KeyState::PendingDeletion => keys.push(arn.clone()),
            Err(error) if !error.is_missing() => return Err(error.into()),
            _ => {}
        }
    }
    Ok(keys)
}

fn is_key(arn: &str) -> bool {
    arn.contains(":kms:")
}

/// The check by tag at the end.
async fn sweep(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
    kept: &[String],
    sink: &mut impl Sink,
) -> Result<DownReport, CommandError> {
    let found = cloud.tagged(own::id(spec)?).await?;
    let mut present = Vec::new();
    for arn in found {
        if is_key(&arn)
            && !enabled_keys(cloud, slice::from_ref(&arn))
                .await?
                .contains(&arn)
        {
            sink.talk(Talk::Detail(format!(
                "key {arn} is scheduled for deletion and costs nothing until then"
            )));
            continue;
        }
        present.push(arn);
    }
    let (kept, left) = leftovers::sort(&present, kept);
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
            etcd_volume: None,
            found: true,
            forgotten: Vec::new(),
        });
    }
    let words = |remains: &Remains| format!("{} {}: {}", remains.what, remains.arn, remains.remedy);
    Err(CommandError::Leftovers(costly.iter().map(words).collect()))
}
