//! Checksums of the files of a pass directory: `canoe.sums`, in the form of `xxh128sum`, which checks it, too.
//!
//! ```text
//! 3f0a…  ___fc_layer_0__.w0
//! ```
//!
//! v1's files are as they were, and directories without checksums are used as before. Tables that servers saved have their
//! own.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use xxhash_rust::xxh3::Xxh3Default;

use crate::parameter_file::ParameterFileError;
use crate::pass_directory::DONE;

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

    /// Refuses a file that is not as it was saved.
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

/// The text of [`SUMS`] for a directory that is complete but for the files [`SUMS`] and [`DONE`].
pub(crate) fn of_directory(directory: &Path) -> io::Result<String> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_file() && is_summed(&name) {
            lines.push((name.to_string(), sum(&path)?));
        }
    }
    lines.sort();
    let lines = lines
        .iter()
        .map(|(name, sum)| format!("{sum:032x}  {name}\n"));
    Ok(lines.collect())
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
        let plain = !name.is_empty() && !name.contains('/') && sum.len() == 32;
        let sum = u128::from_str_radix(sum, 16).ok().filter(|_| plain)?;
        Some(FileSum {
            name: name.to_owned(),
            sum,
        })
    };
    let sums: Option<Vec<FileSum>> = text.lines().map(line).collect();
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
        let sums = read(root.path()).unwrap().unwrap();
        assert_eq!(sums[0].name, "w");
        assert_eq!(sums[0].sum, sum(&root.path().join("w")).unwrap());
        for damaged in ["x", "0  w", &text.replace("  w", "  ../w")] {
            fs::write(root.path().join(SUMS), damaged).unwrap();
            assert!(read(root.path()).is_err(), "{damaged}");
        }
    }
}
