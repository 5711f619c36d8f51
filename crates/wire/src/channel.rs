//! A stream that speaks frames: numbers them, checks them, and moves payloads without copies of its own.

use crate::encoding::Encoding;
use crate::frame::{FrameError, HEAD, Head, Kind, Limits};
use crate::message::{Hot, Refusal, from_body, to_body};
use crate::shard::Block;
use crate::stream::Stream;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};

/// Words that are converted at once when a payload has 16-bit numbers.
const CONVERTED: usize = 16_384;

/// Why a connection cannot be used any more, or a request was not granted.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The stream broke or timed out.
    #[error("connection to {peer} broke")]
    Io {
        /// The other side.
        peer: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The other side closed the connection between two frames.
    #[error("{peer} closed the connection")]
    Closed {
        /// The other side.
        peer: String,
    },
    /// The other side sent what is not allowed.
    #[error("{peer} broke the protocol")]
    Frame {
        /// The other side.
        peer: String,
        /// The cause.
        #[source]
        source: FrameError,
    },
    /// The other side said no.
    #[error("{peer} refused: {}", refusal.text)]
    Refused {
        /// The other side.
        peer: String,
        /// Its words.
        refusal: Refusal,
    },
}

/// A framed connection.
#[derive(Debug)]
pub struct Channel {
    stream: Stream,
    peer: String,
    limits: Limits,
    sent: u32,
    received: u32,
    body: Vec<u8>,
    words: Vec<u16>,
}

impl Channel {
    /// A channel for a new stream; the other side is a stranger until [`Channel::trust`].
    pub fn new(stream: Stream) -> Self {
        Self {
            peer: stream.peer(),
            stream,
            limits: Limits::STRANGER,
            sent: 0,
            received: 0,
            body: Vec::new(),
            words: Vec::new(),
        }
    }

    /// Names the other side in errors.
    pub fn name_peer(&mut self, name: String) {
        self.peer = name;
    }

    /// The other side's name.
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// The other side has proved who it is: large frames are allowed from now on.
    pub fn trust(&mut self) {
        self.limits = Limits::MEMBER;
    }

    /// The stream below.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Sends a frame with a JSON body.
    pub fn send<T: Serialize>(&mut self, kind: Kind, message: &T) -> Result<(), ChannelError> {
        let body = to_body(message);
        self.send_parts(kind, Encoding::F32, &body, 0, &mut [])
    }

    /// Asks for values, to be sent in this encoding; `payload` says which.
    pub fn ask(
        &mut self,
        kind: Kind,
        encoding: Encoding,
        hot: &Hot,
        payload: &[u8],
    ) -> Result<(), ChannelError> {
        let mut parts = [IoSlice::new(payload)];
        self.send_parts(
            kind,
            encoding,
            &hot.encode(),
            payload.len() as u64,
            &mut parts,
        )
    }

    /// Sends a data-plane frame whose payload is these byte slices, one after another.
    pub fn send_bytes(
        &mut self,
        kind: Kind,
        hot: &Hot,
        parts: &[&[u8]],
    ) -> Result<(), ChannelError> {
        let len = parts.iter().map(|part| part.len() as u64).sum();
        let mut slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        self.send_parts(kind, Encoding::F32, &hot.encode(), len, &mut slices)
    }

