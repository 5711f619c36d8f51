//! Model snapshots: one directory a pass, which appears whole or not at all.
//!
//! ```text
//! SAVE_DIR/pass-00007/
//! ├── ___fc_layer_0__.w0 …    parameters, see `parameter_file`
//! ├── canoe.state             optimizer state, so that training can go on exactly
//! ├── canoe.servers/          the same of a job with parameter servers, which write it themselves
//! ├── pserver.0000 …          tables that no trainer holds (--loadsave_parameters_in_pserver)
//! ├── done                    version text; only complete directories have it
//! ├── trainer_config.lr.py    a copy of the configuration
//! └── path.txt                its base name, no line end
//! ```
//!
//! Everything is written into a hidden sibling first and exchanged with the final name in one step. Whoever looks at
//! `pass-00007` sees the old snapshot or the new one, never half of either.

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::parameter_file::{self, ParameterFileError};

/// The file that marks a complete directory.
pub const DONE: &str = "done";

/// The file with the optimizer's state.
pub const STATE: &str = "canoe.state";

/// The directory with the state of parameter servers.
pub const SERVERS: &str = "canoe.servers";

/// Why a pass directory could not be written or used.
#[derive(Debug, thiserror::Error)]
pub enum PassDirectoryError {
    /// A parameter file failed.
    #[error(transparent)]
    Parameter(#[from] ParameterFileError),
    /// Another file or the directory itself failed.
    #[error("{action} {path}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The directory has no `done` file.
    #[error(
        "{path} is not a complete pass directory: it has no file `done` (give a directory of a finished pass, or name it with --init_model_path)"
    )]
    Incomplete {
        /// The directory.
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

/// The directory of a pass below `save_dir`, checked to be complete.
pub fn complete(save_dir: &Path, pass: u32) -> Result<PathBuf, PassDirectoryError> {
    let path = save_dir.join(name(pass, None));
    if path.join(DONE).is_file() {
        Ok(path)
    } else {
        Err(PassDirectoryError::Incomplete { path })
    }
}

/// What goes into a pass directory besides the parameters.
#[derive(Debug, Clone, Default)]
pub struct Extras {
    /// Text of `done`.
    pub version: String,
    /// The configuration file, copied and named in `path.txt`.
    pub config: Option<PathBuf>,
    /// Other files that the configuration asks to keep.
    pub config_files: Vec<PathBuf>,
}

/// A pass directory that is being written. Dropped before [`Writer::commit`], it leaves nothing behind.
#[derive(Debug)]
pub struct Writer {
    hidden: PathBuf,
    target: PathBuf,
    committed: bool,
}

impl Writer {
    /// Starts a directory `SAVE_DIR/name`; what an earlier, killed process left under the hidden name is removed.
    pub fn create(save_dir: &Path, name: &str) -> Result<Writer, PassDirectoryError> {
        let hidden = save_dir.join(format!(".{name}.part"));
        if hidden.exists() {
            fs::remove_dir_all(&hidden).map_err(io_error("remove left-over", &hidden))?;
        }
        fs::create_dir_all(&hidden).map_err(io_error("create", &hidden))?;
        Ok(Writer {
            hidden,
            target: save_dir.join(name),
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
    pub fn commit(mut self, extras: &Extras) -> Result<PathBuf, PassDirectoryError> {
        for file in extras.config.iter().chain(&extras.config_files) {
            self.copy(file)?;
        }
        if let Some(config) = &extras.config {
            let base = config.file_name().unwrap_or_default();
            self.write("path.txt", base.as_bytes())?;
        }
        self.write(DONE, extras.version.as_bytes())?;
        sync_directory(&self.hidden)?;
        publish(&self.hidden, &self.target)?;
        self.committed = true;
        Ok(self.target.clone())
    }

    fn copy(&self, file: &Path) -> Result<(), PassDirectoryError> {
        let to = self.hidden.join(file.file_name().unwrap_or_default());
        fs::copy(file, &to).map_err(io_error("copy the configuration to", &to))?;
        Ok(())
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), PassDirectoryError> {
        let path = self.hidden.join(name);
        fs::write(&path, bytes).map_err(io_error("write", &path))?;
        let file = File::open(&path).map_err(io_error("open", &path))?;
        file.sync_all().map_err(io_error("write", &path))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.committed {
            // Nothing depends on it: the next writer of this name removes what is left.
            let _ = fs::remove_dir_all(&self.hidden);
        }
    }
}

/// Gives `hidden` the name `target` in one step; an old `target` is exchanged first and removed afterwards.
fn publish(hidden: &Path, target: &Path) -> Result<(), PassDirectoryError> {
    if target.exists() {
        exchange(hidden, target).map_err(io_error("replace", target))?;
        fs::remove_dir_all(hidden).map_err(io_error("remove the old", hidden))?;
    } else {
        fs::rename(hidden, target).map_err(io_error("create", target))?;
    }
    sync_directory(target.parent().unwrap_or(Path::new(".")))
}

fn exchange(a: &Path, b: &Path) -> io::Result<()> {
    let a = CString::new(a.as_os_str().as_bytes())?;
    let b = CString::new(b.as_os_str().as_bytes())?;
    // SAFETY: both strings are NUL-terminated and outlive the call.
    let result = unsafe {
        libc::renameat2(
            libc::AT_FDCWD,
            a.as_ptr(),
            libc::AT_FDCWD,
            b.as_ptr(),
            libc::RENAME_EXCHANGE,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn sync_directory(path: &Path) -> Result<(), PassDirectoryError> {
    let directory = File::open(path).map_err(io_error("open", path))?;
    directory.sync_all().map_err(io_error("write", path))
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
        assert_eq!(files, ["_w", "done", "path.txt", "trainer_config.lr.py"]);
        assert_eq!(
            fs::read(path.join("path.txt")).unwrap(),
            b"trainer_config.lr.py"
        );
        assert_eq!(complete(dir.path(), 3).unwrap(), path);
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
