//! Saved models: one directory per pass, which appears atomically.
//!
//! ```text
//! SAVE_DIR/pass-00007/
//! ├── ___fc_layer_0__.w0 …    parameters, see `parameter_file`
//! ├── canoe.state             optimizer state, so that training can resume exactly
//! ├── canoe.servers/          the same of a job with parameter servers, which write it themselves
//! ├── pserver.0000 …          tables that no trainer holds (--loadsave_parameters_in_pserver)
//! ├── done                    version text; only complete directories have it
//! ├── trainer_config.lr.py    a copy of the configuration
//! ├── canoe.config_args       the arguments that it was evaluated with (--config_args), if there were any
//! ├── canoe.sums              checksums of these files
//! └── path.txt                its base name, no line end
//! ```
//!
//! Everything is written into a hidden sibling first, flushed, and renamed (`replacing`). A reader of `pass-00007` sees
//! the old model or the new one, never a part of either.

mod replacing;

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::checksums::{self, SUMS};
use crate::parameter_file::{self, ParameterFileError};
pub use replacing::recover;

/// The file that marks a complete directory.
pub const DONE: &str = "done";

/// The file with the optimizer's state.
pub(crate) const STATE: &str = "canoe.state";

/// The directory with the state of parameter servers.
pub const SERVERS: &str = "canoe.servers";

/// The file with the user's arguments of the configuration.
pub const CONFIG_ARGS: &str = "canoe.config_args";

/// Number of attempts to find a directory that is being replaced.
const REPLACED: usize = 100;

/// Why a pass directory could not be written or used.
#[derive(Debug, thiserror::Error)]
pub enum PassDirectoryError {
    /// A parameter file failed.
    #[error(transparent)]
    Parameter(#[from] ParameterFileError),
    /// Another file or the directory itself failed.
    #[error("{action} {path}")]
    Io {
        /// The operation that failed, as a verb.
        action: &'static str,
        /// The path on which it failed.
        path: PathBuf,
        /// The error that the operating system returned.
        #[source]
        source: io::Error,
    },
    /// The directory has no `done` file.
    #[error(
        "{path} {} (give a directory of a finished pass, or name it with --init_model_path)",
        match path.exists() {
            true => "is not a complete pass directory: it has no file `done`",
            false => "does not exist",
        }
    )]
    Incomplete {
        /// Path of the directory.
        path: PathBuf,
    },
    /// The job has finished, but its last model is missing.
    #[error(
        "all passes are done, but {path} is missing or incomplete: the last model was removed, or saved elsewhere (all processes of a job must see the same save_dir); train again, or continue after an earlier pass with --start_pass"
    )]
    NotSaved {
        /// Path where the model should be.
        path: PathBuf,
    },
}

fn io_error<'a>(
    action: &'static str,
    path: &'a Path,
) -> impl FnOnce(io::Error) -> PassDirectoryError + 'a {
    move |source| PassDirectoryError::Io {
        action,
        path: path.to_owned(),
        source,
    }
}

/// `pass-00007`, or `pass-00007-012` for a save inside a pass.
pub fn name(pass: u32, inside: Option<u64>) -> String {
    match inside {
        None => format!("pass-{pass:05}"),
        Some(part) => format!("pass-{pass:05}-{part:03}"),
    }
}

/// Creates `save_dir`, and makes sure that directories can be created in it.
pub(crate) fn check_writable(save_dir: &Path) -> Result<(), PassDirectoryError> {
    let trial = save_dir.join(format!(".trial-{}", std::process::id()));
    fs::create_dir_all(&trial).map_err(io_error("save models in", save_dir))?;
    fs::remove_dir(&trial).map_err(io_error("save models in", save_dir))
}

