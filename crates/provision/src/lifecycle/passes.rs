//! What a pass of a running job costs, from what its first trainer has printed.

use k8s_openapi::api::core::v1::Pod;
use serde::Serialize;
use time::OffsetDateTime;

use super::demand::made_by_canoe;

/// A job that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningJob {
    /// The namespace of its Job.
    pub namespace: String,
    /// The name of its Job.
    pub name: String,
    /// The pod that prints the passes: node 0.
    pub pod: String,
    /// When this pod was started.
    pub started: OffsetDateTime,
}

/// What its passes cost.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PassCost {
    /// Namespace and name of the job.
    pub job: String,
    /// Passes that have ended since its first node was started.
    pub passes: usize,
    /// Hours per pass.
    pub hours: f64,
    /// USD per pass, for the whole cluster.
    pub usd: f64,
}

/// Running pods of our jobs with the completion index 0.
pub fn running(pods: &[Pod]) -> Vec<RunningJob> {
    pods.iter().filter_map(first_node).collect()
}

/// The job whose node 0 runs in this pod.
fn first_node(pod: &Pod) -> Option<RunningJob> {
    let (metadata, status) = (&pod.metadata, pod.status.as_ref()?);
    let annotations = metadata.annotations.as_ref()?;
    let index = annotations.get("batch.kubernetes.io/job-completion-index")?;
    if !made_by_canoe(metadata) || index != "0" || status.phase.as_deref() != Some("Running") {
        return None;
    }
    let started = status.start_time.as_ref()?.0.as_second();
    Some(RunningJob {
        namespace: metadata.namespace.clone()?,
        name: metadata
            .labels
            .as_ref()?
            .get("batch.kubernetes.io/job-name")?
            .clone(),
        pod: metadata.name.clone()?,
        started: OffsetDateTime::from_unix_timestamp(started).ok()?,
    })
}

/// The cost of a pass, once one has ended.
pub fn cost(job: &RunningJob, log: &str, hourly: f64, now: OffsetDateTime) -> Option<PassCost> {
    let passes = log.lines().filter(|line| ended_pass(line)).count();
    let elapsed = (now - job.started).as_seconds_f64() / 3600.0;
    if passes == 0 || elapsed <= 0.0 {
        return None;
    }
    #[allow(clippy::cast_precision_loss, reason = "a number of passes is small")]
    let hours = elapsed / passes as f64;
    Some(PassCost {
        job: format!("{}/{}", job.namespace, job.name),
        passes,
        hours,
        usd: hours * hourly,
    })
}

/// v1's line at the end of a pass: ` Pass=3 Batch=20 samples=2560 AvgCost=…`.
fn ended_pass(line: &str) -> bool {
    let Some((_, rest)) = line.split_once(" Pass=") else {
        return false;
    };
    rest.starts_with(|c: char| c.is_ascii_digit()) && rest.contains(" samples=")
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use time::format_description::well_known::Rfc3339;

    use super::*;

    #[test]
    fn a_pass_costs_its_share_of_the_time() {
        let pod = |index: &str, phase: &str| {
            json!({"metadata": {"name": format!("ctr-{index}-x"), "namespace": "team",
                    "labels": {"app.kubernetes.io/managed-by": "canoe", "batch.kubernetes.io/job-name": "ctr"},
                    "annotations": {"batch.kubernetes.io/job-completion-index": index}},
                   "status": {"phase": phase, "startTime": "2026-01-02T10:00:00Z"}})
        };
        let pods = [
            pod("0", "Running"),
            pod("1", "Running"),
            pod("0", "Succeeded"),
        ];
        let pods = pods.map(|pod| serde_json::from_value(pod).unwrap());
        let jobs = running(&pods);
        assert_eq!(jobs.len(), 1);
        let log = "I 1 Batch=20 samples=1\nI 1  Pass=0 Batch=20 samples=2 AvgCost=1 Eval:\nI  Pass=1 Batch=20 samples=2 AvgCost=1\n";
        let now = OffsetDateTime::parse("2026-01-02T11:00:00Z", &Rfc3339).unwrap();
        let found = cost(&jobs[0], log, 0.5, now).unwrap();
        assert_eq!((found.job.as_str(), found.passes), ("team/ctr", 2));
        assert!((found.usd - 0.25).abs() < 1e-9 && (found.hours - 0.5).abs() < 1e-9);
        assert_eq!(cost(&jobs[0], "nothing yet", 0.5, now), None);
        assert!(running(&[]).is_empty());
    }
}
