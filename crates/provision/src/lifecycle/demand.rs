//! How many workers the jobs of a cluster want, for `canoe cluster scale --auto`.
//!
//! `canoe` counts, and no autoscaler runs in the cluster: Karpenter or the cluster autoscaler need a machine that is
//! always there, so a cluster that they scale never gets to zero, and they need rights to start machines that nothing
//! in the cluster has here. A job says itself how many nodes it wants.

use k8s::objects::MANAGER;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Nodes that jobs of ours still want: the parallelism of each that has not ended and is not suspended.
pub fn wanted(jobs: &[Job]) -> u32 {
    let ours = jobs
        .iter()
        .filter(|job| made_by_canoe(&job.metadata) && !ended(job));
    let specs = ours.filter_map(|job| job.spec.as_ref());
    let open = specs.filter(|spec| spec.suspend != Some(true));
    open.map(|spec| u32::try_from(spec.parallelism.unwrap_or(1)).unwrap_or(0))
        .fold(0, u32::saturating_add)
}

/// Whether `canoe job` made an object, or a pod of it.
pub(super) fn made_by_canoe(metadata: &ObjectMeta) -> bool {
    let manager = metadata
        .labels
        .as_ref()
        .and_then(|labels| labels.get("app.kubernetes.io/managed-by"));
    manager.is_some_and(|manager| manager == MANAGER)
}

fn ended(job: &Job) -> bool {
    let conditions = job
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| {
        matches!(condition.type_.as_str(), "Complete" | "Failed") && condition.status == "True"
    })
}

/// What to do about a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScalingAction {
    /// The number is right.
    Stay,
    /// Ask for this many now.
    Now(u32),
    /// Fewer would do; wait first, another job may come.
    Later(u32),
}

/// Decides: more at once, fewer only when the jobs have wanted no more for `patience`.
pub fn decide(
    have: u32,
    wanted: u32,
    max: u32,
    idle: std::time::Duration,
    patience: std::time::Duration,
) -> ScalingAction {
    let goal = wanted.min(max);
    match goal.cmp(&have) {
        std::cmp::Ordering::Equal => ScalingAction::Stay,
        std::cmp::Ordering::Greater => ScalingAction::Now(goal),
        std::cmp::Ordering::Less if idle >= patience => ScalingAction::Now(goal),
        std::cmp::Ordering::Less => ScalingAction::Later(goal),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    #[test]
    fn counts_the_nodes_of_open_jobs_of_ours() {
        let job = |manager: &str, nodes: u32, end: &str| {
            json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": manager}}, "spec": {"parallelism": nodes, "template": {}},
                   "status": {"conditions": [{"type": end, "status": "True"}]}})
        };
        let mut suspended = job("canoe", 7, "Suspended");
        suspended["spec"]["suspend"] = json!(true);
        let jobs: Vec<Job> = serde_json::from_value(json!([
            job("canoe", 3, "Running"),
            job("canoe", 2, "FailureTarget"),
            job("canoe", 5, "Complete"),
            job("canoe", 5, "Failed"),
            job("others", 9, "Running"),
            suspended,
        ]))
        .unwrap();
        assert_eq!(wanted(&jobs), 5);
        assert_eq!(wanted(&[]), 0);
    }

    #[test]
    fn grows_at_once_and_shrinks_with_patience() {
        let (idle, patience) = (Duration::from_secs(30), Duration::from_secs(600));
        assert_eq!(decide(0, 3, 10, idle, patience), ScalingAction::Now(3));
        assert_eq!(decide(3, 30, 10, idle, patience), ScalingAction::Now(10));
        assert_eq!(decide(3, 3, 10, idle, patience), ScalingAction::Stay);
        assert_eq!(decide(3, 0, 10, idle, patience), ScalingAction::Later(0));
        assert_eq!(decide(3, 0, 10, patience, patience), ScalingAction::Now(0));
    }
}
