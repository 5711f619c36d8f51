//! Whether the names that the stacks give are free: a thing of somebody else is named before anything is made.
//!
//! CloudFormation would find it, too, after the minutes that everything before it takes. A name is ours when a stack
//! of this cluster has the resource that gives it; so the names of a stack that is there are looked at again, since
//! `cluster.yaml` may ask for more than it has.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::cloud::{Cloud, CloudError};
use crate::command::boundary;
use crate::command::own::{self, StackOwner};
use crate::ownership::{Tags, Thing, is_ours, stranger};
use crate::spec::ClusterSpec;
use crate::statuses::{ResourceStatus, StackStatus};
use crate::template::{Render, Stack, StackLayer, render};

/// What is there under the names that the stacks want.
#[derive(Debug, Default)]
pub(in crate::command) struct NamesInUse {
    /// Our own stacks.
    pub(super) there: Vec<String>,
    /// What is not ours, or in the way; each with its remedy.
    pub(in crate::command) taken: Vec<String>,
    /// A log group of our own that outlived its stack.
    pub(in crate::command) left_logs: Option<String>,
}

/// Looks at every name. `up` asks the same before it makes anything.
pub(in crate::command) async fn in_use(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
) -> Result<NamesInUse, CloudError> {
    let mut found = NamesInUse::default();
    let other = |words: String| {
        if words.contains("it is a copy") {
            return words;
        }
        format!("{words}; choose another name, or remove it yourself")
    };
    found.taken = own::strangers(cloud, spec)
        .await?
        .into_iter()
        .map(other)
        .collect();
    if !found.taken.is_empty() {
        return Ok(found);
    }
    found
        .taken
        .extend(boundary::foreign(cloud, spec).await?.map(other));
    for stack in render(spec, &Render::default()) {
        if let StackOwner::Ours(_) = own::find(cloud, spec, stack.layer).await? {
            found.there.push(stack.name.clone());
        }
        for one in of_others(cloud, spec, stack.layer, given_names(&stack)).await? {
            match one.kind {
                NameKind::LogGroup if is_left(&one, spec) => found.left_logs = Some(one.name),
                _ => found.taken.push(in_the_way(&one, spec)),
            }
        }
    }
    Ok(found)
}

/// A kind of thing whose name a template gives, and which AWS has once by that name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NameKind {
    Alias,
    Cluster,
    LaunchTemplate,
    LogGroup,
    Profile,
    Repository,
    Role,
    ScalingGroup,
}

/// The type in a template, the property that has the name, and the kind.
const NAMED: [(&str, &str, NameKind); 8] = [
    ("AWS::KMS::Alias", "AliasName", NameKind::Alias),
    ("AWS::EKS::Cluster", "Name", NameKind::Cluster),
    (
        "AWS::EC2::LaunchTemplate",
        "LaunchTemplateName",
        NameKind::LaunchTemplate,
    ),
    ("AWS::Logs::LogGroup", "LogGroupName", NameKind::LogGroup),
    (
        "AWS::IAM::InstanceProfile",
        "InstanceProfileName",
        NameKind::Profile,
    ),
    (
        "AWS::ECR::Repository",
        "RepositoryName",
        NameKind::Repository,
    ),
    ("AWS::IAM::Role", "RoleName", NameKind::Role),
    (
        "AWS::AutoScaling::AutoScalingGroup",
        "AutoScalingGroupName",
        NameKind::ScalingGroup,
    ),
];

/// A name that a template gives.
#[derive(Debug, Clone, PartialEq, Eq)]
struct GivenName {
    /// Logical id of the resource.
    resource: String,
    kind: NameKind,
    name: String,
}

/// A thing that has one of our names without a stack of ours.
#[derive(Debug)]
struct TakenName {
    kind: NameKind,
    name: String,
    /// Its tags, where AWS tells them.
    tags: Option<Tags>,
}

/// The names that a template gives.
fn given_names(stack: &Stack) -> Vec<GivenName> {
    let resources = stack.body["Resources"].as_object().into_iter().flatten();
    let named = |(id, resource): (&String, &Value)| {
        let found = NAMED.iter().find(|(kind, ..)| resource["Type"] == *kind);
        let (_, property, kind) = found?;
        Some(GivenName {
            resource: id.clone(),
            kind: *kind,
            name: resource["Properties"][*property].as_str()?.to_owned(),
        })
    };
    resources.filter_map(named).collect()
}

/// Which of these names things have that are no resources of the stack of this layer.
async fn of_others(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
    layer: StackLayer,
    given: Vec<GivenName>,
) -> Result<Vec<TakenName>, CloudError> {
    let Some(held) = held(cloud, spec, layer).await? else {
        return Ok(Vec::new());
    };
    let open = given.iter().filter(|one| !held.contains(&one.resource));
    let mut taken = Vec::new();
    for one in open {
        taken.extend(look(cloud, one).await?.map(|thing| (one, thing)));
    }
    if taken.is_empty() {
        return Ok(Vec::new());
    }
    // Another machine may have begun to make the stack meanwhile.
    let held = self::held(cloud, spec, layer).await?;
    let others = taken.into_iter().filter(|(one, _)| {
        let held = held.as_ref();
        held.is_some_and(|held| !held.contains(&one.resource))
    });
    Ok(others.map(|(_, thing)| thing).collect())
}

