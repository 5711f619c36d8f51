//! `canoe job pause` and `resume`: a suspended Job has no pods, and continues from its snapshot on the volume.

use std::time::Duration;

use anyhow::bail;
use k8s::cluster::{Cluster, ClusterAccess, TargetJob};
use k8s::explain::{JobState, diagnose};

use crate::commands::progress::number_of;
use crate::exit::Exit;

/// Interval between two checks for remaining pods.
const LOOK: Duration = Duration::from_millis(500);

/// Suspends the Job. Its pods are asked to end, and a pod that is asked to end orders a snapshot of all servers first.
pub(super) async fn pause(access: &ClusterAccess, target: &TargetJob) -> anyhow::Result<Exit> {
    let cluster = access.connect().await?;
    check(&cluster, target, "pause").await?;
    if let Some(queue) = cluster.queue(target).await? {
        bail!(
            "job {} belongs to queue {queue}, which starts it again by itself: take it out of the queue instead (`kubectl get workloads -n {}` names its workload; \
             `spec.active: false` there stops it with a snapshot, `true` continues it)",
            target.job,
            target.namespace
        );
    }
    if !cluster.suspend(target, true).await? {
        eprintln!("job {} was paused already", target.job);
    }
    let mut told = 0;
    loop {
        let pods = cluster.pods(target).await?;
        let left = pods.iter().filter(|pod| has_not_ended(pod)).count();
        if left == 0 {
            break;
        }
        if left != told {
            eprintln!(
                "waiting for {}, which {} a snapshot before the end",
                number_of(left, "pod"),
                if left == 1 { "takes" } else { "take" }
            );
            told = left;
        }
        tokio::time::sleep(LOOK).await;
    }
    println!(
        "job {} is paused; `{}` continues it",
        target.job,
        target.command("resume")
    );
    Ok(Exit::Success)
}

fn has_not_ended(pod: &k8s_openapi::api::core::v1::Pod) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    !matches!(phase, Some("Succeeded" | "Failed"))
}

/// Resumes the Job.
pub(super) async fn resume(access: &ClusterAccess, target: &TargetJob) -> anyhow::Result<Exit> {
    let cluster = access.connect().await?;
    check(&cluster, target, "resume").await?;
    if cluster.suspend(target, false).await? {
        println!(
            "job {} continues from its last snapshot; `{}` shows how far it is",
            target.job,
            target.command("watch")
        );
    } else {
        println!("job {} is not paused", target.job);
    }
    Ok(Exit::Success)
}

async fn check(cluster: &Cluster, target: &TargetJob, verb: &str) -> anyhow::Result<()> {
    cluster.own_job(target).await?;
    let diagnosis = diagnose(&cluster.observe(target).await?);
    match diagnosis.state {
        JobState::Starting | JobState::Running => Ok(()),
        JobState::Absent => bail!(
            "there is no job {} in namespace {} to {verb}; `canoe job ls -n {}` lists the jobs there",
            target.job,
            target.namespace,
            target.namespace
        ),
        JobState::Complete | JobState::Failed => bail!(
            "job {} has ended, so there is nothing to {verb} ({})",
            target.job,
            diagnosis.summary()
        ),
        JobState::Deleting => bail!("job {} is being deleted", target.job),
    }
}
