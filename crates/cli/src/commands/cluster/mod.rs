//! `canoe cluster`: the AWS side, from an account to a kubeconfig and back to nothing.

mod args;
mod files;
mod init;
mod questions;
mod scale;
mod terminal;
mod up;
mod upgrade;

use std::io::Write as _;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, bail};
use k8s_openapi::api::core::v1::Pod;
use provision::assets::AssetFolder;
use provision::aws::{Aws, AwsSettings};
use provision::cloud::CloudError;
use provision::command::api_server::ApiServer;
use provision::command::down::{DownOptions, down};
use provision::command::validate::{CheckVerdict, offline, online};
use provision::command::{CommandError, Pace, status, up as up_command};
use provision::lifecycle::passes;
use provision::lifecycle::teardown::DataFate;
use provision::spec::{self, ClusterSpec, ControlPlaneMode, Severity, UsableSpec};
use provision::{catalog, cost, credentials};
use serde_json::Value;

pub(crate) use args::ClusterArgs;
pub(crate) use scale::grow;

use crate::exit::Exit;
use args::ClusterCommand;

use crate::form::Form;
use files::{
    forget_kubeconfig, is_remembered, merge_kubeconfig, own_api_server, print_cost, print_policy,
    refuse_moved, refuse_unmergeable, render_files,
};
use init::init_file;
use terminal::{Terminal, addressed, begin_commands, show, tell};
use up::{finish, make};

pub(crate) fn run(args: ClusterArgs) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let advice = args.command.after_interruption();
    begin_commands(
        shown(&AssetFolder::new(&args.dir), "")
            .trim_end()
            .to_owned(),
    );
    let result = runtime.block_on(async {
        // In a task of its own: a question that waits for an answer must not hold up Ctrl-C.
        let work = tokio::spawn(dispatch(args));
        tokio::select! {
            result = work => result.context("the command was interrupted")?,
            _ = tokio::signal::ctrl_c() => {
                eprintln!("\ninterrupted");
                if let Some(advice) = advice {
                    tell(&format!("AWS continues with what has started; {advice}"));
                }
                Ok(Exit::Interrupted)
            }
        }
    });
    runtime.shutdown_background(); // does not wait for a thread that waits for an answer
    result.map_err(|error| anyhow::Error::msg(addressed(&format!("{error:#}"))))
}

/// What the environment says about the way to AWS.
fn settings() -> AwsSettings {
    AwsSettings::read(|name| std::env::var(name).ok())
}

async fn connect(region: &str) -> Result<Aws, CloudError> {
    Aws::connect(region, &settings()).await
}

/// A command of `canoe cluster` as the user would type it for this folder.
fn shown(folder: &AssetFolder, command: &str) -> String {
    match root(folder).as_str() {
        "." => format!("canoe cluster {command}"),
        root => format!("canoe cluster --dir {} {command}", words::shell::word(root)),
    }
}

/// The folder as a person would write it.
fn root(folder: &AssetFolder) -> String {
    let root = folder.path("").display().to_string();
    match root.trim_end_matches('/') {
        "" if root.is_empty() => ".",
        "" => "/",
        rest => rest,
    }
    .to_owned()
}

async fn dispatch(args: ClusterArgs) -> anyhow::Result<Exit> {
    let folder = AssetFolder::new(args.dir);
    match args.command {
        ClusterCommand::Init(init) => init_file(&folder, *init).await,
        ClusterCommand::Validate { offline, form } => validate(&folder, offline, form).await,
        ClusterCommand::Policy { account, write } => print_policy(&folder, account, write).await,
        ClusterCommand::Cost { form } => print_cost(&folder, form),
        ClusterCommand::Schema => print_json(&spec::fields::json_schema()),
        ClusterCommand::Render { what } => render_files(&folder, what),
        ClusterCommand::Up {
            yes,
            merge,
            no_wait,
            poll,
        } => {
            let spec = load_warily(&folder)?;
            if merge {
                refuse_unmergeable(&folder, &spec)?;
            }
            let report = make(&folder, &spec, yes, pace(poll)).await?;
            let volume = (!no_wait).then_some(&report.volume[..]);
            finish(&folder, spec, merge, volume, yes, pace(poll)).await
        }
        ClusterCommand::Status { drift, form } => show_status(&folder, drift, form).await,
        ClusterCommand::Kubeconfig { merge } => write_kubeconfig(&folder, merge).await,
        ClusterCommand::Scale(scale) => scale::run(&folder, scale).await,
        ClusterCommand::Upgrade(upgrade) => upgrade::run(&folder, upgrade).await,
        ClusterCommand::Down {
            yes,
            keep_data,
            delete_data,
            force,
            poll,
        } => {
            let spec = load_standing(&folder)?;
            let options = DownOptions {
                data: fate(yes, keep_data, delete_data),
                ask: true,
                force,
                folder: Some(folder.clone()),
                api: own_api_server(&folder, &spec)?,
                pace: pace(poll),
            };
            take_down(&folder, &spec, yes, options).await
        }
        ClusterCommand::Token { name, region } => {
            let aws = connect(&region).await?;
            print_json(&aws.exec_credential(&name, SystemTime::now()).await?)
        }
    }
}

