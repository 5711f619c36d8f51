//! Copies contiguous parts of a file, several in parallel.

use std::fs::File;
use std::io::Write;
use std::ops::Range;

use super::tally::{LineCounter, LineTally};
use super::{By, Job, SplitError, SplitProgress, cuts};
use crate::parallel::for_each;

/// Writes the parts and returns the tally of the source as it was read.
pub(super) fn split(
    job: &Job<'_>,
    by: By,
    progress: SplitProgress<'_>,
) -> Result<LineTally, SplitError> {
    let ranges = ranges(job, by)?;
    let tallies = for_each(job.targets.len(), |part| {
        copy_part(job, part, ranges[part].clone(), progress)
    })?;
    Ok(tallies
        .into_iter()
        .fold(LineTally::default(), LineTally::plus))
}

/// The bytes of each part.
fn ranges(job: &Job<'_>, by: By) -> Result<Vec<Range<u64>>, SplitError> {
    let read = || SplitError::read(job.path);
    let (cuts, lines) = match by {
        By::Lines => {
            let divided = cuts::by_lines(&job.body, job.size, job.parts()).map_err(read())?;
            (divided.cuts, divided.lines)
        }
        By::Bytes => {
            let cuts = cuts::by_bytes(&job.body, job.size, job.parts()).map_err(read())?;
            let enough = || Ok(u64::from(job.parts()));
            let lines = match empty_part(&cuts) {
                None => enough(),
                Some(_) => cuts::count_lines(&job.body, job.size),
            };
            (cuts, lines.map_err(read())?)
        }
    };
    let Some(receivers) = job.receivers(lines) else {
        return match empty_part(&cuts) {
            None => Ok(cuts.windows(2).map(|part| part[0]..part[1]).collect()),
            Some(shard) => Err(SplitError::EmptyShard {
                path: job.path.to_owned(),
                shard: shard as u32,
            }),
        };
    };
    let mut ranges = vec![0..0; job.targets.len()];
    if lines > 0 {
        let single = cuts::by_lines(&job.body, job.size, lines as u32).map_err(read())?;
        for (part, line) in receivers.into_iter().zip(single.cuts.windows(2)) {
            ranges[part] = line[0]..line[1];
        }
    }
    Ok(ranges)
}

fn empty_part(cuts: &[u64]) -> Option<usize> {
    cuts.windows(2).position(|part| part[0] == part[1])
}

fn copy_part(
    job: &Job<'_>,
    part: usize,
    range: Range<u64>,
    progress: SplitProgress<'_>,
) -> Result<LineTally, SplitError> {
    let target = &job.targets[part];
    let mut out = File::create(target).map_err(SplitError::write(target))?;
    let mut counter = LineCounter::default();
    let mut failed_write = None;
    let copied = cuts::read_range(&job.body, range.start, range.end, |piece| {
        counter.add(piece);
        progress(piece.len() as u64);
        out.write_all(piece).map_err(|error| {
            let kind = error.kind();
            failed_write = Some(error);
            kind.into()
        })
    });
    if let Some(error) = failed_write {
        return Err(SplitError::write(target)(error));
    }
    copied.map_err(SplitError::read(job.path))?;
    out.sync_all().map_err(SplitError::write(target))?;
    Ok(counter.finish())
}
