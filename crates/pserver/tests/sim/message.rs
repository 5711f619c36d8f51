//! What simulated processes say to each other, and what can happen.

use wire::message::Start;
use wire::recovery::Report;
use wire::{Epoch, Step};

/// Everything that is said. Requests name the sender's instance; answers the one they are for.
#[derive(Clone, Debug)]
pub enum Message {
    Hello {
        instance: u64,
        connection: u64,
        seen: Epoch,
    },
    Beat {
        connection: u64,
        at: Epoch,
        stable: Option<Step>,
    },
    Report {
        connection: u64,
        report: Box<Report>,
    },
    /// The connection is not known or not wanted.
    Closed {
        connection: u64,
    },
    Open {
        epoch: Epoch,
        start: Start,
    },
    Opened {
        epoch: Epoch,
        ok: bool,
    },
    Attach {
        instance: u64,
        epoch: Epoch,
    },
    Attached {
        epoch: Epoch,
        ok: bool,
    },
    Pull {
        epoch: Epoch,
        step: u64,
    },
    Values {
        epoch: Epoch,
        step: u64,
        values: Vec<u64>,
    },
    Push {
        epoch: Epoch,
        step: u64,
        table: usize,
        samples: u64,
        gradient: u64,
    },
    Finish {
        epoch: Epoch,
        step: u64,
        samples: u64,
        /// The step of a snapshot that is ordered.
        order: Option<u64>,
    },
    FinishPass {
        epoch: Epoch,
        step: u64,
        pass: u64,
    },
    PassEnded {
        epoch: Epoch,
        step: u64,
        pass: u64,
    },
    Leave {
        epoch: Epoch,
    },
    Finished {
        epoch: Epoch,
    },
}

/// What happens at some time.
#[derive(Clone, Debug)]
pub enum Event {
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
    /// A snapshot is on disk.
    Written {
        server: usize,
        life: u64,
        step: u64,
    },
    /// A stopped process goes on.
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
pub struct Outbox {
    pub to_server: Vec<(usize, Message)>,
    pub to_trainer: Vec<(usize, Message)>,
    pub snapshot: Option<u64>,
    /// That snapshot is there because a server was to end.
    pub ordered: bool,
    /// The model as a trainer has it at the end.
    pub model: Option<Vec<Vec<u64>>>,
}

impl Outbox {
    pub fn new() -> Self {
        Self {
            to_server: Vec::new(),
            to_trainer: Vec::new(),
            snapshot: None,
            ordered: false,
            model: None,
        }
    }
}
