//! `canoe job watch --web`: the page of a job on a cluster, in a browser on this machine.

use anyhow::Context;
use launch::k8s::cluster::{Kubectl, Target};

use crate::exit::Exit;
use crate::web;

/// Leads the job's page to a port of this machine until interrupted. Every node serves the same page, from the volume.
pub fn forward(kubectl: &Kubectl, target: &Target, port: u16) -> anyhow::Result<Exit> {
    println!("watch it at http://127.0.0.1:{port}/");
    let status = kubectl
        .forward(target, port, web::PORT)
        .status()
        .context("run kubectl")?;
    Ok(if status.success() {
        Exit::Success
    } else {
        Exit::Failure
    })
}
