//! The directories of shards, and how they are published completely.
//!
//! Shards are written under `.split-stage`, then the manifest is written as incomplete, then old shards are removed
//! and the new ones are renamed to their names, then the manifest is written as complete. If a run is killed at any
//! moment, the next one reads from the manifest which directories splits have made, and starts again.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::manifest::{FilePart, MANIFEST, SplitManifest};
use super::sources::{SourceFile, Sources, TRAIN_LIST};
use super::{ShardLayout, SplitError, SplitOptions};

const STAGE: &str = ".split-stage";
const LOCK: &str = ".split-lock";

/// The directory of the shards of one source, locked against other runs.
pub(super) struct Shards {
    root: PathBuf,
    /// Shards are in `<base>/<id>/<inner>`.
    base: PathBuf,
    inner: &'static str,
    count: u32,
    _lock: File,
}

impl Shards {
    pub(super) fn open(sources: &Sources, options: SplitOptions) -> Result<Self, SplitError> {
        let root = sources.root.clone();
        fs::create_dir_all(&root).map_err(SplitError::write(&root))?;
        let path = root.join(LOCK);
        let lock = File::create(&path).map_err(SplitError::write(&path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(SplitError::Busy { directory: root }),
            Err(TryLockError::Error(error)) => return Err(SplitError::write(&path)(error)),
        }
        let (base, inner) = match (options.layout, &sources.job) {
            (ShardLayout::Tutorial, Some(job)) => (job.clone(), "data"),
            (ShardLayout::Tutorial, None) => (root.clone(), "data"),
            (ShardLayout::Data, _) => (root.clone(), ""),
        };
        Ok(Self {
            root,
            base,
            inner,
            count: options.shards,
            _lock: lock,
        })
    }

    fn directory(&self, id: u32) -> PathBuf {
        let shard = self.base.join(id.to_string());
        if self.inner.is_empty() {
            shard
        } else {
            shard.join(self.inner)
        }
    }

    /// All shard directories, in order.
    pub(super) fn directories(&self) -> Vec<PathBuf> {
        (0..self.count).map(|id| self.directory(id)).collect()
    }

    /// The manifest of an earlier run.
    pub(super) fn read_manifest(&self) -> Result<Option<SplitManifest>, SplitError> {
        let path = self.root.join(MANIFEST);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(SplitError::read(&path)(error)),
        };
        serde_json::from_slice(&text)
            .map(Some)
            .map_err(|source| SplitError::Manifest { path, source })
    }

    fn write_manifest(&self, manifest: &SplitManifest) -> Result<(), SplitError> {
        let path = self.root.join(MANIFEST);
        let temporary = self.root.join(".split.json.new");
        let text = serde_json::to_vec_pretty(manifest).expect("a manifest has only plain values");
        let write = || -> io::Result<()> {
            let mut file = File::create(&temporary)?;
            file.write_all(&text)?;
            file.write_all(b"\n")?;
            file.sync_all()?;
            fs::rename(&temporary, &path)?;
            File::open(&self.root)?.sync_all()
        };
        write().map_err(SplitError::write(&path))
    }

    /// Whether all parts that the manifest lists exist with their sizes, and the shared files too.
    pub(super) fn hold(&self, manifest: &SplitManifest) -> bool {
        let has = |path: PathBuf, bytes: u64| {
            fs::metadata(path).is_ok_and(|metadata| metadata.len() == bytes)
        };
        (0..self.count).all(|id| {
            let directory = self.directory(id);
            let parts = manifest.files.iter().all(|file| {
                let is_there = |part: &FilePart| has(directory.join(&file.name), part.bytes);
                let here = |whole| whole == id as usize;
                !file.whole.is_none_or(here) || file.parts.get(id as usize).is_some_and(is_there)
            });
            // The list of a shard with whole files is its own.
            let mut shared = manifest.shared.iter();
            parts
                && shared.all(|(name, version)| {
                    name == TRAIN_LIST && manifest.is_whole()
                        || has(directory.join(name), version.bytes)
                })
        })
    }

