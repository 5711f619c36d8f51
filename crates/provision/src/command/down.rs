//! `down`: takes the cluster away in AWS's order, and looks afterwards whether anything is left.
//!
//! It touches only what carries the cluster's id, and the data only when it is asked to.

use std::collections::BTreeSet;

use tokio::time::sleep;

use super::api_server::ApiServer;
use super::bucket::{self, BucketOwner};
use super::stack::remove;
use super::up::states;
use super::{
    CommandError, Pace, Sink, Talk, boundary, counted, follow, own, remember, volume, workload,
};
use crate::assets::AssetFolder;
use crate::cloud::Cloud;
use crate::lifecycle::leftovers::{self, Remains};
use crate::lifecycle::next::StackState;
use crate::lifecycle::teardown::{
    DataFate, DownStep, Interface, Inventory, data_ids, has_data, kept, next, plan, touches_storage,
};
use crate::ownership::{
    Tags, Thing, etcd_disk_name, is_ours, made_by_kubernetes, own_ids, stranger,
};
use crate::spec::{ClusterSpec, ControlPlaneMode};
use crate::statuses::{KeyState, StackStatus};
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
    /// Where cluster.yaml is, into which what stays is written before storage is touched.
    pub folder: Option<AssetFolder>,
    /// The way to the cluster: to see whether jobs run, and to let Kubernetes remove what it made.
    pub api: Option<ApiServer>,
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
    /// Whether anything of the cluster was there at all, in this account and region.
    pub found: bool,
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
    let api = reachable(cloud, spec, &inventory, &options, sink).await?;
    if let Some(api) = api
        && volume::tell(api, spec, sink).await
        && options.ask
        && options.data.is_none()
        && !sink.confirm("continue? (no: fetch the models first, with the commands above)")
    {
        return Err(CommandError::Declined(Vec::new()));
    }
    let data = fate(&inventory, &options, sink);
    let mut shown = BTreeSet::new();
    let found = propose(&inventory, data, spec, &mut shown, options.ask, sink)?;
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
    if let Some(api) = api {
        workload::release_load_balancers(api, sink).await;
    }
    let mut attempts = 0;
    let mut remembered = false;
    loop {
        let step = next(&inventory, data);
        if data == DataFate::Keep
            && touches_storage(&step)
            && !remembered
            && let Some(folder) = &options.folder
        {
            remember::keep(folder, spec, &inventory, sink)?;
            remembered = true;
        }
        if step == DownStep::Done {
            break;
        }
        let done = act(cloud, spec, &step, options.pace, sink).await;
        if let (Ok(()), Some(folder)) = (&done, &options.folder)
            && let DownStep::RemoveFileSystems(ids)
            | DownStep::RemoveKeys(ids)
            | DownStep::RemoveVolumes(ids) = &step
        {
            remember::forget(folder, ids, sink)?;
        }
        if let Err(error) = done {
            attempts += 1;
            retry_or_fail(error, attempts, options.pace, sink).await?;
        }
        inventory = look(cloud, spec).await?;
        if matches!(step, DownStep::Wait(_)) {
            // Somebody else's work on the cluster has ended; jobs may have come with it.
            reachable(cloud, spec, &inventory, &options, sink).await?;
        }
        propose_more(&inventory, data, spec, &mut shown, options.ask, sink)?;
    }
    boundary::remove(cloud, spec, sink).await?;
    let mut kept_ids = match data {
        DataFate::Keep => data_ids(&inventory),
        DataFate::Delete => Vec::new(),
    };
    kept_ids.extend(inventory.shared_bucket);
    let mut report = sweep(cloud, spec, &kept_ids, sink).await?;
    report.found = found;
    Ok(report)
}

/// Whether there is a control plane that may run jobs. The state of its stack does not say: a stack that is being updated,
/// or whose update failed, has a cluster that works.
async fn lives(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
    inventory: &Inventory,
) -> Result<bool, CommandError> {
    use StackStatus as S;
    if let StackState::Absent | StackState::Broken(S::ReviewInProgress | S::RollbackComplete) =
        inventory.state(StackLayer::Cluster)
    {
        return Ok(false);
    }
    Ok(match spec.control_plane.mode {
        ControlPlaneMode::Eks => cloud.eks_cluster(&spec.name).await?.is_some(),
        ControlPlaneMode::SelfManaged => cloud.controller_image(own::id(spec)?).await?.is_some(),
    })
}

/// Whether the cluster never got ready, or is going already: then it need not respond.
fn is_half(state: &StackState) -> bool {
    use StackStatus as S;
    matches!(
        state,
        StackState::Busy(S::CreateInProgress | S::RollbackInProgress | S::DeleteInProgress)
            | StackState::Broken(S::CreateFailed | S::RollbackFailed | S::DeleteFailed)
    )
}

