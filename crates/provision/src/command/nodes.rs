//! The conversation with the cluster itself: wait until the nodes are Ready, install the volume, list
//! and remove objects.
//!
//! Through `kubectl`, which users of a cluster have, and which understands every kind of kubeconfig.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout};

use super::{Sink, Talk};

/// Time for one run of kubectl.
const RUN: Duration = Duration::from_secs(60);

/// Time for a node to be emptied: longer than a pod of a job has for its last snapshot.
const DRAIN: Duration = Duration::from_secs(20 * 60);

/// Why kubectl did not do it.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the variants are documented")]
pub enum KubectlError {
    /// It is not there.
    #[error("run {program}; install kubectl, or set --kubectl to its path")]
    Start {
        program: String,
        #[source]
        source: std::io::Error,
    },
    /// It failed, and would again: what its sentence names has to be mended first.
    #[error("kubectl cannot use the cluster: {message}; {remedy}")]
    Permanent {
        /// What it said.
        message: String,
        /// What to do.
        remedy: &'static str,
    },
    /// It failed.
    #[error("kubectl {arguments}: {message}")]
    Failed {
        /// What it was asked.
        arguments: String,
        /// What it said.
        message: String,
    },
    /// The nodes took too long.
    #[error(
        "{ready} of {wanted} nodes are Ready after {minutes} minutes; look at `kubectl describe nodes`, then run `canoe cluster up` again"
    )]
    Patience {
        /// How many are.
        ready: usize,
        /// The new number of workers.
        wanted: usize,
        minutes: u64,
    },
}

/// A kubectl with a kubeconfig.
#[derive(Debug, Clone)]
pub struct Kubectl {
    /// The program.
    pub program: String,
    /// The kubeconfig.
    pub kubeconfig: PathBuf,
}

impl Kubectl {
    async fn run(&self, arguments: &[&str]) -> Result<Vec<u8>, KubectlError> {
        self.run_with(arguments, Vec::new()).await
    }

    /// Runs kubectl with `input` on its standard input.
    async fn run_with(&self, arguments: &[&str], input: Vec<u8>) -> Result<Vec<u8>, KubectlError> {
        self.run_for(arguments, input, RUN).await
    }

