//! `canoe python`: the Python packages `paddle` and `py_paddle` for the user's own programs.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use clap::{Args, Subcommand};

use crate::exit::Exit;

/// Arguments of `canoe python`.
#[derive(Debug, Args)]
pub(crate) struct PythonArgs {
    #[command(subcommand)]
    command: PythonCommand,
}

#[derive(Debug, Subcommand)]
enum PythonCommand {
    /// Print the directory for PYTHONPATH, with the packages `paddle` and `py_paddle`.
    Path,
    /// Run a script in the Python that it is written in (Python 2 scripts keep their meaning), with both packages.
    Run {
        /// Python interpreter, 3.8 or newer.
        #[arg(long, default_value = "python3")]
        python: PathBuf,
        /// The script and its arguments; `-m MODULE`, `-c CODE` and `-` for standard input as Python has them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        script: Vec<OsString>,
    },
}

pub(crate) fn run(args: PythonArgs) -> anyhow::Result<Exit> {
    let package = config::python::package_dir()?;
    match args.command {
        PythonCommand::Path => {
            println!("{}", package.display());
            Ok(Exit::Success)
        }
        PythonCommand::Run { python, script } => {
            let inherited = std::env::var_os("PYTHONPATH").filter(|path| !path.is_empty());
            let parts = [Some(package.as_os_str().to_owned()), inherited];
            let path: Vec<OsString> = parts.into_iter().flatten().collect();
            let mut command = Command::new(&python);
            command
                .args(["-m", "paddle.python2"])
                .args(script)
                .env("PYTHONPATH", path.join(std::ffi::OsStr::new(":")));
            if let Ok(program) = std::env::current_exe() {
                command.env("CANOE", program);
            }
            // Returns only if the interpreter could not be started.
            let error = command.exec();
            anyhow::bail!(
                "start {}: {error}; name Python 3.8 or newer with --python",
                python.display()
            )
        }
    }
}
