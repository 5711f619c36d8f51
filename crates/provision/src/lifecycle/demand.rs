//! How many workers the jobs of a cluster want, for `canoe cluster scale --auto`.
//!
//! `canoe` counts, and no autoscaler runs in the cluster: Karpenter or the cluster autoscaler need a machine that is
//! always there, so a cluster that they scale never gets to zero, and they need rights to start machines that nothing
//! in the cluster has here. A job says itself how many nodes it wants.

use serde_json::Value;

/// Nodes that jobs of ours still want: the parallelism of each that has not ended and is not suspended.
pub fn wanted(jobs: &Value) -> u32 {
    let jobs = jobs["items"].as_array().into_iter().flatten();
    let open = jobs.filter(|job| ours(job) && !ended(job) && job["spec"]["suspend"] != true);
    open.map(|job| {
        let parallelism = job["spec"]["parallelism"].as_u64().unwrap_or(1);
        u32::try_from(parallelism).unwrap_or(u32::MAX)
    })
    .fold(0, u32::saturating_add)
}

fn ours(job: &Value) -> bool {
    job["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "canoe"
}

fn ended(job: &Value) -> bool {
    let conditions = job["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| {
        (condition["type"] == "Complete" || condition["type"] == "Failed")
            && condition["status"] == "True"
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
            json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": manager}}, "spec": {"parallelism": nodes},
                   "status": {"conditions": [{"type": end, "status": "True"}]}})
        };
        let mut suspended = job("canoe", 7, "Suspended");
        suspended["spec"]["suspend"] = json!(true);
        let jobs = json!({"items": [
            job("canoe", 3, "Running"), job("canoe", 2, "FailureTarget"), job("canoe", 5, "Complete"), job("canoe", 5, "Failed"),
            job("others", 9, "Running"), suspended,
        ]});
        assert_eq!(wanted(&jobs), 5);
        assert_eq!(wanted(&Value::Null), 0);
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
