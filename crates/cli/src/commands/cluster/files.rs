//! What `canoe cluster` writes and prints without changing anything on AWS.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context as _, bail};
use provision::assets::{AssetFolder, write_whole};
use provision::cloud::Cloud as _;
use provision::command::api_server::ApiServer;
use provision::kubeconfig::text;
use provision::kubeconfig::{ClusterKey, KubeconfigOwner, Unmergeable};
use provision::node::{Disks, Scripts};
use provision::ownership::{ID_TAG, missing_id};
use provision::partition::Partition;
use provision::spec::{ClusterSpec, ControlPlaneMode};
use provision::template::{CLUSTER_TAG, Render, render};
use provision::user_data::UserData;
use provision::{cost, credentials, kubeconfig, policy};
use serde_json::Value;

use super::args::RenderCommand;
use super::terminal::{show, tell};
use super::{connect, load, own_path, print_json, shown};
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
            let name = format!("{}-{number}", policy::operator_name(&spec));
            println!("{}", make_policy(&name, &path));
            println!(
                "aws iam attach-user-policy --user-name YOU --policy-arn {}",
                partition.arn(&format!("iam::{account}:policy/{name}"))
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

/// A file as an argument of the aws command line.
fn file(path: &Path) -> String {
    words::shell::word(&format!("file://{}", path.display())).into_owned()
}

/// The command that makes a policy of a file.
fn make_policy(name: &str, path: &Path) -> String {
    format!(
        "aws iam create-policy --policy-name {name} --policy-document {}",
        file(path)
    )
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
        "{} --tags {}",
        make_policy(&policy::boundary_name(spec), &path),
        own_tags(spec)
    );
    println!(
        "# if it is there already: aws iam create-policy-version --set-as-default --policy-arn {} --policy-document {}",
        policy::boundary_arn(spec, account),
        file(&path)
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
        "aws iam create-role --role-name {name} --assume-role-policy-document {} --tags {}",
        file(&path),
        own_tags(spec)
    );
    let partition = Partition::of(&spec.region);
    let documents = policy::service_role_documents(spec, account);
    for (number, document) in (1..).zip(&documents) {
        let path = folder.write_json(&format!("policy/stacks-{number}.json"), document, 0o644)?;
        eprintln!("wrote {}", path.display());
        println!("{}", make_policy(&format!("{name}-{number}"), &path));
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
                    "an eks cluster needs no TLS files: AWS manages them, and clients use short-lived tokens"
                );
                return Ok(Exit::Success);
            }
            let now = SystemTime::now().into();
            if generate_ca && folder.has_authority() && !force {
                bail!(
                    "there is a certificate authority already: `{}` renews the certificates that it has signed; --generate-ca --force \
                     replaces it, and then machines that are up no longer trust the new certificates",
                    shown(folder, "render credentials --force")
                );
            }
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

/// The kubeconfig that kubectl and `canoe job` use by themselves: the first that KUBECONFIG names, as kubectl reads it.
fn common_kubeconfig() -> anyhow::Result<PathBuf> {
    let list = std::env::var_os("KUBECONFIG").unwrap_or_default();
    match first_path(&list) {
        Some(path) => Ok(path),
        None => {
            let home = std::env::var_os("HOME").context("HOME is not set")?;
            Ok(PathBuf::from(home).join(".kube/config"))
        }
    }
}

/// The first path of a list; empty parts name none.
fn first_path(list: &OsStr) -> Option<PathBuf> {
    std::env::split_paths(list).find(|path| !path.as_os_str().is_empty())
}

/// The text of a kubeconfig; of one that is not there, nothing.
fn kubeconfig_text(target: &Path) -> anyhow::Result<String> {
    match std::fs::read_to_string(target) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        other => other.with_context(|| format!("read {}", target.display())),
    }
}

fn read_kubeconfig(target: &Path) -> anyhow::Result<Value> {
    parsed(target, &kubeconfig_text(target)?)
}

fn parsed(target: &Path, text: &str) -> anyhow::Result<Value> {
    text::parse(text).with_context(|| format!("read {}", target.display()))
}

/// kubectl's own lock on a kubeconfig: while the file `config.lock` is there, nobody else changes `config`.
struct KubeconfigLock(PathBuf);

impl KubeconfigLock {
    fn take(target: &Path) -> anyhow::Result<Self> {
        let mut name = target.as_os_str().to_owned();
        name.push(".lock");
        let lock = PathBuf::from(name);
        if let Some(parent) = lock.parent() {
            std::fs::create_dir_all(parent)
                .with_context(|| format!("create {}", parent.display()))?;
        }
        match File::create_new(&lock) {
            Ok(_) => Ok(Self(lock)),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => bail!(
                "{} is locked: kubectl or another program is changing it; try again, or remove {} if none is",
                target.display(),
                lock.display()
            ),
            Err(error) => Err(error).with_context(|| format!("create {}", lock.display())),
        }
    }
}

