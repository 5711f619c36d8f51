//! Inspects data: lists files with their sizes, numbers of lines and first samples, and checks that shards are complete.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::kind::is_text;
use super::parallel::for_each;
use super::split::manifest::{MANIFEST, SplitManifest};
use super::split::tally::{LineTally, tally_file};

/// A file as shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ShownFile {
    /// Path relative to the inspected one.
    pub name: String,
    /// Size.
    pub bytes: u64,
    /// Number of lines; `None` if the file is not text.
    pub lines: Option<u64>,
    /// See [`LineTally::checksum`].
    pub checksum: u64,
    /// The beginnings of the first lines.
    pub first: Vec<String>,
}

/// Everything below a directory, or one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ShownData {
    /// In the order of their names.
    pub files: Vec<ShownFile>,
    /// The state of the split, if there was one.
    pub split: Option<SplitState>,
}

/// Whether the shards match the manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SplitState {
    /// How many.
    pub shards: u32,
    /// A split was interrupted.
    pub interrupted: bool,
    /// Files whose lines are not those of the manifest.
    pub damaged: Vec<PathBuf>,
}

/// How much of each file to show.
#[derive(Debug, Clone, Copy)]
pub struct Amount {
    /// First lines.
    pub lines: usize,
    /// Characters of a line.
    pub width: usize,
}

/// A path that could not be inspected.
#[derive(Debug, thiserror::Error)]
#[error("read {path}")]
pub struct ShowError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// Inspects a file or directory. For a job directory, its `data/`.
pub fn show(path: &Path, amount: Amount) -> Result<ShownData, ShowError> {
    let nested = path.join("data");
    let root = if nested.is_dir() {
        nested
    } else {
        path.to_owned()
    };
    let mut paths = Vec::new();
    collect(&root, &mut paths)?;
    let files = for_each(paths.len(), |index| show_file(&root, &paths[index], amount))?;
    let manifest = read_manifest(&root)?;
    let split = manifest.map(|manifest| split_state(&root, &manifest, &files));
    Ok(ShownData { files, split })
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> ShowError {
    let path = path.to_owned();
    |source| ShowError { path, source }
}

/// All files, sorted; numbers sort as numbers.
fn collect(path: &Path, paths: &mut Vec<PathBuf>) -> Result<(), ShowError> {
    if !fs::metadata(path).map_err(failed(path))?.is_dir() {
        paths.push(path.to_owned());
        return Ok(());
    }
    let mut entries: Vec<PathBuf> = fs::read_dir(path)
        .and_then(|entries| {
            entries
                .map(|entry| entry.map(|entry| entry.path()))
                .collect()
        })
        .map_err(failed(path))?;
    entries.sort_by_key(|entry| {
        let name = entry
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        (entry.is_dir(), name.parse::<u64>().unwrap_or(0), name)
    });
    for entry in entries {
        let hidden = entry
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if !hidden {
            collect(&entry, paths)?;
        }
    }
    Ok(())
}

fn show_file(root: &Path, path: &Path, amount: Amount) -> Result<ShownFile, ShowError> {
    let name = path
        .strip_prefix(root)
        .ok()
        .filter(|name| !name.as_os_str().is_empty())
        .unwrap_or(path);
    let tally = tally_file(path).map_err(failed(path))?;
    let first = first_lines(path, amount).map_err(failed(path))?;
    Ok(ShownFile {
        name: name.display().to_string(),
        bytes: tally.bytes,
        lines: first.is_some().then_some(tally.lines),
        checksum: tally.checksum,
        first: first.unwrap_or_default(),
    })
}

/// The beginnings of the first lines, or nothing if the file is not text.
fn first_lines(path: &Path, amount: Amount) -> io::Result<Option<Vec<String>>> {
    if !is_text(path)? {
        return Ok(None);
    }
    let mut input = BufReader::new(File::open(path)?);
    let mut lines = Vec::new();
    let mut line = Vec::new();
    while lines.len() < amount.lines {
        line.clear();
        // A character has at most four bytes.
        let longest = 4 * amount.width as u64 + 4;
        if (&mut input).take(longest).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        if line.last() != Some(&b'\n') {
            input.skip_until(b'\n')?;
        }
        lines.push(shorten(&String::from_utf8_lossy(&line), amount.width));
    }
    Ok(Some(lines))
}

/// One line of at most `width` characters; characters that would move the cursor become blanks.
fn shorten(line: &str, width: usize) -> String {
    let line = line.trim_end_matches(['\n', '\r']);
    let visible = |c: char| if c.is_control() && c != '\t' { ' ' } else { c };
    let mut short: String = line.chars().take(width).map(visible).collect();
    if line.chars().nth(width).is_some() {
        short.push('…');
    }
    short
}

fn read_manifest(root: &Path) -> Result<Option<SplitManifest>, ShowError> {
    let path = root.join(MANIFEST);
    match fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text)
            .map(Some)
            .map_err(|error| failed(&path)(error.into())),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(failed(&path)(error)),
    }
}

