//! Uploads files to objects of a store: only those that it does not have, and `done` of a pass directory last.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use md5::{Digest, Md5};
use s3::{Client, Location, Object};

use super::BucketError;
use crate::parallel;

/// Larger files are written in parts of this size, and their entity tag is computed from those of the parts.
const PART: u64 = 64 << 20;

/// The result of a push.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pushed {
    /// Number of files.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes that the store had before.
    pub kept: u64,
}

/// Writes every file below a folder, except hidden ones, under a prefix. `progress` gets the number of bytes that are in
/// the store.
pub fn push(
    client: &Client,
    folder: &Path,
    to: &Location,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Pushed, BucketError> {
    let mut names = Vec::new();
    collect(folder, "", &mut names)?;
    push_files(client, folder, &names, to, progress)
}

/// Writes these files of a folder under a prefix; files that mark others as complete (`done`) come last.
pub fn push_files(
    client: &Client,
    folder: &Path,
    names: &[String],
    to: &Location,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Pushed, BucketError> {
    let prefix = to.join("");
    let there = objects(client, &prefix)?;
    let (marks, files): (Vec<&String>, Vec<&String>) = names.iter().partition(|name| is_mark(name));
    let mut pushed = Pushed::default();
    for group in [files, marks] {
        let sizes = parallel::for_each(group.len(), |index| {
            let name = group[index];
            let location = prefix.join(name);
            let known = there.get(&location.key);
            push_one(client, &folder.join(name), &location, known, progress)
        })?;
        for file in sizes {
            pushed.files += 1;
            pushed.bytes += file.size;
            pushed.kept += if file.is_kept { file.size } else { 0 };
        }
    }
    Ok(pushed)
}

/// Whether a file marks the files beside it as complete.
pub(crate) fn is_mark(name: &str) -> bool {
    name.rsplit('/').next() == Some("done")
}

/// The objects below a prefix, by key.
fn objects(client: &Client, prefix: &Location) -> Result<BTreeMap<String, Object>, BucketError> {
    let objects = client.list(prefix)?.into_iter();
    Ok(objects.map(|object| (object.key.clone(), object)).collect())
}

fn is_same(path: &Path, there: &Object) -> Result<bool, BucketError> {
    let failed = || BucketError::file("read", path);
    let size = fs::metadata(path).map_err(failed())?.len();
    Ok(there.size == size && entity_tag(path, size).map_err(failed())? == there.etag)
}

/// A file that the store has now.
struct PushedFile {
    size: u64,
    /// Whether the store had it before.
    is_kept: bool,
}

fn push_one(
    client: &Client,
    path: &Path,
    location: &Location,
    known: Option<&Object>,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<PushedFile, BucketError> {
    let size = fs::metadata(path)
        .map_err(BucketError::file("read", path))?
        .len();
    if let Some(known) = known
        && is_same(path, known)?
    {
        progress(size);
        let is_kept = true;
        return Ok(PushedFile { size, is_kept });
    }
    let mut file = File::open(path).map_err(BucketError::file("read", path))?;
    client
        .write(location, &mut file, size, None, &|bytes| progress(bytes))
        .map_err(|error| BucketError::write(error, path))?;
    let is_kept = false;
    Ok(PushedFile { size, is_kept })
}

/// The tag that a store gives to this content: its MD5, or that of the MD5s of its parts.
fn entity_tag(path: &Path, size: u64) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut sums: Vec<[u8; 16]> = Vec::new();
    let mut piece = vec![0; 1 << 20];
    loop {
        let mut sum = Md5::new();
        let mut left = PART;
        while left > 0 {
            let most = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let read = file.read(&mut piece[..most])?;
            if read == 0 {
                break;
            }
            sum.update(&piece[..read]);
            left -= read as u64;
        }
        if left < PART || sums.is_empty() {
            sums.push(sum.finalize().into());
        }
        if left > 0 {
            break;
        }
    }
    let hex =
        |digits: &[u8]| -> String { digits.iter().map(|byte| format!("{byte:02x}")).collect() };
    if size <= PART {
        return Ok(hex(&sums[0]));
    }
    let whole: [u8; 16] = Md5::digest(sums.concat()).into();
    Ok(format!("{}-{}", hex(&whole), sums.len()))
}

fn collect(folder: &Path, prefix: &str, names: &mut Vec<String>) -> Result<(), BucketError> {
    let failed = || BucketError::file("read", folder);
    let mut entries = fs::read_dir(folder)
        .and_then(Iterator::collect::<io::Result<Vec<_>>>)
        .map_err(failed())?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        if name.starts_with('.') {
            continue;
        }
        let kind = entry.file_type().map_err(failed())?;
        let path = format!("{prefix}{name}");
        if kind.is_dir() {
            collect(&entry.path(), &format!("{path}/"), names)?;
        } else if entry.path().is_file() {
            names.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_those_of_stores() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        fs::write(&path, b"hello").unwrap();
        assert_eq!(
            entity_tag(&path, 5).unwrap(),
            "5d41402abc4b2a76b9719d911017c592"
        );
        fs::write(&path, b"").unwrap();
        assert_eq!(
            entity_tag(&path, 0).unwrap(),
            "d41d8cd98f00b204e9800998ecf8427e"
        );
        let size = PART + 1;
        File::create(&path).unwrap().set_len(size).unwrap();
        assert!(entity_tag(&path, size).unwrap().ends_with("-2"));
        let size = 2 * PART;
        File::create(&path).unwrap().set_len(size).unwrap();
        assert!(entity_tag(&path, size).unwrap().ends_with("-2"));
    }
}
