//! `canoe job get` copies models, logs and records from the volume to this machine. `canoe job rm-data` deletes the files of a job there.
//!
//! A pod that mounts the volume reads them, so the job's own pods may be gone, and the Job too.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use k8s::cluster::{Cluster, FilesPod, TargetJob};
use k8s::objects::helper_pod::Purpose;
use k8s::objects::program;
use run::node::pod::JOB_PATH;
use tokio_util::io::SyncIoBridge;

use super::helper;
use super::interrupt::Begun;
use crate::commands::progress::{bytes_bar, human_bytes, number_of, set_total};
use dataset::carry::{self, CarryError, Existing, Prefix, Received};
use dataset::pick::Pick;
use s3::{Client, Location};
use trainer::{pass_directory, scores_file};

/// The options of `canoe job get`.
#[derive(Debug, Clone)]
pub(super) struct WantedModels {
    /// What.
    pub pick: Pick,
    /// The folder, or s3://…; left out: `NAME-output` here.
    pub to: Option<String>,
    /// Replace models of the same names.
    pub force: bool,
    /// Of an earlier run, which the volume keeps under this number.
    pub earlier: Option<u32>,
}

/// Finds the folder of a job's files on the volume, from the Job or from its ConfigMap; the error names both.
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

/// Where the files are copied to.
#[derive(Debug)]
enum Destination {
    Folder(PathBuf),
    Store(Location),
}

/// The destination that `--to` names. A text that begins with `s3:` is never a folder.
fn destination(to: Option<&str>, job: &str) -> anyhow::Result<Destination> {
    let Some(text) = to else {
        return Ok(Destination::Folder(PathBuf::from(format!("{job}-output"))));
    };
    match Location::parse(text) {
        Some(store) => Ok(Destination::Store(store)),
        None if text.starts_with("s3:") => bail!("--to={text}: is not s3://BUCKET/PREFIX"),
        None => Ok(Destination::Folder(PathBuf::from(text))),
    }
}

/// Copies the files to this machine or to an object store, and prints where they are.
pub(super) async fn get(
    cluster: &Cluster,
    begun: &Begun,
    target: &TargetJob,
    wanted: &WantedModels,
) -> anyhow::Result<()> {
    let destination = destination(wanted.to.as_deref(), &target.job)?;
    let files = files_of(cluster, target).await?;
    let place = match &destination {
        Destination::Folder(folder) => {
            make_folder(folder)?;
            Place::Folder(folder.clone())
        }
        Destination::Store(location) => Place::Store(open(location.clone()).await?),
    };
    let received = bring(cluster, begun, &files, wanted, &place).await?;
    for name in tops(&received.names) {
        match &destination {
            Destination::Folder(folder) => println!("{}", folder.join(name).display()),
            Destination::Store(location) => println!("{}", location.join(name)),
        }
    }
    Ok(())
}

/// A destination that is ready to receive files.
#[derive(Clone)]
enum Place {
    Folder(PathBuf),
    Store(Arc<Prefix>),
}

impl Place {
    fn receive(
        &self,
        existing: Existing,
        input: &mut dyn BufRead,
        output: &mut dyn Write,
        tell: &dyn Fn(u64, u64),
    ) -> Result<Received, CarryError> {
        match self {
            Self::Folder(folder) => carry::receive(folder, existing, input, output, tell),
            Self::Store(prefix) => carry::receive_into_store(prefix, existing, input, output, tell),
        }
    }
}

/// Opens the object store before a pod is created, so that missing rights are reported first.
async fn open(location: Location) -> anyhow::Result<Arc<Prefix>> {
    let asked = tokio::task::spawn_blocking(move || {
        let client = Client::new()?;
        client.list(&location)?;
        Ok::<_, s3::S3Error>(Prefix { client, location })
    });
    Ok(Arc::new(asked.await.context("ask the store")??))
}

async fn bring(
    cluster: &Cluster,
    begun: &Begun,
    files: &FilesPod,
    wanted: &WantedModels,
    place: &Place,
) -> anyhow::Result<Received> {
    let received = helper::with_pod(cluster, begun, files, &reader(), async |pod| {
        helper::persist(async || receive_once(cluster, files, pod, wanted, place).await).await
    })
    .await?;
    let carried = received.carried;
    eprintln!(
        "{}, {}, {} were already there, all verified",
        number_of(carried.files, "file"),
        human_bytes(carried.bytes),
        human_bytes(carried.kept)
    );
    if let (Pick::Output, Place::Folder(folder)) = (wanted.pick, place) {
        link_best(folder)?;
    }
    Ok(received)
}

