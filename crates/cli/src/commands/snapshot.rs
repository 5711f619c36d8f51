//! `canoe snapshot`: check the recovery snapshots of parameter servers.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use pserver::snapshot::verify::verify;

use crate::exit::Exit;

/// Arguments of `canoe snapshot`.
#[derive(Debug, Args)]
pub(crate) struct SnapshotArgs {
    #[command(subcommand)]
    command: SnapshotCommand,
}

#[derive(Debug, Subcommand)]
enum SnapshotCommand {
    /// Check every byte of all snapshots in a directory and name what is wrong; ends with 1 if anything is, or if there
    /// is no snapshot that all servers have.
    Verify {
        /// A directory with snapshots, such as output/snapshots.
        directory: PathBuf,
    },
}

pub(crate) fn run(args: SnapshotArgs) -> anyhow::Result<Exit> {
    match args.command {
        SnapshotCommand::Verify { directory } => check(&directory),
    }
}

fn check(directory: &Path) -> anyhow::Result<Exit> {
    let findings = verify(directory)?;
    for found in &findings.snapshots {
        let (whole, servers) = (found.whole.len(), found.servers);
        println!(
            "{}: {whole} of {servers} servers are whole",
            found.path.display()
        );
    }
    for (path, text) in &findings.problems {
        println!("{}: {text}", path.display());
    }
    if !findings.snapshots.iter().any(|found| found.complete()) {
        println!(
            "{}: no snapshot here has the files of all servers",
            directory.display()
        );
        return Ok(Exit::Failure);
    }
    Ok(if findings.problems.is_empty() {
        Exit::Success
    } else {
        Exit::Failure
    })
}
