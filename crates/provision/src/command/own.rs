//! The one way from a name to a stack: through the check that it is this cluster's.

use super::CommandError;
use super::stack::CHANGE_SET;
use crate::cloud::{Cloud, CloudError, StackView};
use crate::lifecycle::leftovers::classify;
use crate::ownership::{ID_TAG, copied_from, is_ours, missing_id, stranger};
use crate::spec::ClusterSpec;
use crate::statuses::StackStatus;
use crate::template::{CLUSTER_TAG, StackLayer};

/// Whose stack it is.
pub(crate) enum StackOwner {
    /// There is none.
    Nothing,
    /// It carries the cluster's id.
    Ours(StackView),
    /// It does not; the sentence names it.
    Stranger(String),
}

/// The cluster's id; commands that change something cannot do without.
pub(crate) fn id(spec: &ClusterSpec) -> Result<&str, CommandError> {
    let id = spec.id.as_deref();
    id.ok_or_else(|| CommandError::NotOurs(vec![missing_id()]))
}

/// Looks at the stack of a layer and whose it is.
pub(crate) async fn find(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
    layer: StackLayer,
) -> Result<StackOwner, CloudError> {
    let name = layer.stack_name(&spec.name);
    let Some(mut view) = cloud.stack(&name).await? else {
        return Ok(StackOwner::Nothing);
    };
    if view.status == StackStatus::ReviewInProgress && !is_ours(&view.tags, spec) {
        view.tags = match cloud.change_set(&name, CHANGE_SET).await {
            Ok(set) => set.tags,
            Err(error) if error.is_missing() => view.tags,
            Err(error) => return Err(error),
        };
    }
    if is_ours(&view.tags, spec) {
        return Ok(StackOwner::Ours(view));
    }
    let what = format!("stack {name}");
    Ok(StackOwner::Stranger(stranger(&what, &view.tags, spec)))
}

/// The stack of a layer, if there is one; somebody else's is refused.
pub(crate) async fn stack(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
    layer: StackLayer,
) -> Result<Option<StackView>, CommandError> {
    match find(cloud, spec, layer).await? {
        StackOwner::Nothing => Ok(None),
        StackOwner::Ours(view) => Ok(Some(view)),
        StackOwner::Stranger(words) => Err(CommandError::NotOurs(vec![words])),
    }
}

/// Refuses, with all their names, when stacks of this cluster's names are not its own, and when its id is another's.
pub(crate) async fn refuse_strangers(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
) -> Result<(), CommandError> {
    if spec.id.is_none() {
        return Err(CommandError::NotOurs(vec![lost_id(cloud, spec).await?]));
    }
    let strangers = strangers(cloud, spec).await?;
    if strangers.is_empty() {
        return Ok(());
    }
    Err(CommandError::NotOurs(strangers))
}

/// Stacks of this cluster's names that are not its own; if there are none, what has its id under another name.
pub(crate) async fn strangers(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
) -> Result<Vec<String>, CloudError> {
    let mut strangers = Vec::new();
    for layer in StackLayer::ALL {
        if let StackOwner::Stranger(words) = find(cloud, spec, layer).await? {
            strangers.push(words);
        }
    }
    if strangers.is_empty() {
        strangers.extend(original(cloud, spec).await?);
    }
    Ok(strangers)
}

/// What belongs to the cluster of which this cluster file is a copy.
async fn original(cloud: &impl Cloud, spec: &ClusterSpec) -> Result<Option<String>, CloudError> {
    let Some(id) = spec.id.as_deref() else {
        return Ok(None);
    };
    let tagged = cloud.tagged(id).await?;
    let copied = tagged
        .iter()
        .find(|thing| copied_from(&thing.tags, spec).is_some());
    Ok(copied.map(|thing| {
        let what = format!("{} {}", classify(&thing.id).what, thing.id);
        stranger(&what, &thing.tags, spec)
    }))
}

/// What to say to somebody whose cluster file has lost its id. If stacks of the name are there, they know one.
async fn lost_id(cloud: &impl Cloud, spec: &ClusterSpec) -> Result<String, CloudError> {
    for layer in StackLayer::ALL {
        let name = layer.stack_name(&spec.name);
        let Some(view) = cloud.stack(&name).await? else {
            continue;
        };
        if let (Some(id), Some(cluster)) = (view.tags.get(ID_TAG), view.tags.get(CLUSTER_TAG))
            && *cluster == spec.name
        {
            return Ok(format!(
                "cluster.yaml has no id, and stack {name} is there with the id {id}; if it is yours, put the line \
                 `id: \"{id}\"` back; if not, choose another name"
            ));
        }
    }
    Ok(missing_id())
}
