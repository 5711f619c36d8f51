//! Snapshots on disk: a directory for each step, a file for each service, a manifest for each server, written last.
//!
//! ```text
//! DIRECTORY/step-000000000100/server-0000.port-00.part    values, state (see `format`)
//!                             server-0000.json            the manifest: this server's files are complete
//! ```
//!
//! The directory may be shared by all servers (then another number of servers can restore it) or private. Files
//! appear by rename, after fsync. A snapshot without its manifest is garbage and is cleaned away, and so are the files
//! of servers that a job no longer has, once the present ones have newer snapshots ([`Store::sweep`]).

use super::format::{FormatError, Header, PartReader, PartWriter};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use wire::recovery::Boundary;
use wire::{Step, Topology};

/// What a server's part of a snapshot consists of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The run of the job.
    pub job: String,
    /// Hash of the tables' names and shapes.
    pub shapes: u64,
    /// Where the job stood.
    pub boundary: Boundary,
    /// The servers of that time.
    pub topology: Topology,
    /// Which of them wrote this.
    pub server: u32,
    /// The files.
    pub files: Vec<PartFile>,
}

/// A file of a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartFile {
    /// Its name in the step's directory.
    pub name: String,
    /// Its length.
    pub bytes: u64,
}

/// Why a snapshot could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The disk said no.
    #[error("{action} {path}")]
    Disk {
        /// What was tried.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A file is damaged or of another format.
    #[error("snapshot file {path} cannot be used")]
    Format {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: FormatError,
    },
    /// A file does not fit this job.
    #[error("snapshot file {path} does not fit: {reason}")]
    Unfit {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// There is no such snapshot.
    #[error("no complete snapshot of step {step} in {path}")]
    Absent {
        /// The step.
        step: Step,
        /// The directory.
        path: PathBuf,
    },
}

/// Takes a file's sections.
pub type Take<'a> = dyn FnMut(&mut PartReader<BufReader<File>>) -> Result<(), FormatError> + 'a;

/// The snapshots of a directory, as one server sees them.
#[derive(Debug, Clone)]
pub struct Store {
    directory: PathBuf,
}

/// Whose snapshots are looked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// The run of the job.
    pub job: String,
    /// Hash of the tables' names and shapes.
    pub shapes: u64,
    /// The servers now.
    pub topology: Topology,
    /// Which of them this is.
    pub server: u32,
}

impl Store {
    /// A store in a directory, made when it is first needed.
    pub fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    fn step_directory(&self, step: Step) -> PathBuf {
        self.directory.join(format!("step-{:012}", step.0))
    }

    /// Writes one file: under a temporary name, then fsync, then rename.
    pub fn write_part(
        &self,
        step: Step,
        (server, port): (u32, usize),
        header: &Header,
        fill: impl FnOnce(&mut PartWriter<BufWriter<File>>) -> io::Result<()>,
    ) -> Result<PartFile, StoreError> {
        let directory = self.step_directory(step);
        fs::create_dir_all(&directory).map_err(disk("create", &directory))?;
        let name = format!("server-{server:04}.port-{port:02}.part");
        let bytes = write_file(&directory.join(&name), header, fill)?;
        Ok(PartFile { name, bytes })
    }

    /// Makes the snapshot of a server valid.
    pub fn write_manifest(&self, manifest: &Manifest) -> Result<(), StoreError> {
        let directory = self.step_directory(manifest.boundary.step);
        let path = directory.join(manifest_name(manifest.server));
        let text = serde_json::to_vec_pretty(manifest).expect("a manifest serialises");
        replace(&path, |file| file.write_all(&text)).map_err(disk("write", &path))?;
        sync_directory(&directory).map_err(disk("fsync", &directory))?;
        sync_directory(&self.directory).map_err(disk("fsync", &self.directory))
    }

    /// Steps that this server can restore, ascending. What cannot be read is not there.
    pub fn list(&self, wanted: &Wanted) -> Vec<Step> {
        let mut steps: Vec<Step> = self
            .steps()
            .into_iter()
            .filter(|step| self.usable(*step, wanted).is_some())
            .collect();
        steps.sort_unstable();
        steps
    }

