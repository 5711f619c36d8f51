//! Logs, commands and ports of a pod.

use std::pin::pin;
use std::time::Duration;

use futures::AsyncBufReadExt;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{AttachParams, AttachedProcess, LogParams};
use run::node::health::NodeStatus;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};

use super::client::Cluster;
use super::error::{ClusterError, innermost};

/// What is on its way between us and a command in a pod.
const BUFFER: usize = 128 * 1024;
/// How long a command that has ended badly may take to say so.
const FAREWELL: Duration = Duration::from_secs(2);
/// A node that says more than this about itself is none of ours.
const LONGEST_STATUS: u64 = 1024 * 1024;

/// How logs are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogOptions {
    /// Follow new lines as they come.
    pub follow: bool,
    /// Only the last lines of each node.
    pub tail: Option<u64>,
}

/// A command that runs in a pod. It is ended when this value is dropped.
pub struct RemoteCommand {
    process: AttachedProcess,
}

impl RemoteCommand {
    /// Its output and its input, once.
    pub fn streams(
        &mut self,
    ) -> Option<(
        impl AsyncRead + Unpin + Send + use<>,
        impl AsyncWrite + Unpin + Send + use<>,
    )> {
        Some((self.process.stdout()?, self.process.stdin()?))
    }

    /// Waits for its end; why it failed, if it did. Its output is thrown away.
    pub async fn ended(mut self) -> Result<Option<String>, ClusterError> {
        let broken = |cause: &str| ClusterError::Broken {
            action: "wait for a command in a pod".to_owned(),
            cause: cause.to_owned(),
        };
        let mut told = String::new();
        if let Some(output) = self.process.stdout() {
            let read = output.take(LONGEST_STATUS).read_to_string(&mut told).await;
            read.map_err(|source| broken(&source.to_string()))?;
        }
        let status = self
            .process
            .take_status()
            .ok_or_else(|| broken("it has no status"))?;
        let status = status
            .await
            .ok_or_else(|| broken("the connection was closed"))?;
        let failed = status.status.as_deref() != Some("Success");
        let last = told.lines().next_back().unwrap_or_default();
        Ok(failed.then(|| match last {
            "" => status.message.unwrap_or_default(),
            last => last.to_owned(),
        }))
    }

    /// Why it failed, if it did and the machine says so soon.
    pub async fn failure(mut self) -> Option<String> {
        let status = tokio::time::timeout(FAREWELL, self.process.take_status()?).await;
        let status = status.ok()??;
        let failed = status.status.as_deref() != Some("Success");
        status.message.filter(|_| failed)
    }
}

impl Cluster {
    fn pod_api(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Reads the log of a pod line by line, until it ends or `take` returns false.
    pub async fn logs(
        &self,
        namespace: &str,
        pod: &str,
        wish: LogOptions,
        mut take: impl FnMut(&str) -> bool,
    ) -> Result<(), ClusterError> {
        let params = LogParams {
            follow: wish.follow,
            tail_lines: wish
                .tail
                .map(|lines| i64::try_from(lines).unwrap_or(i64::MAX)),
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
                cause: innermost(&source),
            })?;
            let text = String::from_utf8_lossy(&line);
            if read == 0 || !take(text.trim_end_matches('\n')) {
                return Ok(());
            }
        }
    }

    /// Starts a command in a pod; the caller reads and writes its streams.
    pub async fn exec(
        &self,
        namespace: &str,
        pod: &str,
        command: &[String],
    ) -> Result<RemoteCommand, ClusterError> {
        let params = AttachParams {
            stdin: true,
            max_stdin_buf_size: Some(BUFFER),
            max_stdout_buf_size: Some(BUFFER),
            stderr: false,
            ..AttachParams::default()
        };
        let process = self.start(namespace, pod, command, &params).await?;
        Ok(RemoteCommand { process })
    }

    async fn start(
        &self,
        namespace: &str,
        pod: &str,
        command: &[String],
        params: &AttachParams,
    ) -> Result<AttachedProcess, ClusterError> {
        let action = format!("run a command in pod {pod}");
        let api = self.pod_api(namespace);
        self.ask(&action, || api.exec(pod, command, params)).await
    }

    /// What the node in a pod says about itself; `program` is the word that starts canoe there.
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
        let params = AttachParams {
            max_stdout_buf_size: Some(BUFFER),
            stderr: false,
            ..AttachParams::default()
        };
        let mut process = self.start(namespace, pod, &command, &params).await?;
        let ended = process.take_status();
        let output = process
            .stdout()
            .ok_or_else(|| broken("it has no output".to_owned()))?;
        let mut text = String::new();
        let read = output.take(LONGEST_STATUS).read_to_string(&mut text).await;
        read.map_err(|source| broken(source.to_string()))?;
        let status = match ended {
            Some(ended) => ended.await,
            None => None,
        };
        if let Some(status) = status.filter(|status| status.status.as_deref() != Some("Success")) {
            return Err(broken(status.message.unwrap_or_default()));
        }
        serde_json::from_str(&text).map_err(|source| broken(source.to_string()))
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
