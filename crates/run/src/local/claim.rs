//! The file that a run leaves for later ones in the same folder: `run.json` names the run that the snapshots and pass
//! directories belong to, the settings and data it was started with, and whether it has finished. [`super::lease`]
//! names the process that runs it now.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::layout::is_job_part;
use super::lease::Holder;

/// The settings of a run that determine its results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSettings {
    /// The configuration file, relative to the job folder.
    pub config: String,
    /// Checksums of what is in the configuration folder, by name; `None` in files of older versions.
    #[serde(default)]
    pub config_files: Option<BTreeMap<String, u32>>,
    /// Number of nodes.
    pub nodes: u32,
    /// Flags that are passed to the trainers, without those that do not change the results.
    pub trainer_flags: Vec<String>,
    /// Checksum of the data files; `None` in files of older versions.
    #[serde(default)]
    pub data_checksum: Option<u32>,
    /// `--passes`; `None` if the default of the trainer holds.
    #[serde(default)]
    pub passes: Option<u64>,
}

/// The file in which trainer 0 notes, when it has saved a pass, which run the pass belongs to.
const SAVED_NOTE: &str = "canoe.saved.json";

/// The file that names the run in a folder.
pub(super) const RUN_FILE: &str = "run.json";

/// What is in `run.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFile {
    /// The name of the run; snapshots carry it.
    pub run: String,
    /// What it was started with.
    pub settings: RunSettings,
    /// Whether it has finished all its passes.
    pub finished: bool,
    /// Passes that an earlier run in this folder had finished; this run continues after them.
    #[serde(default)]
    pub start_pass: u64,
    /// Of a finished run: the number of finished passes, smaller than requested if `--patience` ended it. `None` in files
    /// of older versions.
    #[serde(default)]
    pub done: Option<u64>,
    /// Where the results that were in the folder were moved to, if the run starts from a model among them.
    #[serde(default)]
    pub moved_to: Option<PathBuf>,
}

impl RunFile {
    /// The first pass that this run itself trains.
    fn first_pass(&self) -> u64 {
        self.start_pass
            .max(start_pass(&self.settings.trainer_flags))
    }
}

/// The first pass according to the trainers' flags (`--start_pass`).
pub fn start_pass(flags: &[String]) -> u64 {
    let mut words = flags.iter();
    let mut found = 0;
    while let Some(word) = words.next() {
        let word = word.trim_start_matches('-');
        let value = match word.split_once('=') {
            Some(("start_pass", value)) => Some(value),
            None if word == "start_pass" => words.next().map(String::as_str),
            _ => None,
        };
        found = value.and_then(|value| value.parse().ok()).unwrap_or(found);
    }
    found
}

/// How a run begins in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Beginning {
    /// Start a new run in an empty folder.
    New,
    /// Move the results in the folder aside, then start a new run. If more passes were requested, the text says why they
    /// cannot continue after the finished ones; otherwise it is empty.
    Archive(String),
    /// Continue this run.
    Resume(String),
    /// This number of passes is finished, and more are requested: a new run continues after them.
    More(u64),
    /// The unfinished run in the folder had other settings; the text says which.
    Differs(String),
    /// There are snapshots or models, and it is not known which run they belong to.
    Nameless(NameFault),
}

/// The file that should name the run of the results in a folder, and what is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameFault {
    /// The file that says it.
    pub file: &'static str,
    /// What is wrong with it.
    pub fault: &'static str,
}

impl std::fmt::Display for NameFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { file, fault } = self;
        write!(f, "{file}, which says which run they belong to, {fault}")
    }
}

/// What [`SAVED_NOTE`] says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Noted {
    /// There is no such file.
    #[default]
    Nothing,
    /// The file cannot be parsed.
    Damaged,
    /// Passes of this run were saved.
    Run(String),
}

impl Noted {
    fn read(output: &Path) -> Self {
        #[derive(Deserialize)]
        struct Note {
            run: String,
            #[serde(rename = "passes")]
            _passes: BTreeMap<String, String>,
        }
        match fs::read(output.join(SAVED_NOTE)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::Nothing,
            text => match serde_json::from_slice(&text.unwrap_or_default()) {
                Ok(Note { run, .. }) => Self::Run(run),
                Err(_) => Self::Damaged,
            },
        }
    }

