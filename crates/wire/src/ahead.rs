//! Reads bytes ahead, so that many small reads cost one system call.

use std::io::{self, Read, Write};
use std::net::TcpStream;

/// Initial size of a buffer in bytes.
const FEWEST: usize = 8 << 10;

/// A buffer of bytes that were read ahead. It starts small and grows when more bytes arrive than fit, so an idle
/// connection takes little memory.
#[derive(Debug)]
pub(crate) struct Ahead {
    bytes: Vec<u8>,
    /// `bytes[at..end]` have not been used.
    at: usize,
    end: usize,
    most: usize,
}

impl Ahead {
    /// A buffer that grows to `most` bytes.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            bytes: Vec::new(),
            at: 0,
            end: 0,
            most,
        }
    }

    /// Bytes that have not been used.
    pub(crate) fn len(&self) -> usize {
        self.end - self.at
    }

    /// Moves as many bytes as there are and fit to `out`; returns how many.
    pub(crate) fn take(&mut self, out: &mut [u8]) -> usize {
        let count = self.len().min(out.len());
        out[..count].copy_from_slice(&self.bytes[self.at..self.at + count]);
        self.at += count;
        count
    }

    /// Moves some bytes to `out`; reads first if the buffer is empty. A read larger than the buffer goes directly to
    /// `out`.
    pub(crate) fn read(&mut self, from: &mut impl Read, out: &mut [u8]) -> io::Result<usize> {
        if self.len() == 0 {
            if out.len() >= self.most {
                return from.read(out);
            }
            if self.end == self.bytes.len() {
                let more = (2 * self.bytes.len()).clamp(FEWEST.min(self.most), self.most);
                self.bytes.resize(more, 0);
            }
            (self.at, self.end) = (0, 0);
            self.end = from.read(&mut self.bytes)?;
        }
        Ok(self.take(out))
    }
}

/// Most bytes that are read ahead below TLS.
const BELOW_TLS: usize = 256 << 10;

/// More bytes than rustls keeps: a record that is not complete, and one that has been decrypted.
const RECORDS: u64 = 64 << 10;

/// A TCP stream below TLS: rustls reads 4 KiB at a time.
#[derive(Debug)]
pub(crate) struct Buffered {
    pub(crate) tcp: TcpStream,
    ahead: Ahead,
}

impl Buffered {
    pub(crate) fn new(tcp: TcpStream) -> Self {
        let ahead = Ahead::new(BELOW_TLS);
        Self { tcp, ahead }
    }

    /// Whether bytes were read ahead.
    pub(crate) fn has_bytes(&self) -> bool {
        self.ahead.len() > 0
    }

    /// How many of `due` bytes of plain text cannot have been received yet: rustls keeps at most one record.
    pub(crate) fn outstanding(&self, due: u64) -> u64 {
        due.saturating_sub(self.ahead.len() as u64 + RECORDS)
    }
}

impl Read for Buffered {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.ahead.read(&mut self.tcp, out)
    }
}

impl Write for Buffered {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.tcp.write(bytes)
    }

    fn write_vectored(&mut self, bytes: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.tcp.write_vectored(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.tcp.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_byte_arrives_once_and_in_order(
            len in 0_usize..70_000,
            most in 1_usize..40_000,
            wants in prop::collection::vec(1_usize..20_000, 1..8),
        ) {
            let sent: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
            let mut from = sent.as_slice();
            let mut ahead = Ahead::new(most);
            let mut got = Vec::new();
            for want in wants.iter().cycle() {
                let mut out = vec![0; *want];
                let count = ahead.read(&mut from, &mut out).unwrap();
                got.extend_from_slice(&out[..count]);
                prop_assert!(ahead.bytes.len() <= most);
                if count == 0 {
                    break;
                }
            }
            prop_assert!(got == sent);
        }
    }
}