/// What becomes of the data; `None` when somebody can be asked. Only a word of its own deletes them.
fn fate(yes: bool, keep: bool, delete: bool) -> Option<DataFate> {
    match (keep, delete, yes) {
        (_, true, _) => Some(DataFate::Delete),
        (true, _, _) | (_, _, true) => Some(DataFate::Keep),
        _ => None,
    }
}

fn print_json(value: &Value) -> anyhow::Result<Exit> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, value)?;
    writeln!(out)?;
    Ok(Exit::Success)
}

/// Where this program is: what a kubeconfig names need not be on anybody's search path.
fn own_path() -> String {
    std::env::current_exe().map_or("canoe".to_owned(), |path| path.display().to_string())
}

fn pace(poll: f64) -> Pace {
    Pace {
        poll: Duration::from_secs_f64(poll.clamp(0.01, 60.0)),
        ..Pace::default()
    }
}

/// Reads cluster.yaml; problems are printed with their lines.
fn load(folder: &AssetFolder) -> anyhow::Result<ClusterSpec> {
    Ok(understood(folder, &folder.read_spec()?)?.spec)
}

/// The same, for commands about the cluster itself, which must not be another than the folder's.
fn load_standing(folder: &AssetFolder) -> anyhow::Result<ClusterSpec> {
    let spec = load(folder)?;
    refuse_moved(folder, &spec)?;
    Ok(spec)
}

/// The same, and warnings are printed too: for the commands where it is time to think twice.
fn load_warily(folder: &AssetFolder) -> anyhow::Result<ClusterSpec> {
    let UsableSpec { spec, warnings } = understood(folder, &folder.read_spec()?)?;
    refuse_moved(folder, &spec)?;
    let file = folder.path("cluster.yaml").display().to_string();
    for warning in warnings {
        tell(&format!("warning: {}", warning.text(&file)));
    }
    let now = SystemTime::now().into();
    if let (ControlPlaneMode::Eks, Some(notice)) = (
        spec.control_plane.mode,
        catalog::support_notice(&spec.kubernetes_version, None, now),
    ) {
        tell(&format!("warning: {notice}"));
    }
    Ok(spec)
}

fn understood(folder: &AssetFolder, text: &str) -> anyhow::Result<UsableSpec> {
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
                let text = words::guess::unknown_key(&problem.text(&file));
                tell(&format!("{word}: {text}"));
            }
            bail!("{file} cannot be used; correct the lines above")
        }
    }
}

async fn validate(folder: &AssetFolder, only_offline: bool, form: Form) -> anyhow::Result<Exit> {
    let spec = load_warily(folder)?;
    let faults = offline(&spec);
    let checks = if only_offline {
        Vec::new()
    } else {
        let aws = connect(&spec.region).await?;
        online(&aws, &spec).await
    };
    let estimate = cost::estimate_at(&spec, SystemTime::now().into());
    let good = faults.is_empty()
        && checks
            .iter()
            .all(|check| check.verdict != CheckVerdict::Fail);
    if form.json() {
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
                CheckVerdict::Pass => "ok",
                CheckVerdict::Fail => "FAIL",
                CheckVerdict::Unknown => "unknown",
            };
            show(&format!("{word:<8} {}: {}", check.what, check.text));
        }
        for line in estimate.lines() {
            show(&format!("cost     {line}"));
        }
    }
    Ok(if good { Exit::Success } else { Exit::Failure })
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

