//! What simulated processes say to each other, and what can happen.

use super::plan::Place;
use wire::message::GenerationStart;
use wire::recovery::ServerReport;
use wire::{Generation, Step};

/// Everything that is said. Requests name the sender's instance, replies the one they are for.
#[derive(Clone, Debug)]
pub(super) enum Message {
    Hello {
        instance: u64,
        connection: u64,
        seen: Generation,
    },
    Beat {
        connection: u64,
        at: Generation,
        stable: Option<Step>,
        dead: Vec<Step>,
    },
    Report {
        connection: u64,
        report: Box<ServerReport>,
    },
    /// The connection is not known or not wanted.
    Closed {
        connection: u64,
    },
    Open {
        epoch: Generation,
        start: GenerationStart,
    },
    Opened {
        epoch: Generation,
        ok: bool,
    },
    Attach {
        instance: u64,
        epoch: Generation,
    },
    Attached {
        epoch: Generation,
        ok: bool,
    },
    Pull {
        epoch: Generation,
        step: u64,
    },
    Values {
        epoch: Generation,
        step: u64,
        values: Vec<u64>,
    },
    Push {
        epoch: Generation,
        step: u64,
        table: usize,
        samples: u64,
        gradient: u64,
    },
    Finish {
        epoch: Generation,
        step: u64,
        samples: u64,
        /// The step of a snapshot that is ordered.
        order: Option<u64>,
    },
    FinishPass {
        epoch: Generation,
        step: u64,
        pass: u64,
    },
    /// Nobody has more data in this pass.
    PassOver {
        epoch: Generation,
        step: u64,
        pass: u64,
    },
    EndPass {
        epoch: Generation,
        pass: u64,
    },
    PassEnded {
        epoch: Generation,
        step: u64,
        pass: u64,
    },
    Leave {
        epoch: Generation,
    },
    Finished {
        epoch: Generation,
    },
}

/// What happens at some time.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// A trainer's message reaches a server.
    ToServer {
        trainer: usize,
        server: usize,
        life: u64,
        message: Message,
    },
    /// A server's message reaches a trainer.
    ToTrainer {
        server: usize,
        trainer: usize,
        life: u64,
        message: Message,
    },
    /// A trainer looks at the clock.
    TrainerTick {
        trainer: usize,
        life: u64,
    },
    /// A server looks at the clock.
    ServerTick {
        server: usize,
        life: u64,
    },
    /// The disk has ended with a snapshot.
    Written {
        server: usize,
        life: u64,
        /// The server's own count of lives, and the step.
        snapshot: (u64, u64),
    },
    /// A stopped process continues.
    Resume {
        trainer: Option<usize>,
        server: usize,
    },
    StartTrainer {
        trainer: usize,
    },
    StartServer {
        server: usize,
    },
    Fault,
}

/// What a process wants sent.
pub(super) struct Outbox {
    pub to_server: Vec<(usize, Message)>,
    pub to_trainer: Vec<(usize, Message)>,
    /// A snapshot that the disk is to write: the server's own count of lives, and the step.
    pub snapshot: Option<(u64, u64)>,
    /// That snapshot is there because a server was to end.
    pub ordered: bool,
    /// What trainer 0 has saved, and where.
    pub saved: Option<(Place, Vec<Vec<u64>>)>,
    /// The model as a trainer has it at the end.
    pub model: Option<Vec<Vec<u64>>>,
}

impl Outbox {
    pub(super) fn new() -> Self {
        Self {
            to_server: Vec::new(),
            to_trainer: Vec::new(),
            snapshot: None,
            ordered: false,
            saved: None,
            model: None,
        }
    }
}
