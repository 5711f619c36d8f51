//! What an output folder holds that a run could be resumed from: pass directories, snapshots, and the note of which run
//! has saved the passes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

use serde::Deserialize;

/// The file in which trainer 0 notes, when it has saved a pass, which run the pass belongs to.
pub(super) const SAVED_NOTE: &str = "canoe.saved.json";

/// Snapshots and models in a folder from which a run could be resumed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundWork {
    /// The last pass with a directory, even one that was saved inside the pass (`pass-00003-002`).
    pub last_pass: Option<u64>,
    /// The passes with a directory that was saved at their end.
    pub whole: BTreeSet<u64>,
    /// The newest pass that the run in the folder has saved and that servers can restore, if it is known.
    pub restorable: Option<u64>,
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
    pub(super) fn fault(&self, run: &str) -> Option<&'static str> {
        match self {
            Self::Nothing => Some("is missing"),
            Self::Damaged => Some("is damaged"),
            Self::Run(noted) if noted != run => Some("is of another run"),
            Self::Run(_) => None,
        }
    }
}

/// Looks for what a run could be resumed from.
pub fn find_work(output: &Path) -> FoundWork {
    FoundWork {
        last_pass: passes(output).map(|found| found.pass).max(),
        whole: whole_passes(output),
        restorable: None,
        snapshots: holds(&output.join("snapshots"), "step-"),
        noted: Noted::read(output),
    }
}

/// Whether a folder has an entry whose name begins so.
pub(super) fn holds(folder: &Path, prefix: &str) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(read(), Noted::Run("r1".to_owned()));
    }
}