    /// Steps of which there are manifests, but none that this server can use: another job or model, or damage.
    pub fn unusable(&self, wanted: &Wanted) -> Vec<Step> {
        let named = |step: &Step| {
            self.step_directory(*step)
                .join(manifest_name(wanted.server))
                .exists()
        };
        let mut steps = self.steps();
        steps.retain(|step| named(step) && self.usable(*step, wanted).is_none());
        steps.sort_unstable();
        steps
    }

    fn steps(&self) -> Vec<Step> {
        let Ok(entries) = fs::read_dir(&self.directory) else {
            return Vec::new();
        };
        let names = entries
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok());
        names
            .filter_map(|name| name.strip_prefix("step-")?.parse().ok().map(Step))
            .collect()
    }

    /// The manifests to read for a step: the own one if the servers are the same, else all of them.
    fn usable(&self, step: Step, wanted: &Wanted) -> Option<Vec<Manifest>> {
        let own = self.manifest(step, wanted.server, wanted);
        if let Some(own) = own
            && own.topology == wanted.topology
        {
            return Some(vec![own]);
        }
        let any = (0..10_000).find_map(|server| self.manifest(step, server, wanted))?;
        let all: Vec<Manifest> = (0..any.topology.servers)
            .map_while(|server| self.manifest(step, server, wanted))
            .collect();
        let complete = all.len() == any.topology.servers as usize;
        let alike = all
            .iter()
            .all(|m| m.topology == any.topology && m.boundary == any.boundary);
        (complete && alike).then_some(all)
    }

    fn manifest(&self, step: Step, server: u32, wanted: &Wanted) -> Option<Manifest> {
        let directory = self.step_directory(step);
        let text = fs::read(directory.join(manifest_name(server))).ok()?;
        let manifest: Manifest = serde_json::from_slice(&text).ok()?;
        let fits = manifest.job == wanted.job
            && manifest.shapes == wanted.shapes
            && manifest.boundary.step == step
            && manifest.server == server;
        let whole = |file: &PartFile| {
            plain(&file.name)
                && fs::metadata(directory.join(&file.name))
                    .is_ok_and(|meta| meta.len() == file.bytes)
        };
        (fits && manifest.files.iter().all(whole)).then_some(manifest)
    }

    /// Reads the parts of a snapshot that this server needs. Answers where the job stood.
    pub fn restore(
        &self,
        step: Step,
        wanted: &Wanted,
        take: &mut Take<'_>,
    ) -> Result<Boundary, StoreError> {
        let absent = || StoreError::Absent {
            step,
            path: self.directory.clone(),
        };
        let manifests = self.usable(step, wanted).ok_or_else(absent)?;
        let directory = self.step_directory(step);
        for file in manifests.iter().flat_map(|manifest| &manifest.files) {
            read_file(&directory.join(&file.name), take)?;
        }
        manifests
            .into_iter()
            .next()
            .map(|manifest| manifest.boundary)
            .ok_or_else(absent)
    }

    /// Marks this server's part of a snapshot as unusable, so that it is not offered again; the files stay.
    pub fn condemn(&self, step: Step, server: u32) {
        let path = self.step_directory(step).join(manifest_name(server));
        // If it cannot be renamed, the next attempt fails with the same, named cause.
        let _ = fs::rename(&path, path.with_extension("json.damaged"));
    }

    /// Deletes what earlier lives of the job left: this server's files of steps that are neither `kept` nor as new as
    /// `stable`, a snapshot that all present servers have; server 0 also deletes files of servers that the job no
    /// longer has. A snapshot of an earlier set of servers that can be restored is among the kept ones, and stays whole
    /// until it is no longer.
    pub fn sweep(&self, wanted: &Wanted, kept: &[Step], stable: Step) {
        for step in self.steps() {
            let past = step < stable && !kept.contains(&step);
            // A step of the present servers: files of others in it are from before it was written again.
            let own = self.manifest(step, wanted.server, wanted);
            let ours = own.is_some_and(|own| own.topology == wanted.topology);
            for server in self.servers(step) {
                let orphan = wanted.server == 0 && server >= wanted.topology.servers;
                let due = (past && server == wanted.server) || (orphan && (past || ours));
                if due && self.belongs(step, server, &wanted.job) {
                    self.remove(step, server);
                }
            }
        }
    }

    /// Servers that have files of a step.
    fn servers(&self, step: Step) -> Vec<u32> {
        let entries = fs::read_dir(self.step_directory(step));
        let names = entries.into_iter().flatten().flatten();
        let number = |entry: fs::DirEntry| {
            let name = entry.file_name().into_string().ok()?;
            let digits = name.strip_prefix("server-")?.split('.').next()?;
            digits.parse().ok()
        };
        let mut servers: Vec<u32> = names.filter_map(number).collect();
        servers.sort_unstable();
        servers.dedup();
        servers
    }

    /// Whether no file of a server says that it is another job's.
    fn belongs(&self, step: Step, server: u32, job: &str) -> bool {
        let directory = self.step_directory(step);
        let manifest = fs::read(directory.join(manifest_name(server))).ok();
        let manifest = manifest.and_then(|text| serde_json::from_slice::<Manifest>(&text).ok());
        if let Some(manifest) = manifest {
            return manifest.job == job;
        }
        let prefix = format!("server-{server:04}.port-");
        let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
        let parts = entries.filter(|e| e.file_name().to_string_lossy().starts_with(&prefix));
        let mut jobs = parts.filter_map(|entry| {
            let file = File::open(entry.path()).ok()?;
            let length = file.metadata().ok()?.len();
            let reader = PartReader::new(BufReader::new(file), length).ok()?;
            Some(reader.header().job.clone())
        });
        jobs.all(|other| other == job)
    }

    /// Deletes this server's files of a step, manifest first.
    pub fn remove(&self, step: Step, server: u32) {
        let directory = self.step_directory(step);
        // What cannot be deleted is in nobody's way but the disk's; the next removal tries again.
        let _ = fs::remove_file(directory.join(manifest_name(server)));
        let prefix = format!("server-{server:04}.");
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                let _ = fs::remove_file(entry.path());
            }
        }
        let _ = fs::remove_dir(&directory);
    }
}