    /// Why trainer 0 could not tell the models of this run from those of another; `None` if it can.
    fn fault(&self, run: &str) -> Option<&'static str> {
        match self {
            Self::Nothing => Some("is missing"),
            Self::Damaged => Some("is damaged"),
            Self::Run(noted) if noted != run => Some("is of another run"),
            Self::Run(_) => None,
        }
    }
}

/// The options of the user for the beginning of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StartOptions {
    /// `--fresh`: a new run, whatever the folder has.
    pub fresh: bool,
    /// A run that continues after results in this folder, which therefore stay where they are.
    pub in_place: bool,
}

/// Snapshots and models in a folder from which a run could be resumed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundWork {
    /// The last pass with a directory, even one that was saved inside the pass (`pass-00003-002`).
    pub last_pass: Option<u64>,
    /// The passes with a directory that was saved at their end.
    pub whole: BTreeSet<u64>,
    /// There are snapshots.
    pub snapshots: bool,
    /// Which run has saved the passes.
    pub noted: Noted,
}

impl FoundWork {
    /// Whether there are snapshots or models, or a note that there were some.
    pub fn any(&self) -> bool {
        self.last_pass.is_some() || self.snapshots || self.noted != Noted::Nothing
    }
}

/// Decides how a run begins. An unfinished run without a snapshot or a model has nothing to resume and nothing to lose.
pub fn decide(
    found: Option<&RunFile>,
    settings: &RunSettings,
    wanted: StartOptions,
    work: &FoundWork,
) -> Beginning {
    let has_work = work.any();
    let archive = || Beginning::Archive(String::new());
    let Some(found) = found else {
        return match has_work {
            true if wanted.fresh => archive(),
            true if wanted.in_place => Beginning::New,
            true if work.snapshots => Beginning::Nameless(NameFault {
                file: RUN_FILE,
                fault: "is missing",
            }),
            // `canoe train`, without a runner, saved these models.
            true => archive(),
            false => Beginning::New,
        };
    };
    if !has_work && !found.finished {
        return Beginning::New;
    }
    if wanted.fresh {
        return archive();
    }
    if found.finished {
        return match more(found, settings, work) {
            _ if wanted.in_place => Beginning::New,
            Some(Ok(done)) => Beginning::More(done),
            Some(Err(why)) => Beginning::Archive(why),
            None => archive(),
        };
    }
    let mut differences = differences(&found.settings, settings);
    differences.extend(too_few(found, settings, work));
    // Without snapshots, only the note tells the models of this run from others. If the run was interrupted before it
    // saved its first pass, there are none.
    let unknown = match work.last_pass > Some(found.first_pass()) && !work.snapshots {
        true => work.noted.fault(&found.run),
        false => None,
    };
    match (differences.is_empty(), unknown) {
        (true, None) => Beginning::Resume(found.run.clone()),
        // A user who gives --start_pass decides which passes are repeated.
        _ if wanted.in_place => Beginning::New,
        (false, _) => Beginning::Differs(differences.join(", ")),
        (true, Some(fault)) => Beginning::Nameless(NameFault {
            file: SAVED_NOTE,
            fault,
        }),
    }
}

/// For a finished run of which more passes are requested: the number of finished passes to continue after, or why that is
/// not possible.
fn more(found: &RunFile, settings: &RunSettings, work: &FoundWork) -> Option<Result<u64, String>> {
    let asked = found.settings.passes;
    let done = found.done.or(asked)?;
    settings
        .passes
        .filter(|passes| *passes > asked.unwrap_or(done))?;
    let mut why = differences(&found.settings, settings);
    let last = done.checked_sub(1)?;
    if !work.whole.contains(&last) {
        why.push(format!("the model of its last pass, {last}, is missing"));
    }
    Some(match why.is_empty() {
        true => Ok(done),
        false => Err(why.join(", ")),
    })
}

/// An unfinished run cannot end after fewer passes than it has finished.
fn too_few(found: &RunFile, settings: &RunSettings, work: &FoundWork) -> Option<String> {
    let asked = found.settings.passes.unwrap_or(u64::MAX);
    let passes = settings.passes.filter(|passes| *passes < asked)?;
    let done = work.whole.last()? + 1;
    let ends_before = start_pass(&settings.trainer_flags) == 0 && passes < done;
    ends_before
        .then(|| format!("--passes {passes} is less than the {done} passes that it has finished"))
}

