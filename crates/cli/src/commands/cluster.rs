//! `canoe cluster`: the AWS side, from an account to a kubeconfig and back to nothing.

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand, ValueEnum};
use provision::assets::{AssetFolder, write_whole};
use provision::aws::Aws;
use provision::command::down::{DownOptions, down};
use provision::command::nodes::{Kubectl, KubectlError};
use provision::command::stack::Review;
use provision::command::up::{UpOptions, up};
use provision::command::validate::{Verdict, offline, online};
use provision::command::{CommandError, Pace, Sink, Talk, status, up as up_command};
use provision::spec::{self, Capacity, ClusterSpec, Egress, Mode, Severity};
use provision::template::{Render, render};
use provision::user_data::UserData;
use provision::{cost, credentials, kubeconfig, lifecycle, policy, yaml};
use serde_json::Value;

use crate::exit::Exit;

/// Arguments of `canoe cluster`.
#[derive(Debug, Args)]
pub struct ClusterArgs {
    /// Folder of the cluster's files.
    #[arg(long, global = true, default_value = ".")]
    dir: PathBuf,
    #[command(subcommand)]
    command: ClusterCommand,
}

#[derive(Debug, Subcommand)]
enum ClusterCommand {
    /// Write cluster.yaml, with every option explained in it.
    Init(InitArgs),
    /// Check cluster.yaml, and the account, before anything costs money.
    Validate {
        /// Ask no account.
        #[arg(long)]
        offline: bool,
        #[arg(long, value_enum, default_value = "text")]
        output: Output,
    },
    /// Print the least IAM policy that you need for this cluster.
    Policy {
        /// Account number; asked from AWS when absent.
        #[arg(long)]
        account: Option<String>,
    },
    /// Estimate the cost an hour, part by part.
    Cost {
        #[arg(long, value_enum, default_value = "text")]
        output: Output,
    },
    /// Print the JSON schema of cluster.yaml.
    Schema,
    /// Write templates, user data or TLS assets into the folder.
    Render {
        #[command(subcommand)]
        what: RenderCommand,
    },
    /// Make the cluster, or bring it up to date.
    Up {
        /// Do not ask.
        #[arg(long)]
        yes: bool,
        /// Also put the cluster into ~/.kube/config (or $KUBECONFIG).
        #[arg(long)]
        merge: bool,
        /// Do not wait for the nodes, and do not install the volume.
        #[arg(long)]
        no_wait: bool,
        /// Path of kubectl.
        #[arg(long, default_value = "kubectl")]
        kubectl: String,
        /// Seconds between two looks at AWS.
        #[arg(long, default_value_t = 5.0)]
        poll: f64,
    },
    /// Show what is there and what it costs.
    Status {
        /// Compare every resource with its template (takes a while).
        #[arg(long)]
        drift: bool,
        #[arg(long, value_enum, default_value = "text")]
        output: Output,
        /// Path of kubectl.
        #[arg(long, default_value = "kubectl")]
        kubectl: String,
    },
    /// Write the kubeconfig.
    Kubeconfig {
        /// Put it into ~/.kube/config (or $KUBECONFIG) as well.
        #[arg(long)]
        merge: bool,
    },
    /// Change the number of workers.
    Scale {
        /// How many there should be.
        #[arg(long)]
        workers: u32,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
        /// Seconds between two looks at AWS.
        #[arg(long, default_value_t = 5.0)]
        poll: f64,
    },
    /// Show the steps to another Kubernetes version.
    Upgrade {
        /// Such as 1.35.
        #[arg(long)]
        to: String,
    },
    /// Take everything away, and check that nothing is left.
    Down {
        /// Do not ask.
        #[arg(long)]
        yes: bool,
        /// Leave the file system and its key.
        #[arg(long)]
        keep_data: bool,
        /// Seconds between two looks at AWS.
        #[arg(long, default_value_t = 5.0)]
        poll: f64,
    },
    /// Print a token for kubectl (the kubeconfig calls this).
    Token {
        /// Cluster name.
        #[arg(long)]
        name: String,
        /// Region.
        #[arg(long)]
        region: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
}

#[derive(Debug, Subcommand)]
enum RenderCommand {
    /// Templates and user data.
    Stack,
    /// TLS assets of a self-managed cluster.
    Credentials {
        /// Make a certificate authority.
        #[arg(long)]
        generate_ca: bool,
        /// Use this authority.
        #[arg(long, requires = "ca_key_path", conflicts_with = "generate_ca")]
        ca_cert_path: Option<PathBuf>,
        /// Its key.
        #[arg(long)]
        ca_key_path: Option<PathBuf>,
        /// Replace what is there.
        #[arg(long)]
        force: bool,
    },
}

#[derive(Debug, Args)]
struct InitArgs {
    /// Name of the cluster.
    name: String,
    /// AWS region; AWS_REGION when absent.
    #[arg(long)]
    region: Option<String>,
    /// Zones, one to three, separated by commas.
    #[arg(long, visible_alias = "availability-zone", value_delimiter = ',')]
    zones: Vec<String>,
    /// Number of workers.
    #[arg(long)]
    workers: Option<u32>,
    /// Instance types, separated by commas.
    #[arg(long, value_delimiter = ',')]
    instance_types: Vec<String>,
    /// Use spot capacity.
    #[arg(long)]
    spot: bool,
    /// Kubernetes minor version.
    #[arg(long)]
    kubernetes_version: Option<String>,
    /// An API server on a machine of yours instead of EKS.
    #[arg(long)]
    self_managed: bool,
    /// Networks that may reach the API; your own address when absent.
    #[arg(long, value_delimiter = ',')]
    allow: Vec<String>,
    /// Reach the API only from inside the VPC.
    #[arg(long, conflicts_with = "allow")]
    inside_only: bool,
    /// How workers reach the Internet.
    #[arg(long, value_enum, default_value = "nat")]
    egress: EgressArg,
    /// EKS add-ons, separated by commas; `none` for none.
    #[arg(long, value_delimiter = ',')]
    addons: Vec<String>,
    /// EC2 key pair for SSH.
    #[arg(long, visible_alias = "key-name")]
    ssh_key: Option<String>,
    /// Your own KMS key.
    #[arg(long)]
    kms_key_arn: Option<String>,
    /// Name of the API server.
    #[arg(long)]
    external_dns_name: Option<String>,
    /// Route 53 zone of that name.
    #[arg(long)]
    hosted_zone_id: Option<String>,
    /// Tags, KEY=VALUE.
    #[arg(long = "tag")]
    tags: Vec<String>,
    /// Replace an existing cluster.yaml.
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum EgressArg {
    Nat,
    NatPerZone,
    Public,
}

/// Progress on standard error, questions on the terminal.
struct Terminal {
    yes: bool,
}

impl Sink for Terminal {
    fn talk(&mut self, talk: Talk) {
        match talk {
            Talk::Step(text) => eprintln!("{text}"),
            Talk::Detail(text) => eprintln!("  {text}"),
            Talk::Warning(text) => eprintln!("warning: {text}"),
            Talk::Resource {
                resource,
                kind,
                status,
                elapsed,
                usual,
                ..
            } => {
                eprintln!(
                    "  {:>5} s  {status:<28} {resource} ({kind}, usually {} s)",
                    elapsed.as_secs(),
                    usual.as_secs()
                );
            }
        }
    }

