//! The `paddle` Python package that the binary embeds, and its directory on disk.
//!
//! Python needs files. They are written once per version (a hash of the contents is part of the directory's name) into
//! the user's cache, so that compiled bytecode stays valid from run to run; where the cache cannot be written, into the
//! temporary directory. A directory is created atomically, by renaming, so processes that start together do not disturb
//! each other; missing files of an existing directory are written again.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::message::MessageSchema;

static FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/package_files.rs"));

/// The package could not be written to disk.
#[derive(Debug, thiserror::Error)]
#[error(
    "write the paddle package below any of {tried}: set XDG_CACHE_HOME or TMPDIR to a directory that is yours"
)]
pub struct PackageError {
    tried: String,
    #[source]
    source: io::Error,
}

/// The directory for Python's search path; the package is written there if it is missing.
pub fn package_dir() -> Result<&'static Path, PackageError> {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    if let Some(directory) = DIRECTORY.get() {
        return Ok(directory);
    }
    let directory = lay_out(&candidates())?;
    Ok(DIRECTORY.get_or_init(|| directory))
}

/// Where the user keeps caches; only the program knows.
static CACHES: OnceLock<PathBuf> = OnceLock::new();

/// The package is kept below this folder of the user's, not below that of temporary files. To be said before the package
/// is first needed; the first folder counts.
pub fn keep_package_below(caches: PathBuf) {
    let _ = CACHES.set(caches);
}

/// Parent directories for the package, best first.
fn candidates() -> Vec<PathBuf> {
    let caches = CACHES.get().into_iter();
    let mut candidates: Vec<PathBuf> = caches.map(|caches| caches.join("canoe")).collect();
    candidates.push(std::env::temp_dir().join(format!("canoe-{}", user())));
    candidates
}

/// Writes the package into the first candidate that is writable.
fn lay_out(candidates: &[PathBuf]) -> Result<PathBuf, PackageError> {
    let files = contents();
    let name = format!("python-{:016x}", fingerprint(&files));
    let mut failure = io::Error::from(io::ErrorKind::NotFound);
    for parent in candidates {
        match lay_out_in(parent, &name, &files) {
            Ok(directory) => return Ok(directory),
            Err(error) => failure = error,
        }
    }
    let tried: Vec<String> = candidates
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    Err(PackageError {
        tried: tried.join(", "),
        source: failure,
    })
}

fn lay_out_in(parent: &Path, name: &str, files: &[PackageFile]) -> io::Result<PathBuf> {
    own_directory(parent)?;
    let directory = parent.join(name);
    if !directory.is_dir() {
        let draft = tempfile::Builder::new()
            .prefix(".draft-")
            .tempdir_in(parent)?;
        write_missing(draft.path(), files)?;
        if fs::rename(draft.path(), &directory).is_ok() {
            // The draft is now the directory itself: there is nothing left to remove.
            let _ = draft.keep();
        }
    }
    write_missing(&directory, files)?;
    Ok(directory)
}

/// Creates a directory that only this user can write: a package that another user wrote must not be executed.
fn own_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let found = fs::symlink_metadata(path)?;
    if found.uid() != user() || found.mode() & 0o022 != 0 {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("{} can be written by other users", path.display()),
        ));
    }
    Ok(())
}

/// Writes the files that are absent or have another length.
fn write_missing(directory: &Path, files: &[PackageFile]) -> io::Result<()> {
    for PackageFile { name, text } in files {
        let path = directory.join(name);
        if fs::metadata(&path).is_ok_and(|found| found.len() == text.len() as u64) {
            continue;
        }
        let parent = path.parent().unwrap_or(directory);
        fs::create_dir_all(parent)?;
        let mut draft = tempfile::NamedTempFile::new_in(parent)?;
        io::Write::write_all(&mut draft, text.as_bytes())?;
        draft.persist(&path).map_err(|error| error.error)?;
    }
    Ok(())
}

/// A file of the package.
struct PackageFile {
    /// Path inside the package.
    name: &'static str,
    text: Cow<'static, str>,
}

/// All files, including the table of fields.
fn contents() -> Vec<PackageFile> {
    let schema = PackageFile {
        name: "paddle/_schema.py",
        text: schema_module().into(),
    };
    let fixed = FILES.iter().map(|(name, text)| PackageFile {
        name,
        text: (*text).into(),
    });
    fixed.chain([schema]).collect()
}

