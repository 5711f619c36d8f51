//! The messages of the control plane, which have JSON bodies. Those of the data plane are in [`crate::data`].

use crate::frame::{FrameError, FrameKind};
use crate::ids::{Generation, Step, TableId, TrainerId};
use crate::recovery::ServerReport;
use crate::shard::Topology;
use crate::spec::JobSpec;
use crate::status::PeerStatus;
use serde::{Deserialize, Serialize};

/// The server's first frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Challenge {
    /// 32 random bytes in hexadecimal.
    pub nonce: String,
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConnectionRole {
    /// Heartbeats. When it closes, the trainer counts as lost.
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
    pub role: ConnectionRole,
    /// The trainer that opened the connection.
    pub trainer: TrainerId,
    /// Drawn at random by each process: tells a replacement from its predecessor.
    pub instance: u64,
    /// How many trainers the client believes there are.
    pub trainers: u32,
    /// How many servers and ports the client believes there are.
    pub topology: Topology,
    /// The receiving server's index in the client's list.
    pub server: u32,
    /// Hash of the client's server list as text: all trainers must have the same.
    pub servers_hash: u64,
    /// Hash of the tables and settings of the job.
    pub job_hash: u64,
    /// Name of this run of the job: snapshots of other runs are not restored.
    pub job: String,
    /// Hash of the tables' names and shapes: snapshots with another hash are not restored.
    pub shapes: u64,
    /// How many servers hold tables: the first ones. See [`crate::shard_map`].
    pub holders: u32,
    /// Hash of the map from blocks to services: with another map, other services hold the blocks.
    pub map: u64,
    /// Data: the generation that the connection belongs to. Pulse: the last generation that the trainer was in. Else 0.
    pub epoch: Generation,
}

/// The server's reply to a hello.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Welcome {
    /// HMAC that proves that the server knows the token too.
    pub proof: String,
    /// The state of the server.
    pub report: ServerReport,
}

/// Sent every half second on the pulse connection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    /// The generation that the trainer runs in; 0 while it waits to be admitted.
    pub at: Generation,
    /// Newest snapshot that every server has, as far as trainer 0 knows.
    pub stable: Option<Step>,
    /// Snapshots that will never be on every server, as far as trainer 0 knows.
    pub dead: Vec<Step>,
    /// What the trainer is doing.
    pub status: PeerStatus,
}

/// How a generation begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GenerationStart {
    /// From the initial values.
    Fresh,
    /// From what the servers have in memory. They refuse if they are at another step or pass.
    Continue {
        /// Steps applied.
        step: Step,
        /// Passes finished.
        pass: u64,
    },
    /// From the snapshot of this step.
    Restore(Step),
    /// From what was saved at the end of a pass of this run, in the directory that the command names.
    Saved {
        /// Steps applied.
        step: Step,
        /// The pass that comes next.
        pass: u64,
    },
}

impl GenerationStart {
    /// Steps applied where it begins.
    pub fn step(self) -> Step {
        match self {
            Self::Fresh => Step(0),
            Self::Continue { step, .. } | Self::Restore(step) | Self::Saved { step, .. } => step,
        }
    }
}

/// A request on a command connection. The reply is a [`ServerReport`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Command {
    /// Trainer 0 opens a generation. With [`GenerationStart::Fresh`], `initial` tables follow as `Initial` frames, in order.
    Open {
        /// The new generation, larger than any before.
        epoch: Generation,
        /// Tables and settings.
        spec: Box<JobSpec>,
        /// Where the values come from.
        start: GenerationStart,
        /// Tables whose values trainer 0 sends.
        initial: Vec<TableId>,
        /// With [`GenerationStart::Saved`]: the directory, as the server sees it.
        saved: Option<String>,
    },
    /// Write this server's part of the tables into a directory that the server sees.
    Save {
        /// Path of an existing directory, as the server sees it.
        directory: String,
        /// Which part.
        what: Saved,
    },
    /// The job cannot continue.
    Fail {
        /// The cause, for every process to print.
        reason: String,
    },
    /// The trainer has finished. The reply is sent when all trainers have.
    Leave,
}

/// What a server writes on request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Saved {
    /// The rows of sparse tables, as files `pserver.NNNN`.
    Rows,
    /// Everything needed to continue: values, optimizer state, steps and passes.
    State,
}

/// Why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refusal {
    /// Decides what the client does next.
    pub code: Code,
    /// A sentence for people.
    pub text: String,
}

/// Kinds of refusals. They decide what a client does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The token or certificate is wrong: give up.
    Denied,
    /// Trainer id, model, server list or settings contradict the job: give up.
    Mismatch,
    /// Another process that is still connected has this trainer id: retry for a while.
    InUse,
    /// The generation has ended: join again.
    Interrupted,
    /// The job has failed: give up.
    Failed,
    /// The request itself is not valid.
    Invalid,
    /// The server was not able to do it (disk, memory).
    Unable,
}

/// Encodes a value as a JSON body.
pub(crate) fn to_body<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value)
        .expect("message types serialise: no maps with odd keys, no failing parts")
}

/// Decodes a JSON body. `kind` is used only in the error.
pub fn from_body<'a, T: Deserialize<'a>>(kind: FrameKind, body: &'a [u8]) -> Result<T, FrameError> {
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
        fn any_bytes_give_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = from_body::<Hello>(FrameKind::Hello, &bytes);
            let _ = from_body::<Command>(FrameKind::Command, &bytes);
        }
    }

    #[test]
    fn an_unknown_field_is_refused() {
        let text = br#"{"nonce":"00","extra":1}"#;
        assert!(from_body::<Challenge>(FrameKind::Challenge, text).is_err());
    }
}
