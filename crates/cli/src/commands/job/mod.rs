//! `canoe job`: a job folder on Kubernetes. Manifests are ours, the conversation with the cluster is kubectl's.

mod logs;
mod look;
mod page;
mod upload;
mod wishes;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use launch::k8s::cluster::arguments::{LogWish, Mode, Scope};
use launch::k8s::cluster::{Again, ClusterError, Kubectl, Submitted, Target, submit};
use launch::k8s::job::{self, ConfigFrom, Data, JobFile};
use launch::k8s::{folder, render, tutorial, yaml};

use self::upload::Load;
use self::wishes::Wishes;
use crate::exit::Exit;

/// Arguments of `canoe job`.
#[derive(Debug, Args)]
pub struct JobArgs {
    /// The kubeconfig, if not the usual one.
    #[arg(long, global = true)]
    kubeconfig: Option<PathBuf>,
    /// The context, if not the current one.
    #[arg(long, global = true)]
    context: Option<String>,
    /// Seconds that the API server may take for one answer.
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
        wishes: Wishes,
        /// Print the files of the v1 tutorial instead.
        #[arg(long)]
        v1: bool,
    },
    /// Print the JSON schema of job.yaml, for editors.
    Schema,
    /// Make everything that the job needs in the cluster.
    Submit(SubmitArgs),
    /// Say what runs and how far it is, and if the job stands still, why and what to do.
    Status(Name),
    /// Show the job as `canoe run` shows one, until it has ended; or its page.
    Watch {
        #[command(flatten)]
        name: Name,
        /// Lead the job's page to this machine, until interrupted.
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
        /// Go on as new lines come, from pods that come later too, until the job has ended.
        #[arg(short, long)]
        follow: bool,
        /// Only this node.
        #[arg(long)]
        node: Option<u32>,
        /// Only the last lines of each node.
        #[arg(long)]
        tail: Option<u64>,
    },
    /// Remove what submit has made; the volume stays unless told otherwise.
    Delete {
        #[command(flatten)]
        name: Name,
        /// Remove the volume claim and the volume object too. Files on an NFS or EFS server stay there all the same.
        #[arg(long)]
        volume: bool,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Args)]
struct SubmitArgs {
    #[command(flatten)]
    wishes: Wishes,
    /// Check and keep nothing: `server` lets the API server check everything, `client` asks nobody.
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "server")]
    dry_run: Option<DryRun>,
    /// Stay until the job has ended.
    #[arg(long)]
    wait: bool,
    /// Remove a job of the same name first; data, logs and models stay on the volume.
    #[arg(long)]
    replace: bool,
    /// First bring this folder to the volume, as the job's data; it is split there unless it holds shards 0, 1, …
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
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
    /// Its namespace.
    #[arg(short, long, default_value = "default")]
    namespace: String,
}

impl Name {
    fn target(&self) -> Target {
        Target {
            namespace: self.namespace.clone(),
            job: self.name.clone(),
        }
    }
}

/// Runs the command.
pub fn run(args: JobArgs) -> anyhow::Result<Exit> {
    let kubectl = Kubectl {
        program: "kubectl".into(),
        kubeconfig: args.kubeconfig,
        context: args.context,
        request_timeout: Duration::from_secs(args.request_timeout.max(1)),
    };
    match args.command {
        JobCommand::Render { wishes, v1 } => print_manifests(&wishes, v1),
        JobCommand::Schema => {
            println!("{}", serde_json::to_string_pretty(&job::schema())?);
            Ok(Exit::Success)
        }
        JobCommand::Submit(args) => submit_job(&kubectl, &args),
        JobCommand::Status(name) => {
            let seen = look::look(&kubectl, &name.target())?;
            println!("{}", seen.words());
            print!("{}", seen.table());
            Ok(seen.exit())
        }
        JobCommand::Watch {
            name,
            web: true,
            port,
        } => page::forward(&kubectl, &name.target(), port),
        JobCommand::Watch { name, .. } => look::watch(&kubectl, &name.target(), true),
        JobCommand::Logs {
            name,
            follow,
            node,
            tail,
        } => logs::logs(&kubectl, &name.target(), LogWish { follow, tail }, node),
        JobCommand::Delete { name, volume, yes } => delete(&kubectl, &name, volume, yes),
    }
}

