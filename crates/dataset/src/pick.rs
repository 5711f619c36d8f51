//! Selects files of an output folder: those of one pass, of the best, the last or all passes, the logs, or everything.
//!
//! Only complete passes count (they have the file `done`), and `done` is sent after everything else of its pass, so
//! that an interrupted copy is not complete either. Snapshots are never copied: they are for recovery and belong to the
//! cluster.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A selection of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    /// The model after this pass.
    Pass(u32),
    /// The best model, as the link `best` says.
    Best,
    /// The model after the last finished pass.
    Last,
    /// The models of all finished passes.
    All,
    /// Logs and records of all nodes.
    Logs,
    /// Models, logs and records.
    Output,
}

/// Why the selection has no files.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the variants are documented")]
pub enum PickError {
    /// A folder cannot be read.
    #[error("read {path}")]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// No pass has ended.
    #[error("no pass has finished yet, so there is no model; `logs` and `output` can be fetched")]
    NoModel,
    /// This pass has not finished, or its model was removed.
    #[error("there is no finished pass {pass}; there are {}", numbers(.there))]
    NoPass {
        pass: u32,
        /// The passes that have a model.
        there: Vec<u32>,
    },
    /// There is no link `best`.
    #[error(
        "the job does not say which pass is the best (it has no link `best`); the last one is {last}"
    )]
    NoBest {
        /// The last pass.
        last: u32,
    },
    /// The output folder has no files of this kind.
    #[error("there are no {0} yet")]
    Nothing(Pick),
}

fn numbers(there: &[u32]) -> String {
    let texts: Vec<String> = there.iter().map(ToString::to_string).collect();
    match texts.as_slice() {
        [] => "none".to_owned(),
        [.., last] if texts.len() > 12 => format!("{} to {last}", texts[0]),
        texts => texts.join(", "),
    }
}

impl Display for Pick {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pass(pass) => write!(f, "{pass}"),
            Self::Best => f.write_str("best"),
            Self::Last => f.write_str("last"),
            Self::All => f.write_str("all"),
            Self::Logs => f.write_str("logs"),
            Self::Output => f.write_str("output"),
        }
    }
}

impl FromStr for Pick {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.strip_prefix("pass-").unwrap_or(text);
        match (text, number.parse()) {
            ("best", _) => Ok(Self::Best),
            ("last", _) => Ok(Self::Last),
            ("all", _) => Ok(Self::All),
            ("logs", _) => Ok(Self::Logs),
            ("output", _) => Ok(Self::Output),
            (_, Ok(pass)) => Ok(Self::Pass(pass)),
            _ => Err(format!(
                "{text:?} is not the number of a pass, and not best, last, all, logs or output"
            )),
        }
    }
}

impl Pick {
    /// The files, relative to the output folder, in the order in which they are to be sent.
    pub fn files(self, output: &Path) -> Result<Vec<String>, PickError> {
        let passes = finished(output)?;
        let last = || passes.last().copied().ok_or(PickError::NoModel);
        let wanted: Vec<u32> = match self {
            Self::Pass(pass) if passes.contains(&pass) => vec![pass],
            Self::Pass(pass) => {
                last()?;
                return Err(PickError::NoPass {
                    pass,
                    there: passes,
                });
            }
            Self::Last => vec![last()?],
            Self::Best => {
                let last = last()?;
                let best = best(output).filter(|pass| passes.contains(pass));
                vec![best.ok_or(PickError::NoBest { last })?]
            }
            Self::All => {
                last()?;
                passes
            }
            Self::Logs => Vec::new(),
            Self::Output => passes,
        };
        let mut names = Vec::new();
        for pass in wanted {
            walk(output, &directory(pass), &mut names)?;
        }
        if matches!(self, Self::Logs | Self::Output) {
            rest(output, &mut names)?;
        }
        if names.is_empty() {
            return Err(PickError::Nothing(self));
        }
        Ok(names)
    }
}

fn directory(pass: u32) -> String {
    format!("pass-{pass:05}")
}

fn pass_of(name: &str) -> Option<u32> {
    name.strip_prefix("pass-")?.parse().ok()
}

/// The passes that are complete, in order.
fn finished(output: &Path) -> Result<Vec<u32>, PickError> {
    let mut passes: Vec<u32> = names(output)?
        .iter()
        .filter(|entry| entry.is_folder && output.join(&entry.name).join("done").exists())
        .filter_map(|entry| pass_of(&entry.name))
        .collect();
    passes.sort_unstable();
    // A run that replaces the passes of an earlier one has not reached the later ones: they are not its own.
    if let Some(last) = last_saved(output) {
        passes.retain(|pass| *pass <= last);
    }
    Ok(passes)
}

/// The last pass that the run has saved, as its trainer 0 notes it.
fn last_saved(output: &Path) -> Option<u32> {
    let note = fs::read(output.join("canoe.saved.json")).ok()?;
    let note: serde_json::Value = serde_json::from_slice(&note).ok()?;
    u32::try_from(note["last"].as_u64()?).ok()
}