/// Logical ids of what our stack of this layer has; `None` while it is at work, since what it has is not settled then.
async fn held(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
    layer: StackLayer,
) -> Result<Option<BTreeSet<String>>, CloudError> {
    let StackOwner::Ours(stack) = own::find(cloud, spec, layer).await? else {
        return Ok(Some(BTreeSet::new()));
    };
    if stack.status.is_busy() {
        return Ok(None);
    }
    if matches!(
        stack.status,
        StackStatus::ReviewInProgress | StackStatus::RollbackComplete
    ) {
        return Ok(Some(BTreeSet::new()));
    }
    let gone = |status: &ResourceStatus| {
        matches!(
            status,
            ResourceStatus::CreateFailed
                | ResourceStatus::DeleteComplete
                | ResourceStatus::DeleteSkipped
        )
    };
    let resources = cloud.stack_resources(&stack.id).await?.into_iter();
    let kept = resources.filter(|one| !gone(&one.status));
    Ok(Some(kept.map(|one| one.id).collect()))
}

/// The thing that has this name, if there is one.
async fn look(cloud: &impl Cloud, given: &GivenName) -> Result<Option<TakenName>, CloudError> {
    let GivenName { kind, name, .. } = given;
    let untagged = |there: bool| there.then_some(None);
    let tagged = |thing: Option<Thing>| thing.map(|thing| Some(thing.tags));
    let found = match kind {
        NameKind::Alias => match cloud.key_state(name).await {
            Ok(_) => Some(None),
            Err(error) if error.is_missing() => None,
            Err(error) => return Err(error),
        },
        NameKind::Cluster => untagged(cloud.eks_cluster(name).await?.is_some()),
        NameKind::LaunchTemplate => tagged(cloud.launch_template(name).await?),
        NameKind::LogGroup => {
            let groups = cloud.log_groups(name).await?; // all whose names begin so
            tagged(groups.into_iter().find(|group| group.id == *name))
        }
        NameKind::Profile => untagged(cloud.instance_profile_exists(name).await?),
        NameKind::Repository => cloud.repository_tags(name).await?.map(Some),
        NameKind::Role => untagged(cloud.role_arn(name).await?.is_some()),
        NameKind::ScalingGroup => tagged(cloud.scaling_group(name).await?),
    };
    Ok(found.map(|tags| TakenName {
        kind: *kind,
        name: name.clone(),
        tags,
    }))
}

/// Whether it is a thing of this cluster that its stack has left.
fn is_left(one: &TakenName, spec: &ClusterSpec) -> bool {
    one.tags.as_ref().is_some_and(|tags| is_ours(tags, spec))
}

/// What to say of it, with the way out.
fn in_the_way(one: &TakenName, spec: &ClusterSpec) -> String {
    let name = &one.name;
    let (what, remedy) = match one.kind {
        NameKind::Alias => {
            return format!(
                "a key has the name {name}, which no stack of this cluster gave it; choose another name, or remove the alias"
            );
        }
        NameKind::Cluster => ("EKS cluster", None),
        NameKind::LaunchTemplate => (
            "launch template",
            Some(["ec2", "delete-launch-template", "--launch-template-name"]),
        ),
        NameKind::LogGroup => ("log group", None),
        NameKind::Profile => ("instance profile", None),
        NameKind::Repository => (
            "image repository",
            Some(["ecr", "delete-repository", "--repository-name"]),
        ),
        NameKind::Role => ("role", None),
        NameKind::ScalingGroup => (
            "auto-scaling group",
            Some([
                "autoscaling",
                "delete-auto-scaling-group",
                "--auto-scaling-group-name",
            ]),
        ),
    };
    match (&one.tags, remedy) {
        (None, _) => {
            let article = if what.starts_with(['a', 'e', 'i', 'E']) {
                "an"
            } else {
                "a"
            };
            format!(
                "{article} {what} {name} exists that no stack of this cluster made; choose another name, or remove it"
            )
        }
        (Some(tags), Some(command)) if is_ours(tags, spec) => {
            let words = ["aws"].into_iter().chain(command);
            let command = words::shell::line(words.chain([name, "--region", &spec.region]));
            format!(
                "{what} {name} is left from this cluster, and no stack has it; remove it with `{command}`"
            )
        }
        (Some(tags), _) => format!(
            "{}; choose another name, or remove it yourself",
            stranger(&format!("{what} {name}"), tags, spec)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix;

    /// Inside a thing of ours, or of the user's: an add-on of the cluster, a key pair, a record in a zone.
    const NOT_OF_THE_ACCOUNT: [(&str, &str); 4] = [
        ("AWS::EC2::Instance", "KeyName"),
        ("AWS::EKS::Addon", "AddonName"),
        ("AWS::EKS::Addon", "ClusterName"),
        ("AWS::Route53::RecordSet", "Name"),
    ];

    /// A resource that gets a name by its template is looked for before it is made.
    #[test]
    fn every_name_that_a_template_gives_is_looked_at() {
        let mut seen = BTreeSet::new();
        for (case, spec) in matrix::cases() {
            for stack in render(&spec, &Render::default()) {
                let resources = stack.body["Resources"].as_object().unwrap();
                for (id, resource) in resources {
                    let kind = resource["Type"].as_str().unwrap();
                    for (property, value) in resource["Properties"].as_object().unwrap() {
                        let pair = (kind, property.as_str());
                        let known = NAMED.iter().any(|(kind, name, _)| pair == (*kind, *name));
                        let names = property.ends_with("Name") && value.is_string();
                        assert!(
                            !names || known || NOT_OF_THE_ACCOUNT.contains(&pair),
                            "{case}: {id}: {property}"
                        );
                        if known {
                            seen.insert(pair.0.to_owned());
                        }
                    }
                }
            }
        }
        assert_eq!(seen.len(), NAMED.len(), "{seen:?}");
    }
}
