//! Splits training data into shards, one per trainer.
//!
//! Every shard is a directory `<id>` with its part of each training file and, for a job directory, all other data
//! files (test set, dictionary, lists) as hard links. Parts are contiguous, or drawn at random with a seed. If a training
//! file is not text, all of them are dealt out whole, and each shard has a list of its own.
//!
//! - [`sources`]: which files of a job directory are split and which are shared.
//! - `cuts`, `contiguous`: cutting on line borders, by lines or by bytes.
//! - `scatter`: the shuffled split.
//! - `header`: whether a table begins with the names of its columns.
//! - [`tally`]: proves that no line is lost or duplicated.
//! - [`manifest`]: records what was split and how, so that a second run has nothing to do.
//! - `shards`: directories of shards, which appear only when they are complete.
//!
//! # Invariants
//!
//! 1. The same sources and options yield the same bytes, with any number of threads.
//! 2. The manifest says `complete` only if all shards are published and their lines were read back and compared.
//! 3. A run that is killed leaves a state from which the next run succeeds.
//! 4. Memory does not grow with the data.

mod contiguous;
mod cuts;
mod error;
mod header;
pub mod manifest;
mod scatter;
mod shards;
pub mod sources;
pub(crate) mod tally;

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use cuts::Body;
pub use error::SplitError;
pub use header::all_have_header;
use manifest::{FilePart, SourceVersion, SplitFile, SplitManifest};
use serde::{Deserialize, Serialize};
use shards::Shards;
use sources::Sources;
use tally::{LineCounter, tally_file};

use super::kind::is_text;
use super::parallel::for_each;
use super::random::SeededRandom;

/// What should be equal between shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// Lines; shards differ by at most one.
    Lines,
    /// Bytes; shards differ by at most one line.
    Bytes,
}

/// The directory of the shard of trainer `<id>` in a job directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ShardLayout {
    /// `data/<id>/`.
    Data,
    /// `<id>/data/`, as in v1's Kubernetes tutorial.
    Tutorial,
}

/// How to split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SplitOptions {
    /// Number of shards.
    pub shards: u32,
    /// What is equal between shards.
    pub by: By,
    /// Seed of the shuffle; `None` keeps the order of the lines.
    pub shuffle: Option<u64>,
    /// Directories of the shards.
    pub layout: ShardLayout,
    /// The first line of each file is a header, which every part gets.
    #[serde(default)]
    pub header: bool,
}

/// What a split did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitReport {
    /// The shards existed already; nothing was done.
    pub unchanged: bool,
    /// The present content of the shards.
    pub manifest: SplitManifest,
    /// The directories of the shards, in order.
    pub shards: Vec<PathBuf>,
}

/// Called with the number of further bytes of the sources that have been processed, from several threads.
pub(crate) type SplitProgress<'a> = &'a (dyn Fn(u64) + Sync);

/// Splits `sources` into `options.shards` shards. `force` replaces shard directories that no split created.
pub fn split(
    sources: &Sources,
    options: SplitOptions,
    force: bool,
    progress: SplitProgress<'_>,
) -> Result<SplitReport, SplitError> {
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
        return Ok(SplitReport {
            unchanged: true,
            manifest: manifest.clone(),
            shards: shards.directories(),
        });
    }
    shards.check_owned(before.as_ref(), force)?;
    let stage = shards.new_stage()?;
    let mut shared = sources.shared.iter().collect::<Vec<_>>();
    let files = match not_text(sources)? {
        None => cut(sources, &versions, &stage, options, progress)?,
        Some(file) => {
            shared.retain(|shared| shared.name != sources::TRAIN_LIST);
            deal(sources, &versions, &stage, options, file)?
        }
    };
    for shared in shared {
        stage.share(shared)?;
    }
    let manifest = SplitManifest::new(options, files, versions.shared);
    shards.publish(stage, before.as_ref(), &manifest)?;
    Ok(SplitReport {
        unchanged: false,
        manifest,
        shards: shards.directories(),
    })
}

