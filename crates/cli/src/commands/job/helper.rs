//! A pod on the job's volume for as long as a command needs it: made, waited for, used, and removed, on Ctrl-C too.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use k8s::cluster::{ApplyMode, Cluster, FilesPod};
use k8s::explain::{Observed, diagnose_pods};
use k8s::job::JobFile;
use k8s::objects::helper_pod::{self, Purpose};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use serde_json::Value;

/// The pod must run after this long: an image may have to be pulled.
const START: Duration = Duration::from_secs(600);
/// A new namespace must have its service account after this long.
const ACCOUNT: Duration = Duration::from_secs(60);
/// Between two looks at it.
pub(super) const LOOK: Duration = Duration::from_millis(500);

/// Ctrl-C, or a request to end, and what becomes of what was begun.
#[derive(Debug, thiserror::Error)]
#[error("interrupted; {0}")]
pub(super) struct Interrupted(pub String);

/// Runs `work` unless the program is asked to end. Needed by everything that comes after [`with_pod`]: once a program has listened for Ctrl-C,
/// the system does not end it any more.
pub(super) async fn unless_interrupted<T>(
    then: &str,
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    tokio::select! {
        ended = work => ended,
        stopped = interrupted() => stopped.and(Err(Interrupted(then.to_owned()).into())),
    }
}

/// Returns when the program is asked to end.
pub(super) async fn interrupted() -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut ended = signal(SignalKind::terminate()).context("listen for signals")?;
    tokio::select! {
        _ = ended.recv() => {}
        told = tokio::signal::ctrl_c() => told.context("listen for signals")?,
    }
    Ok(())
}

/// Makes the pod, runs `work` in it, and removes it however that ends. `work` gets the name of the pod once it runs.
pub(super) async fn with_pod<T>(
    cluster: &Cluster,
    files: &FilesPod,
    purpose: &Purpose,
    work: impl AsyncFnOnce(&str) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let job = &files.job;
    let pod = helper_pod::name(job, purpose);
    let whole = async {
        prepare(cluster, job, &pod).await?;
        let object = helper_pod::object(job, files.program.as_ref(), purpose);
        apply(cluster, &[object]).await?;
        wait_until_it_runs(cluster, job, &pod, purpose).await?;
        work(&pod).await
    };
    let then = "the pod on the volume is removed, what has been copied stays, and the same command resumes";
    let ended = unless_interrupted(then, whole).await;
    let removed = cluster.delete_pod(&job.namespace, &pod).await;
    let ended = ended?;
    removed?;
    Ok(ended)
}

/// What an upload that was interrupted left may be over, or made for other options: a pod cannot be changed.
async fn prepare(cluster: &Cluster, job: &JobFile, pod: &str) -> anyhow::Result<()> {
    if cluster.get::<Pod>(&job.namespace, pod).await?.is_some() {
        cluster.delete_pod(&job.namespace, pod).await?;
        wait_until_gone(cluster, job, pod).await?;
    }
    wait_for_account(cluster, job).await
}

/// Applies objects and repeats the server's warnings.
pub(super) async fn apply(cluster: &Cluster, objects: &[Value]) -> anyhow::Result<()> {
    let applied = cluster.apply(objects, ApplyMode::Real).await?;
    for warning in applied.warnings {
        eprintln!("{warning}");
    }
    Ok(())
}

/// A namespace that was just made has no service account for a moment, and takes no pods. Without the right to see
/// accounts, the pod is tried at once.
async fn wait_for_account(cluster: &Cluster, job: &JobFile) -> anyhow::Result<()> {
    let begun = Instant::now();
    while let Ok(None) = cluster
        .get::<ServiceAccount>(&job.namespace, "default")
        .await
    {
        if begun.elapsed() > ACCOUNT {
            bail!(
                "namespace {} has got no service account within {} s, so it takes no pods",
                job.namespace,
                ACCOUNT.as_secs()
            );
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

async fn wait_until_gone(cluster: &Cluster, job: &JobFile, pod: &str) -> anyhow::Result<()> {
    let begun = Instant::now();
    while cluster.get::<Pod>(&job.namespace, pod).await?.is_some() {
        if begun.elapsed() > START {
            bail!(
                "waited {} s for the end of pod {pod} of an earlier upload; `kubectl delete pod {pod} -n {} --force` removes it",
                START.as_secs(),
                job.namespace
            );
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

/// Says what keeps it from that.
async fn wait_until_it_runs(
    cluster: &Cluster,
    job: &JobFile,
    pod: &str,
    purpose: &Purpose,
) -> anyhow::Result<()> {
    let what = match purpose {
        Purpose::Upload => "a pod that takes the files in",
        Purpose::Reader(_) => "a pod that reads the volume",
    };
    let begun = Instant::now();
    let mut told = String::new();
    loop {
        let observed = cluster.observe_pod(&job.namespace, pod).await?;
        let phase = observed.as_ref().map_or("", phase);
        if phase == "Running" {
            return Ok(());
        }
        let text = observed.as_ref().map_or(String::new(), why);
        let is_over = observed.is_none() || phase == "Succeeded" || phase == "Failed";
        if is_over || begun.elapsed() > START {
            let why = match text.as_str() {
                "" if phase.is_empty() => "it is gone".to_owned(),
                "" => format!(
                    "it is {phase}; `kubectl describe pod {pod} -n {}` may say why",
                    job.namespace
                ),
                text => text.to_owned(),
            };
            bail!("waited {} s for {what}: {why}", begun.elapsed().as_secs());
        }
        if !text.is_empty() && text != told {
            eprintln!("waiting for {what}: {text}");
            told = text;
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn phase(observed: &Observed) -> &str {
    let status = observed.pods.first().and_then(|pod| pod.status.as_ref());
    status
        .and_then(|status| status.phase.as_deref())
        .unwrap_or_default()
}

fn why(observed: &Observed) -> String {
    let findings: Vec<String> = diagnose_pods(observed)
        .iter()
        .map(|it| it.reason.to_string())
        .collect();
    findings.join("; ")
}
