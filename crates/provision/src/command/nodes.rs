//! The conversation with the cluster itself: wait until the nodes are Ready, install the volume, list
//! and remove objects.
//!
//! Through `kubectl`, which users of a cluster have, and which understands every kind of kubeconfig.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout};

use super::{Sink, Talk};

/// Time for one run of kubectl.
const RUN: Duration = Duration::from_secs(60);

/// Why kubectl did not do it.
#[derive(Debug, thiserror::Error)]
pub enum KubectlError {
    /// It is not there.
    #[error("run {program}; install kubectl, or set --kubectl to its path")]
    Start {
        /// The program.
        program: String,
        /// Cause.
        #[source]
        source: std::io::Error,
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
        /// How many there should be.
        wanted: usize,
        /// How long.
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
        let failed = |message: String| KubectlError::Failed {
            arguments: arguments.join(" "),
            message,
        };
        let child = Command::new(&self.program)
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .arg("--request-timeout=20s")
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|source| KubectlError::Start {
                program: self.program.clone(),
                source,
            })?;
        let output = timeout(RUN, child.wait_with_output())
            .await
            .map_err(|_| failed("no answer within a minute".to_owned()))?
            .map_err(|error| failed(error.to_string()))?;
        if output.status.success() {
            Ok(output.stdout)
        } else {
            Err(failed(
                String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            ))
        }
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

    /// Applies a manifest.
    pub async fn apply(&self, file: &Path) -> Result<(), KubectlError> {
        self.run(&["apply", "-f", &file.to_string_lossy()])
            .await
            .map(drop)
    }

    /// Waits until `wanted` nodes are Ready; errors of kubectl are told and waited out.
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
                Err(error @ KubectlError::Start { .. }) => return Err(error),
                Err(error) => (0, format!("the API server does not answer yet: {error}")),
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

/// Nodes of a list that are Ready and may run pods. A controller (tainted) does not count.
fn count_ready(list: &Value) -> usize {
    let nodes = list["items"].as_array().into_iter().flatten();
    nodes
        .filter(|node| {
            let conditions = node["status"]["conditions"]
                .as_array()
                .into_iter()
                .flatten();
            let ready = conditions
                .filter(|c| c["type"] == "Ready")
                .any(|c| c["status"] == "True");
            let taints = node["spec"]["taints"].as_array().into_iter().flatten();
            let controller = taints
                .into_iter()
                .any(|taint| taint["key"] == "node-role.kubernetes.io/control-plane");
            ready && !controller && node["spec"]["unschedulable"] != true
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
}
