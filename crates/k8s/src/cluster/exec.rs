//! Runs a command in a pod: its start, its streams and its end.

use std::pin::pin;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::api::{AttachParams, AttachedProcess};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, copy, duplex};
use tokio::task::JoinHandle;

use super::client::Cluster;
use super::error::ClusterError;

/// Bytes that are buffered between this process and a command in a pod.
const BUFFER: usize = 128 * 1024;
/// How long to wait for the exit status of a command whose streams have failed.
const FAREWELL: Duration = Duration::from_secs(2);
/// Most bytes of output that are kept where a short output is expected.
const LONGEST: u64 = 1024 * 1024;

/// A command that runs in a pod. It is ended when this value is dropped. Its streams end with it, and with its connection.
pub struct RemoteCommand {
    streams: Option<(DuplexStream, DuplexStream)>,
    ended: JoinHandle<Option<Status>>,
}

impl Drop for RemoteCommand {
    fn drop(&mut self) {
        self.ended.abort();
    }
}

impl RemoteCommand {
    fn new(process: AttachedProcess) -> Self {
        let (output, their_output) = duplex(BUFFER);
        let (input, their_input) = duplex(BUFFER);
        Self {
            streams: Some((output, input)),
            ended: tokio::spawn(lead(process, their_output, their_input)),
        }
    }

    /// Its output and its input, once.
    pub fn streams(
        &mut self,
    ) -> Option<(
        impl AsyncRead + Unpin + Send + use<>,
        impl AsyncWrite + Unpin + Send + use<>,
    )> {
        self.streams.take()
    }

    /// Waits for its end.
    pub(super) async fn finish(mut self, action: &str) -> Result<EndedCommand, ClusterError> {
        let broken = |cause: &str| ClusterError::Broken {
            action: action.to_owned(),
            cause: cause.to_owned(),
        };
        let mut told = String::new();
        let streams = self.streams.take();
        // Its input stays open until it has ended.
        let (output, _input) = streams.ok_or_else(|| broken("it has no output"))?;
        let read = output.take(LONGEST).read_to_string(&mut told).await;
        read.map_err(|source| broken(&source.to_string()))?;
        let status = (&mut self.ended).await.ok().flatten();
        let status = status.ok_or_else(|| broken("the connection was closed"))?;
        Ok(EndedCommand {
            output: told,
            status,
        })
    }

    /// Waits for its end; why it failed, if it did.
    pub async fn ended(self) -> Result<Option<String>, ClusterError> {
        let EndedCommand { output, status } = self.finish("wait for a command in a pod").await?;
        let failed = status.status.as_deref() != Some("Success");
        let last = output.lines().next_back().unwrap_or_default();
        Ok(failed.then(|| match last {
            "" => status.message.unwrap_or_default(),
            last => last.to_owned(),
        }))
    }

    /// Why it failed, if it did and the machine reports it soon.
    pub async fn failure(mut self) -> Option<String> {
        let status = tokio::time::timeout(FAREWELL, &mut self.ended).await;
        let status = status.ok()?.ok()??;
        let failed = status.status.as_deref() != Some("Success");
        status.message.filter(|_| failed)
    }
}

/// A command in a pod that has ended.
pub(super) struct EndedCommand {
    pub(super) output: String,
    pub(super) status: Status,
}

/// Copies both ways until the command has ended or the connection is lost. When a connection breaks, the client's own
/// pipes stay open without data, so that their readers and writers would wait for ever. The pipes here are closed when
/// this returns.
async fn lead(
    mut process: AttachedProcess,
    mut output: DuplexStream,
    mut input: DuplexStream,
) -> Option<Status> {
    let mut status = pin!(process.take_status()?);
    let (mut stdout, mut stdin) = (process.stdout()?, process.stdin()?);
    let mut feed = pin!(async {
        let fed = copy(&mut input, &mut stdin).await;
        fed.and(stdin.shutdown().await)
    });
    let mut drain = pin!(copy(&mut stdout, &mut output));
    let (mut is_fed, mut is_drained) = (false, false);
    loop {
        tokio::select! {
            // If the caller has stopped reading or writing, errors of its stream do not matter.
            _ = &mut feed, if !is_fed => is_fed = true,
            _ = &mut drain, if !is_drained => is_drained = true,
            status = &mut status => {
                // Its status comes after all of its output, which may still be in the pipe.
                if status.is_some() && !is_drained {
                    drop(drain.await);
                }
                return status;
            }
        }
    }
}

impl Cluster {
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
        let action = format!("run a command in pod {pod}");
        let api = self.pod_api(namespace);
        let process = self
            .ask(&action, || api.exec(pod, command, &params))
            .await?;
        Ok(RemoteCommand::new(process))
    }
}