fn best(output: &Path) -> Option<u32> {
    let link = fs::read_link(output.join("best")).ok()?;
    pass_of(link.file_name()?.to_str()?)
}

/// Everything except models: logs and records of nodes, and other files beside them.
fn rest(output: &Path, found: &mut Vec<String>) -> Result<(), PickError> {
    for NamedEntry { name, is_folder } in names(output)? {
        match is_folder {
            true if name.starts_with("node_") => walk(output, &name, found)?,
            true => {}
            false if output.join(&name).is_file() => found.push(name),
            false => {}
        }
    }
    Ok(())
}

/// All files below a folder, `done` last.
fn walk(output: &Path, folder: &str, found: &mut Vec<String>) -> Result<(), PickError> {
    let mut done = None;
    for NamedEntry { name, is_folder } in names(&output.join(folder))? {
        let path = format!("{folder}/{name}");
        match (is_folder, name.as_str()) {
            (true, _) => walk(output, &path, found)?,
            (false, "done") => done = Some(path),
            (false, _) => found.push(path),
        }
    }
    found.extend(done);
    Ok(())
}

/// What a folder contains.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct NamedEntry {
    name: String,
    is_folder: bool,
}

/// The entries of a folder by name, without hidden ones and links to folders.
fn names(folder: &Path) -> Result<Vec<NamedEntry>, PickError> {
    let failed = |source| PickError::Read {
        path: folder.to_owned(),
        source,
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let kind = entry.file_type().map_err(failed)?;
        let is_linked_folder = kind.is_symlink() && entry.path().is_dir();
        if let Ok(name) = entry.file_name().into_string()
            && !name.starts_with('.')
            && !is_linked_folder
        {
            found.push(NamedEntry {
                name,
                is_folder: kind.is_dir(),
            });
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for file in [
            "pass-00000/_w",
            "pass-00000/done",
            "pass-00002/canoe.servers/part",
            "pass-00002/done",
            "pass-00002/w",
            "pass-00003/_w",
            ".pass-00004.part/_w",
            "snapshots/step-7/server-0000.json",
            "node_0/train.log",
            "node_1/server.log",
            "events.jsonl",
        ] {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file).unwrap();
        }
        root
    }

    #[test]
    fn only_complete_passes_count_and_done_comes_last() {
        let output = output();
        let pick = |text: &str| text.parse::<Pick>().unwrap().files(output.path());
        assert_eq!(
            pick("last").unwrap(),
            [
                "pass-00002/canoe.servers/part",
                "pass-00002/w",
                "pass-00002/done"
            ]
        );
        assert_eq!(pick("0").unwrap(), ["pass-00000/_w", "pass-00000/done"]);
        assert_eq!(pick("pass-00000").unwrap(), pick("0").unwrap());
        assert_eq!(pick("all").unwrap().len(), 5);
        assert_eq!(
            pick("logs").unwrap(),
            ["events.jsonl", "node_0/train.log", "node_1/server.log"]
        );
        assert_eq!(pick("output").unwrap().len(), 8);
        let error = pick("3").unwrap_err().to_string();
        assert_eq!(error, "there is no finished pass 3; there are 0, 2");
    }

    #[test]
    fn the_best_is_what_the_link_says() {
        let output = output();
        let error = Pick::Best.files(output.path()).unwrap_err().to_string();
        assert!(error.contains("the last one is 2"), "{error}");
        std::os::unix::fs::symlink("pass-00000", output.path().join("best")).unwrap();
        assert_eq!(
            Pick::Best.files(output.path()).unwrap(),
            ["pass-00000/_w", "pass-00000/done"]
        );
        assert_eq!(Pick::Output.files(output.path()).unwrap().len(), 8, "once");
        fs::remove_file(output.path().join("best")).unwrap();
        std::os::unix::fs::symlink("../../etc", output.path().join("best")).unwrap();
        assert!(Pick::Best.files(output.path()).is_err());
    }

    #[test]
    fn passes_that_the_present_run_has_not_come_to_are_not_its_own() {
        let output = output();
        let note = |last: u32| {
            let text = format!(r#"{{"run":"r2","first":0,"last":{last}}}"#);
            fs::write(output.path().join("canoe.saved.json"), text).unwrap();
        };
        note(0);
        let first = ["pass-00000/_w", "pass-00000/done"];
        assert_eq!(Pick::Last.files(output.path()).unwrap(), first);
        assert_eq!(Pick::All.files(output.path()).unwrap(), first);
        assert!(Pick::Pass(2).files(output.path()).is_err());
        note(2);
        assert_eq!(Pick::All.files(output.path()).unwrap().len(), 5);
    }

    #[test]
    fn a_job_without_a_model_says_so() {
        let root = tempfile::tempdir().unwrap();
        assert!(matches!(
            Pick::Last.files(root.path()),
            Err(PickError::NoModel)
        ));
        assert!(matches!(
            Pick::Logs.files(root.path()),
            Err(PickError::Nothing(_))
        ));
        assert!(matches!(
            Pick::Last.files(&root.path().join("none")),
            Err(PickError::Read { .. })
        ));
        assert!("newest".parse::<Pick>().is_err());
    }
}
