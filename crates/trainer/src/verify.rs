//! Checks that all files of a pass directory exist and are intact. `pserver::snapshot::verify` checks the state of the
//! servers in `canoe.servers/`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::checksums::{self, SUMS};
use crate::parameter_file::{self, ParameterFileError};
use crate::pass_directory::{CONFIG_ARGS, DONE, SERVERS, STATE};
use crate::saved_rows::SavedRows;
use crate::state_file;
use words::causes::chain;

/// What a check of a pass directory found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PassFindings {
    /// Number of intact parameters.
    pub parameters: usize,
    /// Number of intact tables that servers saved.
    pub tables: usize,
    /// Files that have the checksums they were saved with; `None` if the directory was saved without checksums.
    pub sums: Option<usize>,
    /// What is wrong: the file, and a sentence.
    pub problems: Vec<(PathBuf, String)>,
}

/// Checks a pass directory. Fails only if it cannot be listed.
pub fn verify(directory: &Path) -> io::Result<PassFindings> {
    let mut findings = PassFindings::default();
    if !directory.join(DONE).is_file() {
        let text = "it is missing: the directory was not written to its end";
        findings.problem(directory.join(DONE), text);
    }
    let mut lengths = Vec::new();
    let has_sums = matches!(checksums::read(directory), Ok(Some(_)));
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let other = [DONE, "path.txt", STATE, CONFIG_ARGS, SUMS].contains(&name.as_ref());
        if !path.is_file() || other || name.starts_with("pserver.") {
            continue;
        }
        match parameter_file::read(&path) {
            Ok(values) => lengths.push((name.into_owned(), values.len() as u64)),
            // The copy of a configuration is no parameter, and neither are files that a user added.
            Err(ParameterFileError::Foreign { .. }) => {}
            Err(ParameterFileError::Truncated { .. }) if name.ends_with(".py") => {}
            // Checksums distinguish damaged files from added ones.
            Err(_) if has_sums => {}
            Err(error) => findings.problem(path, chain(&error)),
        }
    }
    findings.parameters = lengths.len();
    check_state(directory, &lengths, &mut findings);
    check_sums(directory, &lengths, &mut findings);
    match SavedRows::open(directory) {
        Ok(saved) => findings.tables = saved.map_or(0, |saved| saved.tables().len()),
        Err(error) => findings.problem(directory.to_owned(), chain(&error)),
    }
    if findings.parameters + findings.tables == 0 {
        findings.problem(directory.to_owned(), "it holds no parameters");
    }
    Ok(findings)
}

impl PassFindings {
    fn problem(&mut self, path: PathBuf, text: impl Into<String>) {
        self.problems.push((path, text.into()));
    }
}

/// Compares the parameters that are there with those that the optimizer's state names.
fn check_state(directory: &Path, lengths: &[(String, u64)], findings: &mut PassFindings) {
    let path = directory.join(STATE);
    if !path.exists() {
        return;
    }
    let state = match state_file::read(&path) {
        Ok(state) => state,
        Err(error) => return findings.problem(path, chain(&error)),
    };
    for parameter in &state.parameters {
        let wanted = parameter.dims.0.saturating_mul(parameter.dims.1);
        let place = directory.join(&parameter.name);
        let found = lengths.iter().find(|(name, _)| *name == parameter.name);
        match found {
            None => findings.problem(
                place,
                format!("there is no such parameter file, but {STATE} names it"),
            ),
            Some((_, length)) if *length != wanted => findings.problem(
                place,
                format!("it has {length} values, {STATE} says {wanted}"),
            ),
            Some(_) => {}
        }
    }
}

