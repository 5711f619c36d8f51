//! `canoe cluster`: the AWS side, from an account to a kubeconfig and back to nothing.

mod args;
mod files;
mod init;
mod questions;
mod terminal;

use std::io::Write as _;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, bail};
use provision::assets::AssetFolder;
use provision::aws::Aws;
use provision::command::down::{DownOptions, down};
use provision::command::nodes::{Kubectl, KubectlError};
use provision::command::stack::Review;
use provision::command::up::{UpOptions, up};
use provision::command::validate::{Verdict, offline, online};
use provision::command::{CommandError, Pace, status, up as up_command};
use provision::spec::{self, ClusterSpec, Mode, Problem, Severity};
use provision::{cost, credentials, lifecycle, manifests};
use serde_json::Value;

pub use args::ClusterArgs;

use crate::exit::Exit;
use args::{ClusterCommand, Output};
use files::{
    forget_data, forget_kubeconfig, merge_kubeconfig, print_cost, print_policy, remember_data,
    render_files,
};
use init::init_file;
use terminal::{Terminal, show, tell};

/// Runs the command.
pub fn run(args: ClusterArgs) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let changes = args.command.changes_aws();
    let result = runtime.block_on(async {
        // In a task of its own: a question that waits for an answer must not hold up Ctrl-C.
        let work = tokio::spawn(dispatch(args));
        tokio::select! {
            result = work => result.context("the command broke off")?,
            _ = tokio::signal::ctrl_c() => {
                eprintln!("\ninterrupted");
                if changes {
                    eprintln!("AWS goes on with what it has begun: the same command again follows it,");
                    eprintln!("`canoe cluster down` takes everything away");
                }
                Ok(Exit::Interrupted)
            }
        }
    });
    runtime.shutdown_background(); // does not wait for a thread that waits for an answer
    result
}

/// A command of `canoe cluster` as the user would type it for this folder.
fn shown(folder: &AssetFolder, command: &str) -> String {
    let root = folder.path("");
    if root == std::path::Path::new(".") || root.as_os_str().is_empty() {
        return format!("canoe cluster {command}");
    }
    let root = root.display().to_string();
    format!(
        "canoe cluster --dir {} {command}",
        root.trim_end_matches('/')
    )
}

async fn dispatch(args: ClusterArgs) -> anyhow::Result<Exit> {
    let folder = AssetFolder::new(args.dir);
    match args.command {
        ClusterCommand::Init(init) => init_file(&folder, *init).await,
        ClusterCommand::Validate { offline, output } => validate(&folder, offline, output).await,
        ClusterCommand::Policy { account, write } => print_policy(&folder, account, write).await,
        ClusterCommand::Cost { output } => print_cost(&folder, output),
        ClusterCommand::Schema => print_json(&spec::fields::json_schema()),
        ClusterCommand::Render { what } => render_files(&folder, what),
        ClusterCommand::Up {
            yes,
            merge,
            no_wait,
            kubectl,
            poll,
        } => {
            let spec = load_warily(&folder)?;
            make(&folder, &spec, yes, poll).await?;
            finish(&folder, &spec, merge, (!no_wait).then_some(kubectl)).await
        }
        ClusterCommand::Status {
            drift,
            output,
            kubectl,
        } => show_status(&folder, drift, output, kubectl).await,
        ClusterCommand::Kubeconfig { merge } => write_kubeconfig(&folder, merge).await,
        ClusterCommand::Scale { workers, yes, poll } => scale(&folder, workers, yes, poll).await,
        ClusterCommand::Upgrade { to } => upgrade(&folder, &to),
        ClusterCommand::Down {
            yes,
            keep_data,
            force,
            kubectl,
            poll,
        } => {
            let kubeconfig = folder.path("kubeconfig");
            let options = DownOptions {
                keep_data,
                ask: true,
                force,
                kubectl: kubeconfig.is_file().then_some(Kubectl {
                    program: kubectl,
                    kubeconfig,
                }),
                pace: pace(poll),
            };
            take_down(&folder, yes, options).await
        }
        ClusterCommand::Token { name, region } => {
            let aws = Aws::connect(&region).await?;
            print_json(&aws.exec_credential(&name, SystemTime::now()).await?)
        }
    }
}

fn print_json(value: &Value) -> anyhow::Result<Exit> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, value)?;
    writeln!(out)?;
    Ok(Exit::Success)
}

fn pace(poll: f64) -> Pace {
    Pace {
        poll: Duration::from_secs_f64(poll.clamp(0.01, 60.0)),
        ..Pace::default()
    }
}