    fn confirm(&mut self, question: &str) -> bool {
        if self.yes {
            return true;
        }
        if !std::io::stdin().is_terminal() {
            eprintln!("{question} (no terminal to ask; pass --yes)");
            return false;
        }
        eprint!("{question} [y/N] ");
        let mut answer = String::new();
        let read = std::io::stdin().read_line(&mut answer);
        read.is_ok() && ["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str())
    }
}

/// Runs the command.
pub fn run(args: ClusterArgs) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        tokio::select! {
            result = dispatch(args) => result,
            _ = tokio::signal::ctrl_c() => {
                eprintln!("\ninterrupted: AWS goes on with what it has begun; run the same command again to follow it,");
                eprintln!("or `canoe cluster down` to take everything away");
                Ok(Exit::Interrupted)
            }
        }
    })
}

async fn dispatch(args: ClusterArgs) -> anyhow::Result<Exit> {
    let folder = AssetFolder::new(args.dir);
    match args.command {
        ClusterCommand::Init(init) => init_file(&folder, init).await,
        ClusterCommand::Validate { offline, output } => validate(&folder, offline, output).await,
        ClusterCommand::Policy { account } => print_policy(&folder, account).await,
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
            let spec = load(&folder)?;
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
            poll,
        } => take_down(&folder, yes, keep_data, poll).await,
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
    let text = folder.read_spec()?;
    let file = folder.path("cluster.yaml").display().to_string();
    match spec::read(&text) {
        Ok((spec, warnings)) => {
            for warning in warnings {
                eprintln!("warning: {}", warning.text(&file));
            }
            Ok(spec)
        }
        Err(problems) => {
            for problem in &problems {
                let word = if problem.severity == Severity::Error {
                    "error"
                } else {
                    "warning"
                };
                eprintln!("{word}: {}", problem.text(&file));
            }
            bail!("{file} cannot be used; correct the lines above")
        }
    }
}

