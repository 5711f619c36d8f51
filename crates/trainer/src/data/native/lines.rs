//! Reads a file in blocks of whole lines.

use std::fs::File;
use std::io::{self, Read};

/// Bytes per read.
const BLOCK: usize = 1 << 20;

/// The longest line that is accepted, in bytes.
const LONGEST: usize = 1 << 30;

/// A file that is read in blocks of whole lines.
pub(super) struct Lines {
    file: File,
    buffer: Vec<u8>,
    /// Offset in the buffer at which the lines of the current block end.
    end: usize,
    over: bool,
}

impl Lines {
    pub(super) fn new(file: File) -> Self {
        Self {
            file,
            buffer: Vec::new(),
            end: 0,
            over: false,
        }
    }

    /// The next block: whole lines, the last perhaps without its line end; `None` at the end of the file.
    pub(super) fn block(&mut self) -> io::Result<Option<&[u8]>> {
        self.buffer.drain(..self.end);
        self.end = 0;
        while !self.over {
            let before = self.buffer.len();
            self.buffer.reserve(BLOCK);
            let got = self
                .file
                .by_ref()
                .take(BLOCK as u64)
                .read_to_end(&mut self.buffer)?;
            self.over = got < BLOCK;
            if let Some(at) = memchr::memrchr(b'\n', &self.buffer[before..]) {
                self.end = before + at + 1;
                break;
            }
            if self.buffer.len() > LONGEST {
                let message = "a line is longer than a gigabyte";
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
        }
        if self.over && self.end == 0 {
            self.end = self.buffer.len();
        }
        Ok((self.end > 0).then(|| &self.buffer[..self.end]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_whole_lines_and_make_up_the_file() {
        for (lines, width) in [(0, 0), (1, 3), (300_000, 9), (3, 2_000_000)] {
            for last in ["", "no line end"] {
                let line = "x".repeat(width) + "\n";
                let text = line.repeat(lines) + last;
                let path = tempfile::NamedTempFile::new().unwrap();
                std::fs::write(path.path(), &text).unwrap();
                let mut blocks = Lines::new(File::open(path.path()).unwrap());
                let mut all = Vec::new();
                while let Some(block) = blocks.block().unwrap() {
                    all.extend_from_slice(block);
                    assert!(block.ends_with(b"\n") || all.len() == text.len());
                }
                assert_eq!(all, text.as_bytes());
            }
        }
    }
}
