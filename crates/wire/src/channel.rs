//! A stream of frames: numbers them, checks them, and reads and writes large payloads without copies of its own.
//!
//! A step of a small model is a handful of small frames per connection. A channel that [gathers](Channel::gather) sends
//! them in one write and receives them in one read, because a system call costs more than their bytes.

use crate::ahead::Ahead;
use crate::data::{Encoded, Reply, Request, Stamped};
use crate::encoding::Encoding;
use crate::frame::{FrameError, FrameKind, FrameLimits, HEAD, Head};
use crate::message::{Refusal, from_body, to_body};
use crate::shard::Block;
use crate::stream::Stream;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::OwnedFd;

/// Values that are converted in one go when a payload has 16-bit values.
const CONVERTED: usize = 16_384;

/// A channel that gathers sends its small frames when they have this many bytes together.
pub const GATHERED: usize = 64 << 10;
/// Bytes that a channel that gathers reads ahead.
const AHEAD: usize = 64 << 10;

/// Why a connection can no longer be used, or a request was refused.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the variants are documented")]
pub enum ChannelError {
    /// The stream broke or timed out.
    #[error("connection to {peer} broke")]
    Io {
        /// Name or address of the other side.
        peer: String,
        #[source]
        source: io::Error,
    },
    /// The other side closed the connection between two frames.
    #[error("{peer} closed the connection")]
    Closed {
        /// Name or address of the other side.
        peer: String,
    },
    /// The other side sent a frame that is not allowed.
    #[error("{peer} broke the protocol")]
    Frame {
        /// Name or address of the other side.
        peer: String,
        #[source]
        source: FrameError,
    },
    /// The other side refused the request.
    #[error("{peer} refused: {}", refusal.text)]
    Refused {
        /// Name or address of the other side.
        peer: String,
        /// Its code and text.
        refusal: Refusal,
    },
}

/// A framed connection.
#[derive(Debug)]
pub struct Channel {
    stream: Stream,
    peer: String,
    limits: FrameLimits,
    sent: u32,
    received: u32,
    body: Vec<u8>,
    words: Vec<u16>,
    /// Frames that wait to be sent.
    out: Vec<u8>,
    ahead: Ahead,
    gathers: bool,
    /// Payload bytes of the frame that was received last that have not been read.
    due: u64,
}

impl Channel {
    /// A channel for a new stream. The other side counts as a stranger until [`Channel::trust`].
    pub fn new(stream: Stream) -> Self {
        Self {
            peer: stream.peer(),
            stream,
            limits: FrameLimits::STRANGER,
            sent: 0,
            received: 0,
            body: Vec::new(),
            words: Vec::new(),
            out: Vec::new(),
            ahead: Ahead::new(AHEAD),
            gathers: false,
            due: 0,
        }
    }

    /// From now on, small data-plane frames may be held back until [`Channel::flush`] or until this end waits for the
    /// other one in [`Channel::receive`], and bytes are read ahead.
    pub fn gather(&mut self) {
        self.gathers = true;
    }

    /// Sends the frames that wait.
    pub fn flush(&mut self) -> Result<(), ChannelError> {
        if self.out.is_empty() {
            return Ok(());
        }
        let done = self.stream.write_all(&self.out);
        self.out.clear();
        done.and_then(|()| self.stream.flush())
            .map_err(|source| Self::broken(&self.peer, source))
    }

    /// Whether bytes have been received that [`Channel::receive`] does not have to wait for.
    pub fn has_bytes(&mut self) -> bool {
        self.ahead.len() > 0 || self.stream.has_bytes()
    }

    /// A channel for a stream over which challenge and hello have passed: the other side is a member.
    pub fn greeted(stream: Stream) -> Self {
        Self {
            limits: FrameLimits::MEMBER,
            sent: 1,
            received: 1,
            ..Self::new(stream)
        }
    }