async fn init_file(folder: &AssetFolder, init: InitArgs) -> anyhow::Result<Exit> {
    let force = init.force;
    let spec = described(init).await?;
    let text = spec::write::write(&spec);
    if let Err(problems) = spec::read(&text) {
        for problem in problems {
            eprintln!(
                "error: {}: {}; {}",
                problem.field, problem.message, problem.remedy
            );
        }
        bail!("these options do not make a cluster; nothing was written");
    }
    let path = folder.write_spec(&text, force)?;
    eprintln!("wrote {}", path.display());
    eprintln!("next steps:");
    eprintln!("  1. look through the file: every option is explained in it");
    eprintln!("  2. canoe cluster validate    checks it and your account, and estimates the cost");
    if spec.control_plane.mode == Mode::SelfManaged {
        eprintln!("  3. canoe cluster render credentials --generate-ca");
    }
    eprintln!("  then canoe cluster up");
    Ok(Exit::Success)
}

async fn described(init: InitArgs) -> anyhow::Result<ClusterSpec> {
    let from_environment = || {
        ["AWS_REGION", "AWS_DEFAULT_REGION"]
            .iter()
            .find_map(|name| std::env::var(name).ok())
    };
    let region = init
        .region
        .or_else(from_environment)
        .context("which region? pass --region, or set AWS_REGION")?;
    let mut spec = ClusterSpec::new(&init.name, &region);
    if !init.zones.is_empty() {
        spec.zones = init.zones;
    }
    if let Some(count) = init.workers {
        spec.workers.count = count;
        spec.workers.max = spec.workers.max.max(count);
    }
    if !init.instance_types.is_empty() {
        spec.workers.instance_types = init.instance_types;
    }
    if init.spot {
        spec.workers.capacity = Capacity::Spot;
    }
    if let Some(version) = init.kubernetes_version {
        spec.kubernetes_version = version;
    }
    if init.self_managed {
        spec.control_plane.mode = Mode::SelfManaged;
    }
    spec.network.egress = match init.egress {
        EgressArg::Nat => Egress::Nat,
        EgressArg::NatPerZone => Egress::NatPerZone,
        EgressArg::Public => Egress::Public,
    };
    if init.addons == ["none"] {
        spec.addons.clear();
    } else if !init.addons.is_empty() {
        spec.addons = init.addons;
    }
    spec.ssh_key_name = init.ssh_key;
    spec.kms_key_arn = init.kms_key_arn;
    spec.dns.external_name = init.external_dns_name;
    spec.dns.hosted_zone_id = init.hosted_zone_id;
    for tag in init.tags {
        let (key, value) = tag
            .split_once('=')
            .with_context(|| format!("--tag {tag}: write KEY=VALUE"))?;
        spec.tags.insert(key.to_owned(), value.to_owned());
    }
    spec.control_plane.allowed_cidrs = init.allow;
    if spec.control_plane.allowed_cidrs.is_empty() && !init.inside_only {
        match provision::aws::address::own_address().await {
            Ok(address) => spec.control_plane.allowed_cidrs = vec![format!("{address}/32")],
            Err(error) => eprintln!(
                "warning: your own address is not known ({error}); the API will be closed to the outside"
            ),
        }
    }
    Ok(spec)
}