/// Compares files with the checksums that they were saved with.
fn check_sums(directory: &Path, parameters: &[(String, u64)], findings: &mut PassFindings) {
    let sums = match checksums::read(directory) {
        Ok(None) => return,
        Ok(Some(sums)) => sums,
        Err(error) => return findings.problem(directory.join(SUMS), chain(&error)),
    };
    let mut good = 0;
    for file in &sums {
        let path = directory.join(&file.name);
        match checksums::sum(&path) {
            Ok(sum) if sum == file.sum => good += 1,
            Ok(_) => findings.problem(
                path,
                "its checksum is not the one it was saved with: it was damaged or changed since",
            ),
            Err(error) => findings.problem(path, chain(&error)),
        }
    }
    match checksums::added_manifests(directory, &sums) {
        Ok(added) => added.into_iter().for_each(|name| {
            findings.problem(directory.join(name), "it was not saved with the directory");
        }),
        Err(error) => findings.problem(directory.join(SERVERS), chain(&error)),
    }
    for (name, _) in parameters {
        let listed = sums.iter().any(|file| file.name == *name);
        if !listed && checksums::is_summed(name) {
            findings.problem(directory.join(name), "canoe.sums has no checksum of it");
        }
    }
    findings.sums = Some(good);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        parameter_file::write(&root.path().join("w"), &[1.0, 2.0]).unwrap();
        fs::write(root.path().join(DONE), "canoe").unwrap();
        fs::write(root.path().join("trainer_config.py"), "# x").unwrap();
        root
    }

    fn wrong(root: &Path) -> Vec<String> {
        let problems = verify(root).unwrap().problems;
        let told = problems.into_iter();
        told.map(|(path, text)| format!("{}: {text}", path.display()))
            .collect()
    }

    #[test]
    fn a_whole_directory_has_no_problems() {
        let root = sample();
        assert_eq!(wrong(root.path()), Vec::<String>::new());
        assert_eq!(verify(root.path()).unwrap().parameters, 1);
    }

    #[test]
    fn a_bit_that_has_changed_is_found_if_there_are_checksums() {
        let root = sample();
        assert_eq!(verify(root.path()).unwrap().sums, None);
        let sums = checksums::of_directory(root.path()).unwrap();
        fs::write(root.path().join(SUMS), sums).unwrap();
        assert_eq!(wrong(root.path()), Vec::<String>::new());
        assert_eq!(verify(root.path()).unwrap().sums, Some(3));
        fs::write(root.path().join("notes.txt"), "a text of a user").unwrap();
        assert_eq!(wrong(root.path()), Vec::<String>::new());
        fs::write(root.path().join(DONE), "other").unwrap();
        assert!(wrong(root.path())[0].contains("/done: its checksum"));
        fs::write(root.path().join(DONE), "canoe").unwrap();
        let whole = fs::read(root.path().join(SUMS)).unwrap();
        fs::write(root.path().join(SUMS), &whole[..whole.len() - 2]).unwrap();
        assert!(wrong(root.path())[0].contains("canoe.sums: it is damaged"));
        fs::write(root.path().join(SUMS), whole).unwrap();
        let mut bytes = fs::read(root.path().join("w")).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        fs::write(root.path().join("w"), bytes).unwrap();
        let told = wrong(root.path());
        assert!(
            told.len() == 1 && told[0].contains("/w: its checksum"),
            "{told:?}"
        );
        fs::write(root.path().join(SUMS), "x").unwrap();
        let told = wrong(root.path());
        assert!(told[0].contains("canoe.sums: it is damaged"), "{told:?}");
        fs::write(root.path().join(SUMS), "").unwrap();
        let told = wrong(root.path());
        assert!(told[0].contains("/w: canoe.sums has no"), "{told:?}");
    }

    #[test]
    fn each_fault_is_named() {
        type Harm = fn(&Path);
        let cases: [(Harm, &str); 5] = [
            (
                |root| fs::remove_file(root.join(DONE)).unwrap(),
                "done: it is missing",
            ),
            (
                |root| {
                    let bytes = fs::read(root.join("w")).unwrap();
                    fs::write(root.join("w"), &bytes[..bytes.len() - 1]).unwrap();
                },
                "/w: ",
            ),
            (
                |root| fs::write(root.join(STATE), "garbage").unwrap(),
                "canoe.state: ",
            ),
            (
                |root| fs::write(root.join("pserver.0001"), "x").unwrap(),
                "lacks pserver.0000",
            ),
            (
                |root| fs::remove_file(root.join("w")).unwrap(),
                "no parameters",
            ),
        ];
        for (harm, words) in cases {
            let root = sample();
            harm(root.path());
            let told = wrong(root.path());
            assert!(
                told.iter().any(|line| line.contains(words)),
                "{words}: {told:?}"
            );
        }
        assert!(verify(Path::new("/nowhere/at/all")).is_err());
    }
}
