//! A data source as the trainer sees it: batches, prepared ahead of time by its own thread.
//!
//! The thread owns the samples (pool or cache) and the order; a bounded channel holds the batches that are ready. A
//! pass that is not read to its end is abandoned when the next one starts.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use nn::batch::Batch;

use super::error::DataError;
use super::order::{self, Pool};
use super::origin::{Next, SampleStream};
use super::random::DataRandom;
use super::stop::Stop;
use super::table::SampleTable;

/// An opened data source.
pub struct DataSource {
    commands: Option<Sender<Command>>,
    thread: Option<JoinHandle<()>>,
    pass: Option<Pass>,
    /// Whether the pass has been read to its end.
    ended: bool,
}

/// The current pass.
struct Pass {
    messages: Receiver<Message>,
    /// The batch that [`DataSource::peek`] has received.
    ahead: Option<Message>,
    stop: Stop,
}

struct Command {
    pass: u64,
    skip: u64,
    /// Whether the samples keep the order of the files.
    in_order: bool,
    messages: SyncSender<Message>,
    stop: Stop,
}

enum Message {
    Batch(Batch),
    End,
    Failed(DataError),
}

/// What the order of a pass depends on, besides its number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seed {
    pub job: u64,
    pub trainer: u32,
}

impl DataSource {
    pub(crate) fn new(origin: Box<dyn SampleStream>, seed: Seed) -> Result<Self, DataError> {
        let (commands, orders) = channel::<Command>();
        let thread = std::thread::Builder::new()
            .name("reader".to_owned())
            .spawn(move || {
                let mut reader = Reader::new(origin, seed);
                while let Ok(command) = orders.recv() {
                    reader.run(&command);
                }
            });
        Ok(Self {
            commands: Some(commands),
            thread: Some(thread.map_err(DataError::NoThread)?),
            pass: None,
            ended: false,
        })
    }

    /// Begins pass number `pass` (from 0) after its first `skip_batches` batches.
    ///
    /// The batches do not depend on what was read before: a process that starts here and one that read earlier passes
    /// see the same ones.
    pub fn start_pass(&mut self, pass: u64, skip_batches: u64) {
        self.start(pass, skip_batches, false);
    }

    /// Begins the first pass in the order of the files, so that the first batches need only the beginning of the first
    /// file: for callers that show or check a few samples.
    pub fn start_in_order(&mut self) {
        self.start(0, 0, true);
    }

    fn start(&mut self, pass: u64, skip: u64, in_order: bool) {
        self.abandon();
        self.ended = false;
        let (sender, messages) = sync_channel(PREFETCH);
        let stop = Stop::default();
        let command = Command {
            pass,
            skip,
            in_order,
            messages: sender,
            stop: stop.clone(),
        };
        if let Some(commands) = &self.commands {
            // If the thread has ended, `next_batch` reports it.
            let _ = commands.send(command);
        }
        self.pass = Some(Pass {
            messages,
            ahead: None,
            stop,
        });
    }

    /// The next batch of the pass; `None` at its end and on every later call: a process that plays several trainers
    /// asks all of their sources until none has data.
    pub fn next_batch(&mut self) -> Result<Option<Batch>, DataError> {
        if self.ended {
            return Ok(None);
        }
        let Some(pass) = &mut self.pass else {
            return Err(DataError::NoPass);
        };
        match pass.ahead.take().map_or_else(|| pass.messages.recv(), Ok) {
            Ok(Message::Batch(batch)) => Ok(Some(batch)),
            Ok(Message::End) => {
                self.pass = None;
                self.ended = true;
                Ok(None)
            }
            Ok(Message::Failed(error)) => {
                self.pass = None;
                Err(error)
            }
            Err(_) => {
                self.pass = None;
                Err(DataError::Thread)
            }
        }
    }

    /// The batch that [`DataSource::next_batch`] returns next, if it is there without waiting.
    pub fn peek(&mut self) -> Option<&Batch> {
        let pass = self.pass.as_mut()?;
        if pass.ahead.is_none() {
            pass.ahead = pass.messages.try_recv().ok();
        }
        match &pass.ahead {
            Some(Message::Batch(batch)) => Some(batch),
            _ => None,
        }
    }

