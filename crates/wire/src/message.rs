//! What frames carry: a fixed body for the data plane, JSON for the control plane.

use crate::frame::{FrameError, Kind};
use crate::ids::{Epoch, Step, TableId, TrainerId};
use crate::recovery::Report;
use crate::shard::Topology;
use crate::spec::JobSpec;
use crate::status::Status;
use serde::{Deserialize, Serialize};

/// Bytes of the body of a data-plane frame.
pub const HOT: usize = 48;

/// The body of every data-plane frame. Fields that a kind does not use are zero.
///
/// ```text
///  0 epoch u64    16 table u32    24 samples u64    40 value u64
///  8 step u64     20 count u32    32 ticket u64
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Hot {
    /// The epoch that the sender is in.
    pub epoch: Epoch,
    /// The batch that is pushed or finished; in values and pulls, the number of applied batches.
    pub step: Step,
    /// The table.
    pub table: TableId,
    /// Rows in the payload; of a dense push with gaps, its blocks.
    pub count: u32,
    /// Samples in the trainer's batch.
    pub samples: u64,
    /// Names the rows of an earlier pull, so that a push need not send them again; 0: the ids are in the payload.
    /// Finish: the step of a snapshot that is ordered; 0: none.
    pub ticket: u64,
    /// Finish: the cost (bits of an `f64`). Pull: [`View`]. Finished pass: its number. Reduce: the round.
    pub value: u64,
}

impl Hot {
    /// The body as bytes.
    pub fn encode(&self) -> [u8; HOT] {
        let mut out = [0_u8; HOT];
        out[0..8].copy_from_slice(&self.epoch.0.to_le_bytes());
        out[8..16].copy_from_slice(&self.step.0.to_le_bytes());
        out[16..20].copy_from_slice(&self.table.0.to_le_bytes());
        out[20..24].copy_from_slice(&self.count.to_le_bytes());
        out[24..32].copy_from_slice(&self.samples.to_le_bytes());
        out[32..40].copy_from_slice(&self.ticket.to_le_bytes());
        out[40..48].copy_from_slice(&self.value.to_le_bytes());
        out
    }

    /// Reads a body; `kind` is for the error alone.
    pub fn decode(kind: Kind, body: &[u8]) -> Result<Self, FrameError> {
        let malformed = || FrameError::Malformed {
            kind,
            reason: format!("{} bytes where {HOT} belong", body.len()),
        };
        let body: &[u8; HOT] = body.try_into().map_err(|_| malformed())?;
        let u64_at = |at: usize| {
            let mut word = [0_u8; 8];
            word.copy_from_slice(&body[at..at + 8]);
            u64::from_le_bytes(word)
        };
        Ok(Self {
            epoch: Epoch(u64_at(0)),
            step: Step(u64_at(8)),
            table: TableId(u64_at(16) as u32),
            count: (u64_at(16) >> 32) as u32,
            samples: u64_at(24),
            ticket: u64_at(32),
            value: u64_at(40),
        })
    }
}

/// Which numbers of a table are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum View {
    /// The values that the next batch is computed with. A row that does not exist yet is created.
    #[default]
    Training,
    /// The values as they stand, for testing and saving. Creates nothing.
    Current,
    /// The model average where the table keeps one, else the values. Creates nothing.
    Averaged,
}

impl View {
    /// The number in [`Hot::value`].
    pub fn number(self) -> u64 {
        match self {
            Self::Training => 0,
            Self::Current => 1,
            Self::Averaged => 2,
        }
    }

    /// Reads [`Hot::value`].
    pub fn from_number(number: u64) -> Option<Self> {
        [Self::Training, Self::Current, Self::Averaged]
            .into_iter()
            .find(|view| view.number() == number)
    }
}

/// The server's first frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Challenge {
    /// 32 random bytes in hexadecimal.
    pub nonce: String,
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Heartbeats; its end means that the trainer is gone.
    Pulse,
    /// Commands, one after another.
    Command,
    /// Pushes and pulls of one service.
    Data,
}

