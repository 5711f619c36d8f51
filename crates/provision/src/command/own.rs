//! The one way from a name to a stack: through the check that it is this cluster's.

use super::CommandError;
use super::stack::CHANGE_SET;
use crate::cloud::{Cloud, CloudError, StackView};
use crate::ownership::{is_ours, missing_id, stranger};
use crate::spec::ClusterSpec;
use crate::statuses::StackStatus;
use crate::template::StackLayer;

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
    let id = spec.id.as_deref();
    if view.status == StackStatus::ReviewInProgress && !is_ours(&view.tags, id) {
        view.tags = match cloud.change_set(&name, CHANGE_SET).await {
            Ok(set) => set.tags,
            Err(error) if error.is_missing() => view.tags,
            Err(error) => return Err(error),
        };
    }
    if is_ours(&view.tags, id) {
        return Ok(StackOwner::Ours(view));
    }
    let what = format!("stack {name}");
    Ok(StackOwner::Stranger(stranger(&what, &view.tags, id)))
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

/// Refuses, with all their names, when stacks of this cluster's names are not its own.
pub(crate) async fn refuse_strangers(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
) -> Result<(), CommandError> {
    id(spec)?;
    let mut strangers = Vec::new();
    for layer in StackLayer::ALL {
        if let StackOwner::Stranger(words) = find(cloud, spec, layer).await? {
            strangers.push(words);
        }
    }
    if strangers.is_empty() {
        return Ok(());
    }
    Err(CommandError::NotOurs(strangers))
}