impl Drop for KubeconfigLock {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0)); // whoever finds it is told what it is
    }
}

/// What to say of a kubeconfig whose entries cannot be told apart by lines: to write it anew would change what is others'.
fn by_hand(target: &Path) -> String {
    format!(
        "{} was left as it is: its clusters, users and contexts do not each begin on a line of their own; `kubectl config view \
         --raw` prints it in that form",
        target.display()
    )
}

/// Changes the common kubeconfig under kubectl's lock; `None` leaves it as it is. A link stays one, its target is changed.
fn edit_kubeconfig(
    target: &Path,
    edit: impl FnOnce(Value) -> anyhow::Result<Option<Value>>,
) -> anyhow::Result<()> {
    let _lock = KubeconfigLock::take(target)?;
    let before = kubeconfig_text(target)?;
    let Some(config) = edit(parsed(target, &before)?)? else {
        return Ok(());
    };
    let after = text::changed(&before, &config).with_context(|| by_hand(target))?;
    let place = std::fs::canonicalize(target).unwrap_or_else(|_| target.to_owned());
    write_whole(&place, after.as_bytes(), 0o600)
        .with_context(|| format!("write {}", target.display()))
}

/// The kubeconfig that lies in the folder, and whose it is.
fn folder_kubeconfig(
    folder: &AssetFolder,
    spec: &ClusterSpec,
) -> anyhow::Result<Option<(PathBuf, KubeconfigOwner)>> {
    let path = folder.path("kubeconfig");
    if !path.is_file() {
        return Ok(None);
    }
    let owner = kubeconfig::owner(&read_kubeconfig(&path)?, spec);
    Ok(Some((path, owner)))
}

/// Refuses when the folder has the kubeconfig of this very cluster in another region: a cluster cannot move, and the one that
/// is there would be forgotten.
pub(super) fn refuse_moved(folder: &AssetFolder, spec: &ClusterSpec) -> anyhow::Result<()> {
    if let Some((path, KubeconfigOwner::InRegion(region))) = folder_kubeconfig(folder, spec)? {
        bail!(
            "{} is of cluster {} in {region}, and cluster.yaml says {}: a cluster cannot move. To continue with that one, or to take it \
             down, write region: {region} back; to make one in {}, run `canoe cluster init` in another folder. If the one in {region} is \
             gone, remove the file. Nothing was changed",
            path.display(),
            spec.name,
            spec.region,
            spec.region
        );
    }
    Ok(())
}

/// The way to the cluster by this kubeconfig of it.
pub(super) fn api_server(kubeconfig: PathBuf) -> ApiServer {
    ApiServer::new(kubeconfig, own_path().into())
}

/// The way to the cluster through the folder's kubeconfig; none if there is none, or if it is another cluster's.
pub(super) fn own_api_server(
    folder: &AssetFolder,
    spec: &ClusterSpec,
) -> anyhow::Result<Option<ApiServer>> {
    match folder_kubeconfig(folder, spec)? {
        Some((kubeconfig, KubeconfigOwner::Ours)) => Ok(Some(api_server(kubeconfig))),
        Some((path, _)) => {
            tell(&format!(
                "warning: {} is not of this cluster and is not used; move it away, then `{}` writes the right one",
                path.display(),
                shown(folder, "kubeconfig")
            ));
            Ok(None)
        }
        None => Ok(None),
    }
}

/// The same, for what cannot do without.
pub(super) fn standing_api_server(
    folder: &AssetFolder,
    spec: &ClusterSpec,
) -> anyhow::Result<ApiServer> {
    own_api_server(folder, spec)?.with_context(|| {
        format!(
            "the folder has no kubeconfig of this cluster; `{}` writes it",
            shown(folder, "kubeconfig")
        )
    })
}

/// Refuses when the cluster could not be merged into the common kubeconfig: before stacks are made, not after.
pub(super) fn refuse_unmergeable(folder: &AssetFolder, spec: &ClusterSpec) -> anyhow::Result<()> {
    let target = common_kubeconfig()?;
    let id = spec.id.as_deref().with_context(missing_id)?;
    let cluster = ClusterKey {
        id,
        name: &spec.name,
    };
    let before = kubeconfig_text(&target)?;
    let ours = kubeconfig::self_managed(spec, "https://not-known-yet");
    let after = kubeconfig::merge(parsed(&target, &before)?, &ours, cluster)
        .map_err(|why| unmergeable(&target, folder, &why))?;
    text::changed(&before, &after).with_context(|| by_hand(&target))?;
    Ok(())
}

/// What to say when the cluster cannot be merged into `target`, and what to do.
fn unmergeable(target: &Path, folder: &AssetFolder, why: &Unmergeable) -> anyhow::Error {
    let remedy = match why {
        Unmergeable::Other(_) => "set KUBECONFIG to another file",
        Unmergeable::Strangers(_) => "give each of them another name in that file",
    };
    anyhow::anyhow!(
        "{} was left as it is: {why}; {remedy}, or leave --merge out and use {}",
        target.display(),
        folder.path("kubeconfig").display()
    )
}

