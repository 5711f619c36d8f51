//! Splits training data into shards, one for each trainer.
//!
//! Every shard is a directory `<id>` with its part of each training file and, for a job directory, all other data
//! files (test set, dictionary, lists) as hard links. Parts are contiguous, or drawn at random with a seed.
//!
//! - [`sources`]: which files of a job directory are split and which are shared.
//! - `cuts`, `contiguous`: cutting on line borders, by lines or by bytes.
//! - `scatter`: the shuffled split.
//! - [`tally`]: proof that no line is lost or doubled.
//! - [`manifest`]: what was split how; makes a second run a no-op.
//! - `shards`: where shards are put, and that they appear whole.
//!
//! # Invariants
//!
//! 1. The same sources and options give the same bytes, on any number of threads.
//! 2. The manifest says `complete` only if all shards are in place and their lines were read back and compared.
//! 3. A run that is killed leaves a state from which the next run ends right.
//! 4. Memory does not grow with the data.

mod contiguous;
mod cuts;
mod error;
pub mod manifest;
mod scatter;
mod shards;
pub mod sources;
pub mod tally;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

pub use error::SplitError;
use manifest::{Manifest, Part, SplitFile, Version};
use serde::{Deserialize, Serialize};
use shards::Shards;
use sources::Sources;
use tally::tally_file;

use super::parallel::for_each;

/// What should be equal between shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// The number of lines, up to one.
    Lines,
    /// The number of bytes, up to a line.
    Bytes,
}

/// Where the shard of trainer `<id>` is put in a job directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// `data/<id>/`.
    Data,
    /// `<id>/data/`, as in v1's Kubernetes tutorial.
    Tutorial,
}

/// How to split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Number of shards.
    pub shards: u32,
    /// What is equal between them.
    pub by: By,
    /// Seed of the shuffle; `None` keeps the order of the lines.
    pub shuffle: Option<u64>,
    /// Where shards are put.
    pub layout: Layout,
}

/// What a split did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The shards were already there, nothing was done.
    pub unchanged: bool,
    /// What is there now.
    pub manifest: Manifest,
    /// The directories of the shards, in order.
    pub shards: Vec<PathBuf>,
}

/// Tells how many more bytes of the sources have been dealt with; called from several threads.
pub type Progress<'a> = &'a (dyn Fn(u64) + Sync);

/// Splits `sources` into `options.shards` shards. `force` replaces shard directories that something else has made.
pub fn split(
    sources: &Sources,
    options: Options,
    force: bool,
    progress: Progress<'_>,
) -> Result<Report, SplitError> {
    if options.shards == 0 {
        return Err(SplitError::NoShards);
    }
    let shards = Shards::open(sources, options)?;
    let before = shards.read_manifest()?;
    let versions = Versions::of(sources)?;
    if let Some(manifest) = before
        .as_ref()
        .filter(|manifest| versions.satisfied_by(manifest, options, &shards))
    {
        return Ok(Report {
            unchanged: true,
            manifest: manifest.clone(),
            shards: shards.directories(),
        });
    }
    shards.check_owned(before.as_ref(), force)?;
    let stage = shards.new_stage()?;
    let mut files = Vec::new();
    for (source, version) in sources.split.iter().zip(&versions.split) {
        let parts = split_file(source, &stage, options, progress)?;
        files.push(SplitFile {
            name: source.name.clone(),
            version: *version,
            parts,
        });
    }
    for shared in &sources.shared {
        stage.share(shared)?;
    }
    let manifest = Manifest::new(options, files, versions.shared);
    shards.publish(stage, before.as_ref(), &manifest)?;
    Ok(Report {
        unchanged: false,
        manifest,
        shards: shards.directories(),
    })
}

/// Writes the parts of one file into the stage and proves that they hold all its lines.
fn split_file(
    source: &sources::Source,
    stage: &shards::Stage,
    options: Options,
    progress: Progress<'_>,
) -> Result<Vec<Part>, SplitError> {
    let file = File::open(&source.path).map_err(SplitError::read(&source.path))?;
    let size = file
        .metadata()
        .map_err(SplitError::read(&source.path))?
        .len();
    let targets = stage.targets(&source.name)?;
    let job = Job {
        path: &source.path,
        file: &file,
        size,
        targets: &targets,
    };
    let counted = match options.shuffle {
        None => contiguous::split(&job, options.by, progress)?,
        Some(seed) => scatter::split(&job, options.by, seed, progress)?,
    };
    let written = for_each(targets.len(), |part| {
        tally_file(&targets[part]).map_err(SplitError::read(&targets[part]))
    })?;
    let together = written
        .iter()
        .copied()
        .fold(Default::default(), tally::Tally::plus);
    if !together.same_lines(counted) || together.bytes < size || together.bytes > size + 1 {
        return Err(SplitError::Mismatch {
            path: source.path.clone(),
            want_lines: counted.lines,
            got_lines: together.lines,
        });
    }
    Ok(written.into_iter().map(Part::from).collect())
}

/// One file to split and the files its parts go to.
struct Job<'a> {
    path: &'a Path,
    file: &'a File,
    size: u64,
    targets: &'a [PathBuf],
}

impl Job<'_> {
    fn parts(&self) -> u32 {
        self.targets.len() as u32
    }

    fn check_enough(&self, lines: u64) -> Result<(), SplitError> {
        if lines < u64::from(self.parts()) {
            return Err(SplitError::TooFewLines {
                path: self.path.to_owned(),
                lines,
                shards: self.parts(),
            });
        }
        Ok(())
    }
}

/// Size and time of every source, to notice changes.
struct Versions {
    split: Vec<Version>,
    shared: Vec<(String, Version)>,
}

impl Versions {
    fn of(sources: &Sources) -> Result<Self, SplitError> {
        let version = |path: &Path| {
            let metadata = fs::metadata(path).map_err(SplitError::read(path))?;
            let modified = metadata.modified().map_err(SplitError::read(path))?;
            let modified = modified.duration_since(UNIX_EPOCH).unwrap_or_default();
            Ok(Version {
                bytes: metadata.len(),
                modified_ns: modified.as_nanos() as u64,
            })
        };
        let split = sources
            .split
            .iter()
            .map(|source| version(&source.path))
            .collect::<Result<_, _>>()?;
        let shared = sources
            .shared
            .iter()
            .map(|source| Ok((source.name.clone(), version(&source.path)?)))
            .collect::<Result<_, _>>()?;
        Ok(Self { split, shared })
    }

    /// Whether `manifest` describes exactly this split and the shards are still there.
    fn satisfied_by(&self, manifest: &Manifest, options: Options, shards: &Shards) -> bool {
        manifest.complete
            && manifest.options == options
            && manifest
                .files
                .iter()
                .map(|file| file.version)
                .eq(self.split.iter().copied())
            && manifest.shared == self.shared
            && shards.hold(manifest)
    }
}

#[cfg(test)]
mod tests;
