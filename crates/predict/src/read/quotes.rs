//! Follows the quotes of CSV while it is read: a file that ends inside of quotes was cut off, which the reader of CSV does
//! not say.

use std::io::{BufRead, Read, Result};

/// What the byte before was part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// A field begins with the next byte.
    Start,
    Plain,
    Quoted,
    /// After a quote inside of quotes: they end here, or it is the first of two that mean one.
    Quote,
}

/// A reader that knows whether it ended inside of quotes.
#[derive(Debug)]
pub(super) struct Quotes<R> {
    inner: R,
    separator: u8,
    state: State,
    /// Bytes and line ends so far.
    offset: u64,
    line: u64,
    /// Where the last quotes opened.
    opened: (u64, u64),
    ended: bool,
}

impl<R> Quotes<R> {
    pub(super) fn new(inner: R, separator: u8) -> Self {
        Self {
            inner,
            separator,
            state: State::Start,
            offset: 0,
            line: 1,
            opened: (0, 0),
            ended: false,
        }
    }

    /// If the file ended inside of quotes that open before this byte: the line in which they do.
    pub(super) fn unclosed(&self, before: u64) -> Option<u64> {
        let (offset, line) = self.opened;
        (self.ended && self.state == State::Quoted && offset < before).then_some(line)
    }

    fn follow(&mut self, byte: u8) {
        let is_end = byte == self.separator || byte == b'\n' || byte == b'\r';
        self.state = match (self.state, byte) {
            (State::Start, b'"') => {
                self.opened = (self.offset, self.line);
                State::Quoted
            }
            (State::Quoted, b'"') => State::Quote,
            (State::Quoted, _) | (State::Quote, b'"') => State::Quoted,
            _ if is_end => State::Start,
            _ => State::Plain,
        };
        self.offset += 1;
        self.line += u64::from(byte == b'\n');
    }
}

impl<R: BufRead> Read for Quotes<R> {
    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        let got = self.inner.read(out)?;
        for byte in &out[..got] {
            self.follow(*byte);
        }
        self.ended |= got == 0 && !out.is_empty();
        Ok(got)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unclosed(text: &str) -> Option<u64> {
        let mut reader = Quotes::new(text.as_bytes(), b',');
        reader.read_to_end(&mut Vec::new()).unwrap();
        reader.unclosed(text.len() as u64)
    }

    #[test]
    fn only_quotes_that_open_a_field_and_never_close_are_told() {
        assert_eq!(unclosed("a,b\n1,\"x, \"\"y\"\"\"\n"), None);
        assert_eq!(unclosed("a,b\n5\" pipe,2\n"), None);
        assert_eq!(unclosed("a,b\n\"1\",2\n3,\"x\ny,\n"), Some(3));
        assert_eq!(unclosed("a,b\r\n1,\"x\"\""), Some(2));
        assert_eq!(unclosed(""), None);
    }
}
