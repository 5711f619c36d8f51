//! `canoe job get`: models, logs and records from the volume to this machine. `canoe job rm-data`: the files removed there.
//!
//! A pod that mounts the volume reads them, so the job's own pods may be gone, and the Job too.

use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use k8s::cluster::{Cluster, ClusterError, FilesPod, TargetJob};
use k8s::objects::helper_pod::Purpose;
use k8s::objects::program;
use run::node::pod::JOB_PATH;
use tokio_util::io::SyncIoBridge;

use super::helper::{self, LOOK};
use crate::commands::data;
use crate::commands::progress::{bytes_bar, human_bytes, set_total};
use dataset::carry::{self, CarryError, Existing, Received};
use dataset::pick::Pick;
use s3::{Client, Location};

/// A connection that breaks is made anew this often; what has arrived stays.
const ATTEMPTS: u32 = 5;

/// What is wanted, and where it goes.
#[derive(Debug, Clone)]
pub(super) struct WantedModels {
    /// What.
    pub pick: Pick,
    /// The folder, or s3://…; left out: `NAME-output` here.
    pub to: Option<String>,
    /// Replace models of the same names.
    pub force: bool,
}

/// Where the files of a job are; an error names what could say so.
pub(super) async fn files_of(cluster: &Cluster, target: &TargetJob) -> anyhow::Result<FilesPod> {
    match cluster.files(target).await? {
        Some(files) => Ok(files),
        None => bail!(
            "there is no job {} in namespace {}, and nothing says where its files are (ConfigMap {}); `canoe job ls -n {}` lists the jobs there",
            target.job,
            target.namespace,
            k8s::objects::files_name(&target.job),
            target.namespace
        ),
    }
}

/// Brings it here, or through here to an object store, and says where it is.
pub(super) async fn get(
    cluster: &Cluster,
    target: &TargetJob,
    wanted: &WantedModels,
) -> anyhow::Result<()> {
    let store = wanted.to.as_deref().and_then(Location::parse);
    let Some(store) = store else {
        let folder = wanted.to.as_ref().map(PathBuf::from);
        let folder = folder.unwrap_or_else(|| PathBuf::from(format!("{}-output", target.job)));
        return bring(cluster, target, wanted, &folder).await;
    };
    // Whoever has no right to write there is told before anything is copied.
    let asked = store.clone();
    tokio::task::spawn_blocking(move || Client::new()?.list(&asked))
        .await
        .context("ask the store")??;
    let folder = tempfile::tempdir().context("make a folder on the way to the store")?;
    bring(cluster, target, wanted, folder.path()).await?;
    let pushed = tokio::task::spawn_blocking(move || data::push(folder.path(), &store));
    let then = "what is in the store stays, and the same command sends the rest";
    helper::unless_interrupted(then, async { pushed.await.context("copy to the store")? }).await
}

async fn bring(
    cluster: &Cluster,
    target: &TargetJob,
    wanted: &WantedModels,
    folder: &Path,
) -> anyhow::Result<()> {
    let files = files_of(cluster, target).await?;
    make_folder(folder)?;
    let received = helper::with_pod(cluster, &files, &reader(), async |pod| {
        receive(cluster, &files, pod, wanted, folder).await
    })
    .await?;
    let carried = received.carried;
    eprintln!(
        "{} files, {}, {} were already there, all verified",
        carried.files,
        human_bytes(carried.bytes),
        human_bytes(carried.kept)
    );
    for name in tops(&received.names) {
        println!("{}", folder.join(name).display());
    }
    Ok(())
}

/// Makes the folder for what comes, before a pod is made for nothing.
fn make_folder(folder: &Path) -> anyhow::Result<()> {
    let is_file = |path: &&Path| path.symlink_metadata().is_ok() && !path.is_dir();
    if let Some(file) = folder.ancestors().find(is_file) {
        bail!(
            "{} is not a folder; name one with --to, which is made if it is not there",
            file.display()
        );
    }
    std::fs::create_dir_all(folder).with_context(|| format!("make the folder {}", folder.display()))
}

