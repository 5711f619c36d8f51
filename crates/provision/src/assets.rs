//! The asset folder: where a cluster's files lie on the operator's disk.
//!
//! ```text
//! DIR/
//! ├── cluster.yaml
//! ├── credentials/          self-managed only: ca, apiserver, worker, admin, etcd, etcd-client (and -key)
//! ├── kubeconfig
//! ├── manifests/volume.json
//! ├── stack-template.json   the cluster stack
//! ├── stacks/               base.json, storage.json
//! └── userdata/             cloud-config-controller, cloud-config-worker, controller.sh, worker.sh
//! ```
//!
//! Nothing that a person wrote or that cannot be made again (cluster file, keys) is ever overwritten
//! without being asked to. Files appear whole or not at all. Private keys are readable by their owner
//! alone from the moment they exist, and the folder tells git to leave them alone.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::credentials::Pair;
use crate::kubeconfig::{self, KubeconfigOwner};
use crate::node::{Assets, Scripts};
use crate::spec::ClusterSpec;
use crate::template::{Stack, StackLayer};
use crate::user_data::UserData;

/// Why the folder could not be read or written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the variants are documented")]
pub enum AssetError {
    /// A file that must not be lost is already there.
    #[error("{0} exists; pass --force to replace it, or use another --dir")]
    Exists(PathBuf),
    /// A kubeconfig of others lies where the cluster's will.
    #[error(
        "{0} is not of this cluster and would be overwritten; move it away, or use another --dir; nothing was changed"
    )]
    Foreign(PathBuf),
    /// A file that is needed is not there.
    #[error("{path} is missing; make it with `{command}`")]
    Missing {
        path: PathBuf,
        /// What makes it.
        command: &'static str,
    },
    /// Reading failed.
    #[error("read {path}")]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// Writing failed.
    #[error("write {path}")]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// A cluster's folder.
#[derive(Debug, Clone)]
pub struct AssetFolder {
    root: PathBuf,
}

impl AssetFolder {
    /// The folder at `root`, which need not exist yet.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Path of a file in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The text of `cluster.yaml`.
    pub fn read_spec(&self) -> Result<String, AssetError> {
        self.read("cluster.yaml", "canoe cluster init NAME")
    }

    /// Writes `cluster.yaml`; refuses to replace one unless `force`.
    pub fn write_spec(&self, text: &str, force: bool) -> Result<PathBuf, AssetError> {
        self.refuse_existing("cluster.yaml", force)?;
        self.write(".gitignore", "credentials/\nkubeconfig\nuserdata/\n", 0o644)?;
        self.write("cluster.yaml", text, 0o644)
    }

    /// Replaces `cluster.yaml` by an edited version of itself (`scale`, `down`). A link stays one, and a file keeps its mode.
    pub fn update_spec(&self, text: &str) -> Result<PathBuf, AssetError> {
        let path = self.path("cluster.yaml");
        let place = fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
        let mode = mode(&place).unwrap_or(0o644);
        match write_whole(&place, text.as_bytes(), mode) {
            Ok(()) => Ok(path),
            Err(source) => Err(AssetError::Write { path, source }),
        }
    }

