//! `up`: from whatever is there to a running cluster.

use serde_json::Value;

use super::boundary::BoundaryProgress;
use super::down::enabled_keys;
use super::stack::{ChangeReview, apply, remove};
use super::{CommandError, Pace, Sink, Talk, bucket, encrypt, follow, own, standing, validate};
use crate::assets::AssetFolder;
use crate::cloud::{Cloud, StackView};
use crate::kubeconfig::{self, ApiEndpoint};
use crate::lifecycle::next::{StackState, UpStep, next};
use crate::manifests;
use crate::node::Disks;
use crate::ownership::{etcd_disk_name, own_ids};
use crate::policy::boundary_name;
use crate::spec::{ClusterSpec, ControlPlaneMode};
use crate::statuses::StackStatus;
use crate::template::base::IMAGES_OUTPUT;
use crate::template::self_managed::image_parameter;
use crate::template::{Render, Stack, StackLayer, render};
use crate::user_data::UserData;

/// How to go about it.
#[derive(Debug, Clone)]
pub struct UpOptions {
    /// Path of this program, which the kubeconfig names as the maker of tokens.
    pub program: String,
    /// Ask before each change set.
    pub review: ChangeReview,
    /// Waiting.
    pub pace: Pace,
}

/// What exists afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpReport {
    /// Stacks that were changed.
    pub changed: Vec<StackLayer>,
    /// Address of the API server.
    pub endpoint: String,
    /// The file system.
    pub file_system: String,
    /// Its access point.
    pub access_point: String,
    /// Where images can be pushed, if the cluster file asks for a repository.
    pub images: Option<String>,
    /// The kubeconfig's content.
    pub kubeconfig: Value,
    /// The volume, its claim and what belongs to them, for the cluster.
    pub volume: Vec<Value>,
}

/// Makes the cluster, or brings it up to date. Idempotent; continues where an earlier run stopped.
pub async fn up(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
    folder: &AssetFolder,
    options: UpOptions,
    sink: &mut impl Sink,
) -> Result<UpReport, CommandError> {
    let findings = validate::offline(spec);
    if !findings.is_empty() {
        return Err(CommandError::Unfit(findings));
    }
    let caller = cloud.caller().await?;
    sink.talk(Talk::Step(format!(
        "account {}, as {}",
        caller.account, caller.arn
    )));
    own::refuse_strangers(cloud, spec).await?;
    folder.refuse_foreign_kubeconfig(spec)?;
    standing::refuse_unchangeable(cloud, spec).await?;
    let names = validate::taken::in_use(cloud, spec).await?;
    if !names.taken.is_empty() {
        return Err(CommandError::NotOurs(names.taken));
    }
    bucket::refuse_stranger(cloud, spec).await?;
    if let Some(words) = validate::account::second_entry(cloud, spec, &caller).await? {
        return Err(CommandError::Decision(format!(
            "{words}; nothing was changed"
        )));
    }
    if let Some(words) = orphans(cloud, spec).await? {
        return Err(CommandError::Decision(format!(
            "{words}; nothing was changed"
        )));
    }
    let mut progress = Progress {
        changed: Vec::new(),
        bounds: BoundaryProgress::Untouched,
    };
    match bring_up(cloud, spec, folder, &options, &mut progress, sink).await {
        Err(CommandError::Declined(_)) => {
            let mut made = Vec::new();
            if progress.bounds == BoundaryProgress::Made {
                made.push(format!("policy {}", boundary_name(spec)));
            }
            let stacks = progress
                .changed
                .iter()
                .map(|layer| layer.stack_name(&spec.name));
            made.extend(stacks.map(|name| format!("stack {name}")));
            return Err(CommandError::Declined(made));
        }
        other => other?,
    }
    protect(cloud, spec).await?;
    finish(cloud, spec, folder, progress.changed, &options.program).await
}

/// What a run has done.
struct Progress {
    /// The layers that were made or changed.
    changed: Vec<StackLayer>,
    bounds: BoundaryProgress,
}