/// Reads cluster.yaml; problems are printed with their lines.
fn load(folder: &AssetFolder) -> anyhow::Result<ClusterSpec> {
    Ok(understood(folder, &folder.read_spec()?)?.0)
}

/// The same, and warnings are printed too: for the commands where it is time to think twice.
fn load_warily(folder: &AssetFolder) -> anyhow::Result<ClusterSpec> {
    let (spec, warnings) = understood(folder, &folder.read_spec()?)?;
    let file = folder.path("cluster.yaml").display().to_string();
    for warning in warnings {
        tell(&format!("warning: {}", warning.text(&file)));
    }
    Ok(spec)
}

fn understood(folder: &AssetFolder, text: &str) -> anyhow::Result<(ClusterSpec, Vec<Problem>)> {
    let file = folder.path("cluster.yaml").display().to_string();
    match spec::read(text) {
        Ok(good) => Ok(good),
        Err(problems) => {
            for problem in &problems {
                let word = if problem.severity == Severity::Error {
                    "error"
                } else {
                    "warning"
                };
                tell(&format!("{word}: {}", problem.text(&file)));
            }
            bail!("{file} cannot be used; correct the lines above")
        }
    }
}

async fn validate(
    folder: &AssetFolder,
    only_offline: bool,
    output: Output,
) -> anyhow::Result<Exit> {
    let spec = load_warily(folder)?;
    let faults = offline(&spec);
    let checks = if only_offline {
        Vec::new()
    } else {
        let aws = Aws::connect(&spec.region).await?;
        online(&aws, &spec).await
    };
    let estimate = cost::estimate(&spec);
    let good = faults.is_empty() && checks.iter().all(|check| check.verdict != Verdict::Fail);
    if output == Output::Json {
        print_json(
            &serde_json::json!({"faults": faults, "checks": checks, "cost": estimate, "valid": good}),
        )?;
    } else {
        for fault in &faults {
            show(&format!("FAIL     template: {fault}"));
        }
        println!(
            "{:<8} template rules",
            if faults.is_empty() { "ok" } else { "FAIL" }
        );
        for check in &checks {
            let word = match check.verdict {
                Verdict::Pass => "ok",
                Verdict::Fail => "FAIL",
                Verdict::Unknown => "unknown",
            };
            show(&format!("{word:<8} {}: {}", check.what, check.text));
        }
        for line in estimate.lines() {
            show(&format!("cost     {line}"));
        }
    }
    Ok(if good { Exit::Success } else { Exit::Failure })
}

async fn make(
    folder: &AssetFolder,
    spec: &ClusterSpec,
    yes: bool,
    poll: f64,
) -> anyhow::Result<()> {
    let estimate = cost::estimate(spec);
    eprintln!(
        "cluster {} in {}: about {:.2} USD an hour (estimate, prices of {})",
        spec.name,
        spec.region,
        estimate.hourly(),
        provision::catalog::PRICES_AS_OF
    );
    let aws = Aws::connect(&spec.region).await?;
    let options = UpOptions {
        review: Review::Ask,
        pace: pace(poll),
    };
    let report = explain(up(&aws, spec, folder, options, &mut Terminal { yes }).await)?;
    match report.changed.len() {
        0 => eprintln!("nothing to change"),
        count => eprintln!("{count} stack(s) changed"),
    }
    eprintln!("API server  {}", report.endpoint);
    eprintln!("file system {}", report.file_system);
    Ok(())
}

/// Prints the lists that some errors carry.
fn explain<T>(result: Result<T, CommandError>) -> anyhow::Result<T> {
    if let Err(CommandError::Unfit(lines) | CommandError::Leftovers(lines)) = &result {
        for line in lines {
            tell(&format!("  {line}"));
        }
    }
    Ok(result?)
}

async fn finish(
    folder: &AssetFolder,
    spec: &ClusterSpec,
    merge: bool,
    kubectl: Option<String>,
) -> anyhow::Result<Exit> {
    let path = folder.path("kubeconfig");
    eprintln!("wrote {}", path.display());
    if merge {
        merge_kubeconfig(folder)?;
    }
    if let Some(program) = kubectl {
        let kubectl = Kubectl {
            program,
            kubeconfig: path.clone(),
        };
        let wanted = usize::try_from(spec.workers.count).unwrap_or(usize::MAX);
        let patience = Duration::from_secs(15 * 60);
        match kubectl
            .wait_for_nodes(wanted, patience, &mut Terminal { yes: true })
            .await
        {
            Ok(()) => {
                kubectl.apply(&folder.path("manifests/volume.json")).await?;
                eprintln!("installed the volume and the claim {}", manifests::CLAIM);
            }
            Err(error @ KubectlError::Start { .. }) => {
                eprintln!("warning: {:#}", anyhow::Error::new(error));
                eprintln!(
                    "warning: the volume is not installed; run kubectl apply -f {}",
                    folder.path("manifests/volume.json").display()
                );
            }
            Err(error) => return Err(error.into()),
        }
    }
    eprintln!("next steps:");
    eprintln!("  1. kubectl --kubeconfig {} get nodes", path.display());
    eprintln!("  2. canoe job submit …");
    eprintln!("  3. {}", shown(folder, "down"));
    eprintln!("     when you are done: it costs money every hour");
    Ok(Exit::Success)
}

