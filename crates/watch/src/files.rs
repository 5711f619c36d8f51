//! Paths of the record of a process in the output folder.

use std::path::{Path, PathBuf};

use words::process::{ProcessId, Role};

fn file(output: &Path, process: ProcessId, ending: &str) -> PathBuf {
    let name = match process.role {
        Role::Trainer => "train",
        Role::Pserver => "server",
    };
    let folder = output.join(format!("node_{}", process.node));
    folder.join(format!("{name}.{ending}"))
}

/// The file to which a process appends its events.
pub fn events(output: &Path, process: ProcessId) -> PathBuf {
    file(output, process, "events.jsonl")
}

/// The file that a process replaces with its status once a second.
pub fn state(output: &Path, process: ProcessId) -> PathBuf {
    file(output, process, "beat.json")
}

/// The log of a process.
pub fn log(output: &Path, process: ProcessId) -> PathBuf {
    file(output, process, "log")
}