async fn show_status(folder: &AssetFolder, drift: bool, form: Form) -> anyhow::Result<Exit> {
    let spec = load_standing(folder)?;
    let aws = connect(&spec.region).await?;
    let mut view = explain(
        status::status(
            &aws,
            &spec,
            drift.then(Pace::default),
            SystemTime::now().into(),
        )
        .await,
    )?;
    if spec.control_plane.mode == ControlPlaneMode::SelfManaged {
        let pairs = credentials::PAIRS.iter().chain(&["ca"]);
        let files = pairs.filter_map(|name| folder.read_credential(&format!("{name}.pem")).ok());
        let now = SystemTime::now().into();
        view.certificate_days = files
            .filter_map(|pem| credentials::days_left(&pem, now))
            .min();
    }
    if view.endpoint.is_some() && !folder.path("kubeconfig").exists() {
        tell(&format!(
            "warning: the nodes cannot be counted: the folder has no kubeconfig; `{}` writes it",
            shown(folder, "kubeconfig")
        ));
    } else if view.endpoint.is_some()
        && let Some(api) = own_api_server(folder, &spec)?
    {
        match api.ready_nodes().await {
            Ok(ready) => {
                view.nodes_ready = u32::try_from(ready).ok();
                view.passes = pass_costs(&api, view.cost_hourly).await;
            }
            Err(error) => tell(&format!("warning: the nodes cannot be counted: {error}")),
        }
    }
    if form.json() {
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

/// So many of the last lines that a job printed tell of its passes.
const LOG_LINES: u64 = 2000;

/// What a pass of each running job costs; a job whose log cannot be read is left out.
async fn pass_costs(api: &ApiServer, hourly: f64) -> Vec<passes::PassCost> {
    let Ok(pods) = api.list::<Pod>().await else {
        return Vec::new();
    };
    let mut costs = Vec::new();
    for job in passes::running(&pods) {
        let log = api.printed(&job.namespace, &job.pod, Some(LOG_LINES));
        if let Ok(log) = log.await {
            costs.extend(passes::cost(&job, &log, hourly, SystemTime::now().into()));
        }
    }
    costs
}

async fn write_kubeconfig(folder: &AssetFolder, merge: bool) -> anyhow::Result<Exit> {
    let spec = load_standing(folder)?;
    folder.refuse_foreign_kubeconfig(&spec)?;
    if merge {
        refuse_unmergeable(folder, &spec)?;
    }
    let aws = connect(&spec.region).await?;
    let config = explain(up_command::kubeconfig(&aws, &spec, &own_path()).await)?;
    let path = folder.write_json("kubeconfig", &config, 0o600)?;
    eprintln!("wrote {}", path.display());
    if merge {
        merge_kubeconfig(folder, &spec)?;
    }
    Ok(Exit::Success)
}

async fn take_down(
    folder: &AssetFolder,
    spec: &ClusterSpec,
    yes: bool,
    options: DownOptions,
) -> anyhow::Result<Exit> {
    let force = options.force;
    let aws = connect(&spec.region).await?;
    let report = explain(down(&aws, spec, options, &mut Terminal { yes }).await)?;
    for remains in report.free {
        eprintln!(
            "still listed, but free of charge: {} {}",
            remains.what, remains.arn
        );
    }
    if !report.found && !force {
        if is_remembered(folder, spec) {
            tell(
                "the entries in your kubeconfig stay, because nothing of the cluster was found; --force removes them",
            );
        }
    } else if let Err(error) = forget_kubeconfig(folder, spec) {
        // The cluster has gone, and this is no reason to run `down` again.
        tell(&format!(
            "warning: the cluster's entries stay in your kubeconfig: {error:#}; take context, user and cluster {} out by hand",
            spec.name
        ));
    }
    Ok(Exit::Success)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With a folder that has a space in its name, no printed command could be copied.
    #[test]
    fn commands_name_the_folder_as_a_word_of_the_shell() {
        for (root, command) in [
            (".", "canoe cluster up"),
            ("demo/", "canoe cluster --dir demo up"),
            ("my cluster", "canoe cluster --dir 'my cluster' up"),
            ("a;b", "canoe cluster --dir 'a;b' up"),
        ] {
            assert_eq!(shown(&AssetFolder::new(root), "up"), command);
        }
    }

    /// `down --yes` used to delete the file system with everything on it.
    #[test]
    fn data_go_only_by_a_word_of_their_own() {
        let (keep, delete) = (Some(DataFate::Keep), Some(DataFate::Delete));
        assert_eq!(fate(true, false, false), keep);
        assert_eq!(fate(false, true, false), keep);
        assert_eq!(fate(true, false, true), delete);
        assert_eq!(fate(false, false, true), delete);
        assert_eq!(fate(false, false, false), None);
    }
}
