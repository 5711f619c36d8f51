//! The note that a run leaves for later ones in the same folder: `run.json` says which run the snapshots and pass directories belong to,
//! with which settings and data it was started, and whether it has finished. [`super::lease`] says who runs it now.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::layout::is_job_part;
use super::lease::Holder;

/// The settings of a run that decide what its results are.
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

/// What trainer 0 writes when it has saved a pass: which run it is of.
const SAVED_NOTE: &str = "canoe.saved.json";

/// Says which run is in a folder.
pub(super) const RUN_FILE: &str = "run.json";

/// What is in `run.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFile {
    /// The name of the run; snapshots carry it.
    pub run: String,
    /// What it was started with.
    pub settings: RunSettings,
    /// Whether all its passes are done.
    pub finished: bool,
    /// Passes that an earlier run in this folder had done, and that this one continues after.
    #[serde(default)]
    pub start_pass: u64,
}

/// What to do with a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Beginning {
    /// Start a new run in an empty folder.
    New,
    /// Move what is there aside, then start a new run. The text says why more passes cannot continue after those that
    /// are done; it is empty unless they were asked for.
    Archive(String),
    /// Continue this run.
    Resume(String),
    /// So many passes are done, and more are asked for: a new run continues after them.
    More(u64),
    /// The unfinished run in the folder had other settings; the text says which.
    Differs(String),
    /// There are snapshots or models, and this file, which says which run they belong to, is missing.
    Nameless(&'static str),
}

/// What the user says about the beginning of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StartOptions {
    /// A new run, whatever is there.
    pub fresh: bool,
    /// A new run that starts from results in this folder, which therefore stay where they are.
    pub in_place: bool,
}

/// What a run could be resumed from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FoundWork {
    /// The last pass that has a directory.
    pub last_pass: Option<u64>,
    /// There are snapshots.
    pub snapshots: bool,
    /// The note that says which run has saved the passes is there.
    pub noted: bool,
}

impl FoundWork {
    /// Whether there is anything.
    pub fn any(self) -> bool {
        self.last_pass.is_some() || self.snapshots
    }
}

/// Decides how a run begins. An unfinished run without a snapshot or a model has nothing to resume or lose.
pub fn decide(
    found: Option<&RunFile>,
    settings: &RunSettings,
    wanted: StartOptions,
    work: FoundWork,
) -> Beginning {
    let has_work = work.any();
    let archive = || Beginning::Archive(String::new());
    match found {
        _ if wanted.in_place => Beginning::New,
        None if has_work && wanted.fresh => archive(),
        None if work.snapshots => Beginning::Nameless(RUN_FILE),
        // Models that were saved without a runner.
        None if has_work => archive(),
        None => Beginning::New,
        Some(found) if !found.finished && !has_work => Beginning::New,
        Some(_) if wanted.fresh => archive(),
        Some(found) if found.finished => match (found.settings.passes, settings.passes) {
            (Some(done), Some(passes)) if passes > done && has_work => {
                match differences(&found.settings, settings) {
                    list if list.is_empty() => Beginning::More(done),
                    list => Beginning::Archive(list.join(", ")),
                }
            }
            _ => archive(),
        },
        Some(found) => match differences(&found.settings, settings) {
            // Trainer 0 could not tell the models of this run from those of another. If it was interrupted before it noted its
            // first pass, it trains that pass again.
            list if list.is_empty()
                && !work.snapshots
                && !work.noted
                && work.last_pass > Some(found.start_pass) =>
            {
                Beginning::Nameless(SAVED_NOTE)
            }
            list if list.is_empty() => Beginning::Resume(found.run.clone()),
            list => Beginning::Differs(list.join(", ")),
        },
    }
}

impl RunSettings {
    /// These settings for a run that continues one with `earlier` settings: files that were added since are no part of the
    /// configuration, because that run has not read them.
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
        // What was not there when the run began has not been read by it.
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
    /// A living process uses the folder.
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
    /// An unfinished run with other settings is there.
    #[error(
        "{folder} holds an unfinished run with other settings: {differences}; start it as before to resume it, or use --fresh to move it aside and start again"
    )]
    Differs {
        /// The output folder.
        folder: PathBuf,
        /// What differs.
        differences: String,
    },
    /// Snapshots or models are there, but not the file that says which run they belong to.
    #[error(
        "{folder} holds results of an unfinished run, but the file {file}, which says which run they belong to, is missing; bring it back to resume that run, continue after a saved pass with --start-pass, or use --fresh to move everything aside and start again"
    )]
    Nameless {
        /// The output folder.
        folder: PathBuf,
        /// What is missing.
        file: &'static str,
    },
    /// `run.json` is there and does not make sense.
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
    /// The folder is in use by this holder; by somebody who is just beginning if it is not known.
    pub(super) fn owned(folder: PathBuf, holder: Option<Holder>) -> Self {
        let (host, pid) = holder.map_or(("an unknown machine".to_owned(), 0), |h| (h.host, h.pid));
        Self::Owned { folder, pid, host }
    }
}

