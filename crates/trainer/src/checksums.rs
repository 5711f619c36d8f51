//! Checksums of the files of a pass directory: `canoe.sums`, in the form of `xxh128sum`, which checks it, too.
//!
//! ```text
//! 3f0a…  ___fc_layer_0__.w0
//! ```
//!
//! The files of v1's format are unchanged, and directories without `canoe.sums` can still be used. Tables that servers
//! saved (`pserver.NNNN`) have checksums of their own. Of `canoe.servers/`, this file has the checksums of the manifests,
//! and the manifests those of the other files. So the checksum of `canoe.sums` identifies the whole directory.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use xxhash_rust::xxh3::Xxh3Default;

use crate::parameter_file::ParameterFileError;
use crate::pass_directory::{DONE, SERVERS};

/// The file with the checksums.
pub(crate) const SUMS: &str = "canoe.sums";

/// The checksum of a file that was saved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileSum {
    /// Name in the directory.
    pub name: String,
    /// XXH3, 128 bits.
    pub sum: u128,
}

/// The checksum of a file.
pub(crate) fn sum(path: &Path) -> io::Result<u128> {
    let mut file = File::open(path)?;
    let mut hash = Xxh3Default::new();
    let mut buffer = vec![0; 1 << 18];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hash.digest128()),
            count => hash.update(&buffer[..count]),
        }
    }
}

/// The checksums of a directory whose files are about to be used.
#[derive(Debug, Default)]
pub struct DirectorySums(Option<Vec<FileSum>>);

impl DirectorySums {
    /// Reads [`SUMS`]. A directory without it has nothing to compare with.
    pub fn open(directory: &Path) -> Result<Self, ParameterFileError> {
        let failed = |source| ParameterFileError::Read {
            path: directory.join(SUMS),
            source,
        };
        Ok(Self(read(directory).map_err(failed)?))
    }

    /// Refuses a file that has changed since it was saved.
    pub fn check(&self, path: &Path) -> Result<(), ParameterFileError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let Some(sums) = &self.0 else {
            return Ok(());
        };
        let Some(wanted) = sums.iter().find(|sum| sum.name == name) else {
            if !is_summed(&name) {
                return Ok(());
            }
            let path = path.to_owned();
            return Err(ParameterFileError::Unlisted { path });
        };
        let found = sum(path).map_err(|source| ParameterFileError::Read {
            path: path.to_owned(),
            source,
        })?;
        if found == wanted.sum {
            return Ok(());
        }
        let path = path.to_owned();
        Err(ParameterFileError::Damaged { path })
    }
}

/// The text of [`SUMS`] for a directory in which only this file is missing.
pub(crate) fn of_directory(directory: &Path) -> io::Result<String> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_file() && (is_summed(&name) || name == DONE) {
            lines.push((name.to_string(), sum(&path)?));
        }
    }
    for name in manifests(directory)? {
        let sum = sum(&directory.join(&name))?;
        lines.push((name, sum));
    }
    lines.sort();
    let lines = lines
        .iter()
        .map(|(name, sum)| format!("{sum:032x}  {name}\n"));
    Ok(lines.collect())
}

/// The manifests of what servers saved, relative to the directory.
fn manifests(directory: &Path) -> io::Result<Vec<String>> {
    let steps = match fs::read_dir(directory.join(SERVERS)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        steps => steps?,
    };
    let mut found = Vec::new();
    for step in steps {
        let step = step?;
        if !step.file_type()?.is_dir() {
            continue;
        }
        let step_name = step.file_name();
        for entry in fs::read_dir(step.path())? {
            let name = entry?.file_name();
            let (step, name) = (step_name.to_string_lossy(), name.to_string_lossy());
            if name.ends_with(".json") && !name.contains('\n') {
                found.push(format!("{SERVERS}/{step}/{name}"));
            }
        }
    }
    Ok(found)
}

/// Whether servers saved anything in the directory.
pub(crate) fn has_servers(directory: &Path) -> io::Result<bool> {
    Ok(!manifests(directory)?.is_empty())
}

/// The manifests in a directory that were not saved with it; none if the directory has no checksums of manifests.
pub(crate) fn added_manifests(directory: &Path, sums: &[FileSum]) -> io::Result<Vec<String>> {
    let mut found = manifests(directory)?;
    let known = sums.iter().any(|file| file.name.starts_with(SERVERS));
    found.retain(|name| known && !sums.iter().any(|file| file.name == *name));
    Ok(found)
}

/// What is wrong with the servers' state of a directory, as a sentence: a manifest was changed, is missing, or was added.
pub(crate) fn wrong_state(directory: &Path) -> io::Result<Option<String>> {
    let sums = read(directory)?.unwrap_or_default();
    for file in sums.iter().filter(|file| file.name.starts_with(SERVERS)) {
        let text = match sum(&directory.join(&file.name)) {
            Ok(sum) if sum == file.sum => continue,
            Ok(_) => "is not the one that was saved with it".to_owned(),
            Err(error) => format!("cannot be read: {error}"),
        };
        return Ok(Some(format!("its {} {text}", file.name)));
    }
    let added = added_manifests(directory, &sums)?;
    Ok(added
        .first()
        .map(|name| format!("its {name} was not saved with it")))
}

