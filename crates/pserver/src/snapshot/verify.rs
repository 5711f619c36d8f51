//! Checks every byte of a directory of snapshots, or of a state that servers saved, and lists the faults. It needs no
//! running job: everything that it compares is in the files.

use super::file::{OpenPart, StoreError, disk};
use super::format::FormatError;
use super::manifest::{self, SnapshotManifest, manifest_name};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A snapshot that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundSnapshot {
    /// Its directory.
    pub path: PathBuf,
    /// Servers whose files are whole.
    pub whole: Vec<u32>,
    /// Servers of the job that took it and held tables; 0 if no manifest can be read.
    pub servers: u32,
}

impl FoundSnapshot {
    /// Whether the files of all servers are in this directory and intact.
    pub fn complete(&self) -> bool {
        self.servers > 0 && self.whole.len() == self.servers as usize
    }
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SnapshotFindings {
    /// The snapshots, by step.
    pub snapshots: Vec<FoundSnapshot>,
    /// What is wrong: the file, and a sentence.
    pub problems: Vec<(PathBuf, String)>,
}

/// Checks the snapshots in a directory, or one of them. Servers may have private directories, so it is no fault if the
/// files of some servers are missing here; [`FoundSnapshot::complete`] reports it.
pub fn verify(directory: &Path) -> Result<SnapshotFindings, StoreError> {
    let mut findings = SnapshotFindings::default();
    let step_of = |name: &str| name.strip_prefix("step-")?.parse().ok();
    let own = directory.file_name().unwrap_or_default();
    if let Some(step) = step_of(&own.to_string_lossy()) {
        check_step(directory, step, &mut findings)?;
        return Ok(findings);
    }
    for name in names(directory)? {
        let path = directory.join(&name);
        let step = step_of(&name);
        match step {
            Some(step) if path.is_dir() => check_step(&path, step, &mut findings)?,
            // Other files that processes write beside snapshots.
            _ if name.starts_with("finished-") || name.starts_with("aside-") => {}
            _ => findings.problem(path, "it is not part of a snapshot"),
        }
    }
    Ok(findings)
}

impl SnapshotFindings {
    fn problem(&mut self, path: PathBuf, text: impl Into<String>) {
        self.problems.push((path, text.into()));
    }
}

fn check_step(
    directory: &Path,
    step: u64,
    findings: &mut SnapshotFindings,
) -> Result<(), StoreError> {
    let mut left: BTreeSet<String> = names(directory)?.into_iter().collect();
    let mut found = FoundSnapshot {
        path: directory.to_owned(),
        whole: Vec::new(),
        servers: 0,
    };
    let mut first: Option<SnapshotManifest> = None;
    let servers: BTreeSet<u32> = left.iter().filter_map(|name| server_of(name)).collect();
    for server in servers {
        let name = manifest_name(server);
        if !left.remove(&name) {
            continue;
        }
        let path = directory.join(&name);
        let manifest = match manifest::read(directory, server) {
            Ok(Some(manifest)) => manifest,
            Ok(None) => continue,
            Err(error) => {
                findings.problem(path, words::causes::chain(&error));
                continue;
            }
        };
        let before = findings.problems.len();
        if manifest.boundary.step.0 != step {
            let text = format!("it belongs to step {}", manifest.boundary.step);
            findings.problem(path.clone(), text);
        }
        let first = first.get_or_insert_with(|| manifest.clone());
        if !manifest.same_snapshot(first) {
            let text = format!(
                "it belongs to another snapshot than the manifest of server {}",
                first.server
            );
            findings.problem(path, text);
        }
        for name in manifest.names() {
            left.remove(name);
        }
        for port in 0..manifest.files.len() {
            let mut take = |_, reader: &mut OpenPart| read_all(reader);
            if let Err(error) = manifest.take(directory, port, &mut take) {
                findings.problem(error.path().to_owned(), words::causes::chain(&error));
            }
        }
        if findings.problems.len() == before {
            found.whole.push(server);
        }
        found.servers = first.holders();
    }
    left.retain(|name| !name.ends_with(".confirmed"));
    for name in left {
        let text = match server_of(&name) {
            Some(_) if name.ends_with(".part") => {
                "no manifest names it: its snapshot is incomplete and is not used"
            }
            Some(_) if name.ends_with(".tmp") => "it was being written when its process ended",
            Some(_) if name.ends_with(".damaged") => {
                "its snapshot was found to be damaged and is not used"
            }
            _ => "it is not part of a snapshot",
        };
        findings.problem(directory.join(name), text);
    }
    findings.snapshots.push(found);
    Ok(())
}

fn read_all(reader: &mut OpenPart) -> Result<(), FormatError> {
    while reader.next_section()?.is_some() {}
    Ok(())
}

fn server_of(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("server-")?.split('.').next()?;
    digits.parse().ok()
}

/// The names in a directory, sorted.
fn names(directory: &Path) -> Result<Vec<String>, StoreError> {
    let failed = |cause| disk("list", directory)(cause);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        names.push(name.to_string_lossy().into_owned());
    }
    names.sort_unstable();
    Ok(names)
}