impl RunSettings {
    /// These settings for a run that continues one with `earlier` settings: files that were added since are not part of
    /// the configuration, because that run has not read them.
    pub fn continuing(mut self, earlier: &Self) -> Self {
        if let (Some(files), Some(before)) = (&mut self.config_files, &earlier.config_files) {
            files.retain(|name, _| before.contains_key(name));
        }
        self
    }
}

fn differences(old: &RunSettings, new: &RunSettings) -> Vec<String> {
    let mut list = Vec::new();
    if old.config != new.config {
        list.push(format!("--config was {}", old.config));
    } else if let (Some(before), Some(now)) = (&old.config_files, &new.config_files) {
        // The run has not read files that did not exist when it began.
        list.extend(before.iter().filter_map(|(name, sum)| match now.get(name) {
            None => Some(format!("{name} is gone")),
            Some(same) if same == sum => None,
            Some(_) => Some(format!("{name} has changed")),
        }));
    }
    // Another number of nodes reads other shards, which is no change of the data.
    if let (Some(before), Some(now)) = (old.data_checksum, new.data_checksum)
        && before != now
        && old.nodes == new.nodes
    {
        list.push("the data files have changed".to_owned());
    }
    if old.nodes != new.nodes {
        list.push(format!(
            "--nodes was {} (the data would be split differently, and the result would be another; --servers may differ)",
            old.nodes
        ));
    }
    if old.trainer_flags != new.trainer_flags {
        list.push(format!(
            "the trainer flags were `{}`",
            old.trainer_flags.join(" ")
        ));
    }
    list
}

/// Why a folder could not be claimed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the variants are documented")]
pub enum ClaimError {
    /// A running process owns the folder.
    #[error(
        "{folder} is in use by process {pid} on {host}; wait until it has ended, stop it, or copy the job folder"
    )]
    Owned {
        /// The output folder.
        folder: PathBuf,
        /// The owner's process id.
        pid: u32,
        /// The owner's machine.
        host: String,
    },
    /// The folder has an unfinished run with other settings.
    #[error(
        "{folder} holds an unfinished run with other settings: {differences}; start it as before to resume it, or use --fresh to move it aside and start again"
    )]
    Differs {
        /// The output folder.
        folder: PathBuf,
        /// What differs.
        differences: String,
    },
    /// The folder has snapshots or models, and it is not known which run they belong to.
    #[error(
        "{folder} holds results of an unfinished run, but the file {fault}; bring it back to resume that run, continue after a saved pass with --start-pass, or use --fresh to move everything aside and start again"
    )]
    Nameless {
        /// The output folder.
        folder: PathBuf,
        /// The file that should say it.
        fault: NameFault,
    },
    /// `run.json` exists and cannot be parsed.
    #[error(
        "{path} is damaged, so it is not known which run the results beside it belong to; bring it back to resume that run, or use --fresh to move everything aside and start again"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with its text.
        #[source]
        source: serde_json::Error,
    },
    /// A file of the claim could not be read or written.
    #[error("{action} {path}")]
    File {
        action: &'static str,
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
}

impl ClaimError {
    /// The error for a folder that `holder` owns; `None` if the owner has not written its name yet.
    pub(super) fn owned(folder: PathBuf, holder: Option<Holder>) -> Self {
        let (host, pid) = holder.map_or(("an unknown machine".to_owned(), 0), |h| (h.host, h.pid));
        Self::Owned { folder, pid, host }
    }
}

/// Reads `run.json` of an earlier run. A file that cannot be read is an error: it may belong to a run that can be
/// resumed.
pub fn read(output: &Path) -> Result<Option<RunFile>, ClaimError> {
    let path = output.join(RUN_FILE);
    let text = match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => {
            let action = "read";
            return Err(ClaimError::File {
                action,
                path,
                source,
            });
        }
        Ok(text) => text,
    };
    let parsed = serde_json::from_slice(&text);
    parsed.map_err(|source| ClaimError::Damaged { path, source })
}

