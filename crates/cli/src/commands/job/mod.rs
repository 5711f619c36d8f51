//! `canoe job`: a job folder on Kubernetes. Reads the arguments, calls `k8s`, prints the result.

mod get;
mod helper;
mod interrupt;
mod list;
mod logs;
mod look;
mod options;
mod page;
mod pause;
mod submit;
mod upload;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Subcommand};
use k8s::cluster::{Cluster, ClusterAccess, DeleteScope, LogOptions, TargetJob};
use k8s::explain::diagnose;
use k8s::job;

use self::get::WantedModels;
use self::interrupt::{Interrupted, interruptible};
use self::options::JobOptions;
use crate::exit::Exit;
use crate::form::Form;
use dataset::pick::Pick;

/// Arguments of `canoe job`.
#[derive(Debug, Args)]
pub(crate) struct JobArgs {
    /// The kubeconfig, if not that of KUBECONFIG or ~/.kube/config.
    #[arg(long, global = true)]
    kubeconfig: Option<PathBuf>,
    /// The context, if not the current one.
    #[arg(long, global = true)]
    context: Option<String>,
    /// Seconds that the API server may take for one response.
    #[arg(long, global = true, default_value_t = 30)]
    request_timeout: u64,
    #[command(subcommand)]
    command: JobCommand,
}

#[derive(Debug, Subcommand)]
enum JobCommand {
    /// Print plain manifests for `kubectl apply --server-side -f -`.
    Render {
        #[command(flatten)]
        options: JobOptions,
        /// Print the files of the v1 tutorial instead.
        #[arg(long)]
        v1: bool,
        /// Do not ask the cluster for the keys of a job that exists already; print new ones.
        #[arg(long)]
        offline: bool,
    },
    /// Print the JSON schema of job.yaml, for editors.
    Schema,
    /// Make everything that the job needs in the cluster.
    Submit(SubmitArgs),
    /// Bring the program, the data and a large configuration to the volume, and nothing else; for `render | kubectl apply`.
    Upload(UploadArgs),
    /// Bring models, logs or records back to this machine, also after the job has ended or was deleted.
    Get(GetArgs),
    /// List all jobs, also those of which only the files are left.
    Ls {
        /// Only of this namespace (that of the kubeconfig's context).
        #[arg(short, long, conflicts_with = "all_namespaces")]
        namespace: Option<String>,
        /// Of all namespaces.
        #[arg(short = 'A', long)]
        all_namespaces: bool,
        #[command(flatten)]
        form: Form,
    },
    /// Remove the files of a job from the volume: data, models, logs. The job must have ended.
    RmData {
        #[command(flatten)]
        name: Name,
        /// Only this part of the job's folder.
        #[arg(long, value_enum)]
        only: Option<Part>,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
    /// Take a snapshot and end all pods; the Job and its keys are kept until you resume it.
    Pause(Name),
    /// Continue a paused job from its snapshot.
    Resume(Name),
    /// Say what runs and how far it is, and if the job stands still, why and what to do.
    Status {
        #[command(flatten)]
        name: Name,
        #[command(flatten)]
        form: Form,
    },
    /// Show the job as `canoe run` shows one, until it has ended; or its page.
    Watch {
        #[command(flatten)]
        name: Name,
        /// Forward the job's page to this machine, until interrupted.
        #[arg(long)]
        web: bool,
        /// The port for the page on this machine.
        #[arg(long, default_value_t = crate::web::PORT)]
        port: u16,
    },
    /// Print the logs of all nodes.
    Logs {
        #[command(flatten)]
        name: Name,
        /// Follow new lines as they come, from pods that come later too, until the job has ended.
        #[arg(short, long)]
        follow: bool,
        /// Only this node.
        #[arg(long)]
        node: Option<u32>,
        /// Only the last lines of each node.
        #[arg(long)]
        tail: Option<u64>,
    },
    /// Remove what submit has created; the volume stays unless --volume is given.
    Delete {
        #[command(flatten)]
        name: Name,
        /// Remove the volume claim and the volume object too. Files on an NFS or EFS server stay there nevertheless.
        #[arg(long)]
        volume: bool,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
}

/// Parts of a job's folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    Data,
    Output,
}

#[derive(Debug, Args)]
struct GetArgs {
    #[command(flatten)]
    name: Name,
    /// The number of a pass, best, last, all (models), logs, or output (all of it).
    #[arg(default_value = "last")]
    pick: Pick,
    /// A folder (NAME-output, if left out) or s3://BUCKET/PREFIX.
    #[arg(long, value_name = "DIR")]
    to: Option<String>,
    /// Replace models of other runs that are in the folder.
    #[arg(long)]
    force: bool,
    /// From the results of an earlier run, which the volume keeps in output-1, output-2, …
    #[arg(long, value_name = "NUMBER")]
    earlier: Option<u32>,
}

#[derive(Debug, Args)]
struct UploadArgs {
    #[command(flatten)]
    options: JobOptions,
    /// Also this folder, as the job's data.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct SubmitArgs {
    #[command(flatten)]
    options: JobOptions,
    /// Check without creating anything: with `server` the API server checks everything, with `client` nothing is sent
    /// to it.
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "server")]
    dry_run: Option<DryRun>,
    /// Stay until the job has ended.
    #[arg(long)]
    wait: bool,
    /// After it has ended well, bring the model of the last pass here.
    #[arg(long, requires = "wait")]
    get: bool,
    /// The folder for the model (NAME-output, if left out) or s3://BUCKET/PREFIX.
    #[arg(long, value_name = "DIR", requires = "get")]
    to: Option<String>,
    /// Remove a job of the same name first; data, logs and models stay on the volume.
    #[arg(long)]
    replace: bool,
    /// First bring this folder to the volume, as the job's data; it is split there unless it holds shards 0, 1, …
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The folder of a cluster of `canoe cluster`: its kubeconfig is used, and if it has fewer workers than its jobs want with
    /// this one, more are started first, up to workers.max.
    #[arg(long, value_name = "DIR")]
    cluster: Option<PathBuf>,
    /// With --cluster: start workers without asking.
    #[arg(long, requires = "cluster")]
    yes: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum DryRun {
    Server,
    Client,
}

