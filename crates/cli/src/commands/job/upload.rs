//! Brings folders from this machine to the job's volume, through a pod that mounts it. No object store is needed.

use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use launch::k8s::cluster::arguments::Mode;
use launch::k8s::cluster::{ClusterError, Kubectl};
use launch::k8s::job::JobFile;
use launch::k8s::objects::{self, JOB_PATH, helper_pod};
use serde_json::Value;

use crate::commands::progress::{bytes_bar, human_bytes};
use crate::data::carry;

/// The pod must run after this long: an image may have to be pulled.
const START: Duration = Duration::from_secs(600);
/// A new namespace must have its service account after this long.
const ACCOUNT: Duration = Duration::from_secs(60);
/// Between two looks at it.
const LOOK: Duration = Duration::from_millis(500);
/// A connection that breaks is made anew this often; what has arrived stays.
const ATTEMPTS: u32 = 5;

/// A folder here and where it goes in the job's folder.
pub struct Load {
    /// Here.
    pub from: PathBuf,
    /// Below the job's folder.
    pub to: String,
}

/// Makes what the pod needs, carries the folders over, and removes the pod again.
pub fn upload(kubectl: &Kubectl, job: &JobFile, loads: &[Load]) -> anyhow::Result<()> {
    let ground = objects::ground(job);
    if !ground.is_empty() {
        apply(kubectl, &ground)?;
    }
    let pod = helper_pod::name(job);
    // What an upload that was interrupted left may be over, or made for other wishes: a pod cannot be changed.
    if kubectl.pod(&job.namespace, &pod)?.is_some() {
        kubectl.delete_pod(&job.namespace, &pod)?;
        wait(kubectl, job, &pod, "the end of an earlier one", |found| {
            found.is_none()
        })?;
    }
    apply(kubectl, &[helper_pod::object(job)])?;
    let ended = carry_all(kubectl, job, &pod, loads);
    let removed = kubectl.delete_pod(&job.namespace, &pod);
    ended?;
    Ok(removed?)
}

/// Applies objects. A namespace that was just made has no service account for a moment, and takes no pods.
fn apply(kubectl: &Kubectl, objects: &[Value]) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        match kubectl.apply(objects, Mode::Real) {
            Ok((_, warnings)) => {
                warnings.iter().for_each(|warning| eprintln!("{warning}"));
                return Ok(());
            }
            Err(ClusterError::Refused { message, .. })
                if message.contains("serviceaccount \"default\" not found")
                    && begun.elapsed() < ACCOUNT =>
            {
                thread::sleep(LOOK);
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn carry_all(kubectl: &Kubectl, job: &JobFile, pod: &str, loads: &[Load]) -> anyhow::Result<()> {
    wait(
        kubectl,
        job,
        pod,
        "a pod that takes the files in",
        |found| found.is_some_and(|pod| pod["status"]["phase"] == "Running"),
    )?;
    for load in loads {
        let mut attempt = 1;
        while let Err(error) = carry_one(kubectl, job, pod, load) {
            if attempt == ATTEMPTS {
                return Err(error.context(format!("bring {} to the volume", load.from.display())));
            }
            eprintln!("{error:#}; going on ({attempt} of {ATTEMPTS})");
            attempt += 1;
            thread::sleep(LOOK);
        }
    }
    Ok(())
}

fn is_over(pod: Option<&Value>) -> bool {
    pod.is_some_and(|pod| {
        pod["metadata"]["deletionTimestamp"].is_string()
            || matches!(
                pod["status"]["phase"].as_str(),
                Some("Succeeded" | "Failed")
            )
    })
}

/// Waits until the pod is as wanted; says what keeps it from that.
fn wait(
    kubectl: &Kubectl,
    job: &JobFile,
    pod: &str,
    what: &str,
    is_right: impl Fn(Option<&Value>) -> bool,
) -> anyhow::Result<()> {
    let begun = Instant::now();
    let mut told = String::new();
    loop {
        let found = kubectl.pod(&job.namespace, pod)?;
        if is_right(found.as_ref()) {
            return Ok(());
        }
        let why = match &found {
            Some(pod) => kubectl.trouble(&job.namespace, pod)?,
            None => Vec::new(),
        };
        let text = why.join("; ");
        if begun.elapsed() > START || (is_over(found.as_ref()) && !text.is_empty()) {
            bail!("waited {} s for {what}: {text}", begun.elapsed().as_secs());
        }
        if !text.is_empty() && text != told {
            eprintln!("waiting for {what}: {text}");
            told = text;
        }
        thread::sleep(LOOK);
    }
}

fn carry_one(kubectl: &Kubectl, job: &JobFile, pod: &str, load: &Load) -> anyhow::Result<()> {
    let place = format!("{JOB_PATH}/{}/{}", job.name, load.to);
    let command = ["canoe", "data", "receive", &place].map(str::to_owned);
    let mut child = kubectl
        .exec(&job.namespace, pod, true, &command)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("run kubectl exec")?;
    let (output, input) = (child.stdin.take(), child.stdout.take());
    let (Some(mut output), Some(input)) = (output, input) else {
        bail!("kubectl exec has no pipes");
    };
    let bar = bytes_bar("uploading", Some(folder_bytes(&load.from)));
    let sent = carry::send(
        &load.from,
        &mut BufReader::new(input),
        &mut output,
        &|bytes| bar.inc(bytes),
    );
    drop(output);
    bar.finish_and_clear();
    // Its words have been heard; how it ended adds nothing.
    drop(child.wait());
    let carried = sent?;
    eprintln!(
        "{} is on the volume, in {}/{}: {} files, {}, {} were there already, all checked",
        load.from.display(),
        job.name,
        load.to,
        carried.files,
        human_bytes(carried.bytes),
        human_bytes(carried.kept)
    );
    Ok(())
}

/// For the bar; what cannot be read is found out when it is sent.
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