/// Splits the data of a job again, in the same way, if they have changed since they were split into `shards` shards.
/// `None` if nothing was done: the shards were not made by a split, or their sources are missing or unchanged. Shards
/// that a user has edited are not changed.
pub fn refresh(job: &Path, shards: u32) -> Result<Option<SplitReport>, SplitError> {
    let Ok(sources) = Sources::job(job, None) else {
        return Ok(None);
    };
    let path = sources.root.join(manifest::MANIFEST);
    let manifest = fs::read(&path).ok();
    let manifest = manifest.and_then(|text| serde_json::from_slice::<SplitManifest>(&text).ok());
    let Some(manifest) = manifest.filter(|manifest| manifest.options.shards == shards) else {
        return Ok(None);
    };
    if Versions::of(&sources)?.are_those_of(&manifest) {
        return Ok(None);
    }
    split(&sources, manifest.options, false, &|_| ()).map(Some)
}

/// One of the files to split that cannot be cut at line ends.
fn not_text(sources: &Sources) -> Result<Option<&Path>, SplitError> {
    for source in &sources.split {
        if !is_text(&source.path).map_err(SplitError::read(&source.path))? {
            return Ok(Some(&source.path));
        }
    }
    Ok(None)
}

/// Cuts every file into one part per shard. If a file has fewer lines than there are shards, the shards with the fewest
/// lines of earlier files get one line each.
fn cut(
    sources: &Sources,
    versions: &Versions,
    stage: &shards::ShardStage,
    options: SplitOptions,
    progress: SplitProgress<'_>,
) -> Result<Vec<SplitFile>, SplitError> {
    let mut filled = vec![0; options.shards as usize];
    let mut files = Vec::new();
    for (source, version) in sources.split.iter().zip(&versions.split) {
        let parts = split_file(source, stage, options, &filled, progress)?;
        for (filled, part) in filled.iter_mut().zip(&parts) {
            *filled += part.lines;
        }
        files.push(SplitFile {
            name: source.name.clone(),
            version: *version,
            parts,
            whole: None,
        });
    }
    if filled.contains(&0) {
        let path = match sources.split.as_slice() {
            [only] => &only.path,
            _ => &sources.root,
        };
        return Err(SplitError::TooFewLines {
            path: path.clone(),
            lines: filled.iter().sum(),
            shards: options.shards,
        });
    }
    Ok(files)
}

/// Deals the files out whole, because one of them is not text, and writes a list of its own for each shard.
fn deal(
    sources: &Sources,
    versions: &Versions,
    stage: &shards::ShardStage,
    options: SplitOptions,
    not_text: &Path,
) -> Result<Vec<SplitFile>, SplitError> {
    let shards = options.shards as usize;
    if sources.split.len() < shards {
        return Err(SplitError::NotText {
            path: not_text.to_owned(),
            files: sources.split.len(),
            shards: options.shards,
        });
    }
    let mut order: Vec<usize> = (0..sources.split.len()).collect();
    if let Some(seed) = options.shuffle {
        SeededRandom::for_part(seed, "files").shuffle(&mut order);
    }
    let mut lists = vec![String::new(); shards];
    let mut files: Vec<Option<SplitFile>> = vec![None; sources.split.len()];
    for (at, file) in order.into_iter().enumerate() {
        let (source, whole) = (&sources.split[file], at % shards);
        stage.give(source, whole)?;
        lists[whole] += &format!("{}\n", source.listed);
        let mut parts = vec![FilePart::default(); shards];
        let tally = tally_file(&source.path).map_err(SplitError::read(&source.path))?;
        parts[whole] = tally.into();
        files[file] = Some(SplitFile {
            name: source.name.clone(),
            version: versions.split[file],
            parts,
            whole: Some(whole),
        });
    }
    let targets = stage.targets(sources::TRAIN_LIST)?;
    for (target, list) in targets.iter().zip(&lists) {
        fs::write(target, list).map_err(SplitError::write(target))?;
    }
    Ok(files.into_iter().flatten().collect())
}

/// How the data of a folder were split before, if they were.
pub fn earlier(data: &Path) -> Option<SplitOptions> {
    let text = fs::read(data.join(manifest::MANIFEST)).ok()?;
    let manifest = serde_json::from_slice::<SplitManifest>(&text).ok()?;
    Some(manifest.options)
}

