//! `canoe job`: a job folder on Kubernetes. Manifests are ours, the conversation with the cluster is kubectl's.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Subcommand};
use launch::k8s::cluster::arguments::{LogWish, Mode, Scope};
use launch::k8s::cluster::{Kubectl, Submitted, Target, submit};
use launch::k8s::credentials::Credentials;
use launch::k8s::explain::{self, State};
use launch::k8s::job::{self, JobFile};
use launch::k8s::objects::Inputs;
use launch::k8s::{render, tutorial, yaml};

use super::job_watch;
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
    #[command(subcommand)]
    command: JobCommand,
}

#[derive(Debug, Subcommand)]
enum JobCommand {
    /// Print plain manifests for `kubectl apply --server-side -f -`.
    Render {
        /// The job folder; its job.yaml says where and how it runs.
        directory: PathBuf,
        /// Print the files of the v1 tutorial instead.
        #[arg(long)]
        v1: bool,
    },
    /// Print the JSON schema of job.yaml, for editors.
    Schema,
    /// Make everything that the job needs in the cluster.
    Submit {
        /// The job folder.
        directory: PathBuf,
        /// Let the server check everything and keep nothing.
        #[arg(long)]
        dry_run: bool,
        /// Stay until the job has ended.
        #[arg(long)]
        wait: bool,
    },
    /// Say what runs, and if the job stands still, why and what to do.
    Status(Name),
    /// Show the job as `canoe run` shows one, or its page.
    Watch {
        #[command(flatten)]
        name: Name,
        /// Lead the job's page to this machine.
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
        /// Go on as new lines come.
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
        /// Remove the volume claim and the volume object too.
        #[arg(long)]
        volume: bool,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
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

/// Between two looks at a job that is waited for.
const LOOK: Duration = Duration::from_secs(2);

/// Runs the command.
pub fn run(args: JobArgs) -> anyhow::Result<Exit> {
    let kubectl = Kubectl {
        program: "kubectl".into(),
        kubeconfig: args.kubeconfig,
        context: args.context,
    };
    match args.command {
        JobCommand::Render { directory, v1 } => print_manifests(&directory, v1),
        JobCommand::Schema => {
            println!("{}", serde_json::to_string_pretty(&job::schema())?);
            Ok(Exit::Success)
        }
        JobCommand::Submit {
            directory,
            dry_run,
            wait,
        } => submit_job(&kubectl, &directory, dry_run, wait),
        JobCommand::Status(name) => status(&kubectl, &name.target()),
        JobCommand::Watch { name, web, port } => {
            if web {
                job_watch::forward(&kubectl, &name.target(), port)
            } else {
                job_watch::follow(&kubectl, &name.target())
            }
        }
        JobCommand::Logs {
            name,
            follow,
            node,
            tail,
        } => {
            let wish = LogWish {
                follow,
                node,
                tail,
                nodes: 1000,
            };
            let status = kubectl
                .logs(&name.target(), &wish)
                .status()
                .context("run kubectl")?;
            Ok(if status.success() {
                Exit::Success
            } else {
                Exit::Failure
            })
        }
        JobCommand::Delete { name, volume, yes } => delete(&kubectl, &name, volume, yes),
    }
}

fn inputs(directory: &Path) -> anyhow::Result<Inputs> {
    let file = directory.join("job.yaml");
    let text = std::fs::read_to_string(&file).with_context(|| {
        format!(
            "read {} (deploy/job.yaml shows every key; only name and volume are needed)",
            file.display()
        )
    })?;
    let job = JobFile::parse(&file.display().to_string(), &text)?;
    let credentials = Credentials::generate(&job.name, &job.namespace, job.tls)?;
    let directory = std::fs::canonicalize(directory).context("find the job folder")?;
    Ok(render::gather(&directory, job, credentials)?)
}

fn print_manifests(directory: &Path, v1: bool) -> anyhow::Result<Exit> {
    let inputs = inputs(directory)?;
    if v1 {
        print!("{}", tutorial::stream(&inputs));
    } else {
        print!("{}", yaml::documents(&render::objects(&inputs)?));
    }
    Ok(Exit::Success)
}

fn submit_job(
    kubectl: &Kubectl,
    directory: &Path,
    dry_run: bool,
    wait: bool,
) -> anyhow::Result<Exit> {
    let inputs = inputs(directory)?;
    let target = Target {
        namespace: inputs.job.namespace.clone(),
        job: inputs.job.name.clone(),
    };
    let mode = if dry_run { Mode::DryRun } else { Mode::Real };
    match submit(kubectl, &target, &render::objects(&inputs)?, mode)? {
        Submitted::Unchanged => println!("the same job is there already"),
        Submitted::New { lines, warnings } => {
            for line in lines {
                println!("{line}");
            }
            for warning in warnings {
                eprintln!("warning: {warning}");
            }
        }
    }
    if wait && !dry_run {
        return wait_for(kubectl, &target);
    }
    eprintln!(
        "next: canoe job status {} -n {}",
        target.job, target.namespace
    );
    Ok(Exit::Success)
}

fn wait_for(kubectl: &Kubectl, target: &Target) -> anyhow::Result<Exit> {
    let mut told = String::new();
    loop {
        let report = explain::report(&kubectl.observe(target)?);
        let text = describe(&report);
        if text != told {
            eprintln!("{text}");
            told = text;
        }
        match report.state {
            State::Complete => return Ok(Exit::Success),
            State::Failed | State::Absent => return Ok(Exit::JobFailed),
            State::Starting | State::Running => std::thread::sleep(LOOK),
        }
    }
}

fn describe(report: &explain::Report) -> String {
    let findings = report
        .findings
        .iter()
        .map(|f| format!("\n  {}: {}", f.subject, f.text));
    format!("{}{}", report.summary, findings.collect::<String>())
}

fn status(kubectl: &Kubectl, target: &Target) -> anyhow::Result<Exit> {
    let report = explain::report(&kubectl.observe(target)?);
    println!("{}", describe(&report));
    Ok(match report.state {
        State::Absent | State::Failed => Exit::JobFailed,
        _ => Exit::Success,
    })
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