#[derive(Debug, Args)]
struct Name {
    /// The job's name.
    name: String,
    /// Its namespace (that of the kubeconfig's context).
    #[arg(short, long)]
    namespace: Option<String>,
}

impl Name {
    fn target(&self, access: &ClusterAccess) -> TargetJob {
        let namespace = self.namespace.clone();
        TargetJob {
            namespace: namespace.unwrap_or_else(|| namespace_of(access)),
            job: self.name.clone(),
        }
    }
}

/// The kubeconfig files: that of the flag, otherwise those that kubectl would read.
fn kubeconfigs(flag: Option<PathBuf>) -> Vec<PathBuf> {
    if let Some(path) = flag {
        return vec![path];
    }
    let listed = std::env::var_os("KUBECONFIG").filter(|paths| !paths.is_empty());
    match (listed, std::env::var_os("HOME")) {
        (Some(paths), _) => std::env::split_paths(&paths).collect(),
        (None, Some(home)) => vec![PathBuf::from(home).join(".kube/config")],
        (None, None) => vec![PathBuf::from(".kube/config")],
    }
}

/// The namespace of the kubeconfig's context.
fn namespace_of(access: &ClusterAccess) -> String {
    access.namespace().unwrap_or_else(|| "default".to_owned())
}

pub(crate) fn run(args: JobArgs) -> anyhow::Result<Exit> {
    let access = ClusterAccess {
        kubeconfigs: kubeconfigs(args.kubeconfig),
        context: args.context,
        request_timeout: Duration::from_secs(args.request_timeout.max(1)),
        program: std::env::current_exe().ok(),
    };
    match args.command {
        JobCommand::Schema => {
            println!("{}", serde_json::to_string_pretty(&job::schema())?);
            Ok(Exit::Success)
        }
        command => {
            let runtime = tokio::runtime::Runtime::new().context("start the client")?;
            let ended = runtime.block_on(talk(command, &access));
            // A thread of an interrupted copy may still wait for the pod.
            runtime.shutdown_timeout(Duration::from_secs(1));
            match ended {
                Err(error) if error.is::<Interrupted>() => {
                    eprintln!("{error}");
                    Ok(Exit::Interrupted)
                }
                ended => ended,
            }
        }
    }
}

