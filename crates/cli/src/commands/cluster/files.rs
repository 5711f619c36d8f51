//! What `canoe cluster` writes and prints without changing anything on AWS.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context as _, bail};
use provision::assets::{AssetFolder, write_whole};
use provision::cloud::Cloud as _;
use provision::kubeconfig::ClusterKey;
use provision::node::{Disks, Scripts};
use provision::ownership::{ID_TAG, missing_id};
use provision::partition::Partition;
use provision::spec::{ClusterSpec, ControlPlaneMode};
use provision::template::{CLUSTER_TAG, Render, render};
use provision::user_data::UserData;
use provision::{cost, credentials, kubeconfig, policy};
use serde_json::Value;

use super::args::RenderCommand;
use super::terminal::show;
use super::{connect, load, print_json};
use crate::exit::Exit;
use crate::form::Form;

pub(super) async fn print_policy(
    folder: &AssetFolder,
    account: Option<String>,
    write: bool,
) -> anyhow::Result<Exit> {
    let spec = load(folder)?;
    let account = match account {
        Some(account) => account,
        None => connect(&spec.region).await?.caller().await?.account,
    };
    if spec.id.is_none() {
        bail!(missing_id()); // nothing could be told to be this cluster's
    }
    let documents = policy::operator_documents(&spec, &account);
    let partition = Partition::of(&spec.region);
    if write {
        write_boundary(folder, &spec, &account)?;
        if spec.service_role {
            write_service_role(folder, &spec, &account)?;
        }
        for (number, document) in (1..).zip(&documents) {
            let file = format!("policy/operator-{number}.json");
            let path = folder.write_json(&file, document, 0o644)?;
            eprintln!("wrote {}", path.display());
            println!(
                "aws iam create-policy --policy-name {}-{number} --policy-document file://{}",
                policy::operator_name(&spec),
                path.display()
            );
            println!(
                "aws iam attach-user-policy --user-name YOU --policy-arn {}",
                partition.arn(&format!(
                    "iam::{account}:policy/{}-{number}",
                    policy::operator_name(&spec)
                ))
            );
        }
        return Ok(Exit::Success);
    }
    if documents.len() > 1 {
        eprintln!(
            "{} managed policies, because IAM limits one to 6,144 characters; --write writes them to files",
            documents.len()
        );
    }
    for document in &documents {
        print_json(document)?;
    }
    Ok(Exit::Success)
}

/// Tags by which the cluster knows its own, for the aws command line.
fn own_tags(spec: &ClusterSpec) -> String {
    let id = spec.id.as_deref().unwrap_or_default();
    format!(
        "Key={ID_TAG},Value={id} Key={CLUSTER_TAG},Value={}",
        spec.name
    )
}

/// The boundary of the roles, which comes first: without it the operator cannot make any.
fn write_boundary(folder: &AssetFolder, spec: &ClusterSpec, account: &str) -> anyhow::Result<()> {
    let path = folder.write_json("policy/boundary.json", &policy::boundary(spec), 0o644)?;
    eprintln!("wrote {}", path.display());
    println!(
        "aws iam create-policy --policy-name {} --policy-document file://{} --tags {}",
        policy::boundary_name(spec),
        path.display(),
        own_tags(spec)
    );
    println!(
        "# if it is there already: aws iam create-policy-version --set-as-default --policy-arn {} --policy-document file://{}",
        policy::boundary_arn(spec, account),
        path.display()
    );
    Ok(())
}

/// The role by which CloudFormation acts, and its policies.
fn write_service_role(
    folder: &AssetFolder,
    spec: &ClusterSpec,
    account: &str,
) -> anyhow::Result<()> {
    let name = policy::service_role_name(spec);
    let trust = policy::service_role_trust();
    let path = folder.write_json("policy/stacks-trust.json", &trust, 0o644)?;
    eprintln!("wrote {}", path.display());
    println!(
        "aws iam create-role --role-name {name} --assume-role-policy-document file://{} --tags {}",
        path.display(),
        own_tags(spec)
    );
    let partition = Partition::of(&spec.region);
    let documents = policy::service_role_documents(spec, account);
    for (number, document) in (1..).zip(&documents) {
        let path = folder.write_json(&format!("policy/stacks-{number}.json"), document, 0o644)?;
        eprintln!("wrote {}", path.display());
        println!(
            "aws iam create-policy --policy-name {name}-{number} --policy-document file://{}",
            path.display()
        );
        println!(
            "aws iam attach-role-policy --role-name {name} --policy-arn {}",
            partition.arn(&format!("iam::{account}:policy/{name}-{number}"))
        );
    }
    Ok(())
}

