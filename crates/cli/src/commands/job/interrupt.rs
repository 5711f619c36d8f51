//! Handles Ctrl-C and SIGTERM at any moment of a command that must clean up.
//!
//! Once a program has listened for a signal, the system no longer ends it. So one listener is created at the start and
//! kept to the end: no signal is lost.

use std::cell::RefCell;

use anyhow::Context;
use k8s::cluster::Cluster;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A signal ended the command; the text says what was removed, what stays, and which command continues.
#[derive(Debug, thiserror::Error)]
#[error("interrupted; {0}")]
pub(super) struct Interrupted(pub String);

/// What a command must remove when it is interrupted.
#[derive(Default)]
pub(super) struct Begun {
    then: RefCell<Option<String>>,
    pod: RefCell<Option<HelperPod>>,
}

/// A pod that this command has created.
struct HelperPod {
    cluster: Cluster,
    namespace: String,
    name: String,
}

impl Begun {
    /// Sets the sentence about how to continue that is printed if the command is interrupted from now on.
    pub(super) fn then(&self, text: String) {
        *self.then.borrow_mut() = Some(text);
    }

    /// From now on there is a pod, until [`Begun::without_pod`].
    pub(super) fn with_pod(&self, cluster: &Cluster, namespace: &str, name: &str) {
        *self.pod.borrow_mut() = Some(HelperPod {
            cluster: cluster.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        });
    }

    /// The pod has been removed.
    pub(super) fn without_pod(&self) {
        *self.pod.borrow_mut() = None;
    }

    /// Removes the pod, if there is one, and returns the message for the user.
    async fn leave(&self) -> String {
        let then = self.then.take();
        let then = then.unwrap_or_else(|| "the same command resumes".to_owned());
        let Some(pod) = self.pod.take() else {
            return then;
        };
        match pod.cluster.delete_pod(&pod.namespace, &pod.name).await {
            Ok(()) => {
                format!("the pod on the volume is removed, what has been copied stays, and {then}")
            }
            Err(error) => format!("{}; {then}", stays(&pod.namespace, &pod.name, &error)),
        }
    }
}

/// The message about a pod that could not be removed.
pub(super) fn stays(namespace: &str, pod: &str, why: &dyn std::fmt::Display) -> String {
    format!(
        "pod {pod} on the volume could not be removed ({why}): `kubectl delete pod {pod} -n {namespace}` does it"
    )
}

/// Runs `work` unless the program is asked to end. A second request ends the cleaning up, too.
pub(super) async fn interruptible<T>(
    work: impl AsyncFnOnce(&Begun) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let mut signals = Signals::listen().context("listen for signals")?;
    let begun = Begun::default();
    tokio::select! {
        ended = work(&begun) => return ended,
        () = signals.next() => {}
    }
    let text = tokio::select! {
        text = begun.leave() => text,
        () = signals.next() => "pods that only carry files may be left, and end by themselves after some hours; the same command resumes".to_owned(),
    };
    Err(Interrupted(text).into())
}

/// Requests to end.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for the next request; one that came before this call counts.
    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Between two parts of a command nobody asks for signals.
    #[tokio::test]
    async fn a_signal_between_two_parts_is_not_lost() {
        let ended: anyhow::Result<()> = interruptible(async |begun| {
            begun.then("the job continues".to_owned());
            // SAFETY: raise has no preconditions; the signal is listened for.
            unsafe { libc::raise(libc::SIGINT) };
            std::thread::sleep(Duration::from_millis(200));
            tokio::task::yield_now().await;
            tokio::time::sleep(Duration::from_secs(180)).await;
            Ok(())
        })
        .await;
        let error = ended.unwrap_err();
        assert_eq!(error.to_string(), "interrupted; the job continues");
        assert!(error.is::<Interrupted>());
    }
}