/// All messages, with their fields.
pub(crate) fn schema() -> Vec<MessageSchema> {
    let files = [
        crate::parameter::schema(),
        crate::model::schema(),
        crate::data::schema(),
        crate::training::schema(),
    ];
    files.into_iter().flatten().collect()
}

/// The messages as a Python module, so that both sides know the same fields.
fn schema_module() -> String {
    let mut out = String::from(
        "\"\"\"The fields of every record: label, type, default. Written by canoe.\"\"\"\n\nSCHEMA = {\n",
    );
    for (message, fields) in schema() {
        let _ = writeln!(out, "    '{message}': {{");
        for field in fields {
            let _ = writeln!(
                out,
                "        '{}': ('{}', '{}', {}),",
                field.name,
                field.label,
                field.kind,
                python_literal(field.default.as_ref())
            );
        }
        out.push_str("    },\n");
    }
    out.push_str("}\n");
    out
}

fn python_literal(value: Option<&serde_json::Value>) -> String {
    match value {
        None => "None".to_owned(),
        Some(serde_json::Value::Bool(true)) => "True".to_owned(),
        Some(serde_json::Value::Bool(false)) => "False".to_owned(),
        Some(other) => other.to_string(),
    }
}

/// FNV-1a over names and contents: it distinguishes versions, it does not protect against forgery.
fn fingerprint(files: &[PackageFile]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut eat = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    };
    for PackageFile { name, text } in files {
        eat(name.as_bytes());
        eat(&[0]);
        eat(text.as_bytes());
        eat(&[0]);
    }
    hash
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_is_complete_and_stays() {
        let parent = tempfile::tempdir().unwrap();
        let first = lay_out(&[parent.path().to_owned()]).unwrap();
        assert!(
            first
                .join("paddle/trainer_config_helpers/layers.py")
                .is_file()
        );
        let schema = fs::read_to_string(first.join("paddle/_schema.py")).unwrap();
        assert!(schema.contains("'num_batches_per_send_parameter': ('optional', 'int32', 1),"));
        assert!(schema.contains("'type': ('required', 'string', \"nn\"),"));
        let before = fs::metadata(first.join("paddle/__init__.py"))
            .unwrap()
            .ino();
        assert_eq!(lay_out(&[parent.path().to_owned()]).unwrap(), first);
        assert_eq!(
            fs::metadata(first.join("paddle/__init__.py"))
                .unwrap()
                .ino(),
            before
        );
        assert_eq!(
            fs::read_dir(parent.path()).unwrap().count(),
            1,
            "drafts are removed"
        );
    }

    #[test]
    fn lost_and_damaged_files_are_restored() {
        let parent = tempfile::tempdir().unwrap();
        let directory = lay_out(&[parent.path().to_owned()]).unwrap();
        fs::remove_file(directory.join("paddle/__init__.py")).unwrap();
        fs::write(directory.join("paddle/core/job.py"), "").unwrap();
        lay_out(&[parent.path().to_owned()]).unwrap();
        for PackageFile { name, text } in contents() {
            assert_eq!(
                fs::read_to_string(directory.join(name)).unwrap(),
                text,
                "{name}"
            );
        }
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_passed_over() {
        let parent = tempfile::tempdir().unwrap();
        let file = parent.path().join("file");
        fs::write(&file, "").unwrap();
        let good = parent.path().join("good");
        let directory = lay_out(&[file.join("below"), good.clone()]).unwrap();
        assert!(directory.starts_with(&good));
        let error = lay_out(&[file.join("below")]).unwrap_err();
        assert!(error.to_string().contains("file/below"));
    }

    #[test]
    fn a_directory_that_others_can_write_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let parent = tempfile::tempdir().unwrap();
        let open = parent.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(lay_out(&[open]).is_err());
    }

    #[test]
    fn many_at_once_agree() {
        let parent = tempfile::tempdir().unwrap();
        let directories: Vec<PathBuf> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| lay_out(&[parent.path().to_owned()]).unwrap()))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        assert!(
            directories
                .iter()
                .all(|directory| directory == &directories[0])
        );
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
    }
}
