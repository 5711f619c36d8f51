//! Snapshots on disk: a directory for each step, a file for each service, a manifest for each server, written last.
//!
//! ```text
//! DIRECTORY/step-000000000100/server-0000.port-00.part    values, state (see `format`)
//!                             server-0000.port-00.base.part  the rows that the part does not have (see `manifest`)
//!                             server-0000.json            the manifest: this server's files are complete
//! ```
//!
//! The directory may be shared by all servers (then another number of servers can restore it) or private. Files
//! appear by rename, after fsync. A snapshot without its manifest is garbage and is cleaned away, and so are the files
//! of servers that a job no longer has, once the present ones have newer snapshots ([`SnapshotStore::sweep`]).

use super::file::{Flush, StoreError, Take, disk, open_file, replace, write_file};
use super::format::{PartWriter, SnapshotHeader};
use super::manifest::{self, PartFile, SnapshotManifest, base_name, manifest_name, part_name};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use wire::recovery::Boundary;
use wire::{Step, Topology};
use words::causes::chain;

/// The snapshots of a directory, as one server sees them.
#[derive(Debug, Clone)]
pub struct SnapshotStore {
    directory: PathBuf,
    flush: Flush,
}

/// Suffix of the manifest of a snapshot that was found to be damaged.
const DAMAGED: &str = "json.damaged";

fn step_name(step: Step) -> String {
    format!("step-{:012}", step.0)
}

fn is_nowhere(cause: io::Error) -> bool {
    matches!(
        cause.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn confirmed_name(server: u32) -> String {
    format!("server-{server:04}.confirmed")
}

/// Identifies a file under any of its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BaseInode {
    device: u64,
    inode: u64,
}

impl BaseInode {
    fn of(path: &Path) -> io::Result<Self> {
        let found = fs::metadata(path)?;
        Ok(Self {
            device: found.dev(),
            inode: found.ino(),
        })
    }
}

/// What a server finds in its directory.
#[derive(Debug, Default)]
pub struct Listing {
    /// Steps that it can restore, ascending.
    pub usable: Vec<Step>,
    /// Steps that it cannot restore although there is a manifest, and why.
    pub unusable: Vec<(Step, StoreError)>,
    /// The newest snapshot of this run that all servers once had.
    pub confirmed: Option<Step>,
}

impl Listing {
    /// Why the newest snapshot of this run and model that cannot be used is unusable.
    pub fn damage(&self) -> Option<&StoreError> {
        let errors = self.unusable.iter().rev().map(|(_, error)| error);
        errors.into_iter().find(|error| {
            !matches!(
                error,
                StoreError::Foreign { .. } | StoreError::OtherRun { .. }
            )
        })
    }

    /// The snapshots that are not used, as sentences: one for each that is damaged or of another model, and the number of
    /// those of each other run.
    pub fn unused(&self) -> Vec<UnusedSnapshots> {
        let mut others: BTreeMap<&str, usize> = BTreeMap::new();
        let mut unused = Vec::new();
        for (step, error) in &self.unusable {
            match error {
                StoreError::OtherRun { run, .. } => *others.entry(run).or_default() += 1,
                error => unused.push(UnusedSnapshots {
                    is_fault: true,
                    text: format!(
                        "snapshot of step {step} is damaged or of another model; it is not used: {}",
                        chain(error)
                    ),
                }),
            }
        }
        unused.extend(others.into_iter().map(|(run, count)| UnusedSnapshots {
            is_fault: false,
            text: format!("{count} snapshots of another run, {run}, are not used"),
        }));
        unused
    }
}

/// Snapshots that a server finds and does not use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusedSnapshots {
    /// They are damaged or of another model: worth a warning. Those of an earlier run are not.
    pub is_fault: bool,
    /// Which they are and why.
    pub text: String,
}

/// The run, the tables and the server whose snapshots are searched.
#[derive(Debug, Clone, PartialEq)]
pub struct SnapshotOwner {
    /// The run of the job.
    pub job: String,
    /// Hash of the tables' names and shapes.
    pub shapes: u64,
    /// The servers now.
    pub topology: Topology,
    /// Which of them this is.
    pub server: u32,
    /// How many of them hold tables: the first ones.
    pub holders: u32,
    /// Hash of the map from blocks to services.
    pub map: u64,
}

impl SnapshotOwner {
    /// Whether this server holds something, and so writes snapshots.
    pub fn holds(&self) -> bool {
        self.server < self.holders
    }
}

