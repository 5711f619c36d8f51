//! What cannot change while a cluster is up, compared with what is up, before CloudFormation is asked for anything.
//!
//! A change set does not say all of it: it may say of a network that it is replaced only under some condition, and a second
//! key, another control plane and another version are changes that it makes without a word.

use super::{CommandError, own};
use crate::catalog;
use crate::cloud::Cloud;
use crate::spec::{ClusterSpec, ControlPlaneMode};
use crate::template::StackLayer;
use crate::template::base::{KEY_OUTPUT, fixed_outputs, key_origin};

/// Refuses a cluster file that asks for what cannot be had while the cluster is up.
pub(super) async fn refuse_unchangeable(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
) -> Result<(), CommandError> {
    let mut found = changed(cloud, spec).await?;
    found.extend(version(cloud, spec).await?);
    if found.is_empty() {
        return Ok(());
    }
    Err(CommandError::Fixed(found))
}

/// Options that are not what the base stack was made with, each with its line as it was.
async fn changed(cloud: &impl Cloud, spec: &ClusterSpec) -> Result<Vec<String>, CommandError> {
    let Some(base) = own::stack(cloud, spec, StackLayer::Base).await? else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for fixed in fixed_outputs(spec) {
        if let Some(made) = base.outputs.get(fixed.output)
            && *made != fixed.value
        {
            found.push(format!("write {}: {made} back", fixed.path));
        }
    }
    let Some(key) = base.outputs.get(KEY_OUTPUT.name) else {
        return Ok(found);
    };
    let given = base.outputs.get(KEY_OUTPUT.origin).map(String::as_str) == Some(key_origin(true));
    match &spec.kms_key_arn {
        Some(arn) if arn != key && given => found.push(format!("write kmsKeyArn: {key} back")),
        Some(arn) if arn != key => found.push(format!("take kmsKeyArn out: the key is {key}")),
        None if given => found.push(format!("write kmsKeyArn: {key} back")),
        _ => {}
    }
    Ok(found)
}

/// A version to which an update cannot go: an older one, or a newer one that would take control plane and workers there at
/// once. `upgrade` leaves the workers behind until their turn, which the cluster file says.
async fn version(cloud: &impl Cloud, spec: &ClusterSpec) -> Result<Option<String>, CommandError> {
    if spec.control_plane.mode != ControlPlaneMode::Eks {
        return Ok(None);
    }
    let stack = own::stack(cloud, spec, StackLayer::Cluster).await?;
    if stack.is_none_or(|stack| stack.outputs.is_empty()) {
        return Ok(None); // one that is there is another's, and its name is refused
    }
    let Some(running) = cloud.eks_cluster(&spec.name).await? else {
        return Ok(None);
    };
    let wanted = &spec.kubernetes_version;
    let (Some(from), Some(to)) = (catalog::minor(&running), catalog::minor(wanted)) else {
        return Ok(None);
    };
    let next_step = to == from + 1 && spec.workers.kubernetes_version.is_some();
    if to == from || next_step {
        return Ok(None);
    }
    let back = format!("write kubernetesVersion: \"{running}\" back");
    Ok(Some(if to < from {
        format!("{back}: the cluster runs it, and Kubernetes cannot go back to {wanted}")
    } else {
        format!("{back}, then run `canoe cluster upgrade --to {wanted}`, which goes step by step")
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assets::AssetFolder;
    use crate::command::tests::{run_up, spec};
    use crate::double::Double;

    const KEY: &str = "arn:aws:kms:us-west-2:123456789012:key/1";

    /// Makes a cluster of `made`, then asks `up` for `edited`; what it says, if it did not touch a stack.
    async fn refusal(made: &ClusterSpec, edited: &ClusterSpec) -> Option<String> {
        let (cloud, place) = (Double::default(), tempfile::tempdir().unwrap());
        let folder = AssetFolder::new(place.path());
        run_up(&cloud, made, &folder).await.unwrap();
        cloud.with(|account| account.calls.clear());
        let error = run_up(&cloud, edited, &folder).await.err()?;
        let calls = cloud.with(|account| account.calls.join(" "));
        for verb in ["create_change_set", "create_policy", "update_policy"] {
            assert!(!calls.contains(verb), "{verb} before {error}");
        }
        assert!(matches!(error, CommandError::Fixed(_)), "{error}");
        Some(error.to_string())
    }

    /// Each of these made a second key, another control plane or another version, or was left to the change set.
    #[tokio::test(start_paused = true)]
    async fn what_cannot_change_is_refused_with_the_line_as_it_was() {
        let mut with_key = spec();
        with_key.kms_key_arn = Some(KEY.to_owned());
        let edited = |edit: &dyn Fn(&mut ClusterSpec)| {
            let mut edited = spec();
            edit(&mut edited);
            edited
        };
        let new_key = edited(&|spec| spec.kms_key_arn = Some(KEY.to_owned()));
        let other_key = edited(&|spec| spec.kms_key_arn = Some(KEY.replace("key/1", "key/2")));
        let mode = edited(&|spec| spec.control_plane.mode = ControlPlaneMode::SelfManaged);
        let network = edited(&|spec| spec.network.vpc_cidr = "10.9.0.0/16".to_owned());
        let services = edited(&|spec| spec.network.service_cidr = "172.22.0.0/16".to_owned());
        let newer = edited(&|spec| spec.kubernetes_version = "1.36".to_owned());
        let older = edited(&|spec| spec.kubernetes_version = "1.34".to_owned());
        let back = format!("kmsKeyArn: {KEY} back");
        for (made, edited, words) in [
            (&spec(), &new_key, "take kmsKeyArn out"),
            (&with_key, &other_key, back.as_str()),
            (&with_key, &spec(), &back),
            (&spec(), &mode, "controlPlane.mode: eks back"),
            (&spec(), &network, "network.vpcCidr: 10."),
            (&spec(), &services, "network.serviceCidr: 172.20.0.0/16"),
            (&spec(), &newer, "canoe cluster upgrade --to 1.36"),
            (&spec(), &older, "cannot go back to 1.34"),
        ] {
            let said = refusal(made, edited).await.unwrap();
            assert!(
                said.contains(words) && said.contains("nothing was changed"),
                "{said}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_step_of_an_upgrade_and_the_own_key_are_not_refused() {
        let mut step = spec();
        step.kubernetes_version = "1.36".to_owned();
        step.workers.kubernetes_version = Some("1.35".to_owned());
        assert_eq!(refusal(&spec(), &step).await, None);
        let mut own_key = spec();
        own_key.kms_key_arn = Some(crate::double::account::key_arn("demo-base"));
        assert_eq!(refusal(&spec(), &own_key).await, None);
    }
}