    fn abandon(&mut self) {
        if let Some(pass) = self.pass.take() {
            pass.stop.ask();
        }
    }
}

impl Drop for DataSource {
    fn drop(&mut self) {
        self.abandon();
        self.commands = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Number of batches that are prepared in advance.
const PREFETCH: usize = 4;

/// State of the reading thread.
struct Reader {
    origin: Box<dyn SampleStream>,
    seed: Seed,
    table: SampleTable,
    /// The row after each block of the pass, if samples are cached: in later passes they enter the pool block by block
    /// as in the first.
    blocks: Vec<usize>,
    /// Whether the table holds the whole pass, so that no file is read again.
    complete: bool,
}

impl Reader {
    fn new(origin: Box<dyn SampleStream>, seed: Seed) -> Self {
        let table = SampleTable::new(origin.slots());
        Self {
            origin,
            seed,
            table,
            blocks: Vec::new(),
            complete: false,
        }
    }

    /// Makes the batches of one pass until the receiver is dropped.
    fn run(&mut self, command: &Command) {
        let last = match self.batches(command) {
            Ok(Next::End) => Message::End,
            Ok(_) => return,
            Err(error) => Message::Failed(error),
        };
        // The receiver may have been dropped.
        let _ = command.messages.send(last);
    }

    fn batches(&mut self, command: &Command) -> Result<Next, DataError> {
        let mut plan = *self.origin.plan();
        plan.shuffle &= !command.in_order;
        let mut random = DataRandom::new(self.seed.job, command.pass, self.seed.trainer);
        let groups = order::files(&plan, &mut random, self.origin.files());
        let mut pool = Pool::new();
        if !self.complete {
            self.table.clear();
            self.blocks.clear();
            self.origin.start(command.pass, groups)?;
        }
        let (mut batch, mut number) = (Vec::new(), 0u64);
        let mut arrival = Arrival::default();
        loop {
            while !arrival.ended && pool.wants_more(&plan) {
                if self.arrive(&mut arrival, &mut pool, &command.stop)? == Next::Stopped {
                    return Ok(Next::Stopped);
                }
            }
            pool.draw(&plan, &self.table, &mut random, &mut batch)?;
            if batch.is_empty() {
                return Ok(Next::End);
            }
            number += 1;
            if number > command.skip {
                let made = Message::Batch(self.table.batch(&batch)?);
                if command.stop.is_asked() || command.messages.send(made).is_err() {
                    return Ok(Next::Stopped);
                }
            }
            if !plan.cache {
                pool.compact(&mut self.table);
            }
        }
    }

    /// Adds the next block of samples to the pool.
    fn arrive(
        &mut self,
        arrival: &mut Arrival,
        pool: &mut Pool,
        stop: &Stop,
    ) -> Result<Next, DataError> {
        if self.complete {
            let start = arrival
                .blocks
                .checked_sub(1)
                .map_or(0, |last| self.blocks[last]);
            match self.blocks.get(arrival.blocks) {
                Some(end) => pool.enter(&self.table, start..*end),
                None => arrival.ended = true,
            }
            arrival.blocks += 1;
            return Ok(Next::More);
        }
        let start = self.table.len();
        let next = self.origin.next(&mut self.table, stop)?;
        self.table.check_size()?;
        match next {
            Next::More => {
                let end = self.table.len();
                pool.enter(&self.table, start..end);
                if self.origin.plan().cache {
                    self.blocks.push(end);
                }
            }
            Next::End => {
                arrival.ended = true;
                self.finish();
            }
            Next::Stopped => {}
        }
        Ok(next)
    }

    /// All samples of the pass have arrived.
    fn finish(&mut self) {
        if self.origin.plan().cache {
            self.table.shrink();
            self.complete = true;
            self.origin.release();
        }
    }
}

/// How many samples of a pass have arrived.
#[derive(Default)]
struct Arrival {
    /// Number of blocks that were taken from the cache.
    blocks: usize,
    /// Whether all samples of the pass have arrived.
    ended: bool,
}