impl SnapshotStore {
    /// A store in a directory, which is created when it is first needed.
    pub fn new(directory: PathBuf) -> Self {
        Self::on(directory, Flush::default())
    }

    /// A store that calls `flush` instead of fsync.
    pub fn on(directory: PathBuf, flush: Flush) -> Self {
        Self { directory, flush }
    }

    fn step_directory(&self, step: Step) -> PathBuf {
        self.directory.join(step_name(step))
    }

    /// Whether the files here are still this run's to change: another run may have taken the folder.
    fn may_change(&self) -> io::Result<()> {
        (self.flush.1)()
    }

    /// Writes one file: under a temporary name, then fsync, then rename.
    pub(crate) fn write_part(
        &self,
        step: Step,
        server: u32,
        port: usize,
        header: &SnapshotHeader,
        fill: impl FnOnce(&mut PartWriter<BufWriter<File>>) -> io::Result<()>,
    ) -> Result<PartFile, StoreError> {
        let directory = self.step_directory(step);
        self.may_change().map_err(disk("write into", &directory))?;
        fs::create_dir_all(&directory).map_err(disk("create", &directory))?;
        let name = part_name(server, port);
        let written = write_file(&directory.join(&name), &self.flush, header, fill)?;
        Ok(PartFile {
            name,
            bytes: written.bytes,
            fingerprint: written.fingerprint,
            base: None,
        })
    }

    /// Gives the part of a snapshot a second name, as the base of a part of `step`. `steps`: the snapshots whose
    /// directories may have the file, under either name.
    pub(crate) fn link_base(
        &self,
        step: Step,
        steps: &[Step],
        server: u32,
        port: usize,
        base: Option<&BaseInode>,
    ) -> Result<(), StoreError> {
        let path = self.step_directory(step).join(base_name(server, port));
        let names = [base_name(server, port), part_name(server, port)];
        let places = steps.iter().rev().flat_map(|step| {
            let directory = self.step_directory(*step);
            names.iter().map(move |name| directory.join(name))
        });
        let source = places
            .into_iter()
            .find(|path| BaseInode::of(path).is_ok_and(|found| Some(&found) == base))
            .ok_or_else(|| disk("find the base of", &path)(io::ErrorKind::NotFound.into()))?;
        // What an attempt that was interrupted left.
        let _ = fs::remove_file(&path);
        fs::hard_link(source, &path).map_err(disk("link", &path))
    }

    /// The identity of a part, if its disk can give it a second name: not all can.
    pub(crate) fn linkable(&self, step: Step, part: &PartFile) -> Option<BaseInode> {
        let path = self.step_directory(step).join(&part.name);
        let trial = path.with_extension("tmp");
        fs::hard_link(&path, &trial).ok()?;
        fs::remove_file(&trial).ok()?;
        BaseInode::of(&path).ok()
    }

    /// Writes the manifest, which makes this server's part of the snapshot valid.
    pub fn write_manifest(&self, manifest: &SnapshotManifest) -> Result<(), StoreError> {
        let directory = self.step_directory(manifest.boundary.step);
        let path = directory.join(manifest_name(manifest.server));
        let text = serde_json::to_vec_pretty(manifest).expect("a manifest serialises");
        replace(&path, &self.flush, |file| file.write_all(&text)).map_err(disk("write", &path))?;
        for directory in [&directory, &self.directory] {
            let flushed = File::open(directory).and_then(|file| (self.flush.0)(&file));
            flushed.map_err(disk("fsync", directory))?;
        }
        Ok(())
    }

    /// Steps that this server can restore, ascending, and those with a manifest of its own that it cannot, with the
    /// reason. Fails if the directory cannot be read; one that does not exist has nothing.
    pub fn list(&self, wanted: &SnapshotOwner) -> Result<Listing, StoreError> {
        let mut listing = Listing::default();
        let mut steps = self.steps()?;
        steps.sort_unstable();
        for step in steps {
            if self.is_confirmed(step, wanted) {
                listing.confirmed = Some(step);
            }
            match self.usable(step, wanted) {
                Ok(_) => listing.usable.push(step),
                Err(StoreError::Absent { .. }) => listing.unusable.extend(
                    self.condemned(step, wanted.server)
                        .map(|error| (step, error)),
                ),
                Err(error) => listing.unusable.push((step, error)),
            }
        }
        Ok(listing)
    }

    /// Where the snapshots lie.
    pub fn folder(&self) -> &Path {
        &self.directory
    }