/// The directory of a pass in `save_dir`, checked to be complete.
pub fn complete(save_dir: &Path, pass: u32) -> Result<PathBuf, PassDirectoryError> {
    let path = save_dir.join(name(pass, None));
    let old = replacing::old(&path);
    let whole = |path: &Path| path.join(DONE).is_file();
    // While the directory is replaced it has a hidden name: for a moment or, after a crash, until the next start.
    for _ in 0..REPLACED {
        if whole(&path) {
            return Ok(path);
        }
        if !whole(&old) {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    match [path, old].into_iter().find(|path| whole(path)) {
        Some(path) => Ok(path),
        None => Err(PassDirectoryError::Incomplete {
            path: save_dir.join(name(pass, None)),
        }),
    }
}

/// The directory of a pass in `save_dir`, if it is complete at this moment.
pub fn complete_now(save_dir: &Path, pass: u32) -> Option<PathBuf> {
    let path = save_dir.join(name(pass, None));
    let whole = |path: &PathBuf| path.join(DONE).is_file();
    let old = replacing::old(&path);
    [path, old].into_iter().find(whole)
}

/// Removes the directory of a pass that is no longer needed, and those saved inside the pass, so that no reader sees part
/// of one. A directory with files that no save has written is renamed instead.
pub fn remove(save_dir: &Path, pass: u32) {
    let whole = name(pass, None);
    let inside = format!("{whole}-");
    for entry in fs::read_dir(save_dir).into_iter().flatten().flatten() {
        let found = entry.file_name();
        let found = found.to_string_lossy();
        if *found == *whole || found.starts_with(&inside) {
            let path = save_dir.join(&*found);
            // A directory that cannot be removed only costs disk space.
            let _ = match has_added(&path) {
                true => put_aside(&path).map(drop),
                false => replacing::retire(&path, &path),
            };
        }
    }
}

/// Whether a directory has files that were not saved with it.
pub(crate) fn has_added(directory: &Path) -> bool {
    let Ok(Some(sums)) = checksums::read(directory) else {
        return false;
    };
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.any(|name| {
        // NFS keeps deleted files under this name while a process has them open.
        let own = [SUMS, DONE, SERVERS].contains(&name.as_str()) || name.starts_with(".nfs");
        !own && !name.starts_with("pserver.") && !sums.iter().any(|file| file.name == name)
    })
}

/// Renames a directory, so that it no longer counts as a pass: `aside-pass-00003`, `aside-pass-00003-2`, …
pub(crate) fn put_aside(directory: &Path) -> io::Result<PathBuf> {
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    let path = |number| match number {
        1 => format!("aside-{name}"),
        _ => format!("aside-{name}-{number}"),
    };
    let mut paths = (1..).map(|number: u64| directory.with_file_name(path(number)));
    let free = paths.find(|path| fs::symlink_metadata(path).is_err());
    let free = free.unwrap_or_else(|| directory.to_owned());
    fs::rename(directory, &free)?;
    Ok(free)
}

/// The newest complete pass of `save_dir`.
pub fn newest(save_dir: &Path) -> Option<u32> {
    let entries = fs::read_dir(save_dir).into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| {
        let found = entry.file_name();
        let pass = found.to_str()?.strip_prefix("pass-")?.parse().ok()?;
        entry.path().join(DONE).is_file().then_some(pass)
    });
    numbers.max()
}

/// Checks at the end of a job that it has saved this pass.
pub fn saved(save_dir: &Path, pass: u32) -> Result<(), PassDirectoryError> {
    let path = complete(save_dir, pass);
    let missing = |_| PassDirectoryError::NotSaved {
        path: save_dir.join(name(pass, None)),
    };
    path.map(|_| ()).map_err(missing)
}

/// What goes into a pass directory besides the parameters.
#[derive(Debug, Clone, Default)]
pub struct Extras {
    /// Text of the file `done`.
    pub version: String,
    /// The configuration file, copied and named in `path.txt`.
    pub config: Option<PathBuf>,
    /// The arguments that it reads with `get_config_arg`, as the user gave them.
    pub config_args: String,
    /// Other files that the configuration asks to keep.
    pub config_files: Vec<PathBuf>,
}

/// A pass directory that is being written. If it is dropped before [`Writer::commit`], it leaves no files.
#[derive(Debug)]
pub struct Writer {
    hidden: PathBuf,
    target: PathBuf,
    committed: bool,
}

impl Writer {
    /// Starts a directory `SAVE_DIR/name`; what an earlier, killed process left under the hidden name is removed.
    pub fn create(save_dir: &Path, name: &str) -> Result<Writer, PassDirectoryError> {
        let target = save_dir.join(name);
        let hidden = replacing::part(&target);
        if hidden.exists() {
            replacing::retire(&hidden, &target).map_err(io_error("remove left-over", &hidden))?;
        }
        fs::create_dir_all(&hidden).map_err(io_error("create", &hidden))?;
        Ok(Writer {
            hidden,
            target,
            committed: false,
        })
    }

    /// Adds one parameter.
    pub fn parameter(&self, name: &str, values: &[f32]) -> Result<(), PassDirectoryError> {
        Ok(parameter_file::write(&self.hidden.join(name), values)?)
    }

    /// Where an additional file of the directory is to be written.
    pub fn path(&self, file: &str) -> PathBuf {
        self.hidden.join(file)
    }

    /// Adds configuration, `path.txt` and `done`, and makes the directory visible.
    pub fn commit(self, extras: &Extras) -> Result<PathBuf, PassDirectoryError> {
        self.complete(extras)?;
        self.publish()
    }

    /// Adds configuration, `path.txt`, `done` and checksums.
    pub(crate) fn complete(&self, extras: &Extras) -> Result<(), PassDirectoryError> {
        for file in extras.config.iter().chain(&extras.config_files) {
            self.copy(file)?;
        }
        if let Some(config) = &extras.config {
            let base = config.file_name().unwrap_or_default();
            self.write("path.txt", base.as_bytes())?;
        }
        if !extras.config_args.is_empty() {
            self.write(CONFIG_ARGS, extras.config_args.as_bytes())?;
        }
        self.write(DONE, extras.version.as_bytes())?;
        let sums = checksums::of_directory(&self.hidden);
        let sums = sums.map_err(io_error("make checksums of", &self.hidden))?;
        self.write(SUMS, sums.as_bytes())?;
        sync_tree(&self.hidden)
    }

    /// Makes a complete directory visible, in place of an older one.
    pub(crate) fn publish(mut self) -> Result<PathBuf, PassDirectoryError> {
        replacing::publish(&self.hidden, &self.target).map_err(io_error("create", &self.target))?;
        self.committed = true;
        sync(self.target.parent().unwrap_or(Path::new(".")))?;
        Ok(self.target.clone())
    }

    fn copy(&self, file: &Path) -> Result<(), PassDirectoryError> {
        let to = self.hidden.join(file.file_name().unwrap_or_default());
        fs::copy(file, &to).map_err(io_error("copy the configuration to", &to))?;
        Ok(())
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), PassDirectoryError> {
        let path = self.hidden.join(name);
        fs::write(&path, bytes).map_err(io_error("write", &path))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.committed {
            // A failure does no harm: the next writer of this name removes the rest.
            let _ = replacing::retire(&self.hidden, &self.target);
        }
    }
}

/// Flushes all that is in a directory, whoever wrote it, and then the directory.
fn sync_tree(directory: &Path) -> Result<(), PassDirectoryError> {
    for entry in fs::read_dir(directory).map_err(io_error("list", directory))? {
        let path = entry.map_err(io_error("list", directory))?.path();
        if path.is_dir() {
            sync_tree(&path)?;
        } else {
            sync(&path)?;
        }
    }
    sync(directory)
}

fn sync(path: &Path) -> Result<(), PassDirectoryError> {
    let file = File::open(path).map_err(io_error("open", path))?;
    file.sync_all().map_err(io_error("flush", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_pass(save_dir: &Path, value: f32) -> PathBuf {
        let config = save_dir.join("trainer_config.lr.py");
        fs::write(&config, "settings(batch_size=1)\n").unwrap();
        let writer = Writer::create(save_dir, &name(3, None)).unwrap();
        writer.parameter("_w", &[value]).unwrap();
        let extras = Extras {
            version: "canoe".into(),
            config_args: String::new(),
            config: Some(config),
            config_files: vec![],
        };
        writer.commit(&extras).unwrap()
    }

    #[test]
    fn holds_what_v1_users_look_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = write_pass(dir.path(), 1.5);
        assert_eq!(path, dir.path().join("pass-00003"));
        let mut files: Vec<_> = fs::read_dir(&path)
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        files.sort();
        assert_eq!(
            files,
            [
                "_w",
                "canoe.sums",
                "done",
                "path.txt",
                "trainer_config.lr.py"
            ]
        );
        assert_eq!(
            fs::read(path.join("path.txt")).unwrap(),
            b"trainer_config.lr.py"
        );
        assert_eq!(complete(dir.path(), 3).unwrap(), path);
    }

    #[test]
    fn a_pass_with_files_of_the_user_is_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = write_pass(dir.path(), 1.0);
        assert!(!has_added(&path));
        fs::write(path.join("notes.txt"), "mine").unwrap();
        assert!(has_added(&path));
        remove(dir.path(), 3);
        write_pass(dir.path(), 2.0);
        remove(dir.path(), 3);
        assert!(!path.exists());
        let kept = dir.path().join("aside-pass-00003");
        assert!(kept.join("notes.txt").exists() && kept.join("_w").exists());
        assert_eq!(
            put_aside(&kept).unwrap(),
            dir.path().join("aside-aside-pass-00003")
        );
    }

    #[test]
    fn replaces_an_older_directory_as_a_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = write_pass(dir.path(), 1.0);
        fs::write(path.join("stale"), "x").unwrap();
        write_pass(dir.path(), 2.0);
        assert_eq!(parameter_file::read(&path.join("_w")).unwrap(), [2.0]);
        assert!(!path.join("stale").exists());
        assert_eq!(
            fs::read_dir(dir.path()).unwrap().count(),
            2,
            "only the configuration and the pass"
        );
    }

    #[test]
    fn an_abandoned_write_leaves_the_old_directory_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = write_pass(dir.path(), 1.0);
        let writer = Writer::create(dir.path(), &name(3, None)).unwrap();
        writer.parameter("_w", &[9.0]).unwrap();
        drop(writer);
        assert_eq!(parameter_file::read(&path.join("_w")).unwrap(), [1.0]);
        assert!(!dir.path().join(".pass-00003.part").exists());
    }

    #[test]
    fn a_directory_without_done_is_not_complete() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("pass-00001")).unwrap();
        let message = complete(dir.path(), 1).unwrap_err().to_string();
        assert!(
            message.contains("pass-00001") && message.contains("done"),
            "{message}"
        );
    }

    #[test]
    fn names_are_those_of_v1() {
        assert_eq!(name(7, None), "pass-00007");
        assert_eq!(name(7, Some(12)), "pass-00007-012");
    }
}
