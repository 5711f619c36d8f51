//! Copies contiguous parts of a file, several in parallel.

use std::fs::File;
use std::io::Write;

use super::tally::{LineCounter, LineTally};
use super::{By, Job, SplitError, SplitProgress, cuts};
use crate::parallel::for_each;

/// Writes the parts and returns the tally of the source as it was read.
pub(super) fn split(
    job: &Job<'_>,
    by: By,
    progress: SplitProgress<'_>,
) -> Result<LineTally, SplitError> {
    let cuts = match by {
        By::Lines => {
            let divided = cuts::by_lines(&job.body, job.size, job.parts())
                .map_err(SplitError::read(job.path))?;
            job.check_enough(divided.lines)?;
            divided.cuts
        }
        By::Bytes => {
            cuts::by_bytes(&job.body, job.size, job.parts()).map_err(SplitError::read(job.path))?
        }
    };
    if let Some(shard) = cuts.windows(2).position(|part| part[0] == part[1]) {
        return Err(SplitError::EmptyShard {
            path: job.path.to_owned(),
            shard: shard as u32,
        });
    }
    let tallies = for_each(job.targets.len(), |part| {
        copy_part(job, part, cuts[part]..cuts[part + 1], progress)
    })?;
    Ok(tallies
        .into_iter()
        .fold(LineTally::default(), LineTally::plus))
}

fn copy_part(
    job: &Job<'_>,
    part: usize,
    range: std::ops::Range<u64>,
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