    /// Refuses to replace a shard directory that no earlier split created.
    pub(super) fn check_owned(
        &self,
        before: Option<&SplitManifest>,
        force: bool,
    ) -> Result<(), SplitError> {
        let owned = before.map_or(0, |manifest| manifest.options.shards);
        match (owned..self.count)
            .map(|id| self.directory(id))
            .find(|path| path.symlink_metadata().is_ok())
        {
            Some(path) if !force => Err(SplitError::ForeignShard { path }),
            _ => Ok(()),
        }
    }

    /// An empty stage; what a killed run left there is removed.
    pub(super) fn new_stage(&self) -> Result<ShardStage, SplitError> {
        let path = self.root.join(STAGE);
        remove_if_there(&path)?;
        for id in 0..self.count {
            let shard = path.join(id.to_string());
            fs::create_dir_all(&shard).map_err(SplitError::write(&shard))?;
        }
        Ok(ShardStage {
            path,
            count: self.count,
        })
    }

    /// Renames the staged shards to their names.
    pub(super) fn publish(
        &self,
        stage: ShardStage,
        before: Option<&SplitManifest>,
        manifest: &SplitManifest,
    ) -> Result<(), SplitError> {
        let old = before.map_or(0, |manifest| manifest.options.shards);
        // Until the end, all directories of the old and of the new split count as ours.
        let mut moving = manifest.clone();
        moving.complete = false;
        moving.options.shards = old.max(self.count);
        self.write_manifest(&moving)?;
        for id in 0..moving.options.shards {
            remove_if_there(&self.directory(id))?;
        }
        for id in 0..self.count {
            let target = self.directory(id);
            let parent = target.parent().unwrap_or(&self.base);
            fs::create_dir_all(parent).map_err(SplitError::write(parent))?;
            fs::rename(stage.path.join(id.to_string()), &target)
                .map_err(SplitError::write(&target))?;
        }
        File::open(&self.base)
            .and_then(|base| base.sync_all())
            .map_err(SplitError::write(&self.base))?;
        self.write_manifest(manifest)
    }
}

/// Shards being written.
pub(super) struct ShardStage {
    path: PathBuf,
    count: u32,
}

impl ShardStage {
    /// The files for the parts of `name`, one in each shard; their directories exist.
    pub(super) fn targets(&self, name: &str) -> Result<Vec<PathBuf>, SplitError> {
        let target = |id: u32| {
            let path = self.path.join(id.to_string()).join(name);
            let parent = path.parent().unwrap_or(&self.path);
            fs::create_dir_all(parent).map_err(SplitError::write(parent))?;
            Ok(path)
        };
        (0..self.count).map(target).collect()
    }

    /// Adds a whole file to every shard: a hard link, or a copy where links do not work.
    pub(super) fn share(&self, source: &SourceFile) -> Result<(), SplitError> {
        self.link(source, &self.targets(&source.name)?)
    }

    /// Adds a whole file to one shard, in the same way.
    pub(super) fn give(&self, source: &SourceFile, shard: usize) -> Result<(), SplitError> {
        self.link(source, &self.targets(&source.name)?[shard..=shard])
    }

    fn link(&self, source: &SourceFile, targets: &[PathBuf]) -> Result<(), SplitError> {
        // A link to a symbolic link would be broken inside a shard.
        let path = fs::canonicalize(&source.path).map_err(SplitError::read(&source.path))?;
        for target in targets {
            if fs::hard_link(&path, target).is_err() {
                fs::copy(&path, target).map_err(SplitError::write(target))?;
            }
        }
        Ok(())
    }
}

impl Drop for ShardStage {
    fn drop(&mut self) {
        // After publishing, the stage is empty; after a failure, its contents are useless. The next run would remove it
        // too.
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn remove_if_there(path: &Path) -> Result<(), SplitError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(SplitError::write(path)(error))
        }
        _ => Ok(()),
    }
}