pub(super) fn merge_kubeconfig(folder: &AssetFolder, spec: &ClusterSpec) -> anyhow::Result<()> {
    let id = spec.id.as_deref().with_context(missing_id)?;
    let ours = read_kubeconfig(&folder.path("kubeconfig"))?;
    let root = std::path::absolute(folder.path(""))?;
    let ours = kubeconfig::with_whole_paths(ours, &root);
    let target = common_kubeconfig()?;
    let cluster = ClusterKey {
        id,
        name: &spec.name,
    };
    edit_kubeconfig(&target, |existing| {
        kubeconfig::merge(existing, &ours, cluster)
            .map(Some)
            .map_err(|why| unmergeable(&target, folder, &why))
    })?;
    eprintln!("merged into {}", target.display());
    Ok(())
}

/// Whether a kubeconfig, the folder's or the common one, has the cluster. One that cannot be read may have it.
pub(super) fn is_remembered(folder: &AssetFolder, spec: &ClusterSpec) -> bool {
    let own = folder_kubeconfig(folder, spec);
    if !matches!(own, Ok(None | Some((_, KubeconfigOwner::Other)))) {
        return true;
    }
    let cluster = ClusterKey {
        id: spec.id.as_deref().unwrap_or_default(),
        name: &spec.name,
    };
    let common = common_kubeconfig().and_then(|target| read_kubeconfig(&target));
    common.map_or(true, |config| {
        kubeconfig::remove(&config, cluster).is_some()
    })
}

/// Takes a cluster that has gone out of both kubeconfigs: the folder's, and those entries of the common
/// one that carry its id.
pub(super) fn forget_kubeconfig(folder: &AssetFolder, spec: &ClusterSpec) -> anyhow::Result<()> {
    if let Some((own, KubeconfigOwner::Ours)) = folder_kubeconfig(folder, spec)? {
        std::fs::remove_file(&own).with_context(|| format!("remove {}", own.display()))?;
    }
    let Ok(target) = common_kubeconfig() else {
        return Ok(()); // no home, so nothing was merged
    };
    if !target.exists() {
        return Ok(());
    }
    let id = spec.id.as_deref().unwrap_or_default();
    let cluster = ClusterKey {
        id,
        name: &spec.name,
    };
    let mut out = Vec::new();
    edit_kubeconfig(&target, |existing| {
        let removed = kubeconfig::remove(&existing, cluster);
        Ok(removed.map(|left| {
            out = left.contexts;
            left.config
        }))
    })?;
    if !out.is_empty() {
        eprintln!("took {} out of {}", out.join(", "), target.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shell took `file://my cluster/…` apart.
    #[test]
    fn the_file_of_a_policy_is_one_word() {
        assert_eq!(
            make_policy("demo-1", Path::new("my cluster/policy/operator-1.json")),
            "aws iam create-policy --policy-name demo-1 --policy-document 'file://my cluster/policy/operator-1.json'"
        );
    }

    /// The link was replaced by a file, so what it pointed at (a folder of dotfiles) no longer took part.
    #[test]
    fn a_kubeconfig_that_is_a_link_stays_one() {
        let place = tempfile::tempdir().unwrap();
        let (real, link) = (place.path().join("real"), place.path().join("config"));
        std::fs::write(&real, "apiVersion: v1\n").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        edit_kubeconfig(&link, |mut config| {
            config["kind"] = "Config".into();
            Ok(Some(config))
        })
        .unwrap();
        assert!(link.is_symlink());
        let text = std::fs::read_to_string(&real).unwrap();
        assert!(text.contains("kind: Config"), "{text}");
        assert!(!place.path().join("config.lock").exists());
    }

    /// With KUBECONFIG= or KUBECONFIG=:a, `--merge` ended with "the path names no file".
    #[test]
    fn empty_parts_of_the_list_of_kubeconfigs_name_no_file() {
        for (list, first) in [
            ("", None),
            (":", None),
            (":a:b", Some("a")),
            ("b", Some("b")),
        ] {
            assert_eq!(
                first_path(OsStr::new(list)),
                first.map(PathBuf::from),
                "{list}"
            );
        }
    }

    /// What kubectl wrote in the same moment was lost.
    #[test]
    fn a_kubeconfig_that_kubectl_has_locked_is_left_alone() {
        let place = tempfile::tempdir().unwrap();
        let target = place.path().join("config");
        let lock = place.path().join("config.lock");
        std::fs::write(&lock, "").unwrap();
        let error = edit_kubeconfig(&target, |_| panic!("it is locked")).unwrap_err();
        assert!(error.to_string().contains("is locked"), "{error}");
        assert!(lock.exists(), "it is another's");
        std::fs::remove_file(&lock).unwrap();
        let refused = edit_kubeconfig(&target, |_| bail!("no"));
        assert!(refused.is_err() && !lock.exists() && !target.exists());
    }
}