    async fn run_for(
        &self,
        arguments: &[&str],
        input: Vec<u8>,
        patience: Duration,
    ) -> Result<Vec<u8>, KubectlError> {
        let failed = |message: String| KubectlError::Failed {
            arguments: arguments.join(" "),
            message,
        };
        let mut child = Command::new(&self.program)
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .arg("--request-timeout=20s")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|source| KubectlError::Start {
                program: self.program.clone(),
                source,
            })?;
        let input_end = child.stdin.take();
        let conversation = async {
            if let Some(mut end) = input_end {
                // A program that does not read its input closes it; what it says then decides.
                let _ = end.write_all(&input).await;
            }
            child.wait_with_output().await
        };
        let output = timeout(patience, conversation)
            .await
            .map_err(|_| failed(format!("no response within {} s", patience.as_secs())))?
            .map_err(|error| failed(error.to_string()))?;
        if output.status.success() {
            Ok(output.stdout)
        } else {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(match permanent(&said) {
                Some(remedy) => KubectlError::Permanent {
                    message: sentence(&said),
                    remedy,
                },
                None => failed(sentence(&said)),
            })
        }
    }

    /// Every node, workers and controllers.
    pub async fn nodes(&self) -> Result<Vec<ClusterNode>, KubectlError> {
        let bytes = self.run(&["get", "nodes", "-o", "json"]).await?;
        let list: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        let items = list["items"].as_array().into_iter().flatten();
        Ok(items.map(ClusterNode::read).collect())
    }

    /// Moves every pod off a node: pods of jobs are asked to end, which makes them order a snapshot.
    pub async fn drain(&self, node: &str) -> Result<(), KubectlError> {
        let seconds = format!("--timeout={}s", DRAIN.as_secs() - 60);
        let arguments = [
            "drain",
            node,
            "--ignore-daemonsets",
            "--delete-emptydir-data",
            &seconds,
        ];
        self.run_for(&arguments, Vec::new(), DRAIN).await.map(drop)
    }

    /// Takes a node out of the list; its machine is not touched.
    pub async fn forget(&self, node: &str) -> Result<(), KubectlError> {
        let arguments = ["delete", "node", node, "--ignore-not-found"];
        self.run(&arguments).await.map(drop)
    }

    /// The last lines that a pod printed.
    pub async fn tail(&self, namespace: &str, pod: &str) -> Result<String, KubectlError> {
        let arguments = ["logs", pod, "--namespace", namespace, "--tail=2000"];
        let bytes = self.run(&arguments).await?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// How many nodes are Ready and may run pods.
    pub async fn ready_nodes(&self) -> Result<usize, KubectlError> {
        let bytes = self.run(&["get", "nodes", "-o", "json"]).await?;
        let list = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Ok(count_ready(&list))
    }

    /// Every object of a kind, in every namespace, as a list.
    pub async fn list(&self, kind: &str) -> Result<Value, KubectlError> {
        let bytes = self
            .run(&["get", kind, "--all-namespaces", "-o", "json"])
            .await?;
        Ok(serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    /// Removes an object, and waits a little until it has gone.
    pub async fn delete(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<(), KubectlError> {
        let arguments = ["delete", kind, name, "--namespace", namespace];
        let wait = ["--ignore-not-found", "--timeout=50s"];
        self.run(&[&arguments[..], &wait[..]].concat())
            .await
            .map(drop)
    }

    /// Makes an object from JSON on standard input.
    pub async fn create(&self, object: &Value) -> Result<(), KubectlError> {
        self.run_with(&["apply", "-f", "-"], object.to_string().into_bytes())
            .await
            .map(drop)
    }

    /// Waits a little until a pod has ended well.
    pub async fn finished(&self, namespace: &str, pod: &str) -> Result<(), KubectlError> {
        let pod = format!("pod/{pod}");
        let ended = "--for=jsonpath={.status.phase}=Succeeded";
        let arguments = [
            "wait",
            ended,
            &pod,
            "--namespace",
            namespace,
            "--timeout=50s",
        ];
        self.run(&arguments).await.map(drop)
    }

    /// What a pod printed.
    pub async fn logs(&self, namespace: &str, pod: &str) -> Result<String, KubectlError> {
        let bytes = self.run(&["logs", pod, "--namespace", namespace]).await?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Applies a manifest.
    pub async fn apply(&self, file: &Path) -> Result<(), KubectlError> {
        self.run(&["apply", "-f", &file.to_string_lossy()])
            .await
            .map(drop)
    }

    /// Waits until `wanted` nodes are Ready; errors of kubectl are reported and waited out.
    pub async fn wait_for_nodes(
        &self,
        wanted: usize,
        patience: Duration,
        sink: &mut impl Sink,
    ) -> Result<(), KubectlError> {
        let begin = Instant::now();
        let mut said = String::new();
        loop {
            let (ready, words) = match self.ready_nodes().await {
                Ok(ready) => (ready, format!("{ready} of {wanted} nodes are Ready")),
                Err(error @ (KubectlError::Start { .. } | KubectlError::Permanent { .. })) => {
                    return Err(error);
                }
                Err(KubectlError::Failed { message, .. }) => {
                    (0, format!("the API server does not respond yet: {message}"))
                }
                Err(error) => return Err(error),
            };
            if words != said {
                sink.talk(Talk::Detail(words.clone()));
                said = words;
            }
            if ready >= wanted {
                return Ok(());
            }
            if begin.elapsed() >= patience {
                return Err(KubectlError::Patience {
                    ready,
                    wanted,
                    minutes: patience.as_secs() / 60,
                });
            }
            sleep(Duration::from_secs(5)).await;
        }
    }
}

/// A node, as far as an upgrade wants to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterNode {
    /// Its name.
    pub name: String,
    /// Minor version of its kubelet, such as `1.35`.
    pub version: String,
    /// Id of its machine, if it says so.
    pub machine: Option<String>,
    /// It runs the control plane.
    pub controller: bool,
    /// It is Ready.
    pub ready: bool,
}

impl ClusterNode {
    fn read(node: &Value) -> Self {
        let text = |pointer: &str| {
            let found = node.pointer(pointer).and_then(Value::as_str);
            found.unwrap_or_default().to_owned()
        };
        let version = text("/status/nodeInfo/kubeletVersion");
        let parts: Vec<&str> = version.trim_start_matches('v').split('.').take(2).collect();
        let provider = text("/spec/providerID");
        let label = "node-role.kubernetes.io/control-plane";
        Self {
            name: text("/metadata/name"),
            version: parts.join("."),
            machine: provider
                .rsplit('/')
                .next()
                .filter(|id| id.starts_with("i-"))
                .map(str::to_owned),
            controller: node["metadata"]["labels"].get(label).is_some(),
            ready: is_ready(node),
        }
    }
}

/// The sentence that counts in what kubectl says: its last line. Those before it repeat it with time stamps.
fn sentence(said: &str) -> String {
    let mut lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.next_back().unwrap_or("it said nothing").to_owned()
}

/// Words of failures that do not pass by themselves, and what to do about each.
const PERMANENT: [(&str, &str); 7] = [
    (
        "executable",
        "the kubeconfig names a program that is not there; run `canoe cluster kubeconfig` to write it again",
    ),
    (
        "getting credentials",
        "no token could be made; run `aws sts get-caller-identity` to see whether you are signed in",
    ),
    (
        "Unauthorized",
        "the cluster does not know you; whoever made it adds you to controlPlane.access",
    ),
    (
        "must be logged in to the server",
        "the cluster does not know you; whoever made it adds you to controlPlane.access",
    ),
    (
        "is forbidden",
        "you may not; ask for another level in controlPlane.access",
    ),
    (
        "certificate signed by unknown authority",
        "the kubeconfig is of another cluster; run `canoe cluster kubeconfig` to write it again",
    ),
    (
        "no configuration has been provided",
        "the kubeconfig is empty; run `canoe cluster kubeconfig` to write it again",
    ),
];

fn permanent(said: &str) -> Option<&'static str> {
    let found = PERMANENT.iter().find(|(words, _)| said.contains(words));
    found.map(|(_, remedy)| *remedy)
}

fn is_ready(node: &Value) -> bool {
    let conditions = node["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    conditions
        .filter(|c| c["type"] == "Ready")
        .any(|c| c["status"] == "True")
}

/// Nodes of a list that are Ready and may run pods. A controller (tainted) does not count.
fn count_ready(list: &Value) -> usize {
    let nodes = list["items"].as_array().into_iter().flatten();
    nodes
        .filter(|node| {
            let taints = node["spec"]["taints"].as_array().into_iter().flatten();
            let controller = taints
                .into_iter()
                .any(|taint| taint["key"] == "node-role.kubernetes.io/control-plane");
            is_ready(node) && !controller && node["spec"]["unschedulable"] != true
        })
        .count()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn counts_nodes_that_can_work() {
        let node = |ready: &str, taint: &str| json!({"spec": {"taints": [{"key": taint}]}, "status": {"conditions": [{"type": "Ready", "status": ready}]}});
        let list = json!({"items": [
            node("True", "other"), node("False", "other"), node("True", "node-role.kubernetes.io/control-plane"),
            {"spec": {"unschedulable": true}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}},
        ]});
        assert_eq!(count_ready(&list), 1);
        assert_eq!(count_ready(&Value::Null), 0);
    }

    #[test]
    fn nodes_are_read_with_version_and_machine() {
        let node = json!({"metadata": {"name": "a", "labels": {"node-role.kubernetes.io/control-plane": ""}},
            "spec": {"providerID": "aws:///us-west-2a/i-0abc"},
            "status": {"nodeInfo": {"kubeletVersion": "v1.35.2-eks-1"}, "conditions": [{"type": "Ready", "status": "True"}]}});
        let read = ClusterNode::read(&node);
        assert_eq!(
            (read.version.as_str(), read.machine.as_deref()),
            ("1.35", Some("i-0abc"))
        );
        assert!(read.controller && read.ready);
        assert_eq!(ClusterNode::read(&Value::Null).machine, None);
    }

    /// Six lines with time stamps every five seconds, for a quarter of an hour.
    #[test]
    fn one_sentence_of_kubectl_is_told() {
        let said = "E1117 10:00:01.1 1 memcache.go:265] \"Unhandled Error\" err=\"couldn't get current server API group list\"
E1117 10:00:01.2 1 memcache.go:265] \"Unhandled Error\" err=\"couldn't get current server API group list\"
Unable to connect to the server: dial tcp 10.0.0.1:443: i/o timeout\n";
        assert_eq!(
            sentence(said),
            "Unable to connect to the server: dial tcp 10.0.0.1:443: i/o timeout"
        );
        assert_eq!(permanent(said), None);
        let gone = "Unable to connect to the server: getting credentials: exec: executable canoe not found";
        assert!(
            permanent(gone)
                .unwrap()
                .contains("canoe cluster kubeconfig")
        );
        assert!(permanent("error: You must be logged in to the server (Unauthorized)").is_some());
    }
}