    /// Sets the name of the other side in errors.
    pub fn name_peer(&mut self, name: String) {
        self.peer = name;
    }

    /// The name of the other side, as errors show it.
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// The other side has proved that it is a member: large frames are accepted from now on.
    pub fn trust(&mut self) {
        self.limits = FrameLimits::MEMBER;
    }

    /// The stream below.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Sends a frame with a JSON body.
    pub fn send<T: Serialize>(&mut self, kind: FrameKind, message: &T) -> Result<(), ChannelError> {
        let body = to_body(message);
        self.send_parts(kind, Encoding::F32, &body, 0, &mut [])?;
        self.flush()
    }

    /// Requests values in this encoding; `payload` says which.
    pub fn ask(
        &mut self,
        message: &Encoded,
        encoding: Encoding,
        payload: &[u8],
    ) -> Result<(), ChannelError> {
        let mut parts = [IoSlice::new(payload)];
        let len = payload.len() as u64;
        self.send_parts(message.kind, encoding, &message.body, len, &mut parts)
    }

    /// Sends a data-plane frame whose payload is these byte slices, one after another.
    pub fn send_bytes(&mut self, message: &Encoded, parts: &[&[u8]]) -> Result<(), ChannelError> {
        let len = parts.iter().map(|part| part.len() as u64).sum();
        let mut slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        self.send_parts(message.kind, Encoding::F32, &message.body, len, &mut slices)
    }