    /// Notes that all servers have this server's snapshot, so that one that loses it knows that there was one.
    pub fn confirm(&self, step: Step, server: u32) {
        let path = self.step_directory(step).join(confirmed_name(server));
        // Without the note a loss is harder to detect, but the job does not depend on it.
        let _ = self.may_change().and_then(|()| File::create(path));
    }

    fn is_confirmed(&self, step: Step, wanted: &SnapshotOwner) -> bool {
        let note = self
            .step_directory(step)
            .join(confirmed_name(wanted.server));
        if !note.exists() {
            return false;
        }
        match manifest::read(&self.step_directory(step), wanted.server) {
            Ok(Some(own)) => own.job == wanted.job && own.shapes == wanted.shapes,
            Ok(None) => self.condemned(step, wanted.server).is_some(),
            Err(_) => true,
        }
    }

    /// The error for a snapshot that [`SnapshotStore::condemn`] has marked, if it has.
    fn condemned(&self, step: Step, server: u32) -> Option<StoreError> {
        let path = self.step_directory(step).join(manifest_name(server));
        let path = path.with_extension(DAMAGED);
        let reason = "it was found to be damaged before".to_owned();
        path.exists().then_some(StoreError::Unfit { path, reason })
    }

    /// Puts this server's files of the run aside, under a name that is not used yet: the job begins again.
    pub(crate) fn put_aside(&self, wanted: &SnapshotOwner) -> Result<(), StoreError> {
        let mine = |step: &Step| {
            self.servers(*step).contains(&wanted.server)
                && (self.belongs(*step, wanted.server, &wanted.job)
                    || self.condemned(*step, wanted.server).is_some())
        };
        let steps: Vec<Step> = self.steps()?.into_iter().filter(mine).collect();
        if steps.is_empty() {
            return Ok(());
        }
        self.may_change()
            .map_err(disk("put aside", &self.directory))?;
        let prefix = format!("server-{:04}.", wanted.server);
        let taken = |aside: &Path| {
            steps.iter().any(|step| {
                let there = aside.join(step_name(*step));
                let mut entries = fs::read_dir(there).into_iter().flatten().flatten();
                entries.any(|e| e.file_name().to_string_lossy().starts_with(&prefix))
            })
        };
        let numbers = (1_u32..).map(|number| self.directory.join(format!("aside-{number:04}")));
        let Some(aside) = numbers.into_iter().find(|aside| !taken(aside)) else {
            return Ok(());
        };
        for step in steps {
            let (from, to) = (self.step_directory(step), aside.join(step_name(step)));
            fs::create_dir_all(&to).map_err(disk("create", &to))?;
            for entry in fs::read_dir(&from).map_err(disk("list", &from))? {
                let name = entry.map_err(disk("list", &from))?.file_name();
                if name.to_string_lossy().starts_with(&prefix) {
                    let path = from.join(&name);
                    fs::rename(&path, to.join(&name)).map_err(disk("put aside", &path))?;
                }
            }
            // The directory can be removed only when the last server has put its files aside.
            let _ = fs::remove_dir(&from);
        }
        Ok(())
    }

    fn steps(&self) -> Result<Vec<Step>, StoreError> {
        let failed = |cause| disk("list", &self.directory)(cause);
        let entries = match fs::read_dir(&self.directory) {
            // If a folder above is missing or is a file, there are no snapshots.
            Err(_) if fs::symlink_metadata(&self.directory).is_err_and(is_nowhere) => {
                return Ok(Vec::new());
            }
            entries => entries.map_err(failed)?,
        };
        let mut steps = Vec::new();
        for entry in entries {
            let name = entry.map_err(failed)?.file_name();
            let digits = name.to_str().and_then(|name| name.strip_prefix("step-"));
            steps.extend(digits.and_then(|digits| digits.parse().ok()).map(Step));
        }
        Ok(steps)
    }

    /// The manifests to read for a step: only our own if every server still holds the same shards, else all of them.
    fn usable(
        &self,
        step: Step,
        wanted: &SnapshotOwner,
    ) -> Result<Vec<SnapshotManifest>, StoreError> {
        let absent = || StoreError::Absent {
            step,
            path: self.directory.clone(),
        };
        let own = self.manifest(step, wanted.server, wanted)?;
        if let Some(own) = own
            && own.lies_as(wanted)
        {
            return Ok(vec![own]);
        }
        let others = self.servers(step);
        let any = others
            .into_iter()
            .find_map(|server| self.manifest(step, server, wanted).ok().flatten());
        let any = any.ok_or_else(absent)?;
        let mut all = Vec::new();
        for server in 0..any.holders() {
            let manifest = self.manifest(step, server, wanted)?;
            all.push(
                manifest
                    .filter(|m| m.same_snapshot(&any))
                    .ok_or_else(absent)?,
            );
        }
        Ok(all)
    }

