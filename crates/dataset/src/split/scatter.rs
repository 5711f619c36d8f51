//! The shuffled split: every line goes to a shard drawn at random, and every shard is shuffled.
//!
//! A line's shard is drawn with a probability proportional to the room that the shards have left, so the shards become
//! equal and every assignment is equally likely. A shard that is too large to be shuffled in memory is first scattered
//! in the same way over buckets that are small enough; bucket after bucket, each shuffled, is a uniform shuffle too.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::cuts::{count_lines, share};
use super::tally::{LineCounter, LineTally};
use super::{By, Job, SplitError, SplitProgress};
use crate::random::SeededRandom;

/// Lines longer than this cannot be shuffled.
const LONGEST_LINE: u64 = 256 << 20;
/// Shards or buckets up to this size are shuffled in memory.
const IN_MEMORY: u64 = 64 << 20;
/// Memory for buffered text of all shards together.
const BUFFERS: usize = 32 << 20;

/// Writes the parts and returns the tally of the source as it was read.
pub(super) fn split(
    job: &Job<'_>,
    by: By,
    seed: u64,
    progress: SplitProgress<'_>,
) -> Result<LineTally, SplitError> {
    let lines = count_lines(&job.body, job.size).map_err(SplitError::read(job.path))?;
    let receivers = job.receivers(lines);
    let by = receivers.as_ref().map_or(by, |_| By::Lines);
    let total = match by {
        By::Lines => lines,
        By::Bytes => job.size,
    };
    let equal = |part: u32| share(total, part + 1, job.parts()) - share(total, part, job.parts());
    let room = match &receivers {
        None => (0..job.parts()).map(equal).collect(),
        Some(receivers) => (0..job.targets.len())
            .map(|part| u64::from(receivers.contains(&part)))
            .collect(),
    };
    let mut random = SeededRandom::for_part(seed, "shards");
    let tally = scatter(
        (job.path, job.body.start),
        job.targets,
        Rooms::new(room, by),
        &mut random,
        progress,
    )?;
    for (part, target) in job.targets.iter().enumerate() {
        let mut random = SeededRandom::for_part(seed, &format!("shard {part}"));
        shuffle_shard(target, IN_MEMORY, &mut random)?;
        if fs::metadata(target)
            .map_err(SplitError::read(target))?
            .len()
            == 0
            && receivers.is_none()
        {
            return Err(SplitError::EmptyShard {
                path: job.path.to_owned(),
                shard: part as u32,
            });
        }
    }
    Ok(tally)
}

/// The room that the targets have left.
struct Rooms {
    left: Vec<u64>,
    total: u64,
    by: By,
}

impl Rooms {
    fn new(left: Vec<u64>, by: By) -> Self {
        Self {
            total: left.iter().sum(),
            left,
            by,
        }
    }

    /// Draws the target of a line of `bytes`.
    fn draw(&mut self, bytes: u64, random: &mut SeededRandom) -> usize {
        let mut at = random.below(self.total.max(1));
        let target = self.left.iter().position(|&left| {
            let here = at < left;
            at = at.saturating_sub(left);
            here
        });
        let target = target.unwrap_or(0);
        let taken = match self.by {
            By::Lines => 1,
            By::Bytes => bytes.min(self.left[target]),
        };
        self.left[target] -= taken.min(self.left[target]);
        self.total = self.total.saturating_sub(taken);
        target
    }
}

/// Distributes the lines of `source` from `start` on over `targets`; every line ends with a line feed afterwards.
fn scatter(
    (source, start): (&Path, u64),
    targets: &[PathBuf],
    mut rooms: Rooms,
    random: &mut SeededRandom,
    progress: SplitProgress<'_>,
) -> Result<LineTally, SplitError> {
    let mut file = File::open(source).map_err(SplitError::read(source))?;
    file.seek(SeekFrom::Start(start))
        .map_err(SplitError::read(source))?;
    let mut input = BufReader::with_capacity(1 << 20, file);
    let mut outputs = Appenders::create(targets)?;
    let mut counter = LineCounter::default();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let read = (&mut input)
            .take(LONGEST_LINE)
            .read_until(b'\n', &mut line)
            .map_err(SplitError::read(source))?;
        if read == 0 {
            break;
        }
        counter.add(&line);
        progress(read as u64);
        if line.last() != Some(&b'\n') {
            if read as u64 == LONGEST_LINE {
                return Err(SplitError::LineTooLong {
                    path: source.to_owned(),
                    line: number,
                    limit: LONGEST_LINE,
                });
            }
            line.push(b'\n');
        }
        outputs.append(rooms.draw(line.len() as u64, random), &line)?;
    }
    outputs.finish()?;
    Ok(counter.finish())
}

