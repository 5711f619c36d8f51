//! `canoe job watch --web`: the page of a job on a cluster, in a browser on this machine.
//!
//! Every node serves the same page, from the volume. Each connection of the browser goes to a node that runs at that
//! moment, so the page survives the loss of a node.

use std::time::Duration;

use anyhow::{Context, bail};
use k8s::cluster::{Cluster, TargetJob};
use k8s::explain::{Diagnosis, NodeRow, diagnose};
use tokio::net::{TcpListener, TcpStream};

use crate::exit::Exit;
use crate::web;

/// Interval between two searches for a node.
const LOOK: Duration = Duration::from_secs(1);

/// Forwards a port of this machine to the job's page until the job has ended or the user interrupts it.
pub(super) async fn forward(
    cluster: &Cluster,
    target: &TargetJob,
    port: u16,
) -> anyhow::Result<Exit> {
    wait_for_node(cluster, target).await?;
    let listener = TcpListener::bind(("127.0.0.1", port)).await;
    let listener = listener.with_context(|| {
        format!("listen on port {port} of this machine; choose another one with --port")
    })?;
    println!("watch it at http://127.0.0.1:{port}/");
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (stream, _) = accepted.context("take a connection of the browser")?;
                let (cluster, target) = (cluster.clone(), target.clone());
                tokio::spawn(async move {
                    if let Err(error) = lead(&cluster, &target, stream).await {
                        eprintln!("{error:#}");
                    }
                });
            }
            () = tokio::time::sleep(LOOK * 5) => {
                let diagnosis = diagnose(&cluster.observe(target).await?);
                if diagnosis.state.is_over() && choose(&diagnosis).is_none() {
                    bail!(gone(&diagnosis, target));
                }
            }
        }
    }
}

fn gone(diagnosis: &Diagnosis, target: &TargetJob) -> String {
    format!(
        "{}; its nodes, which serve the page, are gone. With a copy of {}/output from the volume, `canoe dashboard` shows it",
        diagnosis.summary(),
        target.job
    )
}

/// A pod that can serve the page, once there is one.
async fn wait_for_node(cluster: &Cluster, target: &TargetJob) -> anyhow::Result<String> {
    let mut told = String::new();
    loop {
        let diagnosis = diagnose(&cluster.observe(target).await?);
        if let Some(pod) = choose(&diagnosis) {
            return Ok(pod.to_owned());
        }
        if diagnosis.state.is_over() {
            bail!(gone(&diagnosis, target));
        }
        let summary = diagnosis.summary();
        if summary != told {
            eprintln!("waiting for a node: {summary}");
            told = summary;
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn choose(diagnosis: &Diagnosis) -> Option<&str> {
    let mut running = diagnosis.rows.iter().filter(|row| NodeRow::can_tell(row));
    running.next()?.pod.as_deref()
}

async fn lead(cluster: &Cluster, target: &TargetJob, mut here: TcpStream) -> anyhow::Result<()> {
    let pod = wait_for_node(cluster, target).await?;
    let mut there = cluster.connect(&target.namespace, &pod, web::PORT).await?;
    // The browser has closed the connection, or the pod has ended: neither needs a message.
    let _ = tokio::io::copy_bidirectional(&mut here, &mut there).await;
    Ok(())
}
