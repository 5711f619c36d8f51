//! Copies folders and the program from this machine to the job's volume, through a pod that mounts it, without an object
//! store.

use std::io::BufReader;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use k8s::cluster::{Cluster, FilesPod};
use k8s::objects::helper_pod::Purpose;
use k8s::objects::{self, program};
use run::node::pod::JOB_PATH;
use tokio_util::io::SyncIoBridge;

use super::helper;
use super::interrupt::Begun;
use crate::commands::progress::{bytes_bar, human_bytes, number_of};
use dataset::carry::{self, Carried};

/// A folder to copy, and its target in the job's folder on the volume.
pub(super) struct Load {
    /// The folder on this machine.
    pub from: PathBuf,
    /// Relative to the job's folder on the volume.
    pub to: String,
}

/// Creates the pod and the objects that it needs, copies the program and the folders, and removes the pod.
pub(super) async fn upload(
    cluster: &Cluster,
    begun: &Begun,
    files: &FilesPod,
    binary: Option<&Path>,
    loads: &[Load],
) -> anyhow::Result<()> {
    let ground = objects::ground(&files.job);
    if !ground.is_empty() {
        helper::apply(cluster, &ground).await?;
    }
    helper::with_pod(cluster, begun, files, &Purpose::Upload, async |pod| {
        if let Some(binary) = binary {
            carry_program(cluster, files, pod, binary).await?;
        }
        for load in loads {
            carry_load(cluster, files, pod, load).await?;
        }
        Ok(())
    })
    .await
}

/// Copies the canoe program to the volume. The image has no canoe, so a Python script in the pod receives it.
async fn carry_program(
    cluster: &Cluster,
    files: &FilesPod,
    pod: &str,
    binary: &Path,
) -> anyhow::Result<()> {
    let (job, own) = (&files.job, files.program.as_ref());
    let own = own.context("the job has an image of its own and brings no program along")?;
    let folder = tempfile::tempdir().context("make a folder for the program")?;
    let link = folder.path().join(k8s::program::FILE);
    let binary = std::fs::canonicalize(binary).context("find the program")?;
    std::os::unix::fs::symlink(&binary, &link).context("link the program")?;
    let command = program::receive(job, own);
    let carried = carry(cluster, &job.namespace, pod, folder.path(), &command).await?;
    eprintln!(
        "the program is on the volume: {}, SHA-256 {}…, for {}{}",
        human_bytes(carried.bytes),
        &own.sha256[..12],
        own.architecture.label(),
        if carried.kept == carried.bytes {
            ", it was already there"
        } else {
            ""
        }
    );
    let command = program::install(job, own, 10);
    let remote = cluster.exec(&job.namespace, pod, &command).await?;
    if let Some(failure) = remote.ended().await? {
        bail!(
            "the program does not run in image {}: {failure}",
            job.pod_image()
        );
    }
    Ok(())
}

async fn carry_load(
    cluster: &Cluster,
    files: &FilesPod,
    pod: &str,
    load: &Load,
) -> anyhow::Result<()> {
    let job = &files.job;
    let place = format!("{JOB_PATH}/{}/{}", job.name, load.to);
    let canoe = program::command(files.program.as_ref());
    let command = [&canoe, "data", "receive", &place].map(str::to_owned);
    let carried = carry(cluster, &job.namespace, pod, &load.from, &command)
        .await
        .with_context(|| format!("bring {} to the volume", load.from.display()))?;
    eprintln!(
        "{} is on the volume, in {}/{}: {}, {}, {} were already there, all verified",
        load.from.display(),
        job.name,
        load.to,
        number_of(carried.files, "file"),
        human_bytes(carried.bytes),
        human_bytes(carried.kept)
    );
    Ok(())
}

/// Sends a folder to a command in the pod, and tries again if the connection breaks.
async fn carry(
    cluster: &Cluster,
    namespace: &str,
    pod: &str,
    from: &Path,
    command: &[String],
) -> anyhow::Result<Carried> {
    helper::persist(async || carry_once(cluster, namespace, pod, from, command).await).await
}

async fn carry_once(
    cluster: &Cluster,
    namespace: &str,
    pod: &str,
    from: &Path,
    command: &[String],
) -> anyhow::Result<Carried> {
    let mut remote = cluster.exec(namespace, pod, command).await?;
    let (output, input) = remote
        .streams()
        .context("the command in the pod has no streams")?;
    let (output, input) = (SyncIoBridge::new(output), SyncIoBridge::new(input));
    let bar = bytes_bar("uploading", Some(folder_bytes(from)));
    let (from, shown) = (from.to_owned(), bar.clone());
    let sent = tokio::task::spawn_blocking(move || {
        let mut input = input;
        carry::send(&from, &mut BufReader::new(output), &mut input, &|bytes| {
            shown.inc(bytes)
        })
    });
    let sent = sent.await.context("send the files")?;
    bar.finish_and_clear();
    match sent {
        Ok(carried) => Ok(carried),
        Err(error) => {
            let error = anyhow::Error::new(error);
            Err(match remote.failure().await {
                Some(failure) => error.context(format!("the command in the pod failed: {failure}")),
                None => error,
            })
        }
    }
}

/// Bytes of a folder, for the progress bar. Files that cannot be read are reported when they are sent.
fn folder_bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let meta = std::fs::metadata(entry.path()).ok()?;
            Some(if meta.is_dir() {
                folder_bytes(&entry.path())
            } else {
                meta.len()
            })
        })
        .sum()
}
