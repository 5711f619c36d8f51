//! What servers and trainers of `canoe run` check while they run: that the output folder still belongs to their run, and
//! that the training files are those with which it began.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use run::local::inputs::ShardFiles;
use run::local::lease::{LEASE_VARIABLE, Lease};
use run::local::plan::SHARD_FILES_VARIABLE;
use trainer::settings::RunChecks;

/// The checks of a trainer.
#[derive(Debug)]
struct TrainerChecks {
    lease: Option<Lease>,
    files: Option<ShardFiles>,
}

/// The lease of the run that this process belongs to, if a runner has started it.
pub(crate) fn lease() -> Option<Lease> {
    Lease::parse(&std::env::var(LEASE_VARIABLE).ok()?)
}

/// What the runner has asked this trainer to check; `None` if there is no runner.
pub(crate) fn of_this_process() -> anyhow::Result<Option<Arc<dyn RunChecks>>> {
    let lease = lease();
    let list = std::env::var_os(SHARD_FILES_VARIABLE).map(PathBuf::from);
    let files = list
        .map(|list| ShardFiles::read(&list).with_context(|| format!("read {}", list.display())));
    let checks = TrainerChecks {
        lease,
        files: files.transpose()?,
    };
    let any = checks.lease.is_some() || checks.files.is_some();
    Ok(any.then(|| Arc::new(checks) as Arc<dyn RunChecks>))
}

impl RunChecks for TrainerChecks {
    fn folder(&self) -> Result<(), String> {
        let checked = self.lease.as_ref().map_or(Ok(()), Lease::check);
        checked.map_err(|lost| lost.to_string())
    }

    fn data(&self) -> Result<(), String> {
        let checked = self.files.as_ref().map_or(Ok(()), ShardFiles::check);
        checked.map_err(|replaced| replaced.to_string())
    }

    fn data_quickly(&self) -> Result<(), String> {
        let checked = self.files.as_ref().map_or(Ok(()), ShardFiles::check_folder);
        checked.map_err(|replaced| replaced.to_string())
    }
}
