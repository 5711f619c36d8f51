//! `canoe job submit`, `upload` and `render`: from a job folder to objects in the cluster and files on its volume.
//!
//! After an interruption the same command continues: files that have arrived stay, objects are applied again, and keys of a Job that
//! was never created are replaced.

use std::path::{Path, PathBuf};

use anyhow::Context;
use k8s::cluster::{
    Again, ApplyMode, Cluster, ClusterAccess, FilesPod, ListedJob, Submitted, TargetJob, submit,
};
use k8s::credentials::Credentials;
use k8s::job::{ConfigFrom, Data, JobFile};
use k8s::objects::{DataNote, ObjectInputs};
use k8s::{folder, render, tutorial};

use super::get::{self, WantedModels};
use super::interrupt::Begun;
use super::options::{self, JobOptions};
use super::upload::{self, Load};
use super::{DryRun, SubmitArgs, UploadArgs, look};
use crate::commands::cluster::grow;
use crate::exit::Exit;
use dataset::carry;
use dataset::pick::Pick;

/// A checked job, ready to be submitted.
struct Ready {
    inputs: ObjectInputs,
    binary: Option<PathBuf>,
    loads: Vec<Load>,
}

impl Ready {
    fn files(&self) -> FilesPod {
        FilesPod {
            job: self.inputs.job.clone(),
            program: self.inputs.program.clone(),
            data_note: None,
        }
    }
}

fn target(job: &JobFile) -> TargetJob {
    TargetJob {
        namespace: job.namespace.clone(),
        job: job.name.clone(),
    }
}

/// Prints the objects, with the keys that the job has already: applying them a second time changes nothing.
pub(super) async fn print_manifests(
    options: &JobOptions,
    access: &ClusterAccess,
    v1: bool,
    offline: bool,
) -> anyhow::Result<Exit> {
    let job = options.job(access)?;
    let keys = if offline {
        None
    } else {
        keys_if_reachable(access, &job).await
    };
    let program = options.program(&job)?.map(|brought| brought.program);
    let brings = program.is_some();
    let inputs = options.inputs(job, keys, program)?;
    if v1 {
        print!("{}", tutorial::stream(&inputs));
    } else {
        print!("{}", yaml::documents(&render::objects(&inputs)?));
    }
    if brings {
        eprintln!(
            "the pods run this program from the volume: `canoe job upload {}{}` brings it there; with `image` in job.yaml they need none",
            options.directory.display(),
            options.words()
        );
    }
    Ok(Exit::Success)
}

/// The job's existing keys. Rendering must work without a cluster, so an API server that does not respond is only
/// reported.
async fn keys_if_reachable(access: &ClusterAccess, job: &JobFile) -> Option<Credentials> {
    if !access.is_configured() {
        return None;
    }
    let quick = ClusterAccess {
        request_timeout: access
            .request_timeout
            .min(std::time::Duration::from_secs(5)),
        ..access.clone()
    };
    let asked = async { quick.connect().await?.keys(&target(job)).await };
    match asked.await {
        Ok(secret) => secret.and_then(|secret| Credentials::of(&secret, job.tls)),
        Err(error) => {
            eprintln!(
                "the cluster could not be asked whether the job exists ({error}); the keys are new, and a running job would refuse them"
            );
            None
        }
    }
}

/// The keys of an existing job, if the user may read them.
async fn keys(cluster: &Cluster, job: &JobFile) -> anyhow::Result<Option<Credentials>> {
    let secret = cluster.keys(&target(job)).await?;
    Ok(secret.and_then(|secret| Credentials::of(&secret, job.tls)))
}

/// Everything but the cluster: the job file with the flags, the program, the folders.
fn prepare(
    options: &JobOptions,
    data: Option<&PathBuf>,
    mut job: JobFile,
    keys: Option<Credentials>,
) -> anyhow::Result<Ready> {
    let mut loads = Vec::new();
    if let Some(folder) = data {
        let folder = options::data_folder(folder)?;
        if !folder.join("0").is_dir() {
            job.data.get_or_insert_with(Data::default);
        }
        loads.push(Load {
            from: folder,
            to: "data".to_owned(),
        });
    }
    let brought = options.program(&job)?;
    let (program, binary) = brought.map(|it| (it.program, it.file)).unzip();
    let gathered = options.inputs(job.clone(), keys.clone(), program.clone());
    let inputs = match gathered {
        // A configuration that is too large for a ConfigMap goes to the volume.
        Err(error) if is_too_large(&error) => {
            job.config_from = ConfigFrom::Volume;
            options.inputs(job, keys, program)?
        }
        gathered => gathered?,
    };
    if inputs.job.config_from == ConfigFrom::Volume {
        let place = inputs.job.config_dir.clone();
        loads.push(Load {
            from: inputs.config_folder.clone(),
            to: place.unwrap_or_else(|| ".".to_owned()),
        });
    }
    Ok(Ready {
        inputs,
        binary,
        loads,
    })
}

