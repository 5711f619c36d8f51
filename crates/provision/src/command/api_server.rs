//! The conversation with the cluster itself, through the API server that the kubeconfig of its folder names.
//!
//! The client is that of [`k8s::cluster`], so nothing has to be installed; where the kubeconfig asks for a token, this
//! program makes it. What waiting does not mend is told at once, with the way out.

use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s::cluster::client::KnownObject;
use k8s::cluster::{ApplyMode, Cluster, ClusterAccess, ClusterError, LogOptions};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep};

/// Time for one request.
const REQUEST: Duration = Duration::from_secs(20);
/// Time for a node to be emptied: longer than a pod of a job has for its last snapshot.
const DRAIN: Duration = Duration::from_secs(19 * 60);
/// Time for an object to go, or for a pod to end.
const MOMENT: Duration = Duration::from_secs(50);
/// Between two looks at a pod.
const LOOK: Duration = Duration::from_millis(500);

/// Why the cluster did not do it.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the variants are documented")]
pub enum ApiServerError {
    /// It would fail again: what the sentence names has to be mended first.
    #[error("{0}")]
    Permanent(String),
    /// The API server is away or busy, or a pod is not ready; the same may work later.
    #[error("{0}")]
    Passing(String),
    /// The nodes took too long.
    #[error(
        "{ready} of {wanted} nodes are Ready after {minutes} minutes; look at the scaling group's activity in AWS, then run `canoe cluster up` again"
    )]
    Patience {
        /// How many are.
        ready: usize,
        /// The new number of workers.
        wanted: usize,
        minutes: u64,
    },
}

/// The way to the API server of a cluster; the connection is made when it is first needed.
#[derive(Clone)]
pub struct ApiServer {
    kubeconfig: PathBuf,
    program: PathBuf,
    cluster: OnceCell<Cluster>,
}

impl std::fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ApiServer({})", self.kubeconfig.display())
    }
}

impl ApiServer {
    /// By the cluster's own kubeconfig. `program` is this program, which makes the tokens that the kubeconfig asks for.
    pub fn new(kubeconfig: PathBuf, program: PathBuf) -> Self {
        Self {
            kubeconfig,
            program,
            cluster: OnceCell::new(),
        }
    }

    /// The kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    pub(super) async fn cluster(&self) -> Result<&Cluster, ApiServerError> {
        let access = ClusterAccess {
            kubeconfigs: vec![self.kubeconfig.clone()],
            context: None,
            request_timeout: REQUEST,
            program: Some(self.program.clone()),
        };
        let connected = self.cluster.get_or_try_init(|| access.connect()).await;
        connected.map_err(|error| self.judged(error))
    }

    /// The objects of one kind in every namespace.
    pub async fn list<K: KnownObject>(&self) -> Result<Vec<K>, ApiServerError> {
        let found = self.cluster().await?.list_everywhere("").await;
        found.map_err(|error| self.judged(error))
    }

    /// Makes objects, or changes them to this.
    pub async fn apply(&self, objects: &[Value]) -> Result<(), ApiServerError> {
        let applied = self.cluster().await?.apply(objects, ApplyMode::Real).await;
        applied.map(drop).map_err(|error| self.judged(error))
    }

    /// Moves every pod off a node: pods of jobs are asked to end, which makes them order a snapshot.
    pub(super) async fn drain(&self, node: &str) -> Result<(), ApiServerError> {
        let drained = self.cluster().await?.drain(node, DRAIN).await;
        drained.map_err(|error| self.judged(error))
    }

    /// Takes a node out of the list; its machine is not touched.
    pub(super) async fn forget(&self, node: &str) -> Result<(), ApiServerError> {
        let forgotten = self.cluster().await?.forget_machine(node).await;
        forgotten.map_err(|error| self.judged(error))
    }

    /// Removes an object, and waits a little until it has gone.
    pub(super) async fn remove<K>(&self, namespace: &str, name: &str) -> Result<(), ApiServerError>
    where
        K: KnownObject<Scope = NamespaceResourceScope>,
    {
        let removed = self.cluster().await?.remove::<K>(namespace, name, MOMENT);
        removed.await.map_err(|error| self.judged(error))
    }

    /// What a pod printed; only the last lines, if a number is given.
    pub async fn printed(
        &self,
        namespace: &str,
        pod: &str,
        tail: Option<u64>,
    ) -> Result<String, ApiServerError> {
        let wanted = LogOptions {
            follow: false,
            tail,
            within: None,
        };
        let mut text = String::new();
        let take = |line: &str| {
            text.push_str(line);
            text.push('\n');
            true
        };
        let read = self.cluster().await?.logs(namespace, pod, wanted, take);
        read.await.map_err(|error| self.judged(error))?;
        Ok(text)
    }

    /// Waits a little until a pod has ended well.
    pub(super) async fn ended(&self, namespace: &str, name: &str) -> Result<(), ApiServerError> {
        let cluster = self.cluster().await?;
        let begun = Instant::now();
        loop {
            let pod = cluster.get::<Pod>(namespace, name).await;
            let pod = pod.map_err(|error| self.judged(error))?;
            let phase = pod.and_then(|pod| pod.status?.phase);
            let phase = phase.as_deref().unwrap_or("gone");
            if phase == "Succeeded" {
                return Ok(());
            }
            if matches!(phase, "Failed" | "gone") || begun.elapsed() >= MOMENT {
                return Err(ApiServerError::Passing(format!(
                    "pod {name} in namespace {namespace} is {phase} after {} s",
                    begun.elapsed().as_secs()
                )));
            }
            sleep(LOOK).await;
        }
    }

    /// Tells what passes from what does not, and says the way out in the words of a cluster of ours.
    pub(super) fn judged(&self, error: ClusterError) -> ApiServerError {
        let kubeconfig = self.kubeconfig.display();
        let written = "`canoe cluster kubeconfig` writes it";
        let words = match &error {
            ClusterError::Unreachable { server, cause } => {
                let words = format!("the API server {server} cannot be reached: {cause}");
                return ApiServerError::Passing(words);
            }
            error if error.may_pass() => return ApiServerError::Passing(error.to_string()),
            ClusterError::NoKubeconfig { .. } => format!("there is no {kubeconfig}; {written}"),
            ClusterError::Kubeconfig { .. }
            | ClusterError::NotKubeconfig { .. }
            | ClusterError::NoContext { .. } => {
                format!("{kubeconfig} is not the kubeconfig of a cluster; {written} again")
            }
            ClusterError::Login { cause, .. } => format!(
                "{cause}; sign in to AWS (`aws sts get-caller-identity` says whether you are), then run this again"
            ),
            ClusterError::Expired { server } => format!(
                "the API server {server} does not know you (Unauthorized); whoever made the cluster adds you to \
                 controlPlane.access and runs `canoe cluster up`"
            ),
            ClusterError::Untrusted { server, cause } => format!(
                "the API server {server} is not the one of {kubeconfig} ({cause}); {written} again"
            ),
            ClusterError::Refused { action, status } if error.is_forbidden() => format!(
                "{action}: {}; whoever made the cluster gives you another level in controlPlane.access",
                status.message
            ),
            ClusterError::Taken { message } => format!(
                "an object of the cluster was changed by somebody else: {message}; undo that, or delete the object, then run \
                 this again"
            ),
            other => other.to_string(),
        };
        ApiServerError::Permanent(words)
    }
}