async fn show_status(
    folder: &AssetFolder,
    drift: bool,
    output: Output,
    kubectl: String,
) -> anyhow::Result<Exit> {
    let spec = load(folder)?;
    let aws = Aws::connect(&spec.region).await?;
    let mut view = explain(
        status::status(
            &aws,
            &spec,
            drift.then(Pace::default),
            SystemTime::now().into(),
        )
        .await,
    )?;
    if spec.control_plane.mode == Mode::SelfManaged {
        let pairs = credentials::PAIRS.iter().chain(&["ca"]);
        let files = pairs.filter_map(|name| folder.read_credential(&format!("{name}.pem")).ok());
        let now = SystemTime::now().into();
        view.certificate_days = files
            .filter_map(|pem| credentials::days_left(&pem, now))
            .min();
    }
    let kubeconfig = folder.path("kubeconfig");
    if view.endpoint.is_some() && kubeconfig.is_file() {
        let nodes = Kubectl {
            program: kubectl,
            kubeconfig,
        }
        .ready_nodes()
        .await;
        view.nodes_ready = nodes.ok().and_then(|count| u32::try_from(count).ok());
    }
    if output == Output::Json {
        print_json(&serde_json::to_value(&view)?)?;
    } else {
        for line in view.lines() {
            show(&line);
        }
    }
    Ok(if view.is_up() {
        Exit::Success
    } else {
        Exit::Failure
    })
}

async fn write_kubeconfig(folder: &AssetFolder, merge: bool) -> anyhow::Result<Exit> {
    let spec = load(folder)?;
    let aws = Aws::connect(&spec.region).await?;
    let config = explain(up_command::kubeconfig(&aws, &spec).await)?;
    let path = folder.write_json("kubeconfig", &config, 0o600)?;
    eprintln!("wrote {}", path.display());
    if merge {
        merge_kubeconfig(folder)?;
    }
    Ok(Exit::Success)
}

async fn scale(folder: &AssetFolder, workers: u32, yes: bool, poll: f64) -> anyhow::Result<Exit> {
    let before = folder.read_spec()?;
    let after = spec::write::with_workers(&before, workers)
        .context("cluster.yaml has no line `count: N` to edit")?;
    let (spec, _) = understood(folder, &after)?;
    folder.update_spec(&after)?;
    match make(folder, &spec, yes, poll).await {
        Ok(()) => {
            eprintln!("{workers} workers are asked for; cluster.yaml says so too");
            eprintln!("see them come with {}", shown(folder, "status"));
        }
        Err(error) if matches!(error.downcast_ref(), Some(CommandError::Declined)) => {
            folder.update_spec(&before)?;
            return Err(error);
        }
        Err(error) => {
            return Err(error.context(format!(
                "cluster.yaml says {workers} workers now; `canoe cluster up` goes on with it"
            )));
        }
    }
    Ok(Exit::Success)
}

fn upgrade(folder: &AssetFolder, to: &str) -> anyhow::Result<Exit> {
    let spec = load(folder)?;
    match lifecycle::upgrade::plan(&spec, &spec.kubernetes_version, to) {
        Ok(steps) => {
            for (number, step) in (1..).zip(steps) {
                show(&format!("{number}. {step}"));
            }
            Ok(Exit::Success)
        }
        Err(reason) => bail!(reason),
    }
}

async fn take_down(folder: &AssetFolder, yes: bool, options: DownOptions) -> anyhow::Result<Exit> {
    let spec = load(folder)?;
    let aws = Aws::connect(&spec.region).await?;
    let report = explain(down(&aws, &spec, options, &mut Terminal { yes }).await)?;
    for remains in report.free {
        eprintln!(
            "still listed, but free of charge: {} {}",
            remains.what, remains.arn
        );
    }
    if !report.kept.is_empty() {
        remember_data(folder, &report.kept)?;
    }
    if !report.forgotten.is_empty() {
        forget_data(folder, &spec, &report.forgotten)?;
    }
    forget_kubeconfig(folder, &spec.name)?;
    Ok(Exit::Success)
}