/// The way to a cluster that responds. One that runs jobs is refused, and one that nobody can ask, unless it is forced; only
/// a cluster that is not whole may be silent, as long as its data stay.
async fn reachable<'a>(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
    inventory: &Inventory,
    options: &'a DownOptions,
    sink: &mut impl Sink,
) -> Result<Option<&'a ApiServer>, CommandError> {
    let api = options.api.as_ref();
    if !lives(cloud, spec, inventory).await? {
        return Ok(None);
    }
    if options.force {
        return Ok(api);
    }
    match workload::jobs(api).await {
        Ok(jobs) if jobs.is_empty() => Ok(api),
        Ok(jobs) => Err(workload::busy(&jobs)),
        Err(reason)
            if is_half(inventory.state(StackLayer::Cluster))
                && options.data != Some(DataFate::Delete) =>
        {
            sink.talk(Talk::Warning(format!(
                "the cluster is not whole and cannot be asked for jobs and models: {reason}"
            )));
            Ok(None)
        }
        Err(reason) => Err(workload::unasked(&reason)),
    }
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
    shown: &mut BTreeSet<String>,
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
            shown.insert(line.clone());
        }
    }
    if ask && !goes.is_empty() && !sink.confirm("delete all of this?") {
        return Err(CommandError::Declined(Vec::new()));
    }
    Ok(!goes.is_empty() || stays.len() > inventory.strangers.len())
}