/// Reads what an earlier run left. A file that cannot be read is an error: it may belong to a run that can be resumed.
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
        last_pass: last_pass(output),
        snapshots: holds(&output.join("snapshots"), "step-"),
        noted: output.join(SAVED_NOTE).exists(),
    }
}

/// A checksum of each file and folder in a configuration folder. Of a job folder, what runs and their users put there is
/// left out: its data and outputs, logs, documents, and folders with models. So are files that this process prints to.
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

/// What people keep beside a configuration and no configuration reads: job.yaml, notes, reports, notebooks, scripts.
fn is_document(name: &str) -> bool {
    let ending = Path::new(name)
        .extension()
        .and_then(|ending| ending.to_str());
    name == "job.yaml" || matches!(ending, Some("md" | "html" | "sh" | "ipynb"))
}

/// Which file it is, whatever its name.
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

/// Adds the names and contents of all files below a path, of huge ones only beginning and end.
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

/// The greatest pass of which there is a directory, that of a whole pass (`pass-00003`) or of a part of one
/// (`pass-00003-002`).
fn last_pass(output: &Path) -> Option<u64> {
    let entries = fs::read_dir(output).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let pass = |name: String| name.strip_prefix("pass-")?.split('-').next()?.parse().ok();
    names.filter_map(pass).max()
}

/// A checksum of names, sizes, beginnings and ends of some files and of all files below some folders: data are too large
/// to be read whole for this. Of what is not there, only the name counts.
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
        // The old file is whole; a part of the new one is worth nothing.
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

    const BOTH: FoundWork = FoundWork {
        last_pass: Some(2),
        snapshots: true,
        noted: true,
    };

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
                snapshots,
                noted,
            };
            let wanted = StartOptions::default();
            decide(Some(&run(false)), &settings(2), wanted, work)
        };
        let nameless = Beginning::Nameless(SAVED_NOTE);
        assert_eq!(beginning(1, false, false), nameless);
        for (snapshots, noted) in [(true, false), (false, true), (true, true)] {
            let resumed = Beginning::Resume("r1".to_owned());
            assert_eq!(beginning(1, snapshots, noted), resumed);
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
            decide(Some(&open), &settings(2), StartOptions::default(), work)
        };
        let resumed = Beginning::Resume("r1".to_owned());
        assert_eq!(with("pass-00002"), resumed);
        assert_eq!(with("pass-00003-001"), resumed);
        assert_eq!(with("pass-00003"), resumed);
        assert_eq!(with("pass-00004"), Beginning::Nameless(SAVED_NOTE));
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
                noted: true,
            };
            decide(None, &settings(2), wanted, work)
        };
        assert_eq!(beginning(false, false, false), Beginning::New);
        assert_eq!(beginning(false, false, true), Beginning::New);
        assert_eq!(
            beginning(true, false, false),
            Beginning::Archive(String::new())
        );
        for passes in [false, true] {
            let nameless = Beginning::Nameless(RUN_FILE);
            assert_eq!(beginning(passes, true, false), nameless);
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
        }
    }

    #[test]
    fn an_unfinished_run_is_resumed_only_with_its_own_settings() {
        let (open, done) = (run(false), run(true));
        let plain = StartOptions::default();
        let with_work = |found, nodes, wanted| decide(found, &settings(nodes), wanted, BOTH);
        let resumed = Beginning::Resume("r1".to_owned());
        assert_eq!(with_work(Some(&open), 2, plain), resumed.clone());
        let differs = with_work(Some(&open), 3, plain);
        assert!(matches!(&differs, Beginning::Differs(why) if why.starts_with("--nodes was 2")));
        let changed = RunSettings {
            data_checksum: Some(4),
            ..settings(2)
        };
        let differs = decide(Some(&open), &changed, plain, BOTH);
        assert_eq!(
            differs,
            Beginning::Differs("the data files have changed".to_owned())
        );
        let unknown = RunSettings {
            data_checksum: None,
            ..settings(2)
        };
        assert_eq!(decide(Some(&open), &unknown, plain, BOTH), resumed);
        let longer = RunSettings {
            passes: Some(6),
            ..settings(2)
        };
        let more = Beginning::More(4);
        assert_eq!(decide(Some(&done), &longer, plain, BOTH), more);
        assert_eq!(decide(Some(&open), &longer, plain, BOTH), resumed);
        let other = RunSettings {
            config_files: Some(BTreeMap::from([("a.py".to_owned(), 9)])),
            ..longer
        };
        assert_eq!(
            decide(Some(&done), &other, plain, BOTH),
            Beginning::Archive("a.py has changed, b.txt is gone".to_owned())
        );
        assert_eq!(
            decide(Some(&open), &other, plain, BOTH),
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
        let idle = decide(Some(&open), &settings(3), plain, FoundWork::default());
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