    /// A server's manifest, with its files checked: all exist and their headers belong to it. `None` without a manifest.
    fn manifest(
        &self,
        step: Step,
        server: u32,
        wanted: &SnapshotOwner,
    ) -> Result<Option<SnapshotManifest>, StoreError> {
        let directory = self.step_directory(step);
        let Some(manifest) = manifest::read(&directory, server)? else {
            return Ok(None);
        };
        let path = directory.join(manifest_name(server));
        if manifest.job != wanted.job {
            let run = manifest.job;
            return Err(StoreError::OtherRun { path, run });
        }
        if manifest.shapes != wanted.shapes {
            let reason = "its tables have other names or shapes".to_owned();
            return Err(StoreError::Foreign { path, reason });
        }
        if manifest.boundary.step != step {
            let reason = format!("it belongs to step {}", manifest.boundary.step);
            return Err(StoreError::Unfit { path, reason });
        }
        for port in 0..manifest.files.len() {
            manifest.check(&directory, port)?;
        }
        Ok(Some(manifest))
    }

    /// Reads the parts of a snapshot that this server needs. Returns the boundary at which it was taken.
    pub fn restore(
        &self,
        step: Step,
        wanted: &SnapshotOwner,
        take: &mut Take<'_>,
    ) -> Result<Boundary, StoreError> {
        let manifests = self.usable(step, wanted)?;
        let directory = self.step_directory(step);
        for manifest in &manifests {
            for port in 0..manifest.files.len() {
                manifest.take(&directory, port, take)?;
            }
        }
        let first = manifests.into_iter().next();
        first
            .map(|manifest| manifest.boundary)
            .ok_or_else(|| StoreError::Absent {
                step,
                path: self.directory.clone(),
            })
    }

    /// Marks this server's part of a snapshot as unusable, so that it is not offered again; the files stay.
    pub(crate) fn condemn(&self, step: Step, server: u32) {
        let path = self.step_directory(step).join(manifest_name(server));
        // If the manifest cannot be renamed, the next attempt fails with the same cause.
        let _ = self
            .may_change()
            .and_then(|()| fs::rename(&path, path.with_extension(DAMAGED)));
    }

    /// Deletes files that earlier generations left: this server's files of steps that are neither `kept` nor as new as
    /// `stable`, a snapshot that all present servers have; server 0 also deletes files of servers that no longer hold
    /// anything. A snapshot of an earlier set of servers stays complete as long as it is among the kept ones.
    pub fn sweep(&self, wanted: &SnapshotOwner, kept: &[Step], stable: Step) {
        // Files that cannot be listed now are deleted by a later sweep.
        for step in self.steps().unwrap_or_default() {
            let past = step < stable && !kept.contains(&step);
            // A step of the present servers: files of others in it are from before it was written again.
            let own = self.manifest(step, wanted.server, wanted).ok().flatten();
            let ours = own.is_some_and(|own| own.lies_as(wanted));
            for server in self.servers(step) {
                let orphan = wanted.server == 0 && server >= wanted.holders;
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

    /// Whether none of a server's files of a step names another job.
    fn belongs(&self, step: Step, server: u32, job: &str) -> bool {
        let directory = self.step_directory(step);
        match manifest::read(&directory, server) {
            Ok(Some(manifest)) => return manifest.job == job,
            Ok(None) => {}
            // It cannot be known whose file this is, so it stays.
            Err(_) => return false,
        }
        let prefix = format!("server-{server:04}.port-");
        let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
        let parts = entries.filter(|e| e.file_name().to_string_lossy().starts_with(&prefix));
        let mut jobs = parts.filter_map(|entry| {
            let reader = open_file(&entry.path()).ok()?;
            Some(reader.header().binding.job.clone())
        });
        jobs.all(|other| other == job)
    }

    /// Deletes this server's files of a step, manifest first. In a folder that another run has taken, they are that run's.
    pub fn remove(&self, step: Step, server: u32) {
        if self.may_change().is_err() {
            return;
        }
        let directory = self.step_directory(step);
        // A file that cannot be deleted only takes disk space; the next removal tries again.
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
