//! The frame: a 32-byte head, a small body, a payload of numbers.
//!
//! ```text
//!  0 magic "CANO"      8 body length u32      20 sequence u32
//!  4 version u8       12 payload length u64   24 crc32 of the body
//!  5 kind u8                                  28 crc32 of bytes 0..28
//!  6 encoding u8
//!  7 zero
//! ```
//!
//! Little-endian. Everything is checked against [`Limits`] before a byte of body or payload is read, so a
//! stranger cannot make a process allocate. The sequence number counts the frames of one direction of one
//! connection: a replayed, lost or re-ordered frame ends the connection.

use crate::encoding::Encoding;

/// Bytes of a frame head.
pub const HEAD: usize = 32;
/// The first four bytes of every frame.
pub const MAGIC: [u8; 4] = *b"CANO";
/// The version of the protocol that this build speaks.
pub const VERSION: u8 = 1;

/// What a frame says. Kinds below 32 have a JSON body, the others the fixed body of [`crate::message::Hot`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Server's first word: a nonce.
    Challenge = 1,
    /// Client's answer: who it is, and proof that it knows the token.
    Hello = 2,
    /// Server's proof, and its report.
    Welcome = 3,
    /// Why a request was refused; ends the connection unless said otherwise.
    Error = 4,
    /// A sign of life with the trainer's status.
    Heartbeat = 5,
    /// Answer to a heartbeat or a command: the state of the server.
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
    /// Asks for all dense values of a service.
    PullDense = 36,
    /// Asks for rows of a sparse table.
    PullRows = 37,
    /// Values that were asked for.
    Values = 38,
    /// The trainer has no more data in this pass; answered when nobody has.
    FinishPass = 39,
    /// The pass has ended for everybody.
    PassEnded = 40,
    /// Numbers to be summed over all trainers.
    Reduce = 41,
    /// The sum.
    Reduced = 42,
    /// A trainer on the same host asks for shared memory.
    Share = 43,
    /// The answer; if there is memory, its descriptors follow with one more byte.
    Shared = 44,
    /// As `PushDense`, with the numbers in the outbox.
    PushPlaced = 45,
    /// As `Values`, with the numbers in shared memory: the server's own, or, of rows, that of the table.
    ValuesPlaced = 46,
    /// A trainer on the same host asks for memory for rows of a table; answered with `Shared`.
    ShareRows = 47,
    /// As `PushRows` of the rows of the last pull, with the numbers in that memory.
    PushRowsPlaced = 48,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Self> {
        const ALL: [Kind; 24] = [
            Kind::Challenge,
            Kind::Hello,
            Kind::Welcome,
            Kind::Error,
            Kind::Heartbeat,
            Kind::Report,
            Kind::Command,
            Kind::Initial,
            Kind::PushDense,
            Kind::PushRows,
            Kind::FinishBatch,
            Kind::PullDense,
            Kind::PullRows,
            Kind::Values,
            Kind::FinishPass,
            Kind::PassEnded,
            Kind::Reduce,
            Kind::Reduced,
            Kind::Share,
            Kind::Shared,
            Kind::PushPlaced,
            Kind::ValuesPlaced,
            Kind::ShareRows,
            Kind::PushRowsPlaced,
        ];
        ALL.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// The most that a receiver takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a body.
    pub body: u32,
    /// Bytes of a payload.
    pub payload: u64,
}

impl Limits {
    /// Before the other side has proved that it belongs to the job.
    pub const STRANGER: Self = Self {
        body: 16 << 10,
        payload: 0,
    };
    /// Afterwards: 16 MiB of body, 64 GiB of payload (payloads go into buffers whose size is known beforehand).
    pub const MEMBER: Self = Self {
        body: 16 << 20,
        payload: 64 << 30,
    };
}

/// A frame's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// What the frame says.
    pub kind: Kind,
    /// How the numbers of the payload are written.
    pub encoding: Encoding,
    /// Bytes of the body.
    pub body: u32,
    /// Bytes of the payload.
    pub payload: u64,
    /// Number of this frame on its connection and direction, from 0.
    pub sequence: u32,
    /// Checksum of the body.
    pub body_crc: u32,
}

/// Why bytes are not a frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The first bytes are something else.
    #[error(
        "not a canoe frame: it begins with {got:02x?}; is another program talking to this port?"
    )]
    Magic {
        /// The bytes found.
        got: [u8; 4],
    },
    /// Another version of the protocol.
    #[error(
        "peer speaks protocol version {got}, this build speaks {VERSION}; use the same canoe everywhere"
    )]
    Version {
        /// The version found.
        got: u8,
    },
    /// The head is damaged.
    #[error("frame head fails its checksum")]
    HeadChecksum,
    /// The body is damaged.
    #[error("frame body fails its checksum")]
    BodyChecksum,
    /// A kind that this version does not know.
    #[error("unknown frame kind {got}")]
    Kind {
        /// The number found.
        got: u8,
    },
    /// An encoding that this version does not know.
    #[error("unknown number encoding {got}")]
    Encoding {
        /// The number found.
        got: u8,
    },
    /// The body is larger than this receiver takes now.
    #[error("frame body of {got} bytes exceeds the limit of {limit}")]
    Body {
        /// Bytes announced.
        got: u32,
        /// Bytes allowed.
        limit: u32,
    },
    /// The payload is larger than this receiver takes now.
    #[error("frame payload of {got} bytes exceeds the limit of {limit}")]
    Payload {
        /// Bytes announced.
        got: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// A frame was lost, repeated or re-ordered.
    #[error("frame number {got} where {want} was due: replayed, lost or out of order")]
    Sequence {
        /// Number found.
        got: u32,
        /// Number due.
        want: u32,
    },
    /// The body does not hold what its kind says.
    #[error("body of a {kind:?} frame cannot be read: {reason}")]
    Malformed {
        /// The frame's kind.
        kind: Kind,
        /// What is wrong.
        reason: String,
    },
    /// A frame that has no place here.
    #[error("unexpected {got:?} frame while {wanted} was due")]
    Unexpected {
        /// The frame's kind.
        got: Kind,
        /// What would have been right.
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
    pub fn decode(bytes: &[u8; HEAD], limits: &Limits) -> Result<Self, FrameError> {
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
        let kind = Kind::from_byte(bytes[5]).ok_or(FrameError::Kind { got: bytes[5] })?;
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
            kind: Kind::PushDense,
            encoding: Encoding::F32,
            body: 48,
            payload: 4096,
            sequence: 3,
            body_crc: 7,
        }
    }

    #[test]
    fn a_head_comes_back_as_it_was() {
        assert_eq!(Head::decode(&head().encode(), &Limits::MEMBER), Ok(head()));
    }

    #[test]
    fn a_stranger_cannot_announce_a_payload() {
        let refused = Head::decode(&head().encode(), &Limits::STRANGER);
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
            Head::decode(&bytes, &Limits::MEMBER),
            Err(FrameError::Version { got: 9 })
        );
    }

    proptest! {
        #[test]
        fn a_damaged_head_is_refused(at in 0_usize..HEAD, flip in 1_u8..=255) {
            let mut bytes = head().encode();
            bytes[at] ^= flip;
            prop_assert!(Head::decode(&bytes, &Limits::MEMBER).is_err());
        }

        #[test]
        fn any_bytes_give_an_answer(bytes in prop::array::uniform32(any::<u8>())) {
            let _ = Head::decode(&bytes, &Limits::MEMBER);
        }
    }
}