/// Whether a file of this name has a checksum in a directory that has any.
pub(crate) fn is_summed(name: &str) -> bool {
    let own = name.starts_with("pserver.") || [SUMS, DONE].contains(&name);
    !own && !name.contains('\n')
}

/// The checksums of a directory; `None` if it was saved without.
pub(crate) fn read(directory: &Path) -> io::Result<Option<Vec<FileSum>>> {
    let text = match fs::read_to_string(directory.join(SUMS)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        text => text?,
    };
    let line = |line: &str| {
        let (sum, name) = line.split_once("  ")?;
        let inside = name
            .strip_prefix(SERVERS)
            .and_then(|name| name.strip_prefix('/'));
        let mut words = inside.unwrap_or(name).split('/');
        let depth = if inside.is_some() { 2 } else { 1 };
        let plain =
            words.clone().count() == depth && words.all(|word| !["", ".", ".."].contains(&word));
        let plain = plain && sum.len() == 32;
        let sum = u128::from_str_radix(sum, 16).ok().filter(|_| plain)?;
        Some(FileSum {
            name: name.to_owned(),
            sum,
        })
    };
    let is_cut = !text.is_empty() && !text.ends_with('\n');
    let sums: Option<Vec<FileSum>> = text.lines().map(line).collect();
    let sums = sums.filter(|_| !is_cut);
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "it is damaged");
    sums.map(Some).ok_or_else(damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_the_sums_have_lost_is_not_believed() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("w");
        fs::write(&file, "x").unwrap();
        let check = || DirectorySums::open(root.path()).unwrap().check(&file);
        assert!(check().is_ok(), "saved without sums");
        fs::write(root.path().join(SUMS), of_directory(root.path()).unwrap()).unwrap();
        assert!(check().is_ok());
        fs::write(root.path().join(SUMS), "").unwrap();
        let refused = check().unwrap_err().to_string();
        assert!(refused.contains("canoe.sums"), "{refused}");
        // A parameter may have any name, also one that is never in the sums.
        let unsummed = root.path().join("pserver.w");
        fs::write(&unsummed, "x").unwrap();
        let sums = DirectorySums::open(root.path()).unwrap();
        assert!(sums.check(&unsummed).is_ok());
    }

    #[test]
    fn a_state_of_servers_that_was_not_saved_with_the_directory_is_told_from_its_own() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let step = root.join("canoe.servers/step-000000000003");
        fs::create_dir_all(&step).unwrap();
        fs::write(step.join("server-0000.json"), "one").unwrap();
        let wrong = || wrong_state(root).unwrap().unwrap_or_default();
        assert_eq!(wrong(), "", "saved without checksums");
        let text = of_directory(root).unwrap();
        assert!(text.contains("  canoe.servers/step-000000000003/server-0000.json\n"));
        fs::write(root.join(SUMS), &text).unwrap();
        assert_eq!(wrong(), "");
        fs::write(step.join("server-0001.json"), "two").unwrap();
        assert!(wrong().contains("server-0001.json was not saved with"));
        fs::remove_file(step.join("server-0001.json")).unwrap();
        fs::write(step.join("server-0000.json"), "two").unwrap();
        assert!(wrong().contains("is not the one that was saved"));
        fs::remove_dir_all(root.join(SERVERS)).unwrap();
        assert!(wrong().contains("server-0000.json cannot be read"));
    }

    #[test]
    fn sums_are_those_of_xxh128sum_and_read_back() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(read(root.path()).unwrap(), None);
        fs::write(root.path().join("w"), "").unwrap();
        fs::write(root.path().join("pserver.0000"), "x").unwrap();
        fs::create_dir(root.path().join("canoe.servers")).unwrap();
        let text = of_directory(root.path()).unwrap();
        assert_eq!(text, "99aa06d3014798d86001c324468d497f  w\n");
        fs::write(root.path().join(SUMS), &text).unwrap();
        assert_eq!(of_directory(root.path()).unwrap(), text, "not of itself");
        fs::write(root.path().join(DONE), "canoe").unwrap();
        assert!(of_directory(root.path()).unwrap().contains("  done\n"));
        let sums = read(root.path()).unwrap().unwrap();
        assert_eq!(sums[0].name, "w");
        assert_eq!(sums[0].sum, sum(&root.path().join("w")).unwrap());
        let above = text.replace("  w", "  canoe.servers/../w");
        for damaged in ["x", "0  w", &text.replace("  w", "  ../w"), &above] {
            fs::write(root.path().join(SUMS), damaged).unwrap();
            assert!(read(root.path()).is_err(), "{damaged}");
        }
    }
}