async fn validate(
    folder: &AssetFolder,
    only_offline: bool,
    output: Output,
) -> anyhow::Result<Exit> {
    let spec = load(folder)?;
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
            println!("FAIL     template: {fault}");
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
            println!("{word:<8} {}: {}", check.what, check.text);
        }
        for line in estimate.lines() {
            println!("cost     {line}");
        }
    }
    Ok(if good { Exit::Success } else { Exit::Failure })
}

async fn print_policy(folder: &AssetFolder, account: Option<String>) -> anyhow::Result<Exit> {
    let spec = load(folder)?;
    let account = match account {
        Some(account) => account,
        None => {
            use provision::cloud::Cloud as _;
            Aws::connect(&spec.region).await?.caller().await?.account
        }
    };
    let documents = policy::operator_documents(&spec, &account);
    if documents.len() > 1 {
        eprintln!(
            "{} managed policies, because IAM takes 6,144 characters in one",
            documents.len()
        );
    }
    for document in &documents {
        print_json(document)?;
    }
    Ok(Exit::Success)
}

fn print_cost(folder: &AssetFolder, output: Output) -> anyhow::Result<Exit> {
    let estimate = cost::estimate(&load(folder)?);
    if output == Output::Json {
        return print_json(&serde_json::to_value(&estimate)?);
    }
    for line in estimate.lines() {
        println!("{line}");
    }
    Ok(Exit::Success)
}

fn render_files(folder: &AssetFolder, what: RenderCommand) -> anyhow::Result<Exit> {
    let spec = load(folder)?;
    match what {
        RenderCommand::Stack => {
            let data = (spec.control_plane.mode == Mode::SelfManaged)
                .then(|| UserData::render(&spec, &folder.encrypted_assets()));
            let stacks = render(
                &spec,
                &Render {
                    user_data: data.clone(),
                    ..Render::default()
                },
            );
            for path in folder.write_stacks(&stacks, data.as_ref())? {
                eprintln!("wrote {}", path.display());
            }
        }
        RenderCommand::Credentials {
            generate_ca,
            ca_cert_path,
            ca_key_path,
            force,
        } => {
            if spec.control_plane.mode == Mode::Eks {
                eprintln!(
                    "an eks cluster needs no TLS assets: AWS keeps them, and kubectl gets short-lived tokens"
                );
                return Ok(Exit::Success);
            }
            let now = SystemTime::now().into();
            let given = match (&ca_cert_path, &ca_key_path) {
                (Some(certificate), Some(key)) => Some(credentials::Pair {
                    name: "ca".to_owned(),
                    certificate: std::fs::read_to_string(certificate)
                        .with_context(|| format!("read {}", certificate.display()))?,
                    key: std::fs::read_to_string(key)
                        .with_context(|| format!("read {}", key.display()))?,
                }),
                _ => None,
            };
            let (authority, new) = match given {
                Some(pair) => (pair, true),
                None if generate_ca => (credentials::authority(&spec, now)?, true),
                None if folder.has_authority() => (folder.read_pair("ca")?, false),
                None => bail!(
                    "there is no certificate authority yet; pass --generate-ca, or --ca-cert-path and --ca-key-path"
                ),
            };
            let mut pairs = credentials::pairs(&spec, &authority, now)?;
            if new {
                pairs.push(authority);
            }
            folder.write_credentials(&pairs, force)?;
            eprintln!(
                "wrote {} pairs to {}; the keys are readable by you alone",
                pairs.len(),
                folder.path("credentials").display()
            );
        }
    }
    Ok(Exit::Success)
}