    /// Sends a data-plane frame: `before` as bytes, then the given runs of `values`.
    pub fn send_values<'a>(
        &mut self,
        message: &Encoded,
        encoding: Encoding,
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
            return self.send_parts(message.kind, encoding, &message.body, len, &mut slices);
        }
        self.send_parts(message.kind, encoding, &message.body, len, &mut slices)?;
        for run in runs {
            self.send_narrow(encoding, run)?;
        }
        Ok(())
    }

    /// Begins a data-plane frame of `before` and `count` values, which follow with [`Channel::more`]. For values
    /// that are gathered piece by piece, while they are in the cache.
    pub fn begin_values(
        &mut self,
        message: &Encoded,
        encoding: Encoding,
        before: &[u8],
        count: usize,
    ) -> Result<(), ChannelError> {
        let payload = (before.len() + count * encoding.bytes()) as u64;
        let mut parts = [IoSlice::new(before)];
        self.send_parts(message.kind, encoding, &message.body, payload, &mut parts)
    }

    /// Sends the next values of the frame that was begun.
    pub fn more(&mut self, encoding: Encoding, numbers: &[f32]) -> Result<(), ChannelError> {
        if encoding == Encoding::F32 {
            return self.send_slices(&mut [IoSlice::new(bytemuck::cast_slice(numbers))]);
        }
        self.send_narrow(encoding, numbers)
    }

    fn send_narrow(&mut self, encoding: Encoding, run: &[f32]) -> Result<(), ChannelError> {
        let mut words = std::mem::take(&mut self.words);
        words.resize(CONVERTED, 0);
        for piece in run.chunks(CONVERTED) {
            let words = &mut words[..piece.len()];
            encoding.narrow(piece, words);
            self.send_slices(&mut [IoSlice::new(bytemuck::cast_slice(words))])?;
        }
        self.words = words;
        Ok(())
    }

    fn send_parts(
        &mut self,
        kind: FrameKind,
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
        self.out.extend_from_slice(&head.encode());
        self.out.extend_from_slice(body);
        self.send_slices(parts)
    }

    /// Sends the bytes held back and these; a channel that gathers keeps a few bytes to send them with later ones.
    fn send_slices(&mut self, parts: &mut [IoSlice<'_>]) -> Result<(), ChannelError> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        if self.gathers && self.out.len() + len <= GATHERED {
            parts
                .iter()
                .for_each(|part| self.out.extend_from_slice(part));
            return Ok(());
        }
        let mut slices = Vec::with_capacity(parts.len() + 1);
        slices.push(IoSlice::new(&self.out));
        slices.extend_from_slice(parts);
        let done = write_all(&mut self.stream, &mut slices);
        self.out.clear();
        done.map_err(|source| Self::broken(&self.peer, source))
    }

    /// Receives a frame's head and body. The payload, if any, must be read next.
    pub fn receive(&mut self) -> Result<Head, ChannelError> {
        let mut bytes = [0_u8; HEAD];
        self.due = 0;
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
        let mut body = std::mem::take(&mut self.body);
        body.resize(head.body as usize, 0);
        self.read_bytes(&mut body)?;
        self.body = body;
        if crc32fast::hash(&self.body) != head.body_crc {
            return Err(self.violation(FrameError::BodyChecksum));
        }
        self.due = head.payload;
        Ok(head)
    }

    fn read_head(&mut self, bytes: &mut [u8; HEAD]) -> Result<(), ChannelError> {
        if self.ahead.len() < HEAD {
            self.flush()?;
        }
        let mut have = 0;
        while have < HEAD {
            match self.read_some(&mut bytes[have..]) {
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

    /// Reads some bytes: first those received ahead.
    fn read_some(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let ahead = self.ahead.len() as u64;
        self.stream.await_bytes(self.due.saturating_sub(ahead));
        let count = if self.gathers || self.ahead.len() > 0 {
            self.ahead.read(&mut self.stream, out)?
        } else {
            self.stream.read(out)?
        };
        self.due = self.due.saturating_sub(count as u64);
        if self.due == 0 {
            // A reader that waits for the next frame, perhaps in a poll, must be woken by its first byte.
            self.stream.await_bytes(0);
        }
        Ok(count)
    }

    /// Receives a frame of this kind with a JSON body; a refusal becomes an error.
    pub fn expect<T: DeserializeOwned>(&mut self, kind: FrameKind) -> Result<T, ChannelError> {
        let head = self.receive()?;
        self.check(&head, kind, "a reply")?;
        self.json(&head)
    }

    /// Receives a reply of a service; a refusal becomes an error.
    pub fn expect_reply(&mut self) -> Result<(Head, Stamped<Reply>), ChannelError> {
        let head = self.receive()?;
        self.check_refusal(&head)?;
        let reply = Stamped::<Reply>::decode(head.kind, &self.body);
        Ok((head, reply.map_err(|source| self.violation(source))?))
    }

    fn check(
        &self,
        head: &Head,
        kind: FrameKind,
        wanted: &'static str,
    ) -> Result<(), ChannelError> {
        self.check_refusal(head)?;
        if head.kind != kind {
            return Err(self.unexpected(head, wanted));
        }
        Ok(())
    }

    fn check_refusal(&self, head: &Head) -> Result<(), ChannelError> {
        if head.kind != FrameKind::Error {
            return Ok(());
        }
        Err(ChannelError::Refused {
            peer: self.peer.clone(),
            refusal: self.json(head)?,
        })
    }

    /// The error for a frame of another kind than the protocol demands at this point.
    pub fn unexpected(&self, head: &Head, wanted: &'static str) -> ChannelError {
        self.violation(FrameError::Unexpected {
            got: head.kind,
            wanted,
        })
    }

    /// The JSON body of the frame that was received last.
    pub fn json<T: DeserializeOwned>(&self, head: &Head) -> Result<T, ChannelError> {
        from_body(head.kind, &self.body).map_err(|source| self.violation(source))
    }

    /// The request of a trainer in the frame that was received last.
    pub fn request(&self, head: &Head) -> Result<Stamped<Request>, FrameError> {
        Stamped::<Request>::decode(head.kind, &self.body)
    }

    /// Reads payload bytes.
    pub fn read_bytes(&mut self, out: &mut [u8]) -> Result<(), ChannelError> {
        let mut have = 0;
        while have < out.len() {
            match self.read_some(&mut out[have..]) {
                Ok(0) => {
                    let source = io::ErrorKind::UnexpectedEof.into();
                    return Err(Self::broken(&self.peer, source));
                }
                Ok(count) => have += count,
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(Self::broken(&self.peer, source)),
            }
        }
        Ok(())
    }

    /// Reads payload values.
    pub fn read_values(&mut self, encoding: Encoding, out: &mut [f32]) -> Result<(), ChannelError> {
        if encoding == Encoding::F32 {
            return self.read_bytes(bytemuck::cast_slice_mut(out));
        }
        let mut words = std::mem::take(&mut self.words);
        words.resize(CONVERTED, 0);
        for piece in out.chunks_mut(CONVERTED) {
            let words = &mut words[..piece.len()];
            self.read_bytes(bytemuck::cast_slice_mut(words))?;
            encoding.widen(words, piece);
        }
        self.words = words;
        Ok(())
    }

    /// Reads payload values into blocks of `values`; the blocks are ascending and inside it.
    pub(crate) fn read_blocks(
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
        let mut slices = slices.as_mut_slice();
        while let Some(first) = slices.first_mut()
            && self.ahead.len() > 0
        {
            let count = self.ahead.take(first);
            IoSliceMut::advance_slices(&mut slices, count);
        }
        let left = slices.iter().map(|slice| slice.len() as u64).sum();
        self.due = 0;
        read_all(&mut self.stream, slices, left).map_err(|source| Self::broken(&self.peer, source))
    }

    /// Receives what the other end passes with [`Stream::send_descriptors`] after a reply that says so.
    pub(crate) fn expect_descriptors(
        &mut self,
    ) -> Result<(Head, Stamped<Reply>, Vec<OwnedFd>), ChannelError> {
        // Descriptors belong to a byte: it must not be received ahead as a part of the reply.
        let gathers = std::mem::replace(&mut self.gathers, false);
        let reply = self.expect_reply();
        self.gathers = gathers;
        let (head, reply) = reply?;
        let some = matches!(reply.message, Reply::Shared { descriptors } if descriptors > 0);
        let descriptors = if some {
            let received = self.stream.receive_descriptors();
            received.map_err(|source| Self::broken(&self.peer, source))?
        } else {
            Vec::new()
        };
        Ok((head, reply, descriptors))
    }

    /// The error for a frame that is not allowed here.
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

/// A whole frame with a JSON body, as bytes.
pub(crate) fn json_frame<T: Serialize>(kind: FrameKind, message: &T, sequence: u32) -> Vec<u8> {
    let body = to_body(message);
    let head = Head {
        kind,
        encoding: Encoding::F32,
        body: u32::try_from(body.len()).expect("bodies are far below 4 GiB"),
        payload: 0,
        sequence,
        body_crc: crc32fast::hash(&body),
    };
    let mut frame = head.encode().to_vec();
    frame.extend_from_slice(&body);
    frame
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

/// Reads the `left` bytes of all slices.
fn read_all(
    stream: &mut Stream,
    mut slices: &mut [IoSliceMut<'_>],
    mut left: u64,
) -> io::Result<()> {
    IoSliceMut::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        stream.await_bytes(left);
        match stream.read_vectored(slices) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                IoSliceMut::advance_slices(&mut slices, count);
                left -= count as u64;
            }
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(cause),
        }
    }
    stream.await_bytes(0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{BODY, Carrier};
    use crate::ids::{Generation, Step, TableId};
    use crate::stream::tests::{tcp_pair, tls_pair};
    use proptest::prelude::*;
    use std::time::Duration;

    fn pair() -> (Channel, Channel) {
        let (one, other) = tcp_pair();
        (Channel::greeted(one), Channel::greeted(other))
    }

    /// A hang is the mistake to be found: a reader that waits for more bytes than are sent.
    #[test]
    fn large_payloads_arrive_whole_and_in_pieces() {
        let sizes = [
            32_767, 32_768, 50_000, 65_536, 262_143, 262_144, 262_145, 300_000, 700_001,
        ];
        let count = sizes.len() as u64;
        let numbers: Vec<f32> = (0..700_001).map(|at| at as f32).collect();
        for (one, other) in [tcp_pair(), tls_pair()] {
            let limit = Some(Duration::from_secs(180));
            other.set_read_timeout(limit).unwrap();
            let (mut one, mut other) = (Channel::greeted(one), Channel::greeted(other));
            other.gather();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for (step, len) in (0..).zip(sizes).chain((count..).zip(sizes)) {
                        let runs = numbers[..len].chunks(1024);
                        one.send_values(&values(step), Encoding::F32, &[], runs)
                            .unwrap();
                    }
                });
                for (step, len) in (0..).zip(sizes).chain((count..).zip(sizes)) {
                    let (head, reply) = other.expect_reply().unwrap();
                    assert_eq!((head.payload, reply.step), (4 * len as u64, Step(step)));
                    let mut got = vec![0.0; len];
                    if step < count {
                        let all = [Block {
                            index: 0,
                            start: 0,
                            len,
                        }];
                        other.read_blocks(head.encoding, &mut got, &all).unwrap();
                    } else {
                        for piece in got.chunks_mut(65_536) {
                            other.read_values(head.encoding, piece).unwrap();
                        }
                    }
                    assert!(got == numbers[..len]);
                    // A poll for the next frame is woken by its first byte.
                    assert_eq!(other.stream().woken_at, 1);
                }
            });
        }
    }

    fn values(step: u64) -> Encoded {
        let message = Reply::Values {
            table: TableId(3),
            ticket: None,
            carrier: Carrier::Payload,
        };
        let stamped = Stamped {
            generation: Generation(1),
            step: Step(step),
            message,
        };
        stamped.encode()
    }

    #[test]
    fn small_frames_leave_together_when_the_sender_waits() {
        let (mut one, mut other) = pair();
        one.gather();
        other.gather();
        for step in 0..3 {
            one.send_bytes(&values(step), &[&[7; 100]]).unwrap();
        }
        assert_eq!(one.stream().meter().traffic().sent, 0);
        one.flush().unwrap();
        let sent = one.stream().meter().traffic().sent;
        assert_eq!(sent, 3 * (HEAD + BODY + 100) as u64);
        other.expect_reply().unwrap();
        assert_eq!(other.stream().meter().traffic().received, sent);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn frames_of_any_size_arrive_as_they_were_sent(
            lens in prop::collection::vec(prop_oneof![0_usize..300, 10_000..40_000_usize], 1..12),
            gathers in any::<(bool, bool)>(),
        ) {
            let (mut one, mut other) = pair();
            if gathers.0 {
                one.gather();
            }
            if gathers.1 {
                other.gather();
            }
            let numbers: Vec<f32> = (0..40_000).map(|at| at as f32).collect();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for (step, len) in (0..).zip(&lens) {
                        let run = std::iter::once(&numbers[..*len]);
                        one.send_values(&values(step), Encoding::F32, &[1, 2, 3, 4], run).unwrap();
                    }
                    one.flush().unwrap();
                });
                for (step, len) in (0..).zip(&lens) {
                    let (head, reply) = other.expect_reply().unwrap();
                    assert_eq!((head.payload, reply.step), (4 + 4 * *len as u64, Step(step)));
                    let (mut before, mut got) = ([0; 4], vec![0.0; *len]);
                    other.read_bytes(&mut before).unwrap();
                    let blocks = [Block { index: 0, start: 0, len: len / 2 }, Block { index: 1, start: len / 2, len: len - len / 2 }];
                    other.read_blocks(head.encoding, &mut got, &blocks).unwrap();
                    assert!(before == [1, 2, 3, 4] && got == numbers[..*len]);
                }
            });
        }
    }
}