fn print_manifests(wishes: &Wishes, v1: bool) -> anyhow::Result<Exit> {
    let inputs = wishes.inputs(wishes.job()?)?;
    if v1 {
        print!("{}", tutorial::stream(&inputs));
    } else {
        print!("{}", yaml::documents(&render::objects(&inputs)?));
    }
    Ok(Exit::Success)
}

fn submit_job(kubectl: &Kubectl, args: &SubmitArgs) -> anyhow::Result<Exit> {
    let mut job = args.wishes.job()?;
    if let Some(folder) = &args.data {
        let folder = wishes::data_folder(folder)?;
        if !folder.join("0").is_dir() {
            job.data.get_or_insert_with(Data::default);
        }
    }
    let inputs = gather(args, job)?;
    let job = &inputs.job;
    let target = Target {
        namespace: job.namespace.clone(),
        job: job.name.clone(),
    };
    let objects = render::objects(&inputs)?;
    let mode = match args.dry_run {
        Some(DryRun::Client) => {
            println!(
                "{} objects would be made; `canoe job render` prints them",
                objects.len()
            );
            return Ok(Exit::Success);
        }
        Some(DryRun::Server) => Mode::DryRun,
        None => Mode::Real,
    };
    let again = if args.replace {
        Again::Replace
    } else {
        Again::Compare
    };
    let mut loads = Vec::new();
    loads.extend(args.data.clone().map(|from| Load {
        from,
        to: "data".to_owned(),
    }));
    if job.config_from == ConfigFrom::Volume {
        loads.push(Load {
            from: inputs.config_folder.clone(),
            to: job.config_dir.clone().unwrap_or_else(|| ".".to_owned()),
        });
    }
    if mode == Mode::Real && !loads.is_empty() {
        upload::upload(kubectl, job, &loads)?;
    }
    let submitted = submit(kubectl, &target, &objects, mode, again);
    let is_unmade = |error: &ClusterError| error.to_string().contains("namespaces \"");
    if mode == Mode::DryRun && job.create_namespace && submitted.as_ref().is_err_and(is_unmade) {
        eprintln!(
            "a server cannot check what goes into a namespace that it does not have: make it first (`kubectl create namespace {}`)",
            job.namespace
        );
    }
    match submitted? {
        Submitted::Unchanged => println!(
            "the same job is there already; `canoe job status {}` says how it is, --replace runs it anew",
            target.job
        ),
        Submitted::New { lines, warnings } => {
            for line in lines {
                println!("{line}");
            }
            for warning in warnings {
                eprintln!("{warning}");
            }
        }
    }
    if args.wait && mode == Mode::Real {
        return look::watch(kubectl, &target, false);
    }
    if mode == Mode::Real {
        let (name, namespace) = (&target.job, &target.namespace);
        eprintln!(
            "next steps:\n  1. canoe job watch {name} -n {namespace}\n  2. canoe job logs {name} -n {namespace} --follow\n  3. models and logs: {name}/output/ on the volume"
        );
    }
    Ok(Exit::Success)
}

/// A configuration that is too large for a ConfigMap goes to the volume.
fn gather(args: &SubmitArgs, mut job: JobFile) -> anyhow::Result<launch::k8s::objects::Inputs> {
    match args.wishes.inputs(job.clone()) {
        Err(error) if is_too_large(&error) => {
            job.config_from = ConfigFrom::Volume;
            args.wishes.inputs(job)
        }
        gathered => gathered,
    }
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

fn delete(kubectl: &Kubectl, name: &Name, volume: bool, yes: bool) -> anyhow::Result<Exit> {
    if !yes {
        let what = if volume {
            "everything, the volume claim included"
        } else {
            "everything but the volume"
        };
        anyhow::bail!(
            "this removes {what} of job {} in namespace {}; say --yes to do it",
            name.name,
            name.namespace
        );
    }
    let scope = if volume {
        Scope::WithVolume
    } else {
        Scope::KeepVolume
    };
    for line in kubectl.delete(&name.target(), scope)? {
        println!("{line}");
    }
    Ok(Exit::Success)
}
