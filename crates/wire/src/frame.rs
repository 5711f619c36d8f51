//! The frame: a 32-byte head, a small body, a payload of row ids and values.
//!
//! ```text
//!  0 magic "CANO"      8 body length u32      20 sequence u32
//!  4 version u8       12 payload length u64   24 crc32 of the body
//!  5 kind u8                                  28 crc32 of bytes 0..28
//!  6 encoding u8
//!  7 zero
//! ```
//!
//! Little-endian. Everything is checked against [`FrameLimits`] before a byte of body or payload is read, so a
//! stranger cannot make a process allocate. The sequence number counts the frames of one direction of one
//! connection: a replayed, lost or re-ordered frame ends the connection.

use crate::encoding::Encoding;

/// Bytes of a frame head.
pub const HEAD: usize = 32;
/// The first four bytes of every frame.
pub const MAGIC: [u8; 4] = *b"CANO";
/// The version of the protocol that this build speaks.
pub const VERSION: u8 = 2;

/// What a frame means. Bodies are JSON ([`crate::message`]) in the control plane, and fixed ([`crate::data`]) in the data
/// plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// The server's first frame: a nonce.
    Challenge = 1,
    /// The client's reply: who it is, and proof that it knows the token.
    Hello = 2,
    /// Server's proof, and its report.
    Welcome = 3,
    /// Why a request was refused. Ends the connection unless stated otherwise.
    Error = 4,
    /// Sent every half second with the trainer's status.
    Heartbeat = 5,
    /// Reply to a heartbeat or a command: the state of the server.
    Report = 6,
    /// A command of the coordinator or of a trainer: open, save, load, fail, leave.
    Command = 7,
    /// Initial values of a dense table, sent by trainer 0 after an open command.
    Initial = 32,
    /// The gradient of a dense table.
    PushDense = 33,
    /// Gradients of rows of a sparse table.
    PushRows = 34,
    /// The trainer has pushed all of its batch.
    FinishBatch = 35,
    /// Requests the dense values of a service.
    PullDense = 36,
    /// Requests rows of a sparse table.
    PullRows = 37,
    /// Reply to a pull: the requested values.
    Values = 38,
    /// The trainer has no more data in this pass. The reply is sent when no trainer has.
    FinishPass = 39,
    /// The pass has ended for all trainers; the next one begins.
    PassEnded = 40,
    /// Values to be summed over all trainers.
    Reduce = 41,
    /// Reply to `Reduce`, when all trainers have sent theirs: the sum.
    Reduced = 42,
    /// A trainer on the same host requests shared memory.
    Share = 43,
    /// Reply to `Share` and `ShareRows`. If there is memory, its file descriptors follow with one more byte.
    Shared = 44,
    /// As `PushDense`, with the values in the outbox.
    PushPlaced = 45,
    /// As `Values`, with the values in shared memory: the server's own, or, for rows, the table's row buffer.
    ValuesPlaced = 46,
    /// A trainer on the same host requests a row buffer for a table. The reply is `Shared`.
    ShareRows = 47,
    /// As `PushRows` for the rows of the last pull, with the values in the row buffer.
    PushRowsPlaced = 48,
    /// Reply to `FinishPass`: no trainer has more data in this pass.
    PassOver = 49,
    /// The trainer has finished its tests and saves at the end of the pass. The reply is sent when trainer 0 has.
    EndPass = 50,
    /// Requests rows of a dense table.
    PullDenseRows = 51,
    /// A trainer sends a gradient of rows of a dense table.
    PushDenseRows = 52,
}

impl FrameKind {
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        const ALL: [FrameKind; 28] = [
            FrameKind::Challenge,
            FrameKind::Hello,
            FrameKind::Welcome,
            FrameKind::Error,
            FrameKind::Heartbeat,
            FrameKind::Report,
            FrameKind::Command,
            FrameKind::Initial,
            FrameKind::PushDense,
            FrameKind::PushRows,
            FrameKind::FinishBatch,
            FrameKind::PullDense,
            FrameKind::PullRows,
            FrameKind::Values,
            FrameKind::FinishPass,
            FrameKind::PassEnded,
            FrameKind::Reduce,
            FrameKind::Reduced,
            FrameKind::Share,
            FrameKind::Shared,
            FrameKind::PushPlaced,
            FrameKind::ValuesPlaced,
            FrameKind::ShareRows,
            FrameKind::PushRowsPlaced,
            FrameKind::PassOver,
            FrameKind::EndPass,
            FrameKind::PullDenseRows,
            FrameKind::PushDenseRows,
        ];
        ALL.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// The largest frame that a receiver accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameLimits {
    /// Bytes of a body.
    pub body: u32,
    /// Bytes of a payload.
    pub payload: u64,
}

impl FrameLimits {
    /// Before the peer has proved that it belongs to the job.
    pub const STRANGER: Self = Self {
        body: 16 << 10,
        payload: 0,
    };
    /// After that: 16 MiB of body, 64 GiB of payload (payloads go into buffers whose size is known beforehand).
    pub const MEMBER: Self = Self {
        body: 16 << 20,
        payload: 64 << 30,
    };
}

/// A decoded frame head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Decides what the body and payload mean.
    pub kind: FrameKind,
    /// How the values of the payload are encoded.
    pub encoding: Encoding,
    /// Bytes of the body.
    pub body: u32,
    /// Bytes of the payload.
    pub payload: u64,
    /// Number of this frame on its connection and direction, from 0.
    pub sequence: u32,
    /// CRC-32 of the body.
    pub body_crc: u32,
}

