//! `canoe snapshot`: check the recovery snapshots of parameter servers.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use pserver::snapshot::verify::verify;

use super::model::problems_json;
use crate::exit::Exit;
use crate::form::Form;

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
        /// A directory with snapshots, such as output/snapshots; the job folder or output folder above it; or one snapshot.
        directory: PathBuf,
        #[command(flatten)]
        form: Form,
    },
}

pub(crate) fn run(args: SnapshotArgs) -> anyhow::Result<Exit> {
    match args.command {
        SnapshotCommand::Verify { directory, form } => check(&directory, form),
    }
}

fn check(given: &Path, form: Form) -> anyhow::Result<Exit> {
    let places = ["output/snapshots", "snapshots"].map(|below| given.join(below));
    let found = places.iter().find(|place| place.is_dir());
    let directory = found.map_or(given, |place| place.as_path());
    let findings = verify(directory)?;
    let usable = findings.snapshots.iter().any(|found| found.complete());
    let exit = if usable && findings.problems.is_empty() {
        Exit::Success
    } else {
        Exit::Failure
    };
    if form.json() {
        let snapshots: Vec<_> = findings
            .snapshots
            .iter()
            .map(|found| serde_json::json!({"path": found.path, "servers": found.servers, "whole": found.whole, "complete": found.complete()}))
            .collect();
        let value = serde_json::json!({
            "path": directory,
            "whole": exit == Exit::Success,
            "snapshots": snapshots,
            "problems": problems_json(&findings.problems),
        });
        println!("{}", serde_json::to_string_pretty(&value)?);
        return Ok(exit);
    }
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
    if !usable {
        println!(
            "{}: no snapshot here has the files of all servers",
            directory.display()
        );
    }
    Ok(exit)
}
