//! Replaces the workers of a self-managed cluster one by one: drained, terminated, and started anew by their
//! scaling group with the script of the new version. On EKS the managed node group does the same by itself.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::api_server::{ApiServer, ApiServerError};
use super::nodes::ClusterNode;
use super::{CommandError, Sink, Talk};
use crate::cloud::Cloud;
use crate::ownership::{is_ours, stranger};
use crate::spec::ClusterSpec;

/// Time for the controller to upgrade itself, or for a new machine to become Ready.
const PATIENCE: Duration = Duration::from_secs(45 * 60);

/// The next worker to replace: one with another version, those that are not Ready first.
pub(crate) fn next_old<'a>(nodes: &'a [ClusterNode], version: &str) -> Option<&'a ClusterNode> {
    let mut old: Vec<&ClusterNode> = nodes
        .iter()
        .filter(|node| !node.controller && node.version != version)
        .collect();
    old.sort_by_key(|node| (node.ready, node.name.clone()));
    old.first().copied()
}

/// Waits until a look at the nodes satisfies `done`.
async fn until(
    api: &ApiServer,
    poll: Duration,
    what: &str,
    done: impl Fn(&[ClusterNode]) -> bool,
) -> Result<Vec<ClusterNode>, CommandError> {
    let begin = Instant::now();
    loop {
        match api.nodes().await {
            Ok(nodes) if done(&nodes) => return Ok(nodes),
            Ok(_) | Err(ApiServerError::Passing(_)) => {} // the API server restarts during an upgrade
            Err(error) => return Err(CommandError::Decision(error.to_string())),
        }
        if begin.elapsed() >= PATIENCE {
            return Err(CommandError::Decision(format!(
                "{what} after {} minutes; look at /var/log/canoe-node.log there (aws ssm start-session), then run this again",
                PATIENCE.as_secs() / 60
            )));
        }
        sleep(poll).await;
    }
}

/// Waits until the controller runs the version that the cluster file asks for; it looks every two minutes.
pub async fn await_controller(
    api: &ApiServer,
    spec: &ClusterSpec,
    poll: Duration,
    sink: &mut impl Sink,
) -> Result<(), CommandError> {
    let version = &spec.kubernetes_version;
    sink.talk(Talk::Step(format!(
        "the controller upgrades itself to {version}"
    )));
    let what = format!("the controller does not run {version}");
    let there = |nodes: &[ClusterNode]| {
        nodes
            .iter()
            .any(|node| node.controller && node.ready && node.version == *version)
    };
    until(api, poll, &what, there).await.map(drop)
}

/// A node says itself which machine it is; what is terminated must be the cluster's.
async fn refuse_other_machine(
    cloud: &impl Cloud,
    spec: &ClusterSpec,
    machine: &str,
) -> Result<(), CommandError> {
    match cloud.machine_tags(machine).await? {
        Some(tags) if !is_ours(&tags, spec) => {
            let what = format!("machine {machine}");
            Err(CommandError::NotOurs(vec![stranger(&what, &tags, spec)]))
        }
        _ => Ok(()),
    }
}

/// Replaces every worker that does not run the version of the cluster file. Can be interrupted and run again.
pub async fn workers(
    cloud: &impl Cloud,
    api: &ApiServer,
    spec: &ClusterSpec,
    poll: Duration,
    sink: &mut impl Sink,
) -> Result<(), CommandError> {
    let version = spec.worker_version();
    let wanted = usize::try_from(spec.all_workers()).unwrap_or(usize::MAX);
    let failed = |error: ApiServerError| CommandError::Decision(error.to_string());
    loop {
        let nodes = api.nodes().await.map_err(failed)?;
        let Some(old) = next_old(&nodes, version) else {
            return Ok(());
        };
        let Some(machine) = &old.machine else {
            return Err(CommandError::Decision(format!(
                "node {} does not say which machine it is; terminate it by hand, then run this again",
                old.name
            )));
        };
        refuse_other_machine(cloud, spec, machine).await?;
        sink.talk(Talk::Step(format!(
            "worker {} ({}) is drained",
            old.name, old.version
        )));
        api.drain(&old.name).await.map_err(failed)?;
        cloud.terminate_machine(machine).await?;
        api.forget(&old.name).await.map_err(failed)?;
        sink.talk(Talk::Detail(format!(
            "machine {machine} is terminated; its group starts another"
        )));
        let what = format!("fewer than {wanted} workers are Ready");
        let all_there = |nodes: &[ClusterNode]| {
            nodes
                .iter()
                .filter(|node| !node.controller && node.ready)
                .count()
                >= wanted
        };
        until(api, poll, &what, all_there).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::tests::{ID, OTHER_ID, owned, spec};
    use crate::double::Double;

    /// Whatever a node wrote into its providerID was terminated.
    #[tokio::test]
    async fn a_machine_of_others_is_not_terminated() {
        let cloud = Double::default();
        cloud.with(|account| {
            account.machines.insert("i-ours".to_owned(), owned(ID));
            account
                .machines
                .insert("i-other".to_owned(), owned(OTHER_ID));
        });
        let refuse = async |machine: &str| refuse_other_machine(&cloud, &spec(), machine).await;
        assert!(refuse("i-ours").await.is_ok());
        let error = refuse("i-other").await.unwrap_err().to_string();
        assert!(error.contains("machine i-other"), "{error}");
        assert!(refuse("i-gone").await.is_ok(), "it has gone by itself");
    }

    #[test]
    fn broken_machines_go_first_and_the_controller_never() {
        let node = |name: &str, version: &str, controller: bool, ready: bool| ClusterNode {
            name: name.to_owned(),
            version: version.to_owned(),
            machine: None,
            controller,
            ready,
        };
        let nodes = [
            node("c", "1.34", true, true),
            node("a", "1.34", false, true),
            node("b", "1.34", false, false),
            node("d", "1.35", false, true),
        ];
        assert_eq!(next_old(&nodes, "1.35").unwrap().name, "b");
        assert_eq!(next_old(&nodes[..2], "1.35").unwrap().name, "a");
        assert_eq!(next_old(&nodes[3..], "1.35"), None);
    }
}
