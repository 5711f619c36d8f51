//! What `canoe cluster` writes and prints without changing anything on AWS.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context as _, bail};
use provision::assets::{AssetFolder, write_whole};
use provision::aws::Aws;
use provision::cloud::Cloud as _;
use provision::lifecycle::leftovers::Remains;
use provision::spec::{self, ClusterSpec, Mode};
use provision::template::{Render, render};
use provision::user_data::UserData;
use provision::{cost, credentials, kubeconfig, policy, yaml};
use serde_json::Value;

use super::args::{Output, RenderCommand};
use super::terminal::show;
use super::{load, print_json};
use crate::exit::Exit;

pub(super) async fn print_policy(
    folder: &AssetFolder,
    account: Option<String>,
    write: bool,
) -> anyhow::Result<Exit> {
    let spec = load(folder)?;
    let account = match account {
        Some(account) => account,
        None => Aws::connect(&spec.region).await?.caller().await?.account,
    };
    let documents = policy::operator_documents(&spec, &account);
    if write {
        for (number, document) in (1..).zip(&documents) {
            let file = format!("policy/operator-{number}.json");
            let path = folder.write_json(&file, document, 0o644)?;
            eprintln!("wrote {}", path.display());
            println!(
                "aws iam create-policy --policy-name {}-operator-{number} --policy-document file://{}",
                spec.name,
                path.display()
            );
            println!(
                "aws iam attach-user-policy --user-name YOU --policy-arn arn:aws:iam::{account}:policy/{}-operator-{number}",
                spec.name
            );
        }
        return Ok(Exit::Success);
    }
    if documents.len() > 1 {
        eprintln!(
            "{} managed policies, because IAM takes 6,144 characters in one; --write makes files",
            documents.len()
        );
    }
    for document in &documents {
        print_json(document)?;
    }
    Ok(Exit::Success)
}

pub(super) fn print_cost(folder: &AssetFolder, output: Output) -> anyhow::Result<Exit> {
    let estimate = cost::estimate(&load(folder)?);
    if output == Output::Json {
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
    let text = serde_json::to_string_pretty(config)?;
    write_whole(target, text.as_bytes(), 0o600)
        .with_context(|| format!("write {}", target.display()))
}

pub(super) fn merge_kubeconfig(folder: &AssetFolder) -> anyhow::Result<()> {
    let ours = yaml::parse(&std::fs::read_to_string(folder.path("kubeconfig"))?)?.value;
    let target = common_kubeconfig()?;
    let existing = read_kubeconfig(&target)?;
    write_kubeconfig(&target, &kubeconfig::merge(existing, &ours))?;
    eprintln!("merged into {}", target.display());
    Ok(())
}

/// Takes a cluster that has gone out of both kubeconfigs.
pub(super) fn forget_kubeconfig(folder: &AssetFolder, name: &str) -> anyhow::Result<()> {
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
    let left = kubeconfig::remove(existing.clone(), name);
    if left != existing {
        write_kubeconfig(&target, &left)?;
        eprintln!("took {name} out of {}", target.display());
    }
    Ok(())
}

/// Takes out of cluster.yaml what has gone, so that the next `up` makes its own.
pub(super) fn forget_data(
    folder: &AssetFolder,
    spec: &ClusterSpec,
    gone: &[String],
) -> anyhow::Result<()> {
    let named = [
        ("storage.fileSystemId", &spec.storage.file_system_id),
        ("kmsKeyArn", &spec.kms_key_arn),
    ];
    let mut text = folder.read_spec()?;
    for (path, value) in named {
        if value.as_ref().is_some_and(|value| gone.contains(value)) {
            text = spec::write::without(&text, path);
            eprintln!("cluster.yaml: {path} is commented out");
        }
    }
    folder.update_spec(&text)?;
    Ok(())
}

/// Writes what `down --keep-data` left into cluster.yaml, so that the next `up` uses it.
pub(super) fn remember_data(folder: &AssetFolder, kept: &[Remains]) -> anyhow::Result<()> {
    let mut text = folder.read_spec()?;
    for remains in kept {
        let (path, value) = match remains.what {
            "file system" => {
                let id = remains.arn.rsplit('/').next().unwrap_or_default();
                ("storage.fileSystemId", id)
            }
            "key" => ("kmsKeyArn", remains.arn.as_str()),
            _ => continue,
        };
        match spec::write::with_text(&text, path, value) {
            Some(edited) => {
                text = edited;
                eprintln!("cluster.yaml: {path}: {value}");
            }
            None => eprintln!("to use it again, add to cluster.yaml: {path}: {value}"),
        }
    }
    folder.update_spec(&text)?;
    Ok(())
}