    /// Refuses when what lies in the place of the cluster's kubeconfig is another's: it may be the only copy.
    pub fn refuse_foreign_kubeconfig(&self, spec: &ClusterSpec) -> Result<(), AssetError> {
        let path = self.path("kubeconfig");
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Err(AssetError::Foreign(path));
            }
            Err(source) => return Err(AssetError::Read { path, source }),
        };
        let config = yaml::parse(&text).map(|document| document.value);
        match config {
            Ok(Value::Null) => Ok(()),
            Ok(config) if kubeconfig::owner(&config, spec) != KubeconfigOwner::Other => Ok(()),
            _ => Err(AssetError::Foreign(path)),
        }
    }

    /// Writes TLS pairs; refuses if any of them exists, unless `force`.
    pub fn write_credentials(&self, pairs: &[Pair], force: bool) -> Result<(), AssetError> {
        for pair in pairs {
            self.refuse_existing(&format!("credentials/{}.pem", pair.name), force)?;
            self.refuse_existing(&format!("credentials/{}-key.pem", pair.name), force)?;
        }
        for pair in pairs {
            self.write(
                &format!("credentials/{}-key.pem", pair.name),
                &pair.key,
                0o600,
            )?;
            self.write(
                &format!("credentials/{}.pem", pair.name),
                &pair.certificate,
                0o600,
            )?;
        }
        Ok(())
    }

    /// Whether there is a certificate authority.
    pub fn has_authority(&self) -> bool {
        self.path("credentials/ca.pem").exists() || self.path("credentials/ca-key.pem").exists()
    }

    /// Reads a TLS pair.
    pub fn read_pair(&self, name: &str) -> Result<Pair, AssetError> {
        let command = "canoe cluster render credentials --generate-ca";
        Ok(Pair {
            name: name.to_owned(),
            certificate: self.read(&format!("credentials/{name}.pem"), command)?,
            key: self.read(&format!("credentials/{name}-key.pem"), command)?,
        })
    }

    /// Reads one file of the credentials folder, such as `ca.pem`.
    pub fn read_credential(&self, file: &str) -> Result<String, AssetError> {
        self.read(
            &format!("credentials/{file}"),
            "canoe cluster render credentials --generate-ca",
        )
    }

    /// Writes the ciphertext of a credential beside it.
    pub(crate) fn write_encrypted(&self, file: &str, ciphertext: &[u8]) -> Result<(), AssetError> {
        self.write_bytes(&format!("credentials/{file}.enc"), ciphertext, 0o600)
            .map(drop)
    }

    /// The encrypted assets that are already there and newer than what they encrypt.
    ///
    /// Ciphertexts differ each time; keeping them means that rendering twice changes no machine.
    pub fn encrypted_assets(&self) -> Assets {
        let mut assets = Assets::default();
        for name in Assets::wanted() {
            let plain = self.path(&format!("credentials/{name}"));
            let cipher = self.path(&format!("credentials/{name}.enc"));
            let time = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).ok();
            if let (Some(made), Some(encrypted)) = (time(&plain), time(&cipher))
                && encrypted >= made
                && let Ok(bytes) = fs::read(&cipher)
            {
                assets.insert(name, bytes);
            }
        }
        assets
    }

    /// Writes the templates and, for a self-managed cluster, the user data. All can be made again.
    pub fn write_stacks(
        &self,
        stacks: &[Stack],
        machines: Option<(&UserData, &Scripts)>,
    ) -> Result<Vec<PathBuf>, AssetError> {
        let mut written = Vec::new();
        for stack in stacks {
            let name = match stack.layer {
                StackLayer::Cluster => "stack-template.json".to_owned(),
                other => format!("stacks/{}.json", other.name()),
            };
            written.push(self.write(&name, &stack.text(), 0o644)?);
        }
        if let Some((data, scripts)) = machines {
            for (name, text) in [
                ("cloud-config-controller", &data.controller),
                ("cloud-config-worker", &data.worker),
                ("controller.sh", &scripts.controller),
                ("worker.sh", &scripts.worker),
            ] {
                written.push(self.write(&format!("userdata/{name}"), text, 0o600)?);
            }
        }
        Ok(written)
    }

    /// Writes a JSON file, such as the kubeconfig (JSON is YAML).
    pub fn write_json(&self, name: &str, value: &Value, mode: u32) -> Result<PathBuf, AssetError> {
        let mut text = serde_json::to_string_pretty(value).expect("values have only text keys");
        text.push('\n');
        self.write(name, &text, mode)
    }

    fn refuse_existing(&self, name: &str, force: bool) -> Result<(), AssetError> {
        let path = self.path(name);
        if !force && path.exists() {
            Err(AssetError::Exists(path))
        } else {
            Ok(())
        }
    }

    fn read(&self, name: &str, command: &'static str) -> Result<String, AssetError> {
        let path = self.path(name);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(AssetError::Missing { path, command })
            }
            Err(source) => Err(AssetError::Read { path, source }),
        }
    }

    fn write(&self, name: &str, text: &str, mode: u32) -> Result<PathBuf, AssetError> {
        self.write_bytes(name, text.as_bytes(), mode)
    }

    fn write_bytes(&self, name: &str, bytes: &[u8], mode: u32) -> Result<PathBuf, AssetError> {
        let path = self.path(name);
        write_whole(&path, bytes, mode).map_err(|source| AssetError::Write {
            path: path.clone(),
            source,
        })?;
        Ok(path)
    }
}

