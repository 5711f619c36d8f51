//! The one request of `podlist`: lists the pods of this job from inside a pod, over verified TLS.
//!
//! v1 sent its token to any server that responded. Here the server must first present a certificate of the
//! cluster's authority.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Config;
use run::node::discover::{ListedPod, PodSource, PodsOptions};
use run::node::patience::NotYet;

use super::client::Cluster;
use super::error::ClusterError;

/// How long the API server may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Asks the API server of the cluster that this pod runs in.
#[derive(Debug, Clone, Copy, Default)]
pub struct InCluster;

impl PodSource for InCluster {
    /// Called on a thread of its own, every few seconds at most.
    fn pods(&self, options: &PodsOptions) -> Result<Vec<ListedPod>, NotYet> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| NotYet::Later(format!("start the client: {error}")))?;
        runtime.block_on(ask(options, TIMEOUT))
    }
}

async fn ask(options: &PodsOptions, timeout: Duration) -> Result<Vec<ListedPod>, NotYet> {
    let cluster = Cluster::new(config(options)?, timeout)
        .map_err(|error| NotYet::Later(error.to_string()))?;
    let labels = format!("job-name={}", options.job);
    let pods = cluster.list::<Pod>(&options.namespace, &labels).await;
    let pods = pods.map_err(|error| judge(&error, &options.namespace))?;
    Ok(pods.into_iter().map(listed).collect())
}

fn listed(pod: Pod) -> ListedPod {
    let status = pod.status.unwrap_or_default();
    ListedPod {
        name: pod.metadata.name.unwrap_or_default(),
        phase: status.phase.unwrap_or_default(),
        ip: status.pod_ip,
        is_ending: pod.metadata.deletion_timestamp.is_some(),
    }
}

fn config(options: &PodsOptions) -> Result<Config, NotYet> {
    let read = |file: &str| {
        let path = options.account_dir.join(file);
        fs::read_to_string(&path).map_err(|error| no_account(&path, &error))
    };
    let token = read("token")?;
    read("ca.crt")?;
    let host = if options.host.contains(':') {
        format!("[{}]", options.host)
    } else {
        options.host.clone()
    };
    let address = format!("https://{host}:{}", options.port);
    let address = address
        .parse()
        .map_err(|_| NotYet::Never(format!("{address:?} is not an address of an API server")))?;
    let mut config = Config::new(address);
    config.root_cert_file = Some(options.account_dir.join("ca.crt"));
    config.root_cert = Some(Vec::new());
    config.connect_timeout = Some(TIMEOUT);
    config.default_retry = false;
    config.auth_info.token = Some(token.trim().to_owned().into());
    Ok(config)
}

fn no_account(path: &Path, error: &io::Error) -> NotYet {
    NotYet::Never(format!(
        "{} cannot be read ({error}); podlist needs a service account; a job with `discovery: podlist` in its job.yaml has one",
        path.display()
    ))
}

/// Decides whether another try can succeed.
fn judge(error: &ClusterError, namespace: &str) -> NotYet {
    match error {
        ClusterError::Expired { .. } => {
            NotYet::Never("the API server does not accept this pod's token (401)".to_owned())
        }
        error if error.is_forbidden() => NotYet::Never(format!(
            "the service account may not list pods in namespace {namespace} (403); it needs a Role with verb list on pods"
        )),
        ClusterError::Refused { status, .. } if status.code == 429 => {
            NotYet::Later("the API server is busy (429)".to_owned())
        }
        ClusterError::Refused { status, .. } => {
            NotYet::Later(format!("the API server returned {}", status.code))
        }
        error => NotYet::Later(error.to_string()),
    }
}

#[cfg(test)]
#[path = "in_cluster_tests.rs"]
mod tests;