/// Creates the link to the best pass. Links are not copied, but the file with the test results is.
fn link_best(folder: &Path) -> anyhow::Result<()> {
    let best = scores_file::read(folder)?.best();
    let name = best.map(|best| pass_directory::name(best.pass, None));
    scores_file::link(folder, name.as_deref())?;
    Ok(())
}

/// Creates the target folder before a pod is created, so that an unusable path is reported first.
fn make_folder(folder: &Path) -> anyhow::Result<()> {
    let is_file = |path: &&Path| path.symlink_metadata().is_ok() && !path.is_dir();
    if let Some(file) = folder.ancestors().find(is_file) {
        bail!(
            "{} is not a folder; name one with --to, which is created if it does not exist",
            file.display()
        );
    }
    std::fs::create_dir_all(folder).with_context(|| format!("make the folder {}", folder.display()))
}

/// Removes the job's folder on the volume, then the ConfigMap that says where it is.
pub(super) async fn remove(
    cluster: &Cluster,
    begun: &Begun,
    target: &TargetJob,
    what: &str,
) -> anyhow::Result<()> {
    let files = files_of(cluster, target).await?;
    let folder = format!("{JOB_PATH}/{}", files.job.name);
    let place = format!("{folder}/{what}");
    let place = place.trim_end_matches('/').to_owned();
    // Results of earlier runs are in output-1, output-2, …
    let script = match what {
        "output" => r#"rm -rf -- "$0"/output "$0"/output-[0-9]*"#,
        "data" => r#"rm -rf -- "$0"/data"#,
        _ => r#"rm -rf -- "$0""#,
    };
    helper::with_pod(cluster, begun, &files, &reader(), async |pod| {
        let command = ["sh", "-c", script, &folder].map(str::to_owned);
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

/// The purpose of a pod that reads the volume, with a random suffix, because several users may read at once.
fn reader() -> Purpose {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanos = now.map_or(0, |now| now.subsec_nanos());
    Purpose::Reader(format!(
        "{:05x}{:05x}",
        std::process::id() & 0xf_ffff,
        nanos & 0xf_ffff
    ))
}

async fn receive_once(
    cluster: &Cluster,
    files: &FilesPod,
    pod: &str,
    wanted: &WantedModels,
    place: &Place,
) -> anyhow::Result<Received> {
    let earlier = wanted.earlier.map(|number| format!("-{number}"));
    let output = format!(
        "{JOB_PATH}/{}/output{}",
        files.job.name,
        earlier.unwrap_or_default()
    );
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
    let (shown, place) = (bar.clone(), place.clone());
    let received = tokio::task::spawn_blocking(move || {
        let mut input = input;
        let tell = |bytes, total| {
            set_total(&shown, total);
            shown.set_position(bytes);
        };
        let mut output = BufReader::new(output);
        place.receive(existing, &mut output, &mut input, &tell)
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

/// The distinct first parts of all names, for the message to the user.
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
    fn what_begins_like_an_address_is_no_folder() {
        for wrong in ["s3://", "s3:bucket/x", "s3:///x"] {
            let error = destination(Some(wrong), "ctr").unwrap_err().to_string();
            assert_eq!(error, format!("--to={wrong}: is not s3://BUCKET/PREFIX"));
        }
        let there = destination(Some("s3://bucket/x"), "ctr").unwrap();
        assert!(matches!(there, Destination::Store(_)));
        for (to, folder) in [(None, "ctr-output"), (Some("s3"), "s3")] {
            let here = destination(to, "ctr").unwrap();
            assert!(
                matches!(&here, Destination::Folder(path) if path == Path::new(folder)),
                "{here:?}"
            );
        }
    }

    #[test]
    fn a_whole_output_has_the_link_to_the_best_model() {
        let here = tempfile::tempdir().unwrap();
        let mut scores = trainer::best::Scores {
            measure: Some(trainer::best::Measure {
                name: "cost".to_owned(),
                better: trainer::best::Better::Lower,
            }),
            ..trainer::best::Scores::default()
        };
        scores.add(0, Some(0.5), true);
        scores.add(1, Some(0.7), true);
        for pass in ["pass-00000", "pass-00001"] {
            std::fs::create_dir(here.path().join(pass)).unwrap();
        }
        link_best(here.path()).unwrap();
        assert!(!here.path().join("best").exists(), "nothing says which");
        scores_file::write(here.path(), &scores).unwrap();
        link_best(here.path()).unwrap();
        let best = std::fs::read_link(here.path().join("best")).unwrap();
        assert_eq!(best, Path::new("pass-00000"));
    }

    #[test]
    fn folders_are_named_once() {
        let names = ["pass-00001/_w", "pass-00001/done", "events.jsonl"].map(str::to_owned);
        assert_eq!(tops(&names), ["pass-00001", "events.jsonl"]);
    }
}
