//! The model that is served. A newer or better pass with the same inputs and outputs replaces it while requests are
//! served: requests that were read before are computed by the old model, later ones by the new model.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use words::lock::{Mutex, RwLock};

use predict::locate::{self, ModelIdentity};
use predict::{Model, OpenOptions, PredictError};

/// The model, and how often it was replaced.
#[derive(Debug)]
pub struct Current {
    origin: ModelOrigin,
    model: RwLock<Arc<Model>>,
    version: AtomicU64,
    /// The last model that was found and not used.
    refused: Mutex<Option<ModelIdentity>>,
}

/// The path and the options with which the user opened the model.
#[derive(Debug)]
pub struct ModelOrigin {
    /// A pass directory or a merged model, which may be saved anew; or a folder, whose best or last pass may change.
    pub path: PathBuf,
    /// How it is opened.
    pub options: OpenOptions,
}

/// The result of a check of the folder.
#[derive(Debug)]
pub enum FolderChange {
    /// The same pass as before.
    Same,
    /// The model was replaced by this pass.
    Replaced(PathBuf),
    /// There is another pass, which has other inputs or outputs: it is not served.
    OtherInterface(PathBuf),
}

impl Current {
    /// Serves a model.
    pub fn new(origin: ModelOrigin, model: Model) -> Self {
        Self {
            origin,
            model: RwLock::new(Arc::new(model)),
            version: AtomicU64::new(0),
            refused: Mutex::new(None),
        }
    }

    /// The model that new requests are computed with.
    pub fn model(&self) -> Arc<Model> {
        let model = self.model.read();
        model.clone()
    }

    /// Grows by one with every replacement.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Replaces the model if another one was saved: a better or later pass, or the same pass of a new training. It is
    /// opened as the first one was, because its data source may have another dictionary by now.
    pub fn look(&self) -> Result<FolderChange, PredictError> {
        let identity = locate::identity(&self.origin.path)?;
        let old = self.model();
        let mut refused = self.refused.lock();
        if identity == old.identity || refused.as_ref() == Some(&identity) {
            return Ok(FolderChange::Same);
        }
        let new = Model::open(&self.origin.path, &self.origin.options)?;
        let directory = new.located.directory.clone();
        if !new.same_interface(&old) {
            *refused = Some(new.identity);
            return Ok(FolderChange::OtherInterface(directory));
        }
        // If the network cannot be built, it fails here and not in a thread that computes.
        new.runner()?;
        *self.model.write() = Arc::new(new);
        self.version.fetch_add(1, Ordering::Release);
        Ok(FolderChange::Replaced(directory))
    }
}