/// Why bytes are not a frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The first bytes are not the magic number.
    #[error(
        "not a canoe frame: it begins with {got:02x?}; is another program talking to this port?"
    )]
    Magic {
        /// The first four bytes, instead of [`MAGIC`].
        got: [u8; 4],
    },
    /// The peer speaks another version of the protocol.
    #[error(
        "peer speaks protocol version {got}, this build speaks {VERSION}; use the same canoe everywhere"
    )]
    Version {
        /// The peer's version.
        got: u8,
    },
    /// The checksum of the head does not match.
    #[error("frame head fails its checksum")]
    HeadChecksum,
    /// The checksum of the body does not match.
    #[error("frame body fails its checksum")]
    BodyChecksum,
    /// A kind that this version of the protocol does not have.
    #[error("unknown frame kind {got}")]
    Kind {
        /// The kind's byte.
        got: u8,
    },
    /// An encoding that this version of the protocol does not have.
    #[error("unknown number encoding {got}")]
    Encoding {
        /// The encoding's byte.
        got: u8,
    },
    /// The body is larger than this receiver accepts now.
    #[error("frame body of {got} bytes exceeds the limit of {limit}")]
    Body {
        /// Bytes announced.
        got: u32,
        /// Bytes allowed.
        limit: u32,
    },
    /// The payload is larger than this receiver accepts now.
    #[error("frame payload of {got} bytes exceeds the limit of {limit}")]
    Payload {
        /// Bytes announced.
        got: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// A frame was lost, repeated or reordered.
    #[error("frame number {got} where {want} was due: replayed, lost or out of order")]
    Sequence {
        /// The sequence number of the frame.
        got: u32,
        /// The sequence number that was due.
        want: u32,
    },
    /// The body does not decode as its kind demands.
    #[error("body of a {kind:?} frame cannot be read: {reason}")]
    Malformed {
        /// The frame's kind.
        kind: FrameKind,
        /// A sentence for people.
        reason: String,
    },
    /// A valid frame that is not allowed at this point of the conversation.
    #[error("unexpected {got:?} frame while {wanted} was due")]
    Unexpected {
        /// The frame's kind.
        got: FrameKind,
        /// What was expected instead, in words.
        wanted: &'static str,
    },
}

impl Head {
    /// The head as bytes.
    pub fn encode(&self) -> [u8; HEAD] {
        let mut out = [0_u8; HEAD];
        out[0..4].copy_from_slice(&MAGIC);
        out[4] = VERSION;
        out[5] = self.kind as u8;
        out[6] = self.encoding as u8;
        out[8..12].copy_from_slice(&self.body.to_le_bytes());
        out[12..20].copy_from_slice(&self.payload.to_le_bytes());
        out[20..24].copy_from_slice(&self.sequence.to_le_bytes());
        out[24..28].copy_from_slice(&self.body_crc.to_le_bytes());
        let crc = crc32fast::hash(&out[..28]);
        out[28..32].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads a head and checks it against the limits.
    pub fn decode(bytes: &[u8; HEAD], limits: &FrameLimits) -> Result<Self, FrameError> {
        let magic = [bytes[0], bytes[1], bytes[2], bytes[3]];
        if magic != MAGIC {
            return Err(FrameError::Magic { got: magic });
        }
        if bytes[4] != VERSION {
            return Err(FrameError::Version { got: bytes[4] });
        }
        if crc32fast::hash(&bytes[..28]) != u32_at(bytes, 28) {
            return Err(FrameError::HeadChecksum);
        }
        let kind = FrameKind::from_byte(bytes[5]).ok_or(FrameError::Kind { got: bytes[5] })?;
        let encoding =
            Encoding::from_byte(bytes[6]).ok_or(FrameError::Encoding { got: bytes[6] })?;
        let body = u32_at(bytes, 8);
        if body > limits.body {
            return Err(FrameError::Body {
                got: body,
                limit: limits.body,
            });
        }
        let payload = u64::from(u32_at(bytes, 12)) | u64::from(u32_at(bytes, 16)) << 32;
        if payload > limits.payload {
            return Err(FrameError::Payload {
                got: payload,
                limit: limits.payload,
            });
        }
        Ok(Self {
            kind,
            encoding,
            body,
            payload,
            sequence: u32_at(bytes, 20),
            body_crc: u32_at(bytes, 24),
        })
    }
}

fn u32_at(bytes: &[u8; HEAD], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn head() -> Head {
        Head {
            kind: FrameKind::PushDense,
            encoding: Encoding::F32,
            body: 48,
            payload: 4096,
            sequence: 3,
            body_crc: 7,
        }
    }

    #[test]
    fn a_head_comes_back_as_it_was() {
        assert_eq!(
            Head::decode(&head().encode(), &FrameLimits::MEMBER),
            Ok(head())
        );
    }

    #[test]
    fn a_stranger_cannot_announce_a_payload() {
        let refused = Head::decode(&head().encode(), &FrameLimits::STRANGER);
        assert_eq!(
            refused,
            Err(FrameError::Payload {
                got: 4096,
                limit: 0
            })
        );
    }

    #[test]
    fn another_version_is_named_before_the_checksum_is_looked_at() {
        let mut bytes = head().encode();
        bytes[4] = 9;
        assert_eq!(
            Head::decode(&bytes, &FrameLimits::MEMBER),
            Err(FrameError::Version { got: 9 })
        );
    }

    proptest! {
        #[test]
        fn a_damaged_head_is_refused(at in 0_usize..HEAD, flip in 1_u8..=255) {
            let mut bytes = head().encode();
            bytes[at] ^= flip;
            prop_assert!(Head::decode(&bytes, &FrameLimits::MEMBER).is_err());
        }

        #[test]
        fn any_bytes_give_an_answer(bytes in prop::array::uniform32(any::<u8>())) {
            let _ = Head::decode(&bytes, &FrameLimits::MEMBER);
        }
    }
}