/// The commands that need a cluster.
async fn talk(command: JobCommand, access: &ClusterAccess) -> anyhow::Result<Exit> {
    match command {
        JobCommand::Schema => Ok(Exit::Success),
        JobCommand::Render {
            options,
            v1,
            offline,
        } => submit::print_manifests(&options, access, v1, offline).await,
        JobCommand::Submit(args) => {
            interruptible(async |begun| submit::submit_job(access, begun, &args).await).await
        }
        JobCommand::Upload(args) => {
            interruptible(async |begun| submit::upload_only(access, begun, &args).await).await
        }
        JobCommand::Get(args) => {
            let wanted = WantedModels {
                pick: args.pick,
                to: args.to,
                force: args.force,
                earlier: args.earlier,
            };
            let target = args.name.target(access);
            interruptible(async |begun| {
                get::get(&access.connect().await?, begun, &target, &wanted).await
            })
            .await?;
            Ok(Exit::Success)
        }
        JobCommand::Ls {
            namespace,
            all_namespaces,
            form,
        } => {
            let namespace = namespace.unwrap_or_else(|| namespace_of(access));
            let namespace = (!all_namespaces).then_some(namespace);
            let cluster = access.connect().await?;
            list::list(&cluster, namespace.as_deref(), form.json()).await?;
            Ok(Exit::Success)
        }
        JobCommand::RmData { name, only, yes } => {
            remove_data(access, &name.target(access), only, yes).await
        }
        JobCommand::Pause(name) => pause::pause(access, &name.target(access)).await,
        JobCommand::Resume(name) => pause::resume(access, &name.target(access)).await,
        JobCommand::Status { name, form } => {
            let target = name.target(access);
            let seen = look::look(&access.connect().await?, &target).await?;
            if form.json() {
                println!("{}", serde_json::to_string_pretty(&seen.json())?);
            } else {
                println!("{}", seen.words());
                print!("{}", seen.table());
            }
            Ok(seen.exit())
        }
        JobCommand::Watch { name, web, port } => {
            let (cluster, target) = (access.connect().await?, name.target(access));
            if web {
                page::forward(&cluster, &target, port).await
            } else {
                look::watch(&cluster, &target, true).await
            }
        }
        JobCommand::Logs {
            name,
            follow,
            node,
            tail,
        } => {
            let (cluster, target) = (access.connect().await?, name.target(access));
            let options = LogOptions {
                follow,
                tail,
                within: None,
            };
            logs::logs(&cluster, &target, options, node).await
        }
        JobCommand::Delete { name, volume, yes } => {
            delete(access, &name.target(access), volume, yes).await
        }
    }
}

async fn delete(
    access: &ClusterAccess,
    target: &TargetJob,
    volume: bool,
    yes: bool,
) -> anyhow::Result<Exit> {
    if !yes {
        let what = if volume {
            "everything, the volume claim included"
        } else {
            "everything except the volume"
        };
        anyhow::bail!(
            "this removes {what} of job {} in namespace {}; add --yes to do it",
            target.job,
            target.namespace
        );
    }
    let scope = if volume {
        DeleteScope::WithVolume
    } else {
        DeleteScope::KeepVolume
    };
    let cluster: Cluster = access.connect().await?;
    let mut is_anything = false;
    let mut tell = |line: String| {
        is_anything = true;
        println!("{line}");
    };
    cluster.delete(target, scope, &mut tell).await?;
    if !is_anything {
        println!(
            "there is no job {} in namespace {}; `canoe job ls -n {}` lists the jobs there",
            target.job, target.namespace, target.namespace
        );
    }
    Ok(Exit::Success)
}

/// Removes a job's files. Refused while the job may still write, because files, unlike objects, cannot be made again.
async fn remove_data(
    access: &ClusterAccess,
    target: &TargetJob,
    only: Option<Part>,
    yes: bool,
) -> anyhow::Result<Exit> {
    let part = match only {
        None => "",
        Some(Part::Data) => "data",
        Some(Part::Output) => "output",
    };
    let cluster = access.connect().await?;
    let diagnosis = diagnose(&cluster.observe(target).await?);
    if !diagnosis.state.is_over() {
        anyhow::bail!(
            "job {} has not ended ({}); delete it first: `{} --yes`",
            target.job,
            diagnosis.summary(),
            target.command("delete")
        );
    }
    if !yes {
        anyhow::bail!(
            "this removes {}/{part} on the volume for good: {}; add --yes to do it",
            target.job,
            match only {
                None => "data, models, logs and snapshots",
                Some(Part::Data) => "the data",
                Some(Part::Output) => "models, logs and snapshots",
            }
        );
    }
    interruptible(async |begun| get::remove(&cluster, begun, target, part).await).await?;
    Ok(Exit::Success)
}
