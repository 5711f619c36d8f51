//! `canoe paddle`: v1's commands, and links through which v1's scripts call them.

use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Subcommand};

use crate::exit::Exit;

/// Arguments of `canoe paddle` that are not a command of v1: those are translated before (see [`crate::v1`]).
#[derive(Debug, Args)]
pub(crate) struct PaddleArgs {
    #[command(subcommand)]
    command: PaddleCommand,
}

#[derive(Debug, Subcommand)]
enum PaddleCommand {
    /// Put `paddle` into a directory, so that scripts which call it run as they are.
    ///
    /// Add the directory to PATH. With --python, `python`, `python2` and `python2.7` are put there, too: they run a
    /// script in the Python that it is written in, with the packages `paddle` and `py_paddle`.
    Link {
        /// The directory; it is created if it does not exist.
        directory: PathBuf,
        /// Put `python`, `python2` and `python2.7` there, too.
        #[arg(long)]
        python: bool,
    },
}

pub(crate) fn run(args: &PaddleArgs) -> anyhow::Result<Exit> {
    let PaddleCommand::Link { directory, python } = &args.command;
    let program = std::env::current_exe().context("find this program")?;
    std::fs::create_dir_all(directory)
        .with_context(|| format!("create {}", directory.display()))?;
    let link = directory.join("paddle");
    put(&link, &program, &|path| symlink(&program, path))?;
    println!("{}", link.display());
    if *python {
        let script = script(&program);
        for name in ["python", "python2", "python2.7"] {
            let path = directory.join(name);
            put(&path, &program, &|path| {
                std::fs::write(path, &script)?;
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
            })?;
            println!("{}", path.display());
        }
    }
    Ok(Exit::Success)
}

/// First lines of the scripts that this command writes. Files of other origin with the same name are not replaced.
const OURS: &str = "#!/bin/sh\n# Written by canoe paddle link.\n";

fn script(program: &Path) -> String {
    let quoted = program.display().to_string().replace('\'', r"'\''");
    format!("{OURS}exec '{quoted}' python run -- \"$@\"\n")
}

/// Creates a file, or replaces one that this command created before.
fn put(
    path: &Path,
    program: &Path,
    create: &dyn Fn(&Path) -> io::Result<()>,
) -> anyhow::Result<()> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("look at {}", path.display())),
        Ok(_) if is_ours(path, program) => {
            std::fs::remove_file(path).with_context(|| format!("replace {}", path.display()))?;
        }
        Ok(_) => anyhow::bail!(
            "{} exists and is not from canoe; choose another directory",
            path.display()
        ),
    }
    create(path).with_context(|| format!("write {}", path.display()))
}

/// Whether a file is a link to this program or to one named canoe, or a script of ours.
fn is_ours(path: &Path, program: &Path) -> bool {
    match std::fs::read_link(path) {
        Ok(target) => target == program || target.file_name().is_some_and(|name| name == "canoe"),
        Err(_) => std::fs::read_to_string(path).is_ok_and(|text| text.starts_with(OURS)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_ours_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("python");
        let program = Path::new("/it's/canoe");
        let create = |path: &Path| std::fs::write(path, script(program));
        put(&path, program, &create).unwrap();
        put(&path, program, &create).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(
            text.ends_with("exec '/it'\\''s/canoe' python run -- \"$@\"\n"),
            "{text}"
        );
        std::fs::write(&path, "#!/bin/sh\necho mine\n").unwrap();
        let error = put(&path, program, &create).unwrap_err().to_string();
        assert!(error.contains("is not from canoe"), "{error}");
        std::fs::remove_file(&path).unwrap();
        symlink("/usr/bin/python3", &path).unwrap();
        assert!(put(&path, program, &create).is_err());
    }

    #[test]
    fn a_program_of_another_name_replaces_its_own_link() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("paddle");
        let program = Path::new("/opt/canoe-0.1.0");
        let create = |path: &Path| symlink(program, path);
        put(&path, program, &create).unwrap();
        put(&path, program, &create).unwrap();
        assert!(put(&path, Path::new("/opt/other"), &create).is_err());
    }
}
