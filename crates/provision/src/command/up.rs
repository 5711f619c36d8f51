//! `up`: from whatever is there to a running cluster.

use serde_json::Value;

use super::stack::{Review, apply};
use super::{CommandError, Pace, Sink, Talk, encrypt, follow, validate};
use crate::assets::AssetFolder;
use crate::cloud::{Cloud, StackView};
use crate::kubeconfig::{self, Endpoint};
use crate::lifecycle::next::{StackState, Step, next};
use crate::manifests;
use crate::spec::{ClusterSpec, Mode};
use crate::template::{Layer, Render, Stack, render};

/// How to go about it.
#[derive(Debug, Clone, Copy)]
pub struct UpOptions {
    /// Ask before each change set.
    pub review: Review,
    /// Waiting.
    pub pace: Pace,
}

/// What exists afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpReport {
    /// Stacks that were changed.
    pub changed: Vec<Layer>,
    /// Address of the API server.
    pub endpoint: String,
    /// The file system.
    pub file_system: String,
    /// Its access point.
    pub access_point: String,
    /// The kubeconfig's content.
    pub kubeconfig: Value,
}

/// Makes the cluster, or brings it up to date. Idempotent; goes on where an earlier run stopped.
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
    let mut updated = Vec::new();
    let mut changed = Vec::new();
    loop {
        match next(&states(cloud, spec).await?, &updated, &spec.name) {
            Step::Done => break,
            Step::Stop(_, reason) => return Err(CommandError::Decision(reason)),
            Step::Wait(layer) => {
                wait(cloud, &layer.stack_name(&spec.name), options.pace, sink).await?
            }
            Step::Clear(layer) => {
                clear(cloud, &layer.stack_name(&spec.name), options.pace, sink).await?
            }
            Step::Create(layer) | Step::Update(layer) => {
                let stack = stack(cloud, spec, folder, layer, sink).await?;
                let create = cloud.stack(&stack.name).await?.is_none();
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
    finish(cloud, spec, folder, changed).await
}

/// State of every stack, in order of creation.
pub(crate) async fn states(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
) -> Result<Vec<(Layer, StackState)>, CommandError> {
    let mut states = Vec::new();
    for layer in Layer::ALL {
        let view = cloud.stack(&layer.stack_name(&spec.name)).await?;
        states.push((
            layer,
            view.map_or(StackState::Absent, |view| {
                StackState::from_status(&view.status)
            }),
        ));
    }
    Ok(states)
}

async fn stack(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
    folder: &AssetFolder,
    layer: Layer,
    sink: &mut impl Sink,
) -> Result<Stack, CommandError> {
    let mut options = Render::default();
    if layer == Layer::Cluster && spec.control_plane.mode == Mode::SelfManaged {
        let key = output(&existing(cloud, spec, Layer::Base).await?, "KeyArn")?;
        options.user_data = Some(encrypt::user_data(cloud, spec, folder, &key, sink).await?);
    }
    let mut stacks = render(spec, &options);
    folder.write_stacks(&stacks, options.user_data.as_ref())?;
    let index = stacks
        .iter()
        .position(|stack| stack.layer == layer)
        .expect("every layer is rendered");
    Ok(stacks.swap_remove(index))
}

/// Waits for what an earlier run (or another person) has begun.
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

/// Removes what a failed creation left.
async fn clear(
    cloud: &impl Cloud,
    name: &str,
    pace: Pace,
    sink: &mut impl Sink,
) -> Result<(), CommandError> {
    sink.talk(Talk::Step(format!(
        "stack {name} is left from a failed creation; removing it first"
    )));
    let id = cloud
        .stack(name)
        .await?
        .map_or(name.to_owned(), |view| view.id);
    let seen = follow::seen_events(cloud, &id).await;
    cloud.delete_stack(name).await?;
    let outcome = follow::settle(cloud, (name, &id), seen, pace, sink).await?;
    match outcome.state() {
        StackState::Absent => Ok(()),
        _ => Err(CommandError::Stack {
            stack: name.to_owned(),
            cause: crate::lifecycle::events::first_cause(&outcome.events),
            leftover: crate::lifecycle::leftovers::Leftover::Deletable,
        }),
    }
}

pub(crate) async fn existing(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
    layer: Layer,
) -> Result<StackView, CommandError> {
    let name = layer.stack_name(&spec.name);
    let view = cloud.stack(&name).await?;
    view.ok_or_else(|| {
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
pub async fn kubeconfig(cloud: &impl Cloud, spec: &ClusterSpec) -> Result<Value, CommandError> {
    let cluster = existing(cloud, spec, Layer::Cluster).await?;
    let server = output(&cluster, "Endpoint")?;
    Ok(match spec.control_plane.mode {
        Mode::Eks => {
            let certificate_authority = output(&cluster, "CertificateAuthority")?;
            kubeconfig::eks(
                spec,
                &Endpoint {
                    server,
                    certificate_authority,
                },
            )
        }
        Mode::SelfManaged => kubeconfig::self_managed(spec, &server),
    })
}

async fn finish(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
    folder: &AssetFolder,
    changed: Vec<Layer>,
) -> Result<UpReport, CommandError> {
    let storage = existing(cloud, spec, Layer::Storage).await?;
    let cluster = existing(cloud, spec, Layer::Cluster).await?;
    let report = UpReport {
        changed,
        endpoint: output(&cluster, "Endpoint")?,
        file_system: output(&storage, "FileSystemId")?,
        access_point: output(&storage, "AccessPointId")?,
        kubeconfig: kubeconfig(cloud, spec).await?,
    };
    folder.write_json("kubeconfig", &report.kubeconfig, 0o600)?;
    let volume = manifests::volume(spec, &report.file_system, &report.access_point, "default");
    folder.write_json("manifests/volume.json", &manifests::list(volume), 0o644)?;
    Ok(report)
}
