//! One process that plays all trainers of a job folder: the way to debug a cluster job without a cluster.
//!
//! Each trainer that is played gets the working directory that its node would have: the configuration folder with
//! `data/` pointing to its shard. The process itself works in that of node 0.

use std::path::{Path, PathBuf};

use anyhow::Context;
use launch::local::layout::Data;
use launch::local::{Layout, Wish, workdir};

/// The working directories of the trainers that are played. They go away with this value.
pub struct Stage {
    /// Removes the directories.
    _root: tempfile::TempDir,
    /// One directory for each trainer.
    pub directories: Vec<PathBuf>,
    /// The configuration file, absolute.
    pub config: PathBuf,
}

impl Stage {
    /// Prepares the directories for `nodes` trainers of the job folder `job`, and works in the first from now on.
    pub fn set(job: &Path, nodes: u32, config: Option<PathBuf>) -> anyhow::Result<Stage> {
        let wish = Wish {
            config,
            config_dir: None,
        };
        let layout = Layout::read(job, nodes, &wish)?;
        let Data::Shards(shards) = &layout.data else {
            anyhow::bail!(
                "{} has no shards yet: split it with `canoe data split {} --shards {nodes}`",
                job.display(),
                job.display()
            );
        };
        let root = tempfile::tempdir().context("make working directories")?;
        let mut directories = Vec::new();
        for (node, shard) in shards.iter().enumerate() {
            let directory = root.path().join(format!("node_{node}"));
            workdir::prepare(&directory, &layout.config_dir, shard)?;
            directories.push(directory);
        }
        let first = &directories[0];
        std::env::set_current_dir(first).context("work in the directory of node 0")?;
        Ok(Stage {
            config: layout.config_dir.join(&layout.config),
            directories,
            _root: root,
        })
    }
}