/// Takes the steps, one after the other.
async fn bring_up(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
    folder: &AssetFolder,
    options: &UpOptions,
    progress: &mut Progress,
    sink: &mut impl Sink,
) -> Result<(), CommandError> {
    let mut updated = Vec::new();
    loop {
        match next(
            &states(cloud, spec).await?,
            &updated,
            (&spec.name, &spec.region),
        ) {
            UpStep::Done => return progress.bounds.ensure(cloud, spec, sink).await,
            UpStep::Stop(_, reason) => return Err(CommandError::Decision(reason)),
            UpStep::Wait(layer) => {
                follow::begun(cloud, &layer.stack_name(&spec.name), options.pace, sink).await?
            }
            UpStep::Clear(layer, status) => {
                clear(cloud, spec, layer, &status, options, sink).await?;
            }
            UpStep::Create(layer) | UpStep::Update(layer) => {
                let stack = stack(cloud, spec, folder, layer, sink).await?;
                let create = own::stack(cloud, spec, layer).await?.is_none();
                if create && layer == StackLayer::Cluster {
                    clear_logs(cloud, spec, options.review, sink).await?;
                }
                if apply(
                    cloud,
                    spec,
                    &stack,
                    create,
                    options,
                    &mut progress.bounds,
                    sink,
                )
                .await?
                {
                    progress.changed.push(layer);
                }
                updated.push(layer);
            }
        }
    }
}

/// What speaks against making a second file system, key or disk beside one that a `down` left: its data would be out of sight.
pub(super) async fn orphans(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
) -> Result<Option<String>, CommandError> {
    let states = states(cloud, spec).await?;
    let gone = |layer: StackLayer| {
        states.iter().any(|(other, state)| {
            *other == layer && matches!(state, StackState::Absent | StackState::Broken(_))
        })
    };
    let mut orphans = Vec::new();
    if gone(StackLayer::Storage) && spec.storage.file_system_id.is_none() {
        let systems = own_ids(cloud.file_systems().await?, spec);
        orphans.extend(
            systems
                .into_iter()
                .map(|id| format!("storage.fileSystemId: {id}")),
        );
    }
    if gone(StackLayer::Base) && spec.kms_key_arn.is_none() {
        let tagged = own_ids(cloud.tagged(own::id(spec)?).await?, spec);
        let keys = enabled_keys(cloud, tagged).await?;
        orphans.extend(keys.into_iter().map(|arn| format!("kmsKeyArn: {arn}")));
    }
    if gone(StackLayer::Storage)
        && spec.control_plane.mode == ControlPlaneMode::SelfManaged
        && spec.control_plane.etcd_volume_id.is_none()
    {
        let name = etcd_disk_name(&spec.name);
        let mut disks = cloud.volumes(&spec.name, own::id(spec)?).await?;
        disks.retain(|disk| disk.tags.get("Name") == Some(&name));
        let disks = own_ids(disks, spec).into_iter();
        orphans.extend(disks.map(|id| format!("controlPlane.etcdVolumeId: {id}")));
    }
    if orphans.is_empty() {
        return Ok(None);
    }
    Ok(Some(format!(
        "data of this cluster are there that no stack has, and cluster.yaml does not name them; to use them again, add {}; to \
         delete them, run `canoe cluster down --delete-data`",
        orphans.join(" and ")
    )))
}

/// A log group that outlived its stack would be in the way of the new one. It has nothing but logs of a cluster that has gone.
async fn clear_logs(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
    review: ChangeReview,
    sink: &mut impl Sink,
) -> Result<(), CommandError> {
    let Some(group) = validate::taken::in_use(cloud, spec).await?.left_logs else {
        return Ok(());
    };
    let question = format!(
        "log group {group} is left from the last time and in the way; delete it with its logs?"
    );
    if review == ChangeReview::Ask && !sink.confirm(&question) {
        return Err(CommandError::Declined(Vec::new()));
    }
    sink.talk(Talk::Step(format!(
        "deleting log group {group}, left from the last time"
    )));
    match cloud.delete_log_group(&group).await {
        Err(error) if !error.is_missing() => Err(error.into()),
        _ => Ok(()),
    }
}

/// While the cluster is up, nobody deletes one of its stacks by mistake.
async fn protect(cloud: &impl Cloud, spec: &ClusterSpec) -> Result<(), CommandError> {
    for layer in StackLayer::ALL {
        if let Some(view) = own::stack(cloud, spec, layer).await?
            && !view.protected
        {
            cloud
                .protect_stack(&layer.stack_name(&spec.name), true)
                .await?;
        }
    }
    Ok(())
}

/// State of every stack, in order of creation.
pub(crate) async fn states(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
) -> Result<Vec<(StackLayer, StackState)>, CommandError> {
    let mut states = Vec::new();
    for layer in StackLayer::ALL {
        let view = own::stack(cloud, spec, layer).await?;
        states.push((
            layer,
            view.map_or(StackState::Absent, |view| {
                StackState::from_status(view.status)
            }),
        ));
    }
    Ok(states)
}

