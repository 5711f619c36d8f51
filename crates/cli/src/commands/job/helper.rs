//! A pod with the job's volume, for as long as a command needs it: it is created, used and deleted, also on Ctrl-C.

use std::time::{Duration, Instant};

use anyhow::bail;
use dataset::carry::CarryError;
use k8s::cluster::{ApplyMode, Cluster, ClusterError, FilesPod};
use k8s::explain::{Observed, diagnose_pods};
use k8s::job::{JobFile, Volume};
use k8s::objects::helper_pod::{self, Purpose};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, ServiceAccount};
use serde_json::Value;

use super::interrupt::{self, Begun};

/// The pod must run after this long: an image may have to be pulled.
const START: Duration = Duration::from_secs(600);
/// A new namespace must have its service account after this long.
const ACCOUNT: Duration = Duration::from_secs(60);
/// Interval between two checks of the pod.
pub(super) const LOOK: Duration = Duration::from_millis(500);

/// How often a broken connection is opened again; files that have arrived stay.
const ATTEMPTS: u32 = 5;

/// Creates the pod, calls `work` with its name once it runs, and removes the pod, whatever `work` returns.
pub(super) async fn with_pod<T>(
    cluster: &Cluster,
    begun: &Begun,
    files: &FilesPod,
    purpose: &Purpose,
    work: impl AsyncFnOnce(&str) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let job = &files.job;
    let pod = helper_pod::name(job, purpose);
    let whole = async {
        prepare(cluster, job, &pod).await?;
        let object = helper_pod::object(job, files.program.as_ref(), purpose);
        begun.with_pod(cluster, &job.namespace, &pod);
        apply(cluster, &[object]).await?;
        wait_until_it_runs(cluster, job, &pod, purpose).await?;
        work(&pod).await
    };
    let ended = whole.await;
    if let Err(error) = cluster.delete_pod(&job.namespace, &pod).await {
        eprintln!("{}", interrupt::stays(&job.namespace, &pod, &error));
    }
    begun.without_pod();
    ended
}

/// Copies through a command in a pod, again and again if the connection breaks.
pub(super) async fn persist<T>(once: impl AsyncFn() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let mut attempt = 1;
    loop {
        match once().await {
            Err(error) if is_forbidden(&error) => {
                return Err(error.context(NO_EXEC));
            }
            Err(error) if attempt < ATTEMPTS && is_broken(&error) => {
                eprintln!("{error:#}; resuming ({attempt} of {ATTEMPTS})");
                attempt += 1;
                tokio::time::sleep(LOOK).await;
            }
            ended => return ended,
        }
    }
}

const NO_EXEC: &str = "files are copied by a command in a pod, for which you need the rights to get and to create `pods/exec` (docs/kubernetes.md has a Role with all \
     rights that are needed); without it, train with `image` and `data.url` in job.yaml, and have models copied by `copies`";

fn is_forbidden(error: &anyhow::Error) -> bool {
    let of_cluster = error.downcast_ref::<ClusterError>();
    of_cluster.is_some_and(ClusterError::is_forbidden)
}

/// Whether another attempt may succeed: the connection broke, or the pod's machine does not know its container yet, which
/// the API server already reports as running.
fn is_broken(error: &anyhow::Error) -> bool {
    error.is::<ClusterError>()
        || matches!(
            error.downcast_ref(),
            Some(CarryError::Broken(_) | CarryError::Differs { .. })
        )
}

/// Removes the pod of an interrupted upload, which may have ended or have other options, and cannot be changed. Then checks
/// that the volume claim exists, and waits for the namespace's service account.
async fn prepare(cluster: &Cluster, job: &JobFile, pod: &str) -> anyhow::Result<()> {
    if cluster.get::<Pod>(&job.namespace, pod).await?.is_some() {
        cluster.delete_pod(&job.namespace, pod).await?;
        wait_until_gone(cluster, job, pod).await?;
    }
    if let Volume::Claim { name } = &job.volume
        && let Ok(None) = cluster
            .get::<PersistentVolumeClaim>(&job.namespace, name)
            .await
    {
        has_namespace(cluster, job).await?;
        bail!(
            "there is no claim {name:?} in namespace {}: make it, name another with --claim, or a file server with --nfs (`volume` in job.yaml)",
            job.namespace
        );
    }
    wait_for_account(cluster, job).await
}

/// Fails if the namespace does not exist. Without the right to read namespaces, it is assumed to exist.
async fn has_namespace(cluster: &Cluster, job: &JobFile) -> anyhow::Result<()> {
    if cluster.has_namespace(&job.namespace).await? == Some(false) {
        bail!(
            "there is no namespace {}: make it (`kubectl create namespace {}`, or `createNamespace: true` in job.yaml), or name another with -n",
            job.namespace,
            job.namespace
        );
    }
    Ok(())
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
        has_namespace(cluster, job).await?;
        if begun.elapsed() > ACCOUNT {
            bail!(
                "namespace {} got no service account within {} s, so no pod can be created in it; is there such a namespace?",
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

/// Waits until the pod runs, and prints what it waits for.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A machine that cannot give a pod a network says so in an event only.
    #[test]
    fn a_pod_that_gets_no_network_is_not_waited_for_in_silence() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "ctr-upload", "uid": "u1", "creationTimestamp": "2026-08-04T12:00:00Z"},
            "spec": {"nodeName": "n2", "containers": [{"name": "upload"}]},
            "status": {"phase": "Pending", "containerStatuses": [{
                "name": "upload", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                "state": {"waiting": {"reason": "ContainerCreating"}},
            }]},
        }))
        .unwrap();
        let event = serde_json::from_value(json!({
            "metadata": {"name": "e"},
            "involvedObject": {"kind": "Pod", "name": "ctr-upload", "uid": "u1"},
            "reason": "FailedCreatePodSandBox",
            "message": "Failed to create pod sandbox: plugin type=\"flannel\" failed (add): open /run/flannel/subnet.env: no such file or directory",
            "type": "Warning", "count": 9,
            "firstTimestamp": "2026-08-04T12:00:02Z", "lastTimestamp": "2026-08-04T12:01:58Z",
        }))
        .unwrap();
        let observed = Observed {
            job: None,
            pods: vec![pod],
            events: vec![event],
            claims: Vec::new(),
            machines: None,
            data_job: None,
            data_pods: Vec::new(),
            now: "2026-08-04T12:02:00Z".parse().unwrap(),
        };
        let text = why(&observed);
        assert!(text.contains("cannot be started on machine n2"), "{text:?}");
        assert_eq!(phase(&observed), "Pending");
    }

    #[test]
    fn only_what_another_attempt_may_mend_is_tried_again() {
        let broken = CarryError::Broken(std::io::ErrorKind::BrokenPipe.into());
        let with_reason = anyhow::Error::new(broken).context("the command in the pod failed: 137");
        assert!(is_broken(&with_reason));
        let full = CarryError::Refused("write x; the volume is full".to_owned());
        assert!(!is_broken(&full.into()));
        let status = kube::core::Status::failure("no", "Forbidden").with_code(403);
        let refused = anyhow::Error::new(ClusterError::Refused {
            action: "run a command".to_owned(),
            status: status.boxed(),
        });
        assert!(is_forbidden(&refused));
    }
}