fn is_too_large(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<render::RenderError>();
    matches!(
        cause,
        Some(render::RenderError::Folder(
            folder::FolderError::TooLarge { .. }
        ))
    )
}

/// `canoe job upload`.
pub(super) async fn upload_only(
    access: &ClusterAccess,
    begun: &Begun,
    args: &UploadArgs,
) -> anyhow::Result<Exit> {
    let job = args.options.job(access)?;
    let ready = prepare(&args.options, args.data.as_ref(), job, None)?;
    if ready.binary.is_none() && ready.loads.is_empty() {
        anyhow::bail!(
            "there is nothing to upload: the job has an image of its own, its configuration fits into a ConfigMap, and --data names no folder"
        );
    }
    let cluster = access.connect().await?;
    let binary = ready.binary.as_deref();
    upload::upload(&cluster, begun, &ready.files(), binary, &ready.loads).await?;
    Ok(Exit::Success)
}

/// `canoe job submit`.
pub(super) async fn submit_job(
    access: &ClusterAccess,
    begun: &Begun,
    args: &SubmitArgs,
) -> anyhow::Result<Exit> {
    let mut access = access.clone();
    if let Some(folder) = &args.cluster {
        access.kubeconfigs = vec![folder.join("kubeconfig")];
    }
    let access = &access;
    let job = args.options.job(access)?;
    let target = target(&job);
    let mode = match args.dry_run {
        Some(DryRun::Client) => {
            let ready = prepare(&args.options, args.data.as_ref(), job, None)?;
            println!(
                "{} objects would be made; `canoe job render` prints them",
                render::objects(&ready.inputs)?.len()
            );
            return Ok(Exit::Success);
        }
        Some(DryRun::Server) => ApplyMode::DryRun,
        None => ApplyMode::Real,
    };
    let cluster = access.connect().await?;
    let is_there = cluster.own_job(&target).await?.is_some();
    let keeps = mode == ApplyMode::DryRun || (is_there && !args.replace);
    let keys = if keeps {
        keys(&cluster, &job).await?
    } else {
        None
    };
    let mut ready = prepare(&args.options, args.data.as_ref(), job, keys)?;
    ready.inputs.data_note = match &args.data {
        Some(folder) => Some(note_of(folder).await?),
        // Files that are on the volume stay there.
        None => cluster
            .files(&target)
            .await?
            .and_then(|files| files.data_note),
    };
    let objects = render::objects(&ready.inputs)?;
    let again = if args.replace {
        Again::Replace
    } else {
        Again::Compare
    };
    if let Some(folder) = &args.cluster
        && mode == ApplyMode::Real
    {
        // Workers come before the files: without workers, the pod that receives the files cannot run.
        let wanted = wanted_nodes(&cluster.jobs(None).await?, &target, ready.inputs.job.nodes);
        grow(folder, wanted, args.yes).await?;
    }
    let brings = ready.binary.is_some() || !ready.loads.is_empty();
    // An existing Job received its files before it was created.
    let is_first = !is_there || args.replace;
    if is_first {
        tell_room(&cluster, &ready.inputs.job).await?;
    }
    if mode == ApplyMode::Real && brings && is_first {
        let binary = ready.binary.as_deref();
        upload::upload(&cluster, begun, &ready.files(), binary, &ready.loads).await?;
    }
    let mut tell = |line: String| eprintln!("{line}");
    let submitted = submit(&cluster, &target, &objects, mode, again, &mut tell).await;
    if mode == ApplyMode::DryRun
        && ready.inputs.job.create_namespace
        && submitted
            .as_ref()
            .is_err_and(|error| error.is_missing_namespace())
    {
        eprintln!(
            "a server cannot check what goes into a namespace that it does not have: make it first (`kubectl create namespace {}`)",
            target.namespace
        );
    }
    tell_submitted(submitted?, &target);
    if mode == ApplyMode::DryRun {
        return Ok(Exit::Success);
    }
    if args.wait {
        return wait(&cluster, begun, &target, args).await;
    }
    eprintln!(
        "next steps:\n  1. {}\n  2. {} --follow\n  3. the model of the last pass: {}",
        target.command("watch"),
        target.command("logs"),
        target.command("get")
    );
    Ok(Exit::Success)
}

