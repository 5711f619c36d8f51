//! Output of printer evaluators: log lines, and the result files that some of them name.
//!
//! A result file is truncated at the first write and then appended to, as in v1. Dictionaries are files with one word
//! per line.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use nn::Evaluators;
use nn::evaluators::Message;

use crate::error::TrainError;
use crate::log::{Level, Topic};
use crate::report::Reporter;

/// Sends the messages of printers to the log or to their files.
pub(crate) struct Printing {
    directory: PathBuf,
    files: BTreeMap<String, File>,
}

impl Printing {
    /// Files are relative to `directory`.
    pub(crate) fn new(directory: &Path) -> Printing {
        Printing {
            directory: directory.to_owned(),
            files: BTreeMap::new(),
        }
    }

    /// Loads the dictionaries that evaluators name.
    pub(crate) fn load_dictionaries(&self, evaluators: &mut Evaluators) -> Result<(), TrainError> {
        for name in evaluators.dictionary_files() {
            let path = self.directory.join(&name);
            let text = fs::read_to_string(&path).map_err(|source| TrainError::Read {
                path: path.clone(),
                source,
            })?;
            let words: Vec<String> = text.lines().map(str::to_owned).collect();
            evaluators.set_dictionary(&name, &words);
        }
        Ok(())
    }

    /// Logs each message, or writes it to its result file.
    pub(crate) fn show(
        &mut self,
        messages: Vec<Message>,
        report: &mut dyn Reporter,
    ) -> Result<(), TrainError> {
        for message in messages {
            match &message.file {
                None => {
                    let text = message.text.trim_end_matches('\n');
                    report.line(Level::Info, Topic::Printer, text);
                }
                Some(name) => self.append(name, &message.text)?,
            }
        }
        Ok(())
    }

    fn append(&mut self, name: &str, text: &str) -> Result<(), TrainError> {
        let path = self.directory.join(name);
        let failed = |source| TrainError::Write {
            path: path.clone(),
            source,
        };
        if !self.files.contains_key(name) {
            let file = File::create(&path).map_err(failed)?;
            self.files.insert(name.to_owned(), file);
        }
        match self.files.get_mut(name) {
            Some(file) => file.write_all(text.as_bytes()).map_err(failed),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(file: Option<&str>, text: &str) -> Message {
        Message {
            file: file.map(str::to_owned),
            text: text.to_owned(),
        }
    }

    #[test]
    fn messages_without_a_file_are_logged() {
        let mut lines = Vec::new();
        let messages = vec![message(None, "layer=y value:\n1 2 \n")];
        Printing::new(Path::new("."))
            .show(messages, &mut lines)
            .unwrap();
        assert_eq!(lines, ["layer=y value:\n1 2 "]);
    }

    #[test]
    fn a_result_file_is_emptied_once_and_grows() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("result.txt");
        fs::write(&file, "of another run").unwrap();
        let mut printing = Printing::new(directory.path());
        let mut lines: Vec<String> = Vec::new();
        for text in ["0\t a\n", "1\t b\n"] {
            let messages = vec![message(Some("result.txt"), text)];
            printing.show(messages, &mut lines).unwrap();
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "0\t a\n1\t b\n");
        assert!(lines.is_empty());
    }

    #[test]
    fn a_result_file_that_cannot_be_made_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let messages = vec![message(Some("nowhere/result.txt"), "x")];
        let mut lines: Vec<String> = Vec::new();
        let error = Printing::new(directory.path())
            .show(messages, &mut lines)
            .unwrap_err();
        assert!(error.to_string().contains("nowhere/result.txt"), "{error}");
    }
}