    /// Sends a data-plane frame: `before` as bytes, then the given runs of `values` as numbers.
    pub fn send_values<'a>(
        &mut self,
        kind: Kind,
        encoding: Encoding,
        hot: &Hot,
        before: &[u8],
        runs: impl Iterator<Item = &'a [f32]> + Clone,
    ) -> Result<(), ChannelError> {
        let count: usize = runs.clone().map(<[f32]>::len).sum();
        let len = (before.len() + count * encoding.bytes()) as u64;
        let mut slices = Vec::with_capacity(8);
        if !before.is_empty() {
            slices.push(IoSlice::new(before));
        }
        if encoding == Encoding::F32 {
            slices.extend(runs.map(|run| IoSlice::new(bytemuck::cast_slice(run))));
            return self.send_parts(kind, encoding, &hot.encode(), len, &mut slices);
        }
        self.send_parts(kind, encoding, &hot.encode(), len, &mut slices)?;
        for run in runs {
            self.send_narrow(encoding, run)?;
        }
        Ok(())
    }

    /// Begins a data-plane frame of `before` and `count` numbers, which follow with [`Channel::more`]. For numbers
    /// that are gathered piece by piece, while they are in the cache.
    pub fn begin_values(
        &mut self,
        kind: Kind,
        encoding: Encoding,
        hot: &Hot,
        before: &[u8],
        count: usize,
    ) -> Result<(), ChannelError> {
        let payload = (before.len() + count * encoding.bytes()) as u64;
        let mut parts = [IoSlice::new(before)];
        self.send_parts(kind, encoding, &hot.encode(), payload, &mut parts)
    }

    /// The next numbers of the frame that was begun.
    pub fn more(&mut self, encoding: Encoding, numbers: &[f32]) -> Result<(), ChannelError> {
        if encoding == Encoding::F32 {
            return self
                .stream
                .write_all(bytemuck::cast_slice(numbers))
                .map_err(|source| Self::broken(&self.peer, source));
        }
        self.send_narrow(encoding, numbers)
    }

    fn send_narrow(&mut self, encoding: Encoding, run: &[f32]) -> Result<(), ChannelError> {
        self.words.resize(CONVERTED, 0);
        for piece in run.chunks(CONVERTED) {
            let words = &mut self.words[..piece.len()];
            encoding.narrow(piece, words);
            self.stream
                .write_all(bytemuck::cast_slice(words))
                .map_err(|source| Self::broken(&self.peer, source))?;
        }
        Ok(())
    }

    fn send_parts(
        &mut self,
        kind: Kind,
        encoding: Encoding,
        body: &[u8],
        payload: u64,
        parts: &mut [IoSlice<'_>],
    ) -> Result<(), ChannelError> {
        let head = Head {
            kind,
            encoding,
            body: u32::try_from(body.len()).expect("bodies are far below 4 GiB"),
            payload,
            sequence: self.sent,
            body_crc: crc32fast::hash(body),
        };
        self.sent = self.sent.wrapping_add(1);
        let mut front = Vec::with_capacity(HEAD + body.len());
        front.extend_from_slice(&head.encode());
        front.extend_from_slice(body);
        let mut slices = Vec::with_capacity(parts.len() + 1);
        slices.push(IoSlice::new(&front));
        slices.extend_from_slice(parts);
        write_all(&mut self.stream, &mut slices).map_err(|source| Self::broken(&self.peer, source))
    }

    /// Receives a frame's head and body. The payload, if any, must be read next.
    pub fn receive(&mut self) -> Result<Head, ChannelError> {
        let mut bytes = [0_u8; HEAD];
        self.read_head(&mut bytes)?;
        let head = Head::decode(&bytes, &self.limits).map_err(|source| self.violation(source))?;
        if head.sequence != self.received {
            let want = self.received;
            return Err(self.violation(FrameError::Sequence {
                got: head.sequence,
                want,
            }));
        }
        self.received = self.received.wrapping_add(1);
        self.body.resize(head.body as usize, 0);
        self.stream
            .read_exact(&mut self.body)
            .map_err(|source| Self::broken(&self.peer, source))?;
        if crc32fast::hash(&self.body) != head.body_crc {
            return Err(self.violation(FrameError::BodyChecksum));
        }
        Ok(head)
    }

    fn read_head(&mut self, bytes: &mut [u8; HEAD]) -> Result<(), ChannelError> {
        let mut have = 0;
        while have < HEAD {
            match self.stream.read(&mut bytes[have..]) {
                Ok(0) if have == 0 => {
                    return Err(ChannelError::Closed {
                        peer: self.peer.clone(),
                    });
                }
                Ok(0) => {
                    return Err(Self::broken(
                        &self.peer,
                        io::ErrorKind::UnexpectedEof.into(),
                    ));
                }
                Ok(count) => have += count,
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(Self::broken(&self.peer, source)),
            }
        }
        Ok(())
    }

    /// Receives a frame of this kind with a JSON body; a refusal becomes an error.
    pub fn expect<T: DeserializeOwned>(&mut self, kind: Kind) -> Result<T, ChannelError> {
        let head = self.receive()?;
        self.check(&head, kind, "an answer")?;
        self.json(&head)
    }

    /// Receives a data-plane frame of this kind; a refusal becomes an error.
    pub fn expect_hot(&mut self, kind: Kind) -> Result<(Head, Hot), ChannelError> {
        let head = self.receive()?;
        self.check(&head, kind, "values")?;
        let hot = self.hot(&head)?;
        Ok((head, hot))
    }

    /// Receives values, or word that they lie in shared memory; a refusal becomes an error.
    pub fn expect_values(&mut self) -> Result<(Head, Hot), ChannelError> {
        let head = self.receive()?;
        if head.kind != Kind::ValuesPlaced {
            self.check(&head, Kind::Values, "values")?;
        }
        let hot = self.hot(&head)?;
        Ok((head, hot))
    }

    fn check(&self, head: &Head, kind: Kind, wanted: &'static str) -> Result<(), ChannelError> {
        if head.kind == Kind::Error {
            let refusal = self.json(head)?;
            return Err(ChannelError::Refused {
                peer: self.peer.clone(),
                refusal,
            });
        }
        if head.kind != kind {
            return Err(self.violation(FrameError::Unexpected {
                got: head.kind,
                wanted,
            }));
        }
        Ok(())
    }

    /// The JSON body of the frame that was received last.
    pub fn json<T: DeserializeOwned>(&self, head: &Head) -> Result<T, ChannelError> {
        from_body(head.kind, &self.body).map_err(|source| self.violation(source))
    }

    /// The fixed body of the frame that was received last.
    pub fn hot(&self, head: &Head) -> Result<Hot, ChannelError> {
        Hot::decode(head.kind, &self.body).map_err(|source| self.violation(source))
    }

    /// Reads payload bytes.
    pub fn read_bytes(&mut self, out: &mut [u8]) -> Result<(), ChannelError> {
        self.stream
            .read_exact(out)
            .map_err(|source| Self::broken(&self.peer, source))
    }

    /// Reads payload numbers.
    pub fn read_values(&mut self, encoding: Encoding, out: &mut [f32]) -> Result<(), ChannelError> {
        if encoding == Encoding::F32 {
            return self.read_bytes(bytemuck::cast_slice_mut(out));
        }
        self.words.resize(CONVERTED, 0);
        for piece in out.chunks_mut(CONVERTED) {
            let words = &mut self.words[..piece.len()];
            self.stream
                .read_exact(bytemuck::cast_slice_mut(words))
                .map_err(|source| Self::broken(&self.peer, source))?;
            encoding.widen(words, piece);
        }
        Ok(())
    }

    /// Reads payload numbers into blocks of `values`; blocks ascend and lie inside it.
    pub fn read_blocks(
        &mut self,
        encoding: Encoding,
        values: &mut [f32],
        blocks: &[Block],
    ) -> Result<(), ChannelError> {
        if encoding != Encoding::F32 {
            for block in blocks {
                self.read_values(encoding, &mut values[block.start..block.start + block.len])?;
            }
            return Ok(());
        }
        let mut slices = Vec::with_capacity(blocks.len());
        let (mut rest, mut at) = (values, 0);
        for block in blocks {
            let (_, tail) = rest.split_at_mut(block.start - at);
            let (run, tail) = tail.split_at_mut(block.len);
            slices.push(IoSliceMut::new(bytemuck::cast_slice_mut(run)));
            (rest, at) = (tail, block.start + block.len);
        }
        read_all(&mut self.stream, &mut slices).map_err(|source| Self::broken(&self.peer, source))
    }

    /// An error for a frame that should not have come.
    pub fn violation(&self, source: FrameError) -> ChannelError {
        ChannelError::Frame {
            peer: self.peer.clone(),
            source,
        }
    }

    fn broken(peer: &str, source: io::Error) -> ChannelError {
        ChannelError::Io {
            peer: peer.to_owned(),
            source,
        }
    }
}

fn write_all(stream: &mut Stream, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        match stream.write_vectored(slices) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => IoSlice::advance_slices(&mut slices, count),
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(cause),
        }
    }
    stream.flush()
}

fn read_all(stream: &mut Stream, mut slices: &mut [IoSliceMut<'_>]) -> io::Result<()> {
    IoSliceMut::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        match stream.read_vectored(slices) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => IoSliceMut::advance_slices(&mut slices, count),
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(cause),
        }
    }
    Ok(())
}
