//! Simulates all trainers of a job folder in one process, to debug a cluster job without a cluster.
//!
//! Each simulated trainer gets the working directory that its node would have: the configuration folder with
//! `data/` pointing to its shard. The process itself works in that of node 0.

use std::path::{Path, PathBuf};

use anyhow::Context;
use run::local::layout::JobData;
use run::local::{FolderLayout, FolderOptions, workdir};

/// The working directories of the simulated trainers. They are deleted when this value is dropped.
pub(crate) struct SimulationFolders {
    /// Deletes the directories when dropped.
    _root: tempfile::TempDir,
    /// One directory per trainer.
    pub directories: Vec<PathBuf>,
    /// The configuration file, absolute.
    pub config: PathBuf,
}

impl SimulationFolders {
    /// Prepares the directories for `nodes` trainers of the job folder `job`, and changes to the first.
    pub(crate) fn set(
        job: &Path,
        nodes: u32,
        config: Option<PathBuf>,
    ) -> anyhow::Result<SimulationFolders> {
        let options = FolderOptions {
            config,
            config_dir: None,
            ..FolderOptions::default()
        };
        let layout = FolderLayout::read(job, nodes, &options)?;
        let JobData::Shards(shards) = &layout.data else {
            anyhow::bail!(
                "{} has no shards yet: split it with `canoe data split {} --shards {nodes}`",
                job.display(),
                words::shell::word(job)
            );
        };
        let root = tempfile::tempdir().context("create working directories")?;
        let mut directories = Vec::new();
        for (node, shard) in shards.iter().enumerate() {
            let directory = root.path().join(format!("node_{node}"));
            workdir::prepare(&directory, &layout.job, &layout.config_dir, shard)?;
            directories.push(directory);
        }
        let first = &directories[0];
        std::env::set_current_dir(first).context("change to the directory of node 0")?;
        Ok(SimulationFolders {
            config: layout.config_dir.join(&layout.config),
            directories,
            _root: root,
        })
    }
}
