//! Writes the record of a job while it runs: what happens to processes, what they compute, and their present state.
//!
//! [`watch`] defines the files and their format. This module decides which process writes which file, and how often.

pub(crate) mod cluster_job;
pub(crate) mod heart;
pub(crate) mod notes;
pub(crate) mod runner;
pub(crate) mod server;
pub(crate) mod trainer;

use std::path::{Path, PathBuf};
use std::time::Instant;

use run::local::lease;
use run::local::plan::RUN_VARIABLE;
use watch::job::WatchedJob;
use words::event::ProcessStart;
use words::process::{ProcessId, Role};
use words::status::Status;

/// Where a process writes its record.
#[derive(Debug, Clone)]
pub(crate) struct Folder {
    /// The job's output folder.
    pub output: PathBuf,
    /// The process's node.
    pub node: u32,
}

impl Folder {
    /// A file in the node's folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.own().join(name)
    }

    /// The node's folder.
    pub(crate) fn own(&self) -> PathBuf {
        self.output.join(format!("node_{}", self.node))
    }

    /// TensorBoard's folder.
    pub(crate) fn tensorboard(&self) -> PathBuf {
        self.output.join("tensorboard")
    }
}

/// The folder from `--record_dir`: a folder, empty (the default is used), or `off`.
pub(crate) fn folder(
    flag: &str,
    default: Option<&Path>,
    node: u32,
) -> anyhow::Result<Option<Folder>> {
    let output = match (flag, default) {
        ("off", _) | ("", None) => return Ok(None),
        ("", Some(default)) => default,
        (given, _) => Path::new(given),
    };
    let output = std::path::absolute(output)?;
    Ok(Some(Folder { output, node }))
}

/// Writes a first status before there is anything to report, so that the runner sees that the process runs.
pub(crate) fn announce(folder: &Folder, role: Role) -> anyhow::Result<()> {
    let process = ProcessId {
        role,
        node: folder.node,
    };
    std::fs::create_dir_all(folder.own())?;
    let path = watch::files::state(&folder.output, process);
    let before = watch::state_file::read(&path);
    let status = Status {
        t: watch::recorder::now(),
        run: std::env::var(RUN_VARIABLE).unwrap_or_default(),
        role: Some(role),
        node: folder.node,
        pid: std::process::id(),
        writer: heart::writer(before.as_ref(), None).unwrap_or_default(),
        host: host(),
        ..Status::default()
    };
    Ok(watch::state_file::write(&status, &path)?)
}

/// The fields that are the same for every process that starts.
pub(crate) fn start(role: Role, node: u32, run: &str, args: &[String]) -> ProcessStart {
    ProcessStart {
        first_pass: None,
        role,
        node,
        run: run.to_owned(),
        pid: std::process::id(),
        host: host(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: args.to_vec(),
        config: String::new(),
        trainers: 1,
        passes: None,
        patience: None,
        status_port: None,
        parameters: None,
    }
}

/// Reads what is new about a job.
pub(crate) fn look(job: &mut WatchedJob) {
    job.look(Instant::now(), watch::recorder::now());
    let abandoned = lease::is_abandoned(job.output(), &host());
    job.set_abandoned(abandoned);
}

/// The host name, reduced to what is allowed in file names.
pub(crate) fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let safe = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let name: String = name.trim().chars().filter(safe).collect();
    if name.is_empty() {
        "localhost".to_owned()
    } else {
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_wins_over_the_default() {
        let output = |flag: &str, default: Option<&str>| {
            let folder = folder(flag, default.map(Path::new), 2).unwrap();
            folder.map(|folder| folder.file("x").display().to_string())
        };
        assert_eq!(output("/a", Some("/b")).unwrap(), "/a/node_2/x");
        assert_eq!(output("", Some("/b")).unwrap(), "/b/node_2/x");
        assert_eq!(output("", None), None);
        assert_eq!(output("off", Some("/b")), None);
    }
}
