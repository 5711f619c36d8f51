//! `up`: from whatever is there to a running cluster.

use serde_json::Value;

use super::stack::{ChangeReview, apply, remove};
use super::{CommandError, Pace, Sink, Talk, boundary, encrypt, follow, own, validate};
use crate::assets::AssetFolder;
use crate::cloud::{Cloud, StackView};
use crate::kubeconfig::{self, ApiEndpoint};
use crate::lifecycle::next::{StackState, UpStep, next};
use crate::manifests;
use crate::node::Disks;
use crate::spec::{ClusterSpec, ControlPlaneMode};
use crate::template::base::IMAGES_OUTPUT;
use crate::template::self_managed::image_parameter;
use crate::template::{Render, Stack, StackLayer, render};
use crate::user_data::UserData;

/// How to go about it.
#[derive(Debug, Clone)]
pub struct UpOptions {
    /// Path of this program, which kubectl calls for tokens.
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
    boundary::ensure(cloud, spec, sink).await?;
    let mut updated = Vec::new();
    let mut changed = Vec::new();
    loop {
        match next(&states(cloud, spec).await?, &updated, &spec.name) {
            UpStep::Done => break,
            UpStep::Stop(_, reason) => return Err(CommandError::Decision(reason)),
            UpStep::Wait(layer) => {
                follow::begun(cloud, &layer.stack_name(&spec.name), options.pace, sink).await?
            }
            UpStep::Clear(layer) => clear(cloud, spec, layer, options.pace, sink).await?,
            UpStep::Create(layer) | UpStep::Update(layer) => {
                let stack = stack(cloud, spec, folder, layer, sink).await?;
                let create = own::stack(cloud, spec, layer).await?.is_none();
                if apply(
                    cloud,
                    spec,
                    (&stack, create),
                    options.review,
                    options.pace,
                    sink,
                )
                .await?
                {
                    changed.push(layer);
                }
                updated.push(layer);
            }
        }
    }
    protect(cloud, spec).await?;
    finish(cloud, spec, folder, changed, &options.program).await
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
        scripts = Some(encrypt::scripts(cloud, spec, folder, (&key, &disks), sink).await?);
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

/// Removes what a failed creation left.
async fn clear(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
    layer: StackLayer,
    pace: Pace,
    sink: &mut impl Sink,
) -> Result<(), CommandError> {
    let name = layer.stack_name(&spec.name);
    sink.talk(Talk::Step(format!(
        "stack {name} is left from a failed creation; removing it first"
    )));
    remove(cloud, spec, layer, pace, sink).await
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
    let report = UpReport {
        changed,
        endpoint: output(&cluster, "Endpoint")?,
        file_system: output(&storage, "FileSystemId")?,
        access_point: output(&storage, "AccessPointId")?,
        images: base.outputs.get(IMAGES_OUTPUT).cloned(),
        kubeconfig: kubeconfig(cloud, spec, program).await?,
    };
    folder.write_json("kubeconfig", &report.kubeconfig, 0o600)?;
    let mut volume = manifests::volume(spec, &report.file_system, &report.access_point, "default");
    volume.extend(manifests::bucket_account(spec, "default"));
    folder.write_json("manifests/volume.json", &manifests::list(volume), 0o644)?;
    Ok(report)
}