fn split_state(root: &Path, manifest: &SplitManifest, files: &[ShownFile]) -> SplitState {
    let mut damaged = Vec::new();
    for file in &manifest.files {
        for (id, part) in file.present_parts() {
            let (inside, path) = shard_file(root, id, &file.name);
            let seen = files
                .iter()
                .find(|shown| shown.name == inside)
                .map(|shown| (shown.bytes, shown.checksum));
            let seen = seen.or_else(|| {
                tally_file(&path).ok().map(
                    |LineTally {
                         bytes, checksum, ..
                     }| (bytes, checksum),
                )
            });
            if seen != Some((part.bytes, part.checksum)) {
                damaged.push(path);
            }
        }
    }
    SplitState {
        shards: manifest.options.shards,
        interrupted: !manifest.complete,
        damaged,
    }
}

/// The part of shard `id`: its name below `root` and its path, in either layout.
fn shard_file(root: &Path, id: usize, name: &str) -> (String, PathBuf) {
    let inside = format!("{id}/{name}");
    let path = root.join(&inside);
    let tutorial = root
        .parent()
        .map(|job| job.join(format!("{id}/data/{name}")));
    match tutorial {
        Some(tutorial) if !path.exists() && tutorial.exists() => (inside, tutorial),
        _ => (inside, path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::split::sources::Sources;
    use crate::split::{By, ShardLayout, SplitOptions, split};

    const AMOUNT: Amount = Amount { lines: 2, width: 8 };

    fn job() -> tempfile::TempDir {
        let job = tempfile::tempdir().unwrap();
        let data = job.path().join("data");
        fs::create_dir(&data).unwrap();
        fs::write(data.join("train.list"), "data/train.txt\n").unwrap();
        fs::write(
            data.join("train.txt"),
            "1\tgood\n0\tvery long line\n1\tthird\n",
        )
        .unwrap();
        fs::write(data.join("meta.bin"), b"\x80\x02\0").unwrap();
        job
    }

    #[test]
    fn files_are_shown_with_their_first_lines() {
        let job = job();
        let shown = show(job.path(), AMOUNT).unwrap();
        let names: Vec<&str> = shown.files.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, ["meta.bin", "train.list", "train.txt"]);
        assert_eq!(shown.files[0].lines, None);
        assert_eq!(shown.files[2].lines, Some(3));
        assert_eq!(shown.files[2].first, ["1\tgood", "0\tvery l…"]);
        assert_eq!(shown.split, None);
        let one = show(&job.path().join("data/train.txt"), AMOUNT).unwrap();
        assert_eq!(one.files.len(), 1);
        assert!(show(&job.path().join("missing"), AMOUNT).is_err());
    }

    #[test]
    fn damaged_shards_are_found_in_both_layouts() {
        for (layout, path, header, shards) in [
            (ShardLayout::Data, "data/1/train.txt", false, 3),
            (ShardLayout::Data, "data/1/train.txt", true, 2),
            (ShardLayout::Tutorial, "1/data/train.txt", false, 3),
        ] {
            let job = job();
            let options = SplitOptions {
                shards,
                by: By::Lines,
                shuffle: None,
                layout,
                header,
            };
            split(
                &Sources::job(job.path(), None).unwrap(),
                options,
                false,
                &|_| (),
            )
            .unwrap();
            let state = show(job.path(), AMOUNT).unwrap().split.unwrap();
            assert_eq!(
                state,
                SplitState {
                    shards,
                    interrupted: false,
                    damaged: vec![]
                }
            );
            fs::write(job.path().join(path), "1\tchanged line!\n").unwrap();
            let state = show(job.path(), AMOUNT).unwrap().split.unwrap();
            assert_eq!(state.damaged, [job.path().join(path)]);
        }
    }
}