/// What has come to light since: nothing goes that was not shown, and agreed to.
fn propose_more(
    inventory: &Inventory,
    data: DataFate,
    spec: &ClusterSpec,
    shown: &mut BTreeSet<String>,
    ask: bool,
    sink: &mut impl Sink,
) -> Result<(), CommandError> {
    for line in kept(inventory, data) {
        if shown.insert(line.clone()) {
            sink.talk(Talk::Detail(format!("stays, too: {line}")));
        }
    }
    let mut more = plan(inventory, data, &spec.name);
    more.retain(|line| shown.insert(line.clone()));
    if more.is_empty() {
        return Ok(());
    }
    sink.talk(Talk::Step("found meanwhile, and to be deleted".to_owned()));
    for line in more {
        sink.talk(Talk::Detail(line));
    }
    if ask && !sink.confirm("delete this, too?") {
        return Err(CommandError::Decision(
            "stopped; what is named above as deleted has gone, the rest is there; run this again to continue".to_owned(),
        ));
    }
    Ok(())
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
        DownStep::RemoveBucket(name) => {
            sink.talk(Talk::Step(format!("deleting bucket {name}")));
            let keys = cloud.objects(name).await?.into_iter();
            for key in keys.filter(|key| bucket::is_our_object(key, spec)) {
                gone(cloud.delete_object(name, &key).await)?;
            }
            gone(cloud.delete_bucket(name).await)?;
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
    let storage = own::stack(cloud, spec, StackLayer::Storage).await?;
    let outputs = [&base, &storage].into_iter().flatten();
    let outputs: Vec<(&String, &String)> = outputs.flat_map(|view| &view.outputs).collect();
    let of = |names: &[&str]| -> Vec<String> {
        let found = outputs
            .iter()
            .filter(|(name, _)| names.contains(&name.as_str()));
        found.map(|(_, value)| (*value).clone()).collect()
    };
    inventory.of_stacks = of(&["FileSystemId", "KeyArn", "EtcdVolumeId"]);
    inventory.images = of(&[IMAGES_OUTPUT]).pop();
    if let Some(vpc) = of(&["VpcId"]).pop() {
        let own_groups: Vec<String> = outputs
            .iter()
            .filter(|(name, _)| name.ends_with("SecurityGroup"))
            .map(|(_, value)| (*value).clone())
            .collect();
        made_in_vpc(cloud, spec, &vpc, &own_groups, &mut inventory).await?;
    }
    let etcd = etcd_disk_name(&spec.name);
    for volume in cloud.volumes(&spec.name, id).await? {
        if volume.tags.get("Name") == Some(&etcd) && is_ours(&volume.tags, spec) {
            inventory.etcd_volume = Some(volume.id);
            continue;
        }
        sort_out(
            volume,
            "disk",
            spec,
            &mut inventory.volumes,
            &mut inventory.strangers,
        );
    }
    let systems = cloud.file_systems().await?;
    let is_there = |id: &&String| systems.iter().any(|system| system.id == **id);
    let given = spec.storage.file_system_id.as_ref().filter(is_there);
    inventory.given_file_system = given.cloned();
    inventory.file_systems = own_ids(systems, spec);
    inventory.keys = enabled_keys(cloud, own_ids(cloud.tagged(id).await?, spec)).await?;
    look_at_bucket(cloud, spec, id, &mut inventory).await?;
    if spec.control_plane.mode == ControlPlaneMode::Eks {
        let prefix = format!("/aws/eks/{}/", spec.name);
        for group in cloud.log_groups(&prefix).await? {
            sort_out(
                group,
                "log group",
                spec,
                &mut inventory.log_groups,
                &mut inventory.strangers,
            );
        }
    }
    Ok(inventory)
}

/// What Kubernetes made in the VPC of the cluster. In one that is not ours its mark proves nothing, since another cluster
/// of this name may be there: only what carries the id counts, and interfaces in groups of our own stacks.
async fn made_in_vpc(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
    vpc: &str,
    own_groups: &[String],
    inventory: &mut Inventory,
) -> Result<(), CommandError> {
    let tags = cloud.vpc_tags(vpc).await?;
    let own_vpc = tags.is_some_and(|tags| is_ours(&tags, spec));
    let ours =
        |tags: &Tags| is_ours(tags, spec) || (own_vpc && made_by_kubernetes(tags, &spec.name));
    let gone = *inventory.state(StackLayer::Cluster) == StackState::Absent;
    for (what, things, list, tell) in [
        (
            "load balancer",
            cloud.load_balancers(vpc).await?,
            &mut inventory.load_balancers,
            true,
        ),
        (
            "security group",
            cloud.groups(vpc).await?,
            &mut inventory.groups,
            gone, // the one of EKS itself goes with the cluster
        ),
    ] {
        for thing in things {
            if own_groups.contains(&thing.id) {
                continue; // goes with its stack
            }
            if ours(&thing.tags) && made_by_kubernetes(&thing.tags, &spec.name) {
                list.push(thing.id);
            } else if !own_vpc && tell && made_by_kubernetes(&thing.tags, &spec.name) {
                inventory.strangers.push(format!(
                    "{what} {} has Kubernetes' mark of a cluster {}, but VPC {vpc} is not ours, so it may be another's; if it \
                     is not, remove it yourself",
                    thing.id, spec.name
                ));
            }
        }
    }
    let in_own_group = |interface: &Interface| {
        let mut groups = interface.groups.iter();
        made_by_kubernetes(&interface.tags, &spec.name) && groups.any(|id| own_groups.contains(id))
    };
    let mut interfaces = cloud.interfaces(vpc).await?;
    interfaces.retain(|one| {
        in_own_group(one) || (ours(&one.tags) && made_by_kubernetes(&one.tags, &spec.name))
    });
    inventory.interfaces = interfaces;
    Ok(())
}

/// The cluster's bucket. One that holds what we did not write stays with all of it; so does one of others.
async fn look_at_bucket(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
    id: &str,
    inventory: &mut Inventory,
) -> Result<(), CommandError> {
    let name = crate::policy::bucket_name(id);
    match bucket::find(cloud, spec, &name).await {
        Ok(BucketOwner::Nothing) => return Ok(()),
        Ok(BucketOwner::Stranger(words)) => {
            inventory.strangers.push(words);
            return Ok(());
        }
        Ok(BucketOwner::Ours | BucketOwner::Unfinished) => {}
        Err(error) if error.is_elsewhere() || error.is_denied() => {
            let words =
                format!("bucket {name} is in another region or account, or may not be looked at");
            inventory.strangers.push(words);
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    }
    let mut foreign = cloud.objects(&name).await?;
    foreign.retain(|key| !bucket::is_our_object(key, spec));
    if let Some(first) = foreign.first() {
        let more = match foreign.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        inventory.strangers.push(format!(
            "bucket {name} with all that is in it: {first}{more} was put there by somebody else; move it away, and run this again"
        ));
        inventory.shared_bucket = Some(name);
        return Ok(());
    }
    inventory.bucket = Some(name);
    inventory.bucket_has_data = spec.control_plane.mode == ControlPlaneMode::SelfManaged;
    Ok(())
}

fn sort_out(
    thing: Thing,
    what: &str,
    spec: &ClusterSpec,
    ours: &mut Vec<String>,
    strangers: &mut Vec<String>,
) {
    if is_ours(&thing.tags, spec) {
        ours.push(thing.id);
    } else {
        let named = format!("{what} {}", thing.id);
        strangers.push(stranger(&named, &thing.tags, spec));
    }
}

/// Keys among `arns` that are not on their way out.
pub(super) async fn enabled_keys(
    cloud: &impl Cloud,
    arns: Vec<String>,
) -> Result<Vec<String>, CommandError> {
    let mut keys = Vec::new();
    for arn in arns.into_iter().filter(|arn| is_key(arn)) {
        match cloud.key_state(&arn).await {
            Ok(state) if state != KeyState::PendingDeletion => keys.push(arn),
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
    let found = own_ids(cloud.tagged(own::id(spec)?).await?, spec);
    let mut present = Vec::new();
    for arn in found {
        if is_key(&arn) && enabled_keys(cloud, vec![arn.clone()]).await?.is_empty() {
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
            found: true,
        });
    }
    let words = |remains: &Remains| format!("{} {}: {}", remains.what, remains.arn, remains.remedy);
    Err(CommandError::Leftovers(costly.iter().map(words).collect()))
}