/// Size and checksum of the folder that would be copied to the volume as the job's data.
async fn note_of(folder: &Path) -> anyhow::Result<DataNote> {
    let folder = folder.to_owned();
    let summed = tokio::task::spawn_blocking(move || carry::summary(&folder));
    let summary = summed.await.context("read the data")??;
    Ok(DataNote {
        files: summary.carried.files,
        bytes: summary.carried.bytes,
        sha256: summary.sha256,
    })
}

/// Number of nodes of all jobs in the cluster, with this job.
fn wanted_nodes(jobs: &[ListedJob], target: &TargetJob, nodes: u32) -> u32 {
    let others = jobs.iter().filter(|job| {
        let is_this = job.namespace == target.namespace && job.name == target.job;
        !is_this && !job.state.is_over() && !job.is_suspended
    });
    let counts = others.map(|job| u32::try_from(job.counts.nodes).unwrap_or(0));
    counts.fold(nodes, u32::saturating_add)
}

/// Reports, before anything is sent, whether the cluster has room for all nodes at once; with a queue, the queue checks
/// that.
async fn tell_room(cluster: &Cluster, job: &JobFile) -> anyhow::Result<()> {
    if job.queue.is_some() {
        return Ok(());
    }
    let note = match cluster.room(job).await? {
        Some(room) => room.words(),
        None => Some(format!(
            "whether all {} nodes find room at once cannot be known: you may not see the machines of the cluster, or it has none yet",
            job.nodes
        )),
    };
    if let Some(note) = note {
        eprintln!("{note}");
    }
    Ok(())
}

/// Waits until the job has ended, and copies its model to this machine if it succeeded.
async fn wait(
    cluster: &Cluster,
    begun: &Begun,
    target: &TargetJob,
    args: &SubmitArgs,
) -> anyhow::Result<Exit> {
    begun.then(format!(
        "the job continues: `{}` shows it, `{}` brings its model",
        target.command("watch"),
        target.command("get")
    ));
    let exit = look::watch(cluster, target, false).await?;
    if args.get && exit == Exit::Success {
        let wanted = WantedModels {
            pick: Pick::Last,
            to: args.to.clone(),
            force: false,
            earlier: None,
        };
        begun.then(format!("`{}` brings the model", target.command("get")));
        get::get(cluster, begun, target, &wanted).await?;
    }
    Ok(exit)
}

fn tell_submitted(submitted: Submitted, target: &TargetJob) {
    match submitted {
        Submitted::Unchanged => println!(
            "the same job already exists; `{}` shows its state, --replace runs it again",
            target.command("status")
        ),
        Submitted::New(applied) => {
            for line in applied.lines {
                println!("{line}");
            }
            for warning in applied.warnings {
                eprintln!("{warning}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s::explain::{JobState, NodeCounts};

    use super::*;

    #[test]
    fn a_job_and_the_open_ones_beside_it_want_nodes() {
        let job = |name: &str, nodes: i32, state: JobState, is_suspended: bool| ListedJob {
            namespace: "default".to_owned(),
            name: name.to_owned(),
            state,
            counts: NodeCounts {
                nodes,
                ..NodeCounts::default()
            },
            since: None,
            claim: None,
            is_suspended,
        };
        let jobs = [
            job("this", 9, JobState::Running, false),
            job("other", 2, JobState::Starting, false),
            job("paused", 4, JobState::Starting, true),
            job("done", 4, JobState::Complete, false),
            job("files", 4, JobState::Absent, false),
        ];
        let target = TargetJob {
            namespace: "default".to_owned(),
            job: "this".to_owned(),
        };
        assert_eq!(wanted_nodes(&jobs, &target, 3), 5);
        assert_eq!(wanted_nodes(&[], &target, 3), 3);
    }
}
