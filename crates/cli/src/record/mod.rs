//! Writes the record of a job while it runs: what happens to processes, what they compute, and their present state.
//!
//! The files and their form are [`watch`]'s. Here is who writes which, and how often.

pub mod heart;
pub mod runner;
pub mod server;
pub mod trainer;

use std::path::{Path, PathBuf};

use watch::record::{Role, Start};

/// Where a process writes its record.
#[derive(Debug, Clone)]
pub struct Folder {
    /// The job's output.
    pub output: PathBuf,
    /// The process's node.
    pub node: u32,
}

impl Folder {
    /// The file of a name in the node's folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.own().join(name)
    }

    /// The node's folder.
    pub fn own(&self) -> PathBuf {
        self.output.join(format!("node_{}", self.node))
    }

    /// TensorBoard's folder.
    pub fn tensorboard(&self) -> PathBuf {
        self.output.join("tensorboard")
    }
}

/// What `--record_dir` says: a folder, nothing (the default is taken), or `off`.
pub fn folder(flag: &str, default: Option<&Path>, node: u32) -> anyhow::Result<Option<Folder>> {
    let output = match (flag, default) {
        ("off", _) | ("", None) => return Ok(None),
        ("", Some(default)) => default,
        (given, _) => Path::new(given),
    };
    let output = std::path::absolute(output)?;
    Ok(Some(Folder { output, node }))
}

/// What is the same for every process that starts.
pub fn start(role: Role, node: u32, run: &str, args: &[String]) -> Start {
    Start {
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
        status_port: None,
        parameters: None,
    }
}

/// The name of this machine, as far as it is one for file names.
pub fn host() -> String {
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