/// Writes the parts of one file into the stage and proves that they contain all its lines.
fn split_file(
    source: &sources::SourceFile,
    stage: &shards::ShardStage,
    options: SplitOptions,
    filled: &[u64],
    progress: SplitProgress<'_>,
) -> Result<Vec<FilePart>, SplitError> {
    let file = File::open(&source.path).map_err(SplitError::read(&source.path))?;
    let size = file
        .metadata()
        .map_err(SplitError::read(&source.path))?
        .len();
    let targets = stage.targets(&source.name)?;
    let start = if options.header {
        cuts::first_line(&file, size).map_err(SplitError::read(&source.path))?
    } else {
        0
    };
    let size = size - start;
    let job = Job {
        path: &source.path,
        body: Body { file: &file, start },
        size,
        targets: &targets,
        filled,
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
        .fold(Default::default(), tally::LineTally::plus);
    if !together.same_lines(counted) || together.bytes < size || together.bytes > size + 1 {
        return Err(SplitError::Mismatch {
            path: source.path.clone(),
            want_lines: counted.lines,
            got_lines: together.lines,
        });
    }
    let mut parts: Vec<FilePart> = written.into_iter().map(FilePart::from).collect();
    if start > 0 {
        let header = header(&file, start).map_err(SplitError::read(&source.path))?;
        let mut counter = LineCounter::default();
        counter.add(&header);
        let above = counter.finish();
        for (part, target) in parts.iter_mut().zip(&targets) {
            prepend(&header, target).map_err(SplitError::write(target))?;
            // The header counts as part of the file, and not as one of the lines of the data.
            part.bytes += above.bytes;
            part.checksum = part.checksum.wrapping_add(above.checksum);
        }
    }
    Ok(parts)
}

/// The header of a file, with a line feed.
fn header(file: &File, length: u64) -> io::Result<Vec<u8>> {
    let mut header = vec![0; length as usize];
    file.read_exact_at(&mut header, 0)?;
    if header.last() != Some(&b'\n') {
        header.push(b'\n');
    }
    Ok(header)
}

/// Puts a header before what a file has.
fn prepend(header: &[u8], path: &Path) -> io::Result<()> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(".header");
    let mut out = File::create(&draft)?;
    out.write_all(header)?;
    io::copy(&mut File::open(path)?, &mut out)?;
    out.sync_all()?;
    fs::rename(&draft, path)
}

/// One file to split and the files its parts go to.
struct Job<'a> {
    path: &'a Path,
    body: Body<'a>,
    /// Bytes of the body.
    size: u64,
    targets: &'a [PathBuf],
    /// Lines of other files that each target's shard has.
    filled: &'a [u64],
}

impl Job<'_> {
    fn parts(&self) -> u32 {
        self.targets.len() as u32
    }

    /// The shards that get a line of a file with fewer lines than parts, ascending; `None` if there are enough lines.
    fn receivers(&self, lines: u64) -> Option<Vec<usize>> {
        let lines = usize::try_from(lines).ok();
        let lines = lines.filter(|lines| *lines < self.targets.len())?;
        let mut parts: Vec<usize> = (0..self.targets.len()).collect();
        parts.sort_by_key(|part| self.filled[*part]);
        parts.truncate(lines);
        parts.sort_unstable();
        Some(parts)
    }
}

/// Size and time of every source, to detect changes.
struct Versions {
    split: Vec<SourceVersion>,
    shared: Vec<(String, SourceVersion)>,
}

impl Versions {
    fn of(sources: &Sources) -> Result<Self, SplitError> {
        let version = |path: &Path| {
            let metadata = fs::metadata(path).map_err(SplitError::read(path))?;
            let modified = metadata.modified().map_err(SplitError::read(path))?;
            let modified = modified.duration_since(UNIX_EPOCH).unwrap_or_default();
            Ok(SourceVersion {
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

    /// Whether `manifest` describes exactly this split and the shards still exist.
    fn satisfied_by(
        &self,
        manifest: &SplitManifest,
        options: SplitOptions,
        shards: &Shards,
    ) -> bool {
        manifest.complete
            && manifest.is_current()
            && manifest.options == options
            && self.are_those_of(manifest)
            && shards.hold(manifest)
    }

    /// Whether the sources are those from which the shards were made.
    fn are_those_of(&self, manifest: &SplitManifest) -> bool {
        let split = manifest.files.iter().map(|file| file.version);
        split.eq(self.split.iter().copied()) && manifest.shared == self.shared
    }
}

#[cfg(test)]
mod tests;
