//! The configuration folder on its way to the cluster: read with limits, packed into a ConfigMap.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// A ConfigMap must stay under 1 MiB together with its names; this leaves room for base64 and keys.
pub(crate) const LARGEST_FOLDER: u64 = 700 * 1024;
/// A folder with more files than this is not a configuration folder.
const MOST_FILES: usize = 500;

/// Relative path with `/` to content.
pub type Files = BTreeMap<String, Vec<u8>>;

/// Why a configuration folder cannot be put into a ConfigMap.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the variants are documented")]
pub enum FolderError {
    /// A file or folder cannot be read.
    #[error("read {path}")]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// Too large for a ConfigMap.
    #[error(
        "{path} is too large for a ConfigMap ({LARGEST_FOLDER} bytes, {MOST_FILES} files): copy it into the job's folder on the \
         volume and set `configFrom: volume`"
    )]
    TooLarge { path: PathBuf },
    /// A file name is not UTF-8.
    #[error("the name of {path} is not UTF-8")]
    Name { path: PathBuf },
}

/// Reads all files of a folder except hidden ones, caches, data and output.
pub fn read(folder: &Path) -> Result<Files, FolderError> {
    let mut files = Files::new();
    let mut room = LARGEST_FOLDER;
    collect(folder, folder, "", &mut room, &mut files)?;
    Ok(files)
}

fn collect(
    root: &Path,
    folder: &Path,
    prefix: &str,
    room: &mut u64,
    files: &mut Files,
) -> Result<(), FolderError> {
    let failed = |path: &Path, source| FolderError::Read {
        path: path.to_owned(),
        source,
    };
    let mut entries = fs::read_dir(folder)
        .and_then(Iterator::collect::<io::Result<Vec<_>>>)
        .map_err(|source| failed(folder, source))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let name = entry
            .file_name()
            .into_string()
            .map_err(|_| FolderError::Name { path: path.clone() })?;
        let is_left_out = name.starts_with('.') || name == "__pycache__" || name.ends_with(".pyc");
        if is_left_out || (prefix.is_empty() && run::local::layout::is_job_part(&name)) {
            continue;
        }
        let kind = fs::metadata(&path).map_err(|source| failed(&path, source))?;
        if kind.is_dir() {
            collect(root, &path, &format!("{prefix}{name}/"), room, files)?;
        } else if kind.is_file() {
            let content = read_within(&path, *room).map_err(|source| failed(&path, source))?;
            let taken = content.len() as u64;
            if taken > *room || files.len() == MOST_FILES {
                return Err(FolderError::TooLarge {
                    path: root.to_owned(),
                });
            }
            *room -= taken;
            files.insert(format!("{prefix}{name}"), content);
        }
    }
    Ok(())
}

/// The content, or one byte more than `room` of it.
fn read_within(path: &Path, room: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    fs::File::open(path)?
        .take(room + 1)
        .read_to_end(&mut content)?;
    Ok(content)
}

/// The key of a file in a ConfigMap: keys may not contain `/`.
pub fn key(path: &str) -> String {
    let allowed = |character: char| character.is_ascii_alphanumeric() || "-._".contains(character);
    if path.chars().all(allowed) && !path.starts_with("--") && path != "." && path != ".." {
        return path.to_owned();
    }
    // Different paths get different keys, because each replaced character is written as its code.
    let mut key = String::from("--");
    for character in path.chars() {
        match character {
            '/' => key.push_str("__"),
            character if allowed(character) && character != '_' => key.push(character),
            character => key.push_str(&format!("_{:x}_", u32::from(character))),
        }
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, file: &str, content: &[u8]) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    #[test]
    fn takes_what_a_configuration_needs_and_leaves_out_the_rest() {
        let root = tempfile::tempdir().unwrap();
        for file in [
            "trainer_config.py",
            "lib/a.py",
            "data/train.txt",
            "output/x",
            "0/data/x",
            ".git/x",
            "lib/__pycache__/a.pyc",
            "lib/data/words.txt",
        ] {
            write(root.path(), file, file.as_bytes());
        }
        let files = read(root.path()).unwrap();
        assert_eq!(
            files.keys().collect::<Vec<_>>(),
            ["lib/a.py", "lib/data/words.txt", "trainer_config.py"]
        );
    }

    #[test]
    fn a_large_folder_is_refused_with_the_way_out() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "a", &vec![0; LARGEST_FOLDER as usize]);
        assert!(read(root.path()).is_ok());
        write(root.path(), "b", b"x");
        let error = read(root.path()).unwrap_err().to_string();
        assert!(error.contains("configFrom: volume"), "{error}");
    }

    #[test]
    fn keys_are_valid_and_differ() {
        let paths = [
            "a.py",
            "lib/a.py",
            "lib__a.py",
            "--lib__a.py",
            "_lib__a.py",
            "lib/ä b.py",
            "lib_/a.py",
            "lib/_a.py",
            "..",
            "_5f_",
        ];
        let keys: std::collections::BTreeSet<String> = paths.iter().map(|path| key(path)).collect();
        assert_eq!(keys.len(), paths.len(), "{keys:?}");
        let valid = |key: &String| {
            key.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
        };
        assert!(keys.iter().all(valid), "{keys:?}");
        assert_eq!(key("trainer_config.lr.py"), "trainer_config.lr.py");
    }
}