/// Writes a part under a temporary name and renames it; on failure nothing is left. Answers its length.
pub fn write_file(
    path: &Path,
    header: &Header,
    fill: impl FnOnce(&mut PartWriter<BufWriter<File>>) -> io::Result<()>,
) -> Result<u64, StoreError> {
    let write = |file: &mut File| {
        let copy = file.try_clone()?;
        let mut writer = PartWriter::new(BufWriter::with_capacity(1 << 20, copy), header)?;
        fill(&mut writer)?;
        writer
            .finish()?
            .into_inner()
            .map_err(io::IntoInnerError::into_error)?;
        Ok(())
    };
    replace(path, write).map_err(disk("write", path))?;
    fs::metadata(path)
        .map(|meta| meta.len())
        .map_err(disk("look at", path))
}

/// Reads a part to its end.
pub fn read_file(path: &Path, take: &mut Take<'_>) -> Result<(), StoreError> {
    let file = File::open(path).map_err(disk("open", path))?;
    let length = file.metadata().map_err(disk("look at", path))?.len();
    let format = |source| StoreError::Format {
        path: path.to_owned(),
        source,
    };
    let mut reader =
        PartReader::new(BufReader::with_capacity(1 << 20, file), length).map_err(format)?;
    take(&mut reader).map_err(format)
}

fn replace(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let temporary = path.with_extension("tmp");
    let attempt = || {
        let mut file = File::create(&temporary)?;
        write(&mut file)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    attempt().inspect_err(|_| {
        // The error that matters is the first one.
        let _ = fs::remove_file(&temporary);
    })
}

fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

fn manifest_name(server: u32) -> String {
    format!("server-{server:04}.json")
}

/// A name without any path in it.
fn plain(name: &str) -> bool {
    !name.is_empty() && !name.contains(['/', '\\']) && name != ".."
}

fn disk(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.to_owned();
    move |source| StoreError::Disk {
        action,
        path,
        source,
    }
}