/// Removes the job's folder on the volume, then what says where it is.
pub(super) async fn remove(
    cluster: &Cluster,
    target: &TargetJob,
    what: &str,
) -> anyhow::Result<()> {
    let files = files_of(cluster, target).await?;
    let place = format!("{JOB_PATH}/{}/{what}", files.job.name);
    let place = place.trim_end_matches('/').to_owned();
    helper::with_pod(cluster, &files, &reader(), async |pod| {
        let command = ["rm", "-rf", "--", &place].map(str::to_owned);
        let remote = cluster.exec(&files.job.namespace, pod, &command).await?;
        match remote.ended().await? {
            Some(failure) => bail!("remove {place} on the volume: {failure}"),
            None => Ok(()),
        }
    })
    .await?;
    println!("{}/{what} on the volume is removed", target.job);
    if what.is_empty() {
        cluster.delete_files_map(target).await?;
    }
    Ok(())
}

/// Several people may read at once.
fn reader() -> Purpose {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanos = now.map_or(0, |now| now.subsec_nanos());
    Purpose::Reader(format!(
        "{:05x}{:05x}",
        std::process::id() & 0xf_ffff,
        nanos & 0xf_ffff
    ))
}

async fn receive(
    cluster: &Cluster,
    files: &FilesPod,
    pod: &str,
    wanted: &WantedModels,
    folder: &Path,
) -> anyhow::Result<Received> {
    let mut attempt = 1;
    loop {
        match receive_once(cluster, files, pod, wanted, folder).await {
            Err(error) if attempt < ATTEMPTS && is_broken(&error) => {
                eprintln!("{error:#}; resuming ({attempt} of {ATTEMPTS})");
                attempt += 1;
                tokio::time::sleep(LOOK).await;
            }
            ended => return ended,
        }
    }
}

/// What another attempt may mend. A machine may not know yet of a container that the API server calls running.
fn is_broken(error: &anyhow::Error) -> bool {
    let of_cluster = error.downcast_ref::<ClusterError>();
    of_cluster.is_some_and(|error| !error.is_forbidden())
        || matches!(
            error.downcast_ref(),
            Some(CarryError::Broken(_) | CarryError::Differs { .. })
        )
}

async fn receive_once(
    cluster: &Cluster,
    files: &FilesPod,
    pod: &str,
    wanted: &WantedModels,
    folder: &Path,
) -> anyhow::Result<Received> {
    let output = format!("{JOB_PATH}/{}/output", files.job.name);
    let pick = format!("--pick={}", wanted.pick);
    let canoe = program::command(files.program.as_ref());
    let command = [&canoe, "data", "send", &output, &pick].map(str::to_owned);
    let mut remote = cluster.exec(&files.job.namespace, pod, &command).await?;
    let (output, input) = remote
        .streams()
        .context("the command in the pod has no streams")?;
    let (output, input) = (SyncIoBridge::new(output), SyncIoBridge::new(input));
    let existing = if wanted.force {
        Existing::Replace
    } else {
        Existing::KeepModels
    };
    let bar = bytes_bar("downloading", None);
    let (shown, folder) = (bar.clone(), folder.to_owned());
    let received = tokio::task::spawn_blocking(move || {
        let mut input = input;
        let tell = |bytes, total| {
            set_total(&shown, total);
            shown.set_position(bytes);
        };
        let mut output = BufReader::new(output);
        carry::receive(&folder, existing, &mut output, &mut input, &tell)
    });
    let received = received.await.context("receive the files")?;
    bar.finish_and_clear();
    match received {
        Ok(received) => Ok(received),
        Err(error @ CarryError::Broken(_)) => Err(match remote.failure().await {
            Some(failure) => anyhow::Error::new(error)
                .context(format!("the command in the pod failed: {failure}")),
            None => error.into(),
        }),
        Err(error) => Err(error.into()),
    }
}

/// The first part of every name, each once: what a person looks for.
fn tops(names: &[String]) -> Vec<&str> {
    let mut tops: Vec<&str> = names
        .iter()
        .filter_map(|name| name.split('/').next())
        .collect();
    tops.dedup();
    tops
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_the_place_of_a_folder_is_named() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("file"), "mine").unwrap();
        make_folder(&place.path().join("a/b")).unwrap();
        for wrong in ["file", "file/b/c"] {
            let error = make_folder(&place.path().join(wrong)).unwrap_err();
            assert!(
                error.to_string().contains("/file is not a folder"),
                "{error}"
            );
        }
    }

    #[test]
    fn folders_are_named_once() {
        let names = ["pass-00001/_w", "pass-00001/done", "events.jsonl"].map(str::to_owned);
        assert_eq!(tops(&names), ["pass-00001", "events.jsonl"]);
    }
}
