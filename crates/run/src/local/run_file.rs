//! The note of a run: `run.json` names the run that the snapshots and pass directories in a folder belong to, the settings
//! and data it was started with, and whether it has finished.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::claim::ClaimError;

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
    pub(super) fn first_pass(&self) -> u64 {
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
}