async fn make(
    folder: &AssetFolder,
    spec: &ClusterSpec,
    yes: bool,
    poll: f64,
) -> anyhow::Result<()> {
    let estimate = cost::estimate(spec);
    eprintln!(
        "cluster {} in {}: about {:.2} USD an hour (`canoe cluster cost` shows the parts)",
        spec.name,
        spec.region,
        estimate.hourly()
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
    eprintln!(
        "API server {}, file system {}",
        report.endpoint, report.file_system
    );
    Ok(())
}

/// Prints the lists that some errors carry.
fn explain<T>(result: Result<T, CommandError>) -> anyhow::Result<T> {
    if let Err(CommandError::Unfit(lines) | CommandError::Leftovers(lines)) = &result {
        for line in lines {
            eprintln!("  {line}");
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
            Ok(()) => kubectl.apply(&folder.path("manifests/volume.json")).await?,
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
    eprintln!("  3. canoe cluster down    when you are done: it costs money every hour");
    Ok(Exit::Success)
}

fn merge_kubeconfig(folder: &AssetFolder) -> anyhow::Result<()> {
    let ours = yaml::parse(&std::fs::read_to_string(folder.path("kubeconfig"))?)?.value;
    let target = match std::env::var_os("KUBECONFIG") {
        Some(paths) => std::env::split_paths(&paths)
            .next()
            .context("KUBECONFIG is empty")?,
        None => {
            PathBuf::from(std::env::var_os("HOME").context("HOME is not set")?).join(".kube/config")
        }
    };
    let existing = match std::fs::read_to_string(&target) {
        Ok(text) => {
            yaml::parse(&text)
                .with_context(|| format!("read {}", target.display()))?
                .value
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Value::Null,
        Err(error) => return Err(error).with_context(|| format!("read {}", target.display())),
    };
    let text = serde_json::to_string_pretty(&kubeconfig::merge(existing, &ours))?;
    write_whole(&target, text.as_bytes(), 0o600)
        .with_context(|| format!("write {}", target.display()))?;
    eprintln!("merged into {}", target.display());
    Ok(())
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
            println!("{line}");
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
    load(folder)?;
    let after = spec::write::with_workers(&before, workers)
        .context("cluster.yaml has no line `count: N` to edit")?;
    folder.update_spec(&after)?;
    let result = match load(folder) {
        Ok(spec) => make(folder, &spec, yes, poll).await,
        Err(error) => Err(error),
    };
    if let Err(error) = result {
        folder.update_spec(&before)?;
        return Err(error.context("cluster.yaml is as it was"));
    }
    eprintln!("{workers} workers; cluster.yaml says so too");
    Ok(Exit::Success)
}

fn upgrade(folder: &AssetFolder, to: &str) -> anyhow::Result<Exit> {
    let spec = load(folder)?;
    match lifecycle::upgrade::plan(&spec, &spec.kubernetes_version, to) {
        Ok(steps) => {
            for (number, step) in (1..).zip(steps) {
                println!("{number}. {step}");
            }
            Ok(Exit::Success)
        }
        Err(reason) => bail!(reason),
    }
}

async fn take_down(
    folder: &AssetFolder,
    yes: bool,
    keep_data: bool,
    poll: f64,
) -> anyhow::Result<Exit> {
    let spec = load(folder)?;
    let aws = Aws::connect(&spec.region).await?;
    let options = DownOptions {
        keep_data,
        ask: true,
        pace: pace(poll),
    };
    let report = explain(down(&aws, &spec, options, &mut Terminal { yes }).await)?;
    for remains in report.free {
        eprintln!(
            "still listed, but free of charge: {} {}",
            remains.what, remains.arn
        );
    }
    Ok(Exit::Success)
}
