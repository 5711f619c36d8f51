//! The model that is served. A newer or better pass of the same configuration replaces it while requests go on: threads
//! take the new parameters with their next batch, and what they compute until then is of the old ones.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use predict::{Model, PredictError, locate};

/// The model, and how often it was replaced.
#[derive(Debug)]
pub struct Current {
    /// What the user named: if it is a folder, its best or last pass may change.
    path: PathBuf,
    model: RwLock<Arc<Model>>,
    version: AtomicU64,
}

/// What a look at the folder found.
#[derive(Debug)]
pub enum FolderChange {
    /// The same pass as before.
    Same,
    /// The model was replaced by this pass.
    Replaced(PathBuf),
    /// There is another pass, which has another configuration: it is not served.
    OtherConfiguration(PathBuf),
}

impl Current {
    /// Serves a model; `path` is what the user named.
    pub fn new(path: &Path, model: Model) -> Self {
        Self {
            path: path.to_owned(),
            model: RwLock::new(Arc::new(model)),
            version: AtomicU64::new(0),
        }
    }

    /// The model.
    pub fn model(&self) -> Arc<Model> {
        let model = self.model.read().unwrap_or_else(PoisonError::into_inner);
        model.clone()
    }

    /// Grows by one with every replacement.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Replaces the model if its folder has another best or last pass.
    pub fn look(&self) -> Result<FolderChange, PredictError> {
        if self.path.is_file() {
            return Ok(FolderChange::Same);
        }
        let directory = locate::pass_directory(&self.path)?;
        let old = self.model();
        if directory == old.located.directory {
            return Ok(FolderChange::Same);
        }
        let text = |directory: &Path| {
            let name = std::fs::read_to_string(directory.join("path.txt")).ok()?;
            std::fs::read(directory.join(name.trim())).ok()
        };
        if text(&directory) != text(&old.located.directory) {
            return Ok(FolderChange::OtherConfiguration(directory));
        }
        let new = old.with_parameters(&directory)?;
        *self.model.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(new);
        self.version.fetch_add(1, Ordering::Release);
        Ok(FolderChange::Replaced(directory))
    }
}