/// Looks for what a run could be resumed from.
pub fn find_work(output: &Path) -> FoundWork {
    FoundWork {
        last_pass: passes(output).map(|found| found.pass).max(),
        whole: whole_passes(output),
        snapshots: holds(&output.join("snapshots"), "step-"),
        noted: Noted::read(output),
    }
}

/// A checksum of each file and folder in a configuration folder. If that is the job folder, its data and outputs, logs,
/// documents, and folders with models are left out; so are files to which the output of this process is redirected.
pub fn config_files(folder: &Path, job: &Path) -> io::Result<BTreeMap<String, u32>> {
    let mut files = BTreeMap::new();
    let printed_to = outputs_of_this_process();
    for entry in sorted(folder)? {
        let (name, path) = (entry.file_name(), entry.path());
        let Some(name) = name.to_str().filter(|name| !is_byproduct(name)) else {
            continue;
        };
        if folder == job && (is_job_part(name) || is_document(name) || holds(&path, "pass-")) {
            continue;
        }
        let is_printed_to = |about: fs::Metadata| printed_to.contains(&FileId::of(&about));
        if fs::metadata(&path).is_ok_and(is_printed_to) {
            continue;
        }
        let mut sum = crc32fast::Hasher::new();
        add_tree(&path, entry.file_type()?, &mut sum)?;
        files.insert(name.to_owned(), sum.finalize());
    }
    Ok(files)
}

/// Logs, hidden files, and the compiled files that Python leaves beside what it reads.
fn is_byproduct(name: &str) -> bool {
    name == "__pycache__" || name == "nohup.out" || name.ends_with(".log") || name.starts_with('.')
}

/// Files beside a configuration that no configuration reads: job.yaml, notes, reports, notebooks, scripts.
fn is_document(name: &str) -> bool {
    let ending = Path::new(name)
        .extension()
        .and_then(|ending| ending.to_str());
    name == "job.yaml" || matches!(ending, Some("md" | "html" | "sh" | "ipynb"))
}

/// Identifies a file under any of its names.
#[derive(PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    fn of(about: &fs::Metadata) -> Self {
        Self {
            device: about.dev(),
            inode: about.ino(),
        }
    }
}

/// The files to which a shell has redirected what this process prints.
fn outputs_of_this_process() -> Vec<FileId> {
    let about = |stream: BorrowedFd<'_>| -> Option<FileId> {
        let about = fs::File::from(stream.try_clone_to_owned().ok()?)
            .metadata()
            .ok()?;
        about.is_file().then(|| FileId::of(&about))
    };
    let streams = [about(io::stdout().as_fd()), about(io::stderr().as_fd())];
    streams.into_iter().flatten().collect()
}

fn sorted(folder: &Path) -> io::Result<Vec<fs::DirEntry>> {
    let mut entries: Vec<_> = fs::read_dir(folder)?.collect::<io::Result<_>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    Ok(entries)
}

/// Adds the names and contents of all files below a path; of very large files only the beginning and the end.
fn add_tree(path: &Path, kind: fs::FileType, sum: &mut crc32fast::Hasher) -> io::Result<()> {
    const HUGE: u64 = 16 << 20;
    if kind.is_dir() {
        for entry in sorted(path)? {
            if !is_byproduct(&entry.file_name().to_string_lossy()) {
                sum.update(entry.file_name().as_encoded_bytes());
                add_tree(&entry.path(), entry.file_type()?, sum)?;
            }
        }
    } else if kind.is_file() {
        let length = fs::metadata(path)?.len();
        sum.update(&length.to_le_bytes());
        match length {
            0..HUGE => sum.update(&fs::read(path)?),
            _ => sum.update(&ends(path, length)?),
        }
    }
    Ok(())
}

/// Whether a folder has an entry whose name begins so.
fn holds(folder: &Path, prefix: &str) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names = entries.map(|entry| entry.file_name());
    names.any(|name| name.to_string_lossy().starts_with(prefix))
}

/// The name of a pass directory.
struct PassName {
    pass: u64,
    /// `pass-00003` and not `pass-00003-002`.
    whole: bool,
}

