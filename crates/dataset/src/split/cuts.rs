//! Offsets at which a file is cut into contiguous parts, on line borders.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::tally::PIECE;
use crate::parallel::for_each;

/// The part of a file that is divided: all of it, or what follows a header. Offsets count from its start.
pub(super) struct Body<'a> {
    pub(super) file: &'a File,
    pub(super) start: u64,
}

impl Body<'_> {
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        self.file.read_at(buffer, self.start + at)
    }

    fn read_exact_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, self.start + at)
    }
}

/// The length of the first line with its line feed.
pub(super) fn first_line(file: &File, size: u64) -> io::Result<u64> {
    after_line_feed(&Body { file, start: 0 }, 0, size)
}

/// The file is counted in stretches of this many bytes.
const STRETCH: u64 = 8 << 20;

/// The borders of `parts` parts of about equal bytes: `parts + 1` offsets, each 0, the end, or just after a line feed.
pub(super) fn by_bytes(file: &Body<'_>, size: u64, parts: u32) -> io::Result<Vec<u64>> {
    let mut cuts = vec![0];
    for part in 1..parts {
        let wanted = share(size, part, parts);
        let from = wanted.saturating_sub(1).max(cuts[cuts.len() - 1]);
        cuts.push(after_line_feed(file, from, size)?);
    }
    cuts.push(size);
    Ok(cuts)
}

/// A file divided by lines.
pub(super) struct LineCuts {
    /// The borders of the parts in bytes; the first is 0, the last the size of the file.
    pub(super) cuts: Vec<u64>,
    /// Number of lines in the file.
    pub(super) lines: u64,
}

/// Divides into `parts` parts whose line counts differ by at most one.
pub(super) fn by_lines(file: &Body<'_>, size: u64, parts: u32) -> io::Result<LineCuts> {
    let feeds = line_feeds_by_stretch(file, size)?;
    let counted: u64 = feeds.iter().sum();
    let lines = counted + u64::from(lacks_last_line_feed(file, size)?);
    let mut cuts = vec![0];
    let (mut stretch, mut before) = (0, 0);
    for part in 1..parts {
        let wanted = share(lines, part, parts);
        if wanted == 0 {
            cuts.push(0);
            continue;
        }
        while before + feeds[stretch] < wanted {
            before += feeds[stretch];
            stretch += 1;
        }
        cuts.push(after_nth_line_feed(
            file,
            stretch as u64 * STRETCH,
            wanted - before,
        )?);
    }
    cuts.push(size);
    Ok(LineCuts { cuts, lines })
}

/// Lines in the file; the last one may lack its line feed.
pub(super) fn count_lines(file: &Body<'_>, size: u64) -> io::Result<u64> {
    let feeds: u64 = line_feeds_by_stretch(file, size)?.iter().sum();
    Ok(feeds + u64::from(lacks_last_line_feed(file, size)?))
}

/// `total * part / parts` without overflow.
pub(super) fn share(total: u64, part: u32, parts: u32) -> u64 {
    (u128::from(total) * u128::from(part) / u128::from(parts)) as u64
}

fn lacks_last_line_feed(file: &Body<'_>, size: u64) -> io::Result<bool> {
    let mut last = [0];
    if size == 0 {
        return Ok(false);
    }
    file.read_exact_at(&mut last, size - 1)?;
    Ok(last[0] != b'\n')
}

/// The number of line feeds in each stretch.
fn line_feeds_by_stretch(file: &Body<'_>, size: u64) -> io::Result<Vec<u64>> {
    let stretches = size.div_ceil(STRETCH) as usize;
    for_each(stretches, |stretch| {
        let start = stretch as u64 * STRETCH;
        let mut count = 0;
        read_range(file, start, size.min(start + STRETCH), |piece| {
            count += memchr::memchr_iter(b'\n', piece).count() as u64;
            Ok(())
        })?;
        Ok(count)
    })
}

/// The offset after the first line feed at or after `from`, or the end.
fn after_line_feed(file: &Body<'_>, from: u64, size: u64) -> io::Result<u64> {
    let mut piece = vec![0; 1 << 16];
    let mut at = from;
    while at < size {
        let read = file.read_at(&mut piece, at)?;
        if read == 0 {
            break;
        }
        if let Some(feed) = memchr::memchr(b'\n', &piece[..read]) {
            return Ok(at + feed as u64 + 1);
        }
        at += read as u64;
    }
    Ok(size)
}

