//! Reads a chunked body (`Transfer-Encoding: chunked`).

use crate::head::Malformed;

/// The longest line with a length, and all lines behind the last chunk, in bytes.
const LONGEST_LINES: usize = 4 << 10;

/// Which part of a chunked body comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum ChunkPart {
    /// A line with the length of the next chunk.
    #[default]
    Length,
    /// This many more bytes of a chunk.
    Data(u64),
    /// The line end after a chunk.
    DataEnd,
    /// Lines after the last chunk, up to an empty one.
    Trailer,
    /// Everything has been read.
    Complete,
}

/// Reads a chunked body.
#[derive(Debug, Default)]
pub(crate) struct BodyChunks {
    part: ChunkPart,
    trailer: usize,
}

fn wrong(reason: &'static str) -> Malformed {
    Malformed {
        status: 400,
        reason,
    }
}

impl BodyChunks {
    /// Whether the whole body has been read.
    pub(crate) fn complete(&self) -> bool {
        self.part == ChunkPart::Complete
    }

    /// Reads the bytes that have arrived: appends data to `body`, which may have at most `most` bytes, and returns how
    /// many bytes of `input` were used.
    pub(crate) fn read(
        &mut self,
        input: &[u8],
        body: &mut Vec<u8>,
        most: usize,
    ) -> Result<usize, Malformed> {
        let mut at = 0;
        loop {
            let rest = &input[at..];
            match self.part {
                ChunkPart::Complete => return Ok(at),
                ChunkPart::Data(0) => self.part = ChunkPart::DataEnd,
                ChunkPart::Data(left) => {
                    let count = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
                    if count == 0 {
                        return Ok(at);
                    }
                    body.extend_from_slice(&rest[..count]);
                    at += count;
                    self.part = ChunkPart::Data(left - count as u64);
                }
                ChunkPart::DataEnd => match rest {
                    [b'\r', b'\n', ..] => {
                        at += 2;
                        self.part = ChunkPart::Length;
                    }
                    [] | [b'\r'] => return Ok(at),
                    _ => return Err(wrong("a chunk is longer than it says")),
                },
                ChunkPart::Length | ChunkPart::Trailer => {
                    let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") else {
                        if rest.len() > LONGEST_LINES {
                            return Err(wrong("a line between chunks is too long"));
                        }
                        return Ok(at);
                    };
                    at += end + 2;
                    self.line(&rest[..end], body.len(), most)?;
                }
            }
        }
    }

    /// A line that is not data.
    fn line(&mut self, line: &[u8], got: usize, most: usize) -> Result<(), Malformed> {
        if self.part == ChunkPart::Trailer {
            self.trailer += line.len() + 2;
            if line.is_empty() {
                self.part = ChunkPart::Complete;
            } else if self.trailer > LONGEST_LINES {
                return Err(wrong("too much follows the last chunk"));
            }
            return Ok(());
        }
        let digits = line.split(|byte| *byte == b';').next().unwrap_or(line);
        let digits = digits.trim_ascii_end();
        let is_number =
            (1..=15).contains(&digits.len()) && digits.iter().all(u8::is_ascii_hexdigit);
        let length = std::str::from_utf8(digits).ok().filter(|_| is_number);
        let length = length.and_then(|text| u64::from_str_radix(text, 16).ok());
        let length = length.ok_or(wrong("a chunk has no length"))?;
        if length > (most - got.min(most)) as u64 {
            return Err(Malformed {
                status: 413,
                reason: "the body is larger than this server accepts",
            });
        }
        self.part = match length {
            0 => ChunkPart::Trailer,
            length => ChunkPart::Data(length),
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOOD: &[u8] =
        b"4\r\nabcd\r\n1;name=value\r\ne\r\n0A\r\n0123456789\r\n0\r\nField: x\r\n\r\nGET";

    /// Reads bytes that arrive in two parts.
    fn read(bytes: &[u8], cut: usize, most: usize) -> Result<(Vec<u8>, usize, bool), Malformed> {
        let (mut chunks, mut body) = (BodyChunks::default(), Vec::new());
        let first = chunks.read(&bytes[..cut], &mut body, most)?;
        let more = chunks.read(&bytes[first..], &mut body, most)?;
        Ok((body, first + more, chunks.complete()))
    }

    #[test]
    fn a_body_is_put_together_wherever_it_was_cut() {
        for cut in 0..GOOD.len() {
            let (body, used, complete) = read(GOOD, cut, 15).unwrap();
            assert_eq!(body, b"abcde0123456789", "{cut}");
            assert_eq!((used, complete), (GOOD.len() - 3, true), "{cut}");
        }
        assert_eq!(read(GOOD, 0, 14).unwrap_err().status, 413);
    }

    #[test]
    fn wrong_chunks_are_refused() {
        for bytes in [
            &b"\r\n"[..],
            b"x\r\n",
            b"-1\r\n",
            b"1\r\nab\r\n",
            b"1111111111111111\r\n",
        ] {
            assert_eq!(read(bytes, 0, 100).unwrap_err().status, 400, "{bytes:?}");
        }
        let endless = [b"0\r\n".to_vec(), b"a: b\r\n".repeat(1000)].concat();
        assert_eq!(read(&endless, 0, 9).unwrap_err().status, 400);
        assert_eq!(read(&vec![b'0'; 5000], 0, 9).unwrap_err().status, 400);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_or_exceed_the_limit(
            bytes in proptest::collection::vec(prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'1'), Just(b'f'), any::<u8>()], 0..200),
            cut in 0..200usize,
        ) {
            if let Ok((body, used, _)) = read(&bytes, cut.min(bytes.len()), 50) {
                prop_assert!(body.len() <= 50 && used <= bytes.len());
            }
        }
    }
}