/// Writes a file under a temporary name with its final mode, then renames it.
pub fn write_whole(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let parent = path.parent().filter(|parent| *parent != Path::new(""));
    let parent = parent.unwrap_or(Path::new("."));
    fs::create_dir_all(parent)?;
    let name = path
        .file_name()
        .ok_or_else(|| io::Error::other("the path names no file"))?
        .to_string_lossy();
    let temporary = parent.join(format!(".{name}.{}.tmp", std::process::id()));
    let result = create(&temporary, mode).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        File::open(parent)?.sync_all()
    });
    if result.is_err() {
        // The original error is the one to report; a stray temporary file is harmless.
        drop(fs::remove_file(&temporary));
    }
    result
}

/// Who may read and write a file, if it is there.
#[cfg(unix)]
fn mode(path: &Path) -> Option<u32> {
    let permissions = fs::metadata(path).ok()?.permissions();
    Some(std::os::unix::fs::PermissionsExt::mode(&permissions) & 0o7777)
}

/// Such modes are Unix's.
#[cfg(not(unix))]
fn mode(_path: &Path) -> Option<u32> {
    None
}

fn create(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    #[cfg(not(unix))]
    let _ = mode;
    options.open(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::spec::{ControlPlaneMode, write::write};
    use crate::template::{Render, render};

    fn pair(name: &str) -> Pair {
        Pair {
            name: name.to_owned(),
            certificate: "CERT".to_owned(),
            key: "KEY".to_owned(),
        }
    }

    #[test]
    fn has_the_layout_that_users_know() {
        let place = tempfile::tempdir().unwrap();
        let folder = AssetFolder::new(place.path());
        let mut spec = ClusterSpec::new("demo", "us-west-2");
        spec.control_plane.mode = ControlPlaneMode::SelfManaged;
        folder.write_spec(&write(&spec), false).unwrap();
        let names = ["ca", "apiserver", "worker", "admin", "etcd", "etcd-client"];
        folder.write_credentials(&names.map(pair), false).unwrap();
        let data = UserData::render(&spec);
        let disks = crate::node::Disks {
            file_system: "fs-1".to_owned(),
            etcd_volume: "vol-1".to_owned(),
        };
        let scripts = Scripts::render(&spec, &Assets::default(), &disks);
        folder
            .write_stacks(&render(&spec, &Render::default()), Some((&data, &scripts)))
            .unwrap();
        for name in names {
            for file in [
                format!("credentials/{name}.pem"),
                format!("credentials/{name}-key.pem"),
            ] {
                let mode = fs::metadata(folder.path(&file))
                    .unwrap()
                    .permissions()
                    .mode();
                assert_eq!(mode & 0o777, 0o600, "{file}");
            }
        }
        for file in [
            "cluster.yaml",
            "stack-template.json",
            "userdata/cloud-config-controller",
            "userdata/cloud-config-worker",
        ] {
            assert!(folder.path(file).is_file(), "{file}");
        }
        let stray: Vec<_> = fs::read_dir(place.path().join("credentials"))
            .unwrap()
            .filter(|entry| {
                entry
                    .as_ref()
                    .unwrap()
                    .file_name()
                    .to_string_lossy()
                    .ends_with(".tmp")
            })
            .collect();
        assert!(stray.is_empty());
    }

    #[test]
    fn what_cannot_be_made_again_is_not_overwritten() {
        let place = tempfile::tempdir().unwrap();
        let folder = AssetFolder::new(place.path());
        folder.write_credentials(&[pair("ca")], false).unwrap();
        fs::write(folder.path("credentials/ca.pem"), "LIVE").unwrap();
        let error = folder
            .write_credentials(&[pair("admin"), pair("ca")], false)
            .unwrap_err();
        assert!(
            matches!(&error, AssetError::Exists(path) if path.ends_with("ca.pem")),
            "{error}"
        );
        assert!(
            !folder.path("credentials/admin.pem").exists(),
            "nothing is written when one is in the way"
        );
        assert_eq!(folder.read_pair("ca").unwrap().certificate, "LIVE");
        folder.write_credentials(&[pair("ca")], true).unwrap();
        assert_eq!(folder.read_pair("ca").unwrap().certificate, "CERT");
        folder.write_spec("a", false).unwrap();
        assert!(matches!(
            folder.write_spec("b", false),
            Err(AssetError::Exists(_))
        ));
    }

    /// What the link pointed at no longer took part, and a file of mode 600 became one of 644.
    #[test]
    fn an_edited_cluster_file_stays_a_link_and_keeps_its_mode() {
        let place = tempfile::tempdir().unwrap();
        let folder = AssetFolder::new(place.path());
        let real = place.path().join("real.yaml");
        fs::write(&real, "name: a\n").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink("real.yaml", folder.path("cluster.yaml")).unwrap();
        folder.update_spec("name: b\n").unwrap();
        assert!(folder.path("cluster.yaml").is_symlink());
        assert_eq!(fs::read_to_string(&real).unwrap(), "name: b\n");
        assert_eq!(mode(&real), Some(0o600));
    }

    /// `up` in the current folder overwrote the user's own file `kubeconfig`.
    #[test]
    fn a_kubeconfig_of_others_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let folder = AssetFolder::new(place.path());
        let mut spec = ClusterSpec::new("demo", "us-west-2");
        spec.id = Some("a".to_owned());
        let refused = || folder.refuse_foreign_kubeconfig(&spec).is_err();
        assert!(!refused());
        let mut other = spec.clone();
        other.id = Some("b".to_owned());
        let ours = kubeconfig::self_managed(&spec, "https://x").to_string();
        let theirs = kubeconfig::self_managed(&other, "https://x").to_string();
        for (text, wanted) in [
            (ours.as_str(), false),
            ("", false),
            (&theirs, true),
            ("apiVersion: v1\nkind: Config\nclusters: []\n", true),
            ("a: [", true),
        ] {
            fs::write(folder.path("kubeconfig"), text).unwrap();
            assert_eq!(refused(), wanted, "{text}");
        }
        fs::write(folder.path("kubeconfig"), [0xff, 0xfe]).unwrap();
        assert!(refused());
    }

    #[test]
    fn a_missing_file_names_the_command_that_makes_it() {
        let place = tempfile::tempdir().unwrap();
        let error = AssetFolder::new(place.path())
            .read_pair("admin")
            .unwrap_err();
        assert!(
            error
                .to_string()
                .contains("render credentials --generate-ca"),
            "{error}"
        );
    }

    #[test]
    fn stale_ciphertexts_are_not_used() {
        let place = tempfile::tempdir().unwrap();
        let folder = AssetFolder::new(place.path());
        folder.write_credentials(&[pair("ca")], false).unwrap();
        folder.write_encrypted("ca.pem", b"cipher").unwrap();
        assert!(!folder.encrypted_assets().missing().contains(&"ca.pem"));
        let later = std::time::SystemTime::now() + std::time::Duration::from_secs(60);
        File::options()
            .write(true)
            .open(folder.path("credentials/ca.pem"))
            .unwrap()
            .set_modified(later)
            .unwrap();
        assert!(folder.encrypted_assets().missing().contains(&"ca.pem"));
    }
}