/// The offset after the `n`th line feed (from 1) at or after `from`; it is known to exist.
fn after_nth_line_feed(file: &Body<'_>, from: u64, n: u64) -> io::Result<u64> {
    let mut piece = vec![0; PIECE];
    let (mut at, mut left) = (from, n);
    loop {
        let read = file.read_at(&mut piece, at)?;
        if read == 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the file became shorter while it was read",
            ));
        }
        for feed in memchr::memchr_iter(b'\n', &piece[..read]) {
            left -= 1;
            if left == 0 {
                return Ok(at + feed as u64 + 1);
            }
        }
        at += read as u64;
    }
}

/// Passes on the bytes of `start..end` in pieces; fails if the file ends before.
pub(super) fn read_range(
    file: &Body<'_>,
    start: u64,
    end: u64,
    mut take: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut piece = vec![0; PIECE.min((end - start) as usize)];
    let mut at = start;
    while at < end {
        let wanted = piece.len().min((end - at) as usize);
        let read = file.read_at(&mut piece[..wanted], at)?;
        if read == 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the file became shorter while it was read",
            ));
        }
        take(&piece[..read])?;
        at += read as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(file: &File) -> Body<'_> {
        Body { file, start: 0 }
    }
    use proptest::prelude::*;
    use std::io::Write;

    fn file_of(text: &str) -> (File, u64) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        (file, text.len() as u64)
    }

    fn parts<'a>(text: &'a str, cuts: &[u64]) -> Vec<&'a str> {
        cuts.windows(2)
            .map(|cut| &text[cut[0] as usize..cut[1] as usize])
            .collect()
    }

    #[test]
    fn cuts_by_bytes_follow_line_borders() {
        let text = "aaaa\nbb\ncc\ndddd\n";
        let (file, size) = file_of(text);
        assert_eq!(
            parts(text, &by_bytes(&whole(&file), size, 3).unwrap()),
            ["aaaa\n", "bb\ncc\n", "dddd\n"]
        );
    }

    #[test]
    fn a_border_that_is_wanted_just_behind_a_line_feed_stays_there() {
        let text = "aaa\nbbb\n";
        let (file, size) = file_of(text);
        assert_eq!(
            parts(text, &by_bytes(&whole(&file), size, 2).unwrap()),
            ["aaa\n", "bbb\n"]
        );
    }

    #[test]
    fn lines_longer_than_a_stretch_are_counted_once() {
        let long = "x".repeat(STRETCH as usize + 5);
        let text = format!("{long}\na\nb\n{long}\n");
        let (file, size) = file_of(&text);
        let LineCuts { cuts, lines } = by_lines(&whole(&file), size, 2).unwrap();
        assert_eq!(lines, 4);
        assert_eq!(cuts[1], long.len() as u64 + 3);
        assert_eq!(count_lines(&whole(&file), size).unwrap(), 4);
    }

    proptest! {
        #[test]
        fn parts_by_lines_are_even_and_complete(text in "[ab\n]{0,80}", count in 1u32..6) {
            let (file, size) = file_of(&text);
            let LineCuts { cuts, lines } = by_lines(&whole(&file), size, count).unwrap();
            let parts = parts(&text, &cuts);
            prop_assert_eq!(parts.concat(), text.clone());
            prop_assert_eq!(lines as usize, text.lines().count().max(text.split_terminator('\n').count()));
            let counts: Vec<usize> = parts.iter().map(|part| part.split_terminator('\n').count()).collect();
            let spread = counts.iter().max().unwrap() - counts.iter().min().unwrap();
            prop_assert!(spread <= 1, "{:?}", counts);
            prop_assert!(parts[..parts.len() - 1].iter().all(|part| part.is_empty() || part.ends_with('\n')));
        }

        #[test]
        fn parts_by_bytes_are_complete_and_end_with_lines(text in "[ab\n]{0,80}", count in 1u32..6) {
            let (file, size) = file_of(&text);
            let parts = parts(&text, &by_bytes(&whole(&file), size, count).unwrap());
            prop_assert_eq!(parts.concat(), text.clone());
            for (index, part) in parts.iter().enumerate() {
                let last_with_text = parts[index + 1..].iter().all(|later| later.is_empty());
                prop_assert!(part.is_empty() || part.ends_with('\n') || last_with_text);
            }
        }
    }
}