pub(super) fn print_cost(folder: &AssetFolder, form: Form) -> anyhow::Result<Exit> {
    let estimate = cost::estimate_at(&load(folder)?, SystemTime::now().into());
    if form.json() {
        return print_json(&serde_json::to_value(&estimate)?);
    }
    for line in estimate.lines() {
        show(&line);
    }
    Ok(Exit::Success)
}

pub(super) fn render_files(folder: &AssetFolder, what: RenderCommand) -> anyhow::Result<Exit> {
    let spec = load(folder)?;
    match what {
        RenderCommand::Stack => {
            // Ids that only the account knows stand in the scripts as what they are.
            let disks = Disks {
                file_system: "FILE-SYSTEM-ID".to_owned(),
                etcd_volume: "ETCD-VOLUME-ID".to_owned(),
            };
            let machines = (spec.control_plane.mode == ControlPlaneMode::SelfManaged).then(|| {
                let assets = folder.encrypted_assets();
                (
                    UserData::render(&spec),
                    Scripts::render(&spec, &assets, &disks),
                )
            });
            let machines = machines.as_ref().map(|(data, scripts)| (data, scripts));
            let stacks = render(&spec, &Render::default());
            for path in folder.write_stacks(&stacks, machines)? {
                eprintln!("wrote {}", path.display());
            }
        }
        RenderCommand::Credentials {
            generate_ca,
            ca_cert_path,
            ca_key_path,
            force,
        } => {
            if spec.control_plane.mode == ControlPlaneMode::Eks {
                eprintln!(
                    "an eks cluster needs no TLS files: AWS manages them, and kubectl uses short-lived tokens"
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

/// The kubeconfig that kubectl uses by itself.
fn common_kubeconfig() -> anyhow::Result<PathBuf> {
    Ok(match std::env::var_os("KUBECONFIG") {
        Some(paths) => std::env::split_paths(&paths)
            .next()
            .context("KUBECONFIG is empty")?,
        None => {
            PathBuf::from(std::env::var_os("HOME").context("HOME is not set")?).join(".kube/config")
        }
    })
}

fn read_kubeconfig(target: &Path) -> anyhow::Result<Value> {
    match std::fs::read_to_string(target) {
        Ok(text) => Ok(yaml::parse(&text)
            .with_context(|| format!("read {}", target.display()))?
            .value),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Value::Null),
        Err(error) => Err(error).with_context(|| format!("read {}", target.display())),
    }
}

fn write_kubeconfig(target: &Path, config: &Value) -> anyhow::Result<()> {
    write_whole(target, yaml::document(config).as_bytes(), 0o600)
        .with_context(|| format!("write {}", target.display()))
}

pub(super) fn merge_kubeconfig(folder: &AssetFolder, spec: &ClusterSpec) -> anyhow::Result<()> {
    let id = spec.id.as_deref().with_context(missing_id)?;
    let ours = yaml::parse(&std::fs::read_to_string(folder.path("kubeconfig"))?)?.value;
    let target = common_kubeconfig()?;
    let existing = read_kubeconfig(&target)?;
    let cluster = ClusterKey {
        id,
        name: &spec.name,
    };
    match kubeconfig::merge(existing, &ours, cluster) {
        Ok(merged) => write_kubeconfig(&target, &merged)?,
        Err(strangers) => bail!(
            "{} has entries of the same name that are not this cluster's: {}; rename them (kubectl config rename-context) \
             or use {} as it is",
            target.display(),
            strangers.join(", "),
            folder.path("kubeconfig").display()
        ),
    }
    eprintln!("merged into {}", target.display());
    Ok(())
}

/// Takes a cluster that has gone out of both kubeconfigs: the folder's, and those entries of the common
/// one that carry its id.
pub(super) fn forget_kubeconfig(folder: &AssetFolder, spec: &ClusterSpec) -> anyhow::Result<()> {
    let own = folder.path("kubeconfig");
    match std::fs::remove_file(&own) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("remove {}", own.display()));
        }
        _ => {}
    }
    let Ok(target) = common_kubeconfig() else {
        return Ok(()); // no home, so nothing was merged
    };
    let existing = read_kubeconfig(&target)?;
    let id = spec.id.as_deref().unwrap_or_default();
    let cluster = ClusterKey {
        id,
        name: &spec.name,
    };
    if let Some(left) = kubeconfig::remove(&existing, cluster) {
        write_kubeconfig(&target, &left.config)?;
        eprintln!(
            "took {} out of {}",
            left.contexts.join(", "),
            target.display()
        );
    }
    Ok(())
}
