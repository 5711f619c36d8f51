//! Counts lines and sums their hashes, so that two sets of lines can be compared whatever their order.
//!
//! A line ends with a line feed, or with the end of the file. The sum of hashes does not depend on the
//! order of the lines nor on where files are cut; a lost, duplicated or changed line changes it. Text may be
//! fed in pieces of any size: a line that spans pieces is hashed as it arrives, so memory does not grow with it.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// Size of the pieces in which files are read.
pub(super) const PIECE: usize = 1 << 20;

/// Counts and checksum of a set of lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LineTally {
    /// Number of lines.
    pub lines: u64,
    /// Sum of the lines' hashes, modulo 2^64; the line feeds are not part of them.
    pub checksum: u64,
    /// Bytes, line feeds included.
    pub bytes: u64,
}

impl LineTally {
    /// The tally of both sets together.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            lines: self.lines + other.lines,
            checksum: self.checksum.wrapping_add(other.checksum),
            bytes: self.bytes + other.bytes,
        }
    }

    /// Whether both are the same lines; bytes may differ by a last line feed that was added.
    pub(crate) fn same_lines(self, other: Self) -> bool {
        self.lines == other.lines && self.checksum == other.checksum
    }

    fn add_line(&mut self, hash: u64) {
        self.lines += 1;
        self.checksum = self.checksum.wrapping_add(hash);
    }
}

/// Computes a [`LineTally`] of text that arrives in pieces.
#[derive(Default)]
pub(crate) struct LineCounter {
    tally: LineTally,
    /// The hash of a line whose end has not arrived yet.
    open: Option<Box<Xxh3>>,
}

impl LineCounter {
    /// Adds the next piece.
    pub(crate) fn add(&mut self, piece: &[u8]) {
        self.tally.bytes += piece.len() as u64;
        let mut rest = piece;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let hash = match self.open.take() {
                Some(mut open) => {
                    open.update(&rest[..end]);
                    open.digest()
                }
                None => xxh3_64(&rest[..end]),
            };
            self.tally.add_line(hash);
            rest = &rest[end + 1..];
        }
        if !rest.is_empty() {
            self.open.get_or_insert_with(Default::default).update(rest);
        }
    }

    /// The tally, with a last line that has no line feed.
    pub(crate) fn finish(mut self) -> LineTally {
        if let Some(open) = self.open.take() {
            self.tally.add_line(open.digest());
        }
        self.tally
    }
}

/// Reads a whole file.
pub(crate) fn tally_file(path: &Path) -> io::Result<LineTally> {
    let mut file = File::open(path)?;
    let mut piece = vec![0; PIECE];
    let mut counter = LineCounter::default();
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(counter.finish()),
            read => counter.add(&piece[..read]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tally(pieces: &[&[u8]]) -> LineTally {
        let mut counter = LineCounter::default();
        for piece in pieces {
            counter.add(piece);
        }
        counter.finish()
    }

    #[test]
    fn order_does_not_matter_but_every_line_does() {
        let whole = tally(&[b"one\ntwo\nthree\n"]);
        assert!(whole.same_lines(tally(&[b"three\none\ntwo\n"])));
        assert!(whole.same_lines(tally(&[b"one\ntwo\nthree"])));
        assert!(!whole.same_lines(tally(&[b"one\ntwo\n"])));
        assert!(!whole.same_lines(tally(&[b"one\ntwo\ntwo\n"])));
        assert!(!whole.same_lines(tally(&[b"one\ntwo\nthree\nthree\n"])));
        assert_eq!(whole.lines, 3);
        assert_eq!(whole.bytes, 14);
    }

    proptest! {
        #[test]
        fn pieces_of_any_size_give_the_same(text in "[ab\n]{0,60}", cut in 1usize..7) {
            let pieces: Vec<&[u8]> = text.as_bytes().chunks(cut).collect();
            prop_assert_eq!(tally(&pieces), tally(&[text.as_bytes()]));
        }
    }
}