/// The pass directories, whether or not they are complete.
fn passes(output: &Path) -> impl Iterator<Item = PassName> {
    let entries = fs::read_dir(output).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter_map(|name| {
        let number = name.strip_prefix("pass-")?;
        let (pass, part) = number
            .split_once('-')
            .map_or((number, None), |(pass, part)| (pass, Some(part)));
        Some(PassName {
            pass: pass.parse().ok()?,
            whole: part.is_none(),
        })
    })
}

/// The passes with a directory that was saved at their end.
pub fn whole_passes(output: &Path) -> BTreeSet<u64> {
    let whole = passes(output).filter(|found| found.whole);
    whole.map(|found| found.pass).collect()
}

/// A checksum of the names, sizes, beginnings and ends of these files and of all files below these folders: data are too
/// large to be read whole. Of a path that does not exist, only the name counts.
pub fn data_checksum(paths: &[PathBuf]) -> io::Result<u32> {
    fn visit(path: &Path, sum: &mut crc32fast::Hasher) -> io::Result<()> {
        let about = match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            about => about?,
        };
        if about.is_dir() {
            let mut entries: Vec<_> = fs::read_dir(path)?.collect::<io::Result<_>>()?;
            entries.sort_by_key(fs::DirEntry::file_name);
            for entry in entries {
                sum.update(entry.file_name().as_encoded_bytes());
                visit(&entry.path(), sum)?;
            }
        } else if about.is_file() {
            sum.update(&about.len().to_le_bytes());
            sum.update(&ends(path, about.len())?);
        }
        Ok(())
    }
    let mut sum = crc32fast::Hasher::new();
    for path in paths {
        let name = path.file_name().unwrap_or_default();
        sum.update(name.as_encoded_bytes());
        visit(path, &mut sum)?;
    }
    Ok(sum.finalize())
}