/// The client's first frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// The client's own 32 random bytes in hexadecimal.
    pub nonce: String,
    /// HMAC-SHA256 with the job token over both nonces, hexadecimal.
    pub proof: String,
    /// What the connection is for.
    pub role: Role,
    /// Who speaks.
    pub trainer: TrainerId,
    /// Drawn at random by each process: tells a replacement from its predecessor.
    pub instance: u64,
    /// How many trainers the client believes there are.
    pub trainers: u32,
    /// How many servers and ports the client believes there are.
    pub topology: Topology,
    /// The receiving server's place in the client's list.
    pub server: u32,
    /// Hash of the client's server list, as text.
    pub servers_hash: u64,
    /// Hash of the tables and settings of the job.
    pub job_hash: u64,
    /// Name of this run of the job, and hash of its tables' shapes: which snapshots may be restored.
    pub job: String,
    /// See `job`.
    pub shapes: u64,
    /// The epoch a data connection belongs to; of a pulse, the last epoch that the trainer was in; else 0.
    pub epoch: Epoch,
}

/// The server's answer to a hello.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Welcome {
    /// HMAC that proves that the server knows the token too.
    pub proof: String,
    /// The state of the server.
    pub report: Report,
}

/// A sign of life.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    /// The epoch that the trainer runs in; 0 while it waits to be let in.
    pub at: Epoch,
    /// Newest snapshot that every server has, as far as trainer 0 knows.
    pub stable: Option<Step>,
    /// What the trainer does.
    pub status: Status,
}

/// How an epoch begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Start {
    /// From the initial values.
    Fresh,
    /// From what the servers have in memory; they refuse if it is not what is named here.
    Continue {
        /// Steps applied.
        step: Step,
        /// Passes finished.
        pass: u64,
    },
    /// From the snapshot of this step.
    Restore(Step),
}

/// A request on a command connection; answered with a [`Report`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Command {
    /// Trainer 0 opens an epoch. With [`Start::Fresh`], `initial` tables follow as `Initial` frames, in order.
    Open {
        /// The new epoch, larger than any before.
        epoch: Epoch,
        /// Tables and settings.
        spec: Box<JobSpec>,
        /// Where the values come from.
        start: Start,
        /// Tables whose values trainer 0 sends.
        initial: Vec<TableId>,
    },
    /// Write this server's part of the tables into a directory that the server sees.
    Save {
        /// The directory; it exists.
        directory: String,
        /// Which part.
        what: Saved,
    },
    /// Replace the sparse tables by what lies in a directory.
    Load {
        /// The directory.
        directory: String,
    },
    /// The job cannot go on.
    Fail {
        /// Why, for every process to say.
        reason: String,
    },
    /// The trainer is done; answered when all are.
    Leave,
}

/// What a server writes on request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Saved {
    /// The rows of sparse tables, as files `pserver.NNNN`.
    Rows,
    /// All that is needed to go on: values, optimizer state, steps and passes.
    State,
}

/// Why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refusal {
    /// What kind of refusal.
    pub code: Code,
    /// A sentence for people.
    pub text: String,
}

/// Kinds of refusals; they decide what a client does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The token or certificate is wrong: give up.
    Denied,
    /// Trainer id, model, server list or settings contradict the job: give up.
    Mismatch,
    /// The trainer id is taken by a living process: try again for a while.
    InUse,
    /// The epoch has ended: join again.
    Interrupted,
    /// The job has failed: give up.
    Failed,
    /// The request itself is wrong.
    Invalid,
    /// The server could not do it (disk, memory).
    Unable,
}

/// A JSON body from a value.
pub fn to_body<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value)
        .expect("message types serialise: no maps with odd keys, no failing parts")
}

/// A value from a JSON body.
pub fn from_body<'a, T: Deserialize<'a>>(kind: Kind, body: &'a [u8]) -> Result<T, FrameError> {
    serde_json::from_slice(body).map_err(|cause| FrameError::Malformed {
        kind,
        reason: cause.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_hot_body_comes_back(epoch: u64, step: u64, table: u32, count: u32, samples: u64, ticket: u64, value: u64) {
            let hot = Hot { epoch: Epoch(epoch), step: Step(step), table: TableId(table), count, samples, ticket, value };
            prop_assert_eq!(Hot::decode(Kind::PushDense, &hot.encode()), Ok(hot));
        }

        #[test]
        fn any_bytes_give_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Hot::decode(Kind::PushDense, &bytes);
            let _ = from_body::<Hello>(Kind::Hello, &bytes);
            let _ = from_body::<Command>(Kind::Command, &bytes);
        }
    }

    #[test]
    fn an_unknown_field_is_refused() {
        let text = br#"{"nonce":"00","extra":1}"#;
        assert!(from_body::<Challenge>(Kind::Challenge, text).is_err());
    }
}