/// Many files written in turn without keeping them open: any number of shards works.
struct Appenders<'a> {
    targets: &'a [PathBuf],
    buffers: Vec<Vec<u8>>,
    limit: usize,
}

impl<'a> Appenders<'a> {
    fn create(targets: &'a [PathBuf]) -> Result<Self, SplitError> {
        for target in targets {
            File::create(target).map_err(SplitError::write(target))?;
        }
        let limit = (BUFFERS / targets.len().max(1)).clamp(4 << 10, 1 << 20);
        Ok(Self {
            targets,
            buffers: vec![Vec::new(); targets.len()],
            limit,
        })
    }

    fn append(&mut self, target: usize, line: &[u8]) -> Result<(), SplitError> {
        self.buffers[target].extend_from_slice(line);
        if self.buffers[target].len() >= self.limit {
            self.flush(target)
        } else {
            Ok(())
        }
    }

    fn flush(&mut self, target: usize) -> Result<(), SplitError> {
        let path = &self.targets[target];
        OpenOptions::new()
            .append(true)
            .open(path)
            .and_then(|mut file| file.write_all(&self.buffers[target]))
            .map_err(SplitError::write(path))?;
        self.buffers[target].clear();
        Ok(())
    }

    fn finish(mut self) -> Result<(), SplitError> {
        (0..self.targets.len()).try_for_each(|target| self.flush(target))
    }
}

/// Shuffles the lines of a file, in memory or through buckets of at most `in_memory` bytes.
fn shuffle_shard(path: &Path, in_memory: u64, random: &mut SeededRandom) -> Result<(), SplitError> {
    let size = fs::metadata(path).map_err(SplitError::read(path))?.len();
    if size <= in_memory {
        let text = fs::read(path).map_err(SplitError::read(path))?;
        let out = File::create(path).map_err(SplitError::write(path))?;
        return write_shuffled(&text, &out, random)
            .and_then(|()| out.sync_all())
            .map_err(SplitError::write(path));
    }
    // Buckets fill unevenly, so they are planned to be half full on average.
    let count = (size / (in_memory / 2).max(1) + 1) as u32;
    let buckets: Vec<PathBuf> = (0..count)
        .map(|bucket| path.with_extension(format!("bucket-{bucket}")))
        .collect();
    let room = vec![u64::MAX / u64::from(count) / 2; buckets.len()];
    scatter(
        (path, 0),
        &buckets,
        Rooms::new(room, By::Bytes),
        random,
        &|_| (),
    )?;
    let out = File::create(path).map_err(SplitError::write(path))?;
    for bucket in &buckets {
        let text = fs::read(bucket).map_err(SplitError::read(bucket))?;
        write_shuffled(&text, &out, random).map_err(SplitError::write(path))?;
        fs::remove_file(bucket).map_err(SplitError::write(bucket))?;
    }
    out.sync_all().map_err(SplitError::write(path))
}

fn write_shuffled(text: &[u8], out: &File, random: &mut SeededRandom) -> io::Result<()> {
    let mut lines: Vec<&[u8]> = text.split_inclusive(|&byte| byte == b'\n').collect();
    random.shuffle(&mut lines);
    let mut out = BufWriter::with_capacity(1 << 18, out);
    for line in lines {
        out.write_all(line)?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_shuffle_like_memory_does_and_lose_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("train.txt");
        let text: String = (0..5_000).map(|i| format!("line {i}\n")).collect();
        fs::write(&path, &text).unwrap();
        shuffle_shard(&path, 4_096, &mut SeededRandom::new(9)).unwrap();
        let shuffled = fs::read_to_string(&path).unwrap();
        assert_ne!(shuffled, text);
        let mut lines: Vec<&str> = shuffled.lines().collect();
        let far = lines
            .iter()
            .take(500)
            .filter(|line| line[5..].parse::<u32>().unwrap() > 2_500)
            .count();
        assert!(
            (200..300).contains(&far),
            "the first tenth comes from everywhere: {far}"
        );
        lines.sort_unstable();
        let mut want: Vec<&str> = text.lines().collect();
        want.sort_unstable();
        assert_eq!(lines, want);
        assert_eq!(
            fs::read_dir(directory.path()).unwrap().count(),
            1,
            "no bucket is left"
        );
    }

    #[test]
    fn rooms_are_filled_exactly() {
        let mut rooms = Rooms::new(vec![3, 4, 3], By::Lines);
        let mut random = SeededRandom::new(1);
        let mut counts = [0; 3];
        for _ in 0..10 {
            counts[rooms.draw(50, &mut random)] += 1;
        }
        assert_eq!(counts, [3, 4, 3]);
    }
}