/// The first and the last bytes of a file.
fn ends(path: &Path, length: u64) -> io::Result<Vec<u8>> {
    const END: u64 = 1 << 16;
    let mut file = fs::File::open(path)?;
    let mut bytes = Vec::new();
    (&mut file).take(END).read_to_end(&mut bytes)?;
    if length > END {
        file.seek(SeekFrom::Start(length.saturating_sub(END).max(END)))?;
        file.take(END).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// Replaces `run.json`.
pub fn write(output: &Path, run: &RunFile) -> Result<(), ClaimError> {
    let path = output.join(RUN_FILE);
    let failed = |source| ClaimError::File {
        action: "write",
        path: path.clone(),
        source,
    };
    let text = serde_json::to_vec_pretty(run).map_err(|error| failed(error.into()))?;
    replace(&path, &text).map_err(failed)
}

pub(super) fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let hidden = path.with_extension(format!("{}.new", std::process::id()));
    let write = || {
        let mut file = fs::File::create(&hidden)?;
        file.write_all(text)?;
        file.sync_all()?;
        fs::rename(&hidden, path)
    };
    write().inspect_err(|_| {
        // The old file is still complete; the new one is not, and is removed.
        let _ = fs::remove_file(&hidden);
    })?;
    match path.parent() {
        Some(folder) => fs::File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(nodes: u32) -> RunSettings {
        RunSettings {
            config: "a.py".to_owned(),
            config_files: Some(BTreeMap::from([
                ("a.py".to_owned(), 7),
                ("b.txt".to_owned(), 8),
            ])),
            nodes,
            trainer_flags: Vec::new(),
            data_checksum: Some(3),
            passes: Some(4),
        }
    }

    fn both() -> FoundWork {
        FoundWork {
            last_pass: Some(3),
            whole: (0..4).collect(),
            snapshots: true,
            noted: own(),
        }
    }

    fn own() -> Noted {
        Noted::Run("r1".to_owned())
    }

    fn nameless(file: &'static str, fault: &'static str) -> Beginning {
        Beginning::Nameless(NameFault { file, fault })
    }

    #[test]
    fn a_file_that_cannot_be_replaced_leaves_nothing_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        // A folder with something in it cannot be replaced by a file.
        let taken = folder.path().join("run.json");
        fs::create_dir_all(taken.join("inside")).unwrap();
        assert!(replace(&taken, b"{}").is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let free = folder.path().join("owner.json");
        replace(&free, b"{}").unwrap();
        assert_eq!(fs::read(&free).unwrap(), b"{}");
    }

    #[test]
    fn models_that_may_be_of_another_run_are_not_written_over() {
        let beginning = |last_pass, snapshots, noted| {
            let work = FoundWork {
                last_pass: Some(last_pass),
                whole: (0..=last_pass).collect(),
                snapshots,
                noted,
            };
            let wanted = StartOptions::default();
            decide(Some(&run(false)), &settings(2), wanted, &work)
        };
        let other = || Noted::Run("r2".to_owned());
        for (noted, fault) in [
            (Noted::Nothing, "is missing"),
            (Noted::Damaged, "is damaged"),
            (other(), "is of another run"),
        ] {
            assert_eq!(beginning(1, false, noted), nameless(SAVED_NOTE, fault));
        }
        for (snapshots, noted) in [(true, Noted::Damaged), (false, own()), (true, other())] {
            let resumed = Beginning::Resume("r1".to_owned());
            assert_eq!(beginning(1, snapshots, noted), resumed);
        }
    }

    #[test]
    fn a_note_is_read_as_what_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let read = || Noted::read(folder.path());
        assert_eq!(read(), Noted::Nothing);
        let path = folder.path().join(SAVED_NOTE);
        for damaged in ["", "{\"run\":", "{\"run\":\"r1\"}"] {
            fs::write(&path, damaged).unwrap();
            assert_eq!(read(), Noted::Damaged);
        }
        fs::write(&path, "{\"run\":\"r1\",\"passes\":{}}").unwrap();
        assert_eq!(read(), own());
    }

    #[test]
    fn a_run_all_of_whose_passes_are_gone_is_not_begun_again_silently() {
        let gone = FoundWork {
            noted: own(),
            ..FoundWork::default()
        };
        let beginning = |nodes| {
            let wanted = StartOptions::default();
            decide(Some(&run(false)), &settings(nodes), wanted, &gone)
        };
        // Trainer 0 refuses it, with what is missing.
        assert_eq!(beginning(2), Beginning::Resume("r1".to_owned()));
        assert!(matches!(beginning(3), Beginning::Differs(_)));
    }

    #[test]
    fn a_run_that_began_in_place_is_resumed_and_other_flags_begin_again_in_place() {
        let flags = |start: u64| RunSettings {
            trainer_flags: vec![format!("--start_pass={start}")],
            ..settings(2)
        };
        let open = RunFile {
            settings: flags(2),
            ..run(false)
        };
        let wanted = StartOptions {
            in_place: true,
            ..StartOptions::default()
        };
        let after = |found: &RunFile, start, work: &FoundWork| {
            decide(Some(found), &flags(start), wanted, work)
        };
        assert_eq!(after(&open, 2, &both()), Beginning::Resume("r1".to_owned()));
        assert_eq!(after(&open, 3, &both()), Beginning::New);
        assert_eq!(after(&run(false), 2, &both()), Beginning::New);
        let mut finished = open.clone();
        finished.finished = true;
        assert_eq!(after(&finished, 2, &both()), Beginning::New);
        // It was interrupted before its first save: what is there is of the run before.
        let earlier = FoundWork {
            last_pass: Some(2),
            snapshots: false,
            noted: Noted::Run("r0".to_owned()),
            ..both()
        };
        assert_eq!(
            after(&open, 2, &earlier),
            Beginning::Resume("r1".to_owned())
        );
    }

    #[test]
    fn the_first_pass_is_found_in_every_form_of_the_flag() {
        let of = |flags: &[&str]| {
            let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
            start_pass(&flags)
        };
        assert_eq!(of(&["--log_period=5"]), 0);
        assert_eq!(of(&["--start_pass=3"]), 3);
        assert_eq!(of(&["-start_pass", "3", "--log_period=5"]), 3);
        assert_eq!(of(&["--start_pass=3", "--start_pass=4"]), 4);
    }

    #[test]
    fn more_passes_continue_after_those_that_are_done_however_many_were_asked_for() {
        let after = |asked, done, wanted, whole: u64| {
            let mut found = run(true);
            (found.settings.passes, found.done) = (asked, done);
            let work = FoundWork {
                whole: (0..whole).collect(),
                ..both()
            };
            let settings = RunSettings {
                passes: wanted,
                ..settings(2)
            };
            decide(Some(&found), &settings, StartOptions::default(), &work)
        };
        // It ended by itself after pass 8.
        assert_eq!(after(None, Some(9), Some(12), 9), Beginning::More(9));
        assert_eq!(after(Some(20), Some(9), Some(30), 9), Beginning::More(9));
        let again = Beginning::Archive(String::new());
        assert_eq!(after(None, Some(9), None, 9), again);
        assert_eq!(after(None, Some(9), Some(9), 9), again);
        assert_eq!(after(Some(20), Some(9), Some(20), 9), again);
        assert_eq!(after(Some(4), None, Some(8), 4), Beginning::More(4));
        let lost = after(Some(4), Some(4), Some(8), 3);
        assert!(
            matches!(&lost, Beginning::Archive(why) if why.contains("last pass, 3, is missing"))
        );
    }

    #[test]
    fn an_unfinished_run_does_not_end_after_fewer_passes_than_it_has_done() {
        let with = |passes| {
            let settings = RunSettings {
                passes: Some(passes),
                ..settings(2)
            };
            let mut open = run(false);
            open.settings.passes = Some(6);
            decide(Some(&open), &settings, StartOptions::default(), &both())
        };
        assert!(matches!(with(2), Beginning::Differs(why) if why.contains("less than the 4")));
        for passes in [4, 6, 9] {
            assert_eq!(with(passes), Beginning::Resume("r1".to_owned()));
        }
    }

    #[test]
    fn a_run_that_was_interrupted_before_it_noted_its_first_pass_is_resumed() {
        let folder = tempfile::tempdir().unwrap();
        let mut open = run(false);
        open.start_pass = 3;
        let with = |directory: &str| {
            fs::create_dir(folder.path().join(directory)).unwrap();
            let work = find_work(folder.path());
            decide(Some(&open), &settings(2), StartOptions::default(), &work)
        };
        let resumed = Beginning::Resume("r1".to_owned());
        assert_eq!(with("pass-00002"), resumed);
        assert_eq!(with("pass-00003-001"), resumed);
        assert_eq!(with("pass-00003"), resumed);
        assert_eq!(with("pass-00004"), nameless(SAVED_NOTE, "is missing"));
    }

    #[test]
    fn work_of_an_unknown_run_is_never_written_over() {
        let beginning = |passes: bool, snapshots, fresh| {
            let wanted = StartOptions {
                fresh,
                in_place: false,
            };
            let work = FoundWork {
                last_pass: passes.then_some(0),
                snapshots,
                ..FoundWork::default()
            };
            decide(None, &settings(2), wanted, &work)
        };
        assert_eq!(beginning(false, false, false), Beginning::New);
        assert_eq!(beginning(false, false, true), Beginning::New);
        assert_eq!(
            beginning(true, false, false),
            Beginning::Archive(String::new())
        );
        for passes in [false, true] {
            let missing = nameless(RUN_FILE, "is missing");
            assert_eq!(beginning(passes, true, false), missing);
            assert_eq!(
                beginning(passes, true, true),
                Beginning::Archive(String::new())
            );
        }
    }

    #[test]
    fn a_damaged_file_is_named_and_is_not_taken_for_none() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path()).unwrap(), None);
        for text in ["", "garbage", "{\"run\":\"r1\""] {
            fs::write(folder.path().join("run.json"), text).unwrap();
            let error = read(folder.path()).unwrap_err().to_string();
            assert!(error.contains("run.json is damaged"), "{error}");
            assert!(error.contains("--fresh"), "{error}");
        }
    }

    fn run(finished: bool) -> RunFile {
        RunFile {
            run: "r1".to_owned(),
            settings: settings(2),
            finished,
            start_pass: 0,
            done: None,
            moved_to: None,
        }
    }

    #[test]
    fn an_unfinished_run_is_resumed_only_with_its_own_settings() {
        let (open, done) = (run(false), run(true));
        let plain = StartOptions::default();
        let with_work = |found, nodes, wanted| decide(found, &settings(nodes), wanted, &both());
        let resumed = Beginning::Resume("r1".to_owned());
        assert_eq!(with_work(Some(&open), 2, plain), resumed.clone());
        let differs = with_work(Some(&open), 3, plain);
        assert!(matches!(&differs, Beginning::Differs(why) if why.starts_with("--nodes was 2")));
        let changed = RunSettings {
            data_checksum: Some(4),
            ..settings(2)
        };
        let differs = decide(Some(&open), &changed, plain, &both());
        assert_eq!(
            differs,
            Beginning::Differs("the data files have changed".to_owned())
        );
        let unknown = RunSettings {
            data_checksum: None,
            ..settings(2)
        };
        assert_eq!(decide(Some(&open), &unknown, plain, &both()), resumed);
        let longer = RunSettings {
            passes: Some(6),
            ..settings(2)
        };
        let more = Beginning::More(4);
        assert_eq!(decide(Some(&done), &longer, plain, &both()), more);
        assert_eq!(decide(Some(&open), &longer, plain, &both()), resumed);
        let other = RunSettings {
            config_files: Some(BTreeMap::from([("a.py".to_owned(), 9)])),
            ..longer
        };
        assert_eq!(
            decide(Some(&done), &other, plain, &both()),
            Beginning::Archive("a.py has changed, b.txt is gone".to_owned())
        );
        assert_eq!(
            decide(Some(&open), &other, plain, &both()),
            Beginning::Differs("a.py has changed, b.txt is gone".to_owned())
        );
        for (found, fresh) in [(&open, true), (&done, false), (&done, true)] {
            let wanted = StartOptions { fresh, ..plain };
            assert_eq!(
                with_work(Some(found), 3, wanted),
                Beginning::Archive(String::new())
            );
        }
        let in_place = StartOptions {
            in_place: true,
            ..plain
        };
        assert_eq!(with_work(Some(&done), 3, in_place), Beginning::New);
        let idle = decide(Some(&open), &settings(3), plain, &FoundWork::default());
        assert_eq!(
            idle,
            Beginning::New,
            "nothing was done, nothing can be lost"
        );
    }

    #[test]
    fn what_a_run_puts_into_the_job_folder_is_not_the_configuration() {
        let folder = tempfile::tempdir().unwrap();
        let job = folder.path();
        let write = |name: &str, text: &str| {
            fs::create_dir_all(job.join(name).parent().unwrap()).unwrap();
            fs::write(job.join(name), text).unwrap();
        };
        for name in ["trainer_config.py", "words/dict.txt", "data/train.txt"] {
            write(name, "1");
        }
        let before = config_files(job, job).unwrap();
        let names: Vec<&String> = before.keys().collect();
        assert_eq!(names, ["trainer_config.py", "words"]);
        for name in [
            "output/pass-00000/done",
            "output-1/run.json",
            "local/pass-00000/done",
            "run.log",
            "nohup.out",
            "__pycache__/provider.pyc",
            "words/.dict.txt.swp",
            "notes.md",
            "report.html",
            "job.yaml",
            "data/0/train.txt",
        ] {
            write(name, "2");
        }
        assert_eq!(config_files(job, job).unwrap(), before);
        write("words/dict.txt", "2");
        let after = config_files(job, job).unwrap();
        assert_ne!(after["words"], before["words"]);
        assert_eq!(after["trainer_config.py"], before["trainer_config.py"]);
        // Providers read YAML; a link to nowhere is nobody's output.
        write("sizes.yaml", "1");
        std::os::unix::fs::symlink("nowhere", job.join("later")).unwrap();
        let names = config_files(job, job).unwrap();
        assert!(names.contains_key("sizes.yaml") && names.contains_key("later"));
        // A folder of its own belongs to the configuration with all that is in it.
        write("model/data/meta.bin", "1");
        let names = config_files(&job.join("model"), job).unwrap();
        assert!(names.contains_key("data"));
    }

    #[test]
    fn files_that_are_added_never_become_part_of_a_run() {
        let with = |files: &[(&str, u32)]| RunSettings {
            config_files: Some(
                files
                    .iter()
                    .map(|(name, sum)| ((*name).to_owned(), *sum))
                    .collect(),
            ),
            ..settings(2)
        };
        let first = with(&[("a.py", 7)]);
        let second = with(&[("a.py", 7), ("notes.txt", 1)]).continuing(&first);
        assert_eq!(second, first);
        let third = with(&[("a.py", 7), ("notes.txt", 2)]);
        assert!(differences(&second, &third).is_empty());
    }
}