async fn stack(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
    folder: &AssetFolder,
    layer: StackLayer,
    sink: &mut impl Sink,
) -> Result<Stack, CommandError> {
    let mut options = Render::default();
    let mut scripts = None;
    if layer == StackLayer::Cluster && spec.control_plane.mode == ControlPlaneMode::SelfManaged {
        let key = output(&existing(cloud, spec, StackLayer::Base).await?, "KeyArn")?;
        let storage = existing(cloud, spec, StackLayer::Storage).await?;
        let disks = Disks {
            file_system: output(&storage, "FileSystemId")?,
            etcd_volume: output(&storage, "EtcdVolumeId")?,
        };
        scripts = Some(encrypt::scripts(cloud, spec, folder, &key, &disks, sink).await?);
        options.controller_image = match cloud.controller_image(own::id(spec)?).await? {
            Some(there) => Some(there),
            None => {
                let parameter = image_parameter(&spec.control_plane.instance_type);
                cloud.newest_image(&parameter).await?
            }
        };
    }
    let mut stacks = render(spec, &options);
    let user_data = UserData::render(spec);
    let machines = scripts.as_ref().map(|scripts| (&user_data, scripts));
    folder.write_stacks(&stacks, machines)?;
    let index = stacks
        .iter()
        .position(|stack| stack.layer == layer)
        .expect("every layer is rendered");
    Ok(stacks.swap_remove(index))
}

/// Removes what a failed creation or deletion left.
async fn clear(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
    layer: StackLayer,
    status: &StackStatus,
    options: &UpOptions,
    sink: &mut impl Sink,
) -> Result<(), CommandError> {
    let name = layer.stack_name(&spec.name);
    let left = match status {
        StackStatus::DeleteFailed => "a deletion that did not get to its end",
        _ => "a failed creation",
    };
    sink.talk(Talk::Step(format!(
        "stack {name} is {status}, left from {left}; removing it first"
    )));
    let empty = *status == StackStatus::ReviewInProgress;
    let question = format!("remove what is left of stack {name}?");
    if options.review == ChangeReview::Ask && !empty && !sink.confirm(&question) {
        return Err(CommandError::Declined(Vec::new()));
    }
    remove(cloud, spec, layer, options.pace, sink).await
}

pub(crate) async fn existing(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
    layer: StackLayer,
) -> Result<StackView, CommandError> {
    let view = own::stack(cloud, spec, layer).await?;
    view.ok_or_else(|| {
        let name = layer.stack_name(&spec.name);
        CommandError::Decision(format!(
            "stack {name} does not exist; run `canoe cluster up`"
        ))
    })
}

fn output(view: &StackView, key: &str) -> Result<String, CommandError> {
    view.outputs.get(key).cloned().ok_or_else(|| {
        CommandError::Decision(format!(
            "stack {} has no output {key}; run `canoe cluster up` to repair it",
            view.id
        ))
    })
}

/// The kubeconfig of the cluster as it is.
pub async fn kubeconfig(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
    program: &str,
) -> Result<Value, CommandError> {
    let cluster = existing(cloud, spec, StackLayer::Cluster).await?;
    let server = output(&cluster, "Endpoint")?;
    Ok(match spec.control_plane.mode {
        ControlPlaneMode::Eks => {
            let certificate_authority = output(&cluster, "CertificateAuthority")?;
            kubeconfig::eks(
                spec,
                &ApiEndpoint {
                    server,
                    certificate_authority,
                },
                program,
            )
        }
        ControlPlaneMode::SelfManaged => kubeconfig::self_managed(spec, &server),
    })
}

async fn finish(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
    folder: &AssetFolder,
    changed: Vec<StackLayer>,
    program: &str,
) -> Result<UpReport, CommandError> {
    let base = existing(cloud, spec, StackLayer::Base).await?;
    let storage = existing(cloud, spec, StackLayer::Storage).await?;
    let cluster = existing(cloud, spec, StackLayer::Cluster).await?;
    let file_system = output(&storage, "FileSystemId")?;
    let access_point = output(&storage, "AccessPointId")?;
    let mut volume = manifests::volume(spec, &file_system, &access_point, "default");
    volume.extend(manifests::bucket_account(spec, "default"));
    let report = UpReport {
        changed,
        endpoint: output(&cluster, "Endpoint")?,
        file_system,
        access_point,
        images: base.outputs.get(IMAGES_OUTPUT).cloned(),
        kubeconfig: kubeconfig(cloud, spec, program).await?,
        volume,
    };
    folder.write_json("kubeconfig", &report.kubeconfig, 0o600)?;
    let listed = manifests::list(&report.volume);
    folder.write_json("manifests/volume.json", &listed, 0o644)?;
    Ok(report)
}
