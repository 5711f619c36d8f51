//! Logs and ports of a pod, and the status of its node.

use std::io;
use std::pin::pin;
use std::time::Duration;

use futures::AsyncBufReadExt;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::LogParams;
use run::node::health::NodeStatus;
use tokio::io::{AsyncRead, AsyncWrite};

use super::client::Cluster;
use super::error::{ClusterError, innermost};
use super::exec::EndedCommand;

/// How logs are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogOptions {
    /// Follow new lines as they come.
    pub follow: bool,
    /// Only the last lines of each node.
    pub tail: Option<u64>,
    /// Only lines that are younger.
    pub within: Option<Duration>,
}

impl Cluster {
    pub(super) fn pod_api(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Reads the log of a pod line by line, until it ends or `take` returns false.
    pub async fn logs(
        &self,
        namespace: &str,
        pod: &str,
        options: LogOptions,
        mut take: impl FnMut(&str) -> bool,
    ) -> Result<(), ClusterError> {
        let params = LogParams {
            follow: options.follow,
            tail_lines: options
                .tail
                .map(|lines| i64::try_from(lines).unwrap_or(i64::MAX)),
            since_seconds: options
                .within
                .map(|age| i64::try_from(age.as_secs() + 1).unwrap_or(i64::MAX)),
            ..LogParams::default()
        };
        let action = format!("read the log of pod {pod}");
        let api = self.pod_api(namespace);
        let stream = self.ask(&action, || api.log_stream(pod, &params)).await?;
        let mut stream = pin!(stream);
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = stream.read_until(b'\n', &mut line).await;
            let read = read.map_err(|source| ClusterError::Broken {
                action: action.clone(),
                cause: match source.kind() {
                    io::ErrorKind::UnexpectedEof => "the connection was closed".to_owned(),
                    _ => innermost(&source),
                },
            })?;
            let text = String::from_utf8_lossy(&line);
            if read == 0 || !take(text.trim_end_matches('\n')) {
                return Ok(());
            }
        }
    }

    /// The status of the node in a pod; `program` is the name or path of canoe there.
    pub async fn node_status(
        &self,
        namespace: &str,
        pod: &str,
        program: &str,
    ) -> Result<NodeStatus, ClusterError> {
        let action = format!("ask the node in pod {pod}");
        let broken = |cause: String| ClusterError::Broken {
            action: action.clone(),
            cause,
        };
        let command = [program, "node", "--show_status"].map(str::to_owned);
        let remote = self.exec(namespace, pod, &command).await?;
        let EndedCommand { output, status } = remote.finish(&action).await?;
        if status.status.as_deref() != Some("Success") {
            return Err(broken(status.message.unwrap_or_default()));
        }
        serde_json::from_str(&output).map_err(|source| broken(source.to_string()))
    }

    /// A connection to a port of a pod.
    pub async fn connect(
        &self,
        namespace: &str,
        pod: &str,
        port: u16,
    ) -> Result<impl AsyncRead + AsyncWrite + Unpin + Send + use<>, ClusterError> {
        let action = format!("connect to port {port} of pod {pod}");
        let api = self.pod_api(namespace);
        let ports = [port];
        let mut forwarder = self.ask(&action, || api.portforward(pod, &ports)).await?;
        let stream = forwarder.take_stream(port);
        stream.ok_or_else(|| ClusterError::Broken {
            action,
            cause: "it has no stream".to_owned(),
        })
    }
}
