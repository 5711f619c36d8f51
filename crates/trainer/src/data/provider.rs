//! Samples from a v1 data provider, through worker processes.
//!
//! The file at position p of a pass belongs to worker p modulo their number. Every worker sends its files in the order
//! of [`super::order`]. The blocks of all workers are taken in that same order, so the stream does not depend on their
//! number or speed.

use std::path::PathBuf;

use config::DataConfig;
use serde::Deserialize;

use super::describe::{Description, WordList};
use super::error::{DataError, FilePosition};
use super::frame::{BlockError, ProviderFrame, SampleBlock};
use super::list::FileList;
use super::order::{OrderPlan, PoolLevel};
use super::origin::{Next, SampleStream};
use super::stop::Stop;
use super::table::{ElementKind, SampleTable, SlotType};
use super::worker::{Heard, Python, Worker};
use super::{DataInput, DataOptions};

/// A provider and its worker processes.
pub(crate) struct Provider {
    list: FileList,
    /// Module and function, for messages.
    name: String,
    python: Python,
    /// The first line for every process.
    setup: String,
    count: usize,
    workers: Vec<Worker>,
    greeted: Vec<bool>,
    slots: Vec<SlotType>,
    plan: OrderPlan,
    turns: Turns,
    config: DataConfig,
    dictionaries: Vec<WordList>,
}

/// The first message of a worker.
#[derive(Deserialize)]
struct Hello {
    slots: Vec<HelloSlot>,
    should_shuffle: Option<bool>,
    pool_size: i64,
    min_pool_size: i64,
    can_over_batch_size: bool,
    cache: i64,
    #[serde(default)]
    dictionaries: Vec<WordList>,
}

#[derive(Deserialize)]
struct HelloSlot {
    name: String,
    kind: u8,
    level: u8,
    dim: u64,
}

/// The message with which a worker gives up.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Refusal {
    kind: String,
    message: String,
    file: String,
    sample: u64,
    slot: Option<String>,
    r#type: String,
    expected: String,
    got: String,
    value: Option<i64>,
    limit: u64,
}

impl Provider {
    /// Starts the processes and waits until the provider is initialized.
    pub(super) fn open(
        config: &DataConfig,
        list: FileList,
        inputs: &[DataInput],
        options: &DataOptions,
    ) -> Result<Self, DataError> {
        let setup = setup(config, &list, inputs, options, false);
        Self::start_with(config, list, options, setup)
    }

    /// Starts one process to learn the slots and dictionaries; no sample is read.
    pub(super) fn describe(
        config: &DataConfig,
        list: FileList,
        inputs: &[DataInput],
        options: &DataOptions,
    ) -> Result<Description, DataError> {
        let setup = setup(config, &list, inputs, options, true);
        let options = DataOptions {
            workers: Some(1),
            ..options.clone()
        };
        let provider = Self::start_with(config, list, &options, setup)?;
        Ok(Description {
            slots: provider.slots.clone(),
            dictionaries: provider.dictionaries.clone(),
        })
    }

    fn start_with(
        config: &DataConfig,
        list: FileList,
        options: &DataOptions,
        setup: String,
    ) -> Result<Self, DataError> {
        let name = format!(
            "{}.{}",
            config.load_data_module(),
            config.load_data_object()
        );
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let most = list.files.len().max(1);
        let count = options.workers.unwrap_or(cores).clamp(1, most);
        let mut provider = Self {
            name,
            python: Python {
                program: options.python.clone(),
                package: options.package.clone(),
                search_path: options.python_path.clone(),
                directory: options.directory.clone(),
            },
            setup,
            count,
            workers: Vec::new(),
            greeted: Vec::new(),
            slots: Vec::new(),
            plan: OrderPlan {
                shuffle: false,
                level: PoolLevel::Everything,
                cache: false,
                batch_size: options.batch_size.max(1),
                can_over_batch_size: true,
            },
            turns: Turns::default(),
            config: config.clone(),
            dictionaries: Vec::new(),
            list,
        };
        provider.start_workers()?;
        let hello = provider.hello(0, &Stop::default())?;
        provider.adopt(hello, options)?;
        Ok(provider)
    }

    fn start_workers(&mut self) -> Result<(), DataError> {
        self.workers.clear();
        for _ in 0..self.count {
            self.workers.push(Worker::start(&self.python, &self.setup)?);
        }
        self.greeted = vec![false; self.count];
        Ok(())
    }

    /// Waits for the first frame of a worker.
    fn hello(&mut self, worker: usize, stop: &Stop) -> Result<Hello, DataError> {
        self.greeted[worker] = true;
        match self.workers[worker].hear(stop) {
            Heard::Frame(ProviderFrame::Hello(json)) => serde_json::from_slice(&json)
                .map_err(|error| self.broken(format!("its greeting: {error}"))),
            other => Err(self.failure(other, 0)),
        }
    }

    fn adopt(&mut self, hello: Hello, options: &DataOptions) -> Result<(), DataError> {
        self.slots = hello
            .slots
            .iter()
            .map(|slot| self.slot(slot))
            .collect::<Result<_, _>>()?;
        self.plan.shuffle = hello.should_shuffle.unwrap_or(options.training);
        self.plan.level =
            PoolLevel::new(hello.pool_size, hello.min_pool_size, self.plan.batch_size);
        self.plan.cache = hello.cache != 0;
        self.plan.can_over_batch_size = hello.can_over_batch_size;
        self.dictionaries = hello.dictionaries;
        Ok(())
    }

    fn slot(&self, slot: &HelloSlot) -> Result<SlotType, DataError> {
        let kind = match slot.kind {
            0 => ElementKind::Dense,
            1 => ElementKind::Binary,
            2 => ElementKind::Sparse,
            3 => ElementKind::Ids,
            other => {
                return Err(
                    self.slots_error(format!("slot {} has the unknown type {other}", slot.name))
                );
            }
        };
        let dim = usize::try_from(slot.dim)
            .ok()
            .filter(|dim| u32::try_from(*dim).is_ok());
        let Some(dim) = dim.filter(|dim| *dim > 0 && slot.level <= 2) else {
            return Err(self.slots_error(format!(
                "slot {} has the invalid dimension {}",
                slot.name, slot.dim
            )));
        };
        Ok(SlotType {
            name: slot.name.clone(),
            kind,
            level: slot.level,
            dim,
            first: 0,
        })
    }

    fn slots_error(&self, reason: String) -> DataError {
        DataError::Slots {
            provider: self.name.clone(),
            reason,
        }
    }

    fn broken(&self, reason: String) -> DataError {
        DataError::Broken {
            provider: self.name.clone(),
            reason,
        }
    }

    /// The error for anything that is not the expected frame.
    fn failure(&self, heard: Heard, file: usize) -> DataError {
        match heard {
            Heard::Frame(ProviderFrame::Refused(json)) => match serde_json::from_slice(&json) {
                Ok(refusal) => self.refusal(refusal),
                Err(error) => self.broken(format!("its failure: {error}")),
            },
            Heard::Frame(_) => self.broken("an unexpected frame".to_owned()),
            Heard::Broken(reason) => self.broken(reason),
            Heard::Ended(status) => DataError::Died {
                provider: self.name.clone(),
                status,
                file: self.list.files.get(file).cloned().unwrap_or_default(),
            },
            Heard::Stopped => DataError::NoPass,
        }
    }

    fn refusal(&self, refusal: Refusal) -> DataError {
        let provider = self.name.clone();
        match refusal.kind.as_str() {
            "module" => DataError::Module {
                module: self.config.load_data_module().to_owned(),
                searched: refusal.message,
            },
            "object" => DataError::Object {
                module: self.config.load_data_module().to_owned(),
                object: self.config.load_data_object().to_owned(),
                known: refusal.message,
            },
            "slots" => self.slots_error(refusal.message),
            "type" => type_error(refusal),
            "provider" => DataError::Raised {
                provider,
                file: refusal.file,
                sample: refusal.sample,
                traceback: refusal.message,
            },
            "worker" => self.broken(refusal.message),
            _ => DataError::Load {
                provider,
                traceback: refusal.message,
            },
        }
    }

    fn block_error(&self, error: BlockError, block: &SampleBlock) -> DataError {
        match error {
            BlockError::Broken(reason) => self.broken(reason.to_owned()),
            BlockError::OutOfRange {
                slot,
                sample,
                value,
            } => DataError::OutOfRange {
                file: self
                    .list
                    .files
                    .get(block.file as usize)
                    .cloned()
                    .unwrap_or_default(),
                place: FilePosition::Sample(block.first + sample as u64 + 1),
                slot: self.slots[slot].name.clone(),
                value: i64::from(value),
                first: 0,
                limit: self.slots[slot].dim as u64,
            },
        }
    }
}

impl SampleStream for Provider {
    fn slots(&self) -> &[SlotType] {
        &self.slots
    }

    fn plan(&self) -> &OrderPlan {
        &self.plan
    }

    fn files(&self) -> usize {
        self.list.files.len()
    }

    fn start(&mut self, pass: u64, groups: Vec<Vec<u32>>) -> Result<(), DataError> {
        if self.workers.is_empty() || !self.turns.is_over() {
            self.start_workers()?;
        }
        // A cached source must not depend on the pass in which it was read, so its random numbers must not either.
        let pass = if self.plan.cache { 0 } else { pass };
        for (worker, groups) in shares(&groups, self.count).into_iter().enumerate() {
            let request = serde_json::json!({ "pass": pass, "groups": groups });
            self.workers[worker].ask(&request.to_string());
        }
        self.turns = Turns::new(groups, self.count);
        Ok(())
    }

    fn next(&mut self, table: &mut SampleTable, stop: &Stop) -> Result<Next, DataError> {
        let Some(turn) = self.turns.next() else {
            return Ok(Next::End);
        };
        if !self.greeted[turn.worker] {
            match self.hello(turn.worker, stop) {
                Err(DataError::NoPass) => return Ok(Next::Stopped),
                other => other?,
            };
        }
        let block = match self.workers[turn.worker].hear(stop) {
            Heard::Frame(ProviderFrame::Block(block)) => block,
            Heard::Stopped => return Ok(Next::Stopped),
            other => return Err(self.failure(other, turn.file as usize)),
        };
        if block.file != turn.file {
            return Err(self.broken("a block of a file that was not requested".to_owned()));
        }
        block
            .enter(table)
            .map_err(|error| self.block_error(error, &block))?;
        self.turns.taken(block.ended);
        Ok(Next::More)
    }

    fn release(&mut self) {
        self.workers.clear();
    }
}

fn type_error(refusal: Refusal) -> DataError {
    match (&refusal.slot, refusal.value) {
        (Some(slot), Some(value)) => DataError::OutOfRange {
            file: refusal.file,
            place: FilePosition::Sample(refusal.sample),
            slot: slot.clone(),
            value,
            first: 0,
            limit: refusal.limit,
        },
        (slot, _) => DataError::Type {
            what: match slot {
                Some(slot) => format!("slot {slot} of type {}", refusal.r#type),
                None => "the sample".to_owned(),
            },
            file: refusal.file,
            sample: refusal.sample,
            expected: refusal.expected,
            got: refusal.got,
        },
    }
}

fn setup(
    config: &DataConfig,
    list: &FileList,
    inputs: &[DataInput],
    options: &DataOptions,
    describe: bool,
) -> String {
    let text = |path: &Option<PathBuf>| path.as_ref().map(|p| p.to_string_lossy().into_owned());
    serde_json::json!({
        "module": config.load_data_module(),
        "object": config.load_data_object(),
        "args": config.load_data_args(),
        "files": list.files,
        "is_train": options.training,
        "input_order": inputs.iter().map(|input| input.name.as_str()).collect::<Vec<_>>(),
        "config_directory": text(&options.config_directory),
        "describe": describe,
        "seed": format!("{}/{}", options.seed, options.trainer),
    })
    .to_string()
}

/// For each of `count` workers, the files of every group that it reads.
fn shares(groups: &[Vec<u32>], count: usize) -> Vec<Vec<Vec<u32>>> {
    let mut shares = vec![Vec::new(); count];
    let mut position = 0;
    for group in groups {
        let mut parts = vec![Vec::new(); count];
        for file in group {
            parts[position % count].push(*file);
            position += 1;
        }
        for (share, part) in shares.iter_mut().zip(parts) {
            if !part.is_empty() {
                share.push(part);
            }
        }
    }
    shares
}

/// Decides which worker sends the next block.
#[derive(Default)]
struct Turns {
    /// Groups that have not begun, last first.
    groups: Vec<Vec<Turn>>,
    active: Vec<Turn>,
    at: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Turn {
    file: u32,
    worker: usize,
}

impl Turns {
    fn new(groups: Vec<Vec<u32>>, workers: usize) -> Self {
        let mut position = 0;
        let mut turn = |file| {
            let worker = position % workers;
            position += 1;
            Turn { file, worker }
        };
        let mut groups: Vec<Vec<Turn>> = groups
            .into_iter()
            .map(|group| group.into_iter().map(&mut turn).collect())
            .collect();
        groups.reverse();
        Self {
            groups,
            active: Vec::new(),
            at: 0,
        }
    }

    fn is_over(&self) -> bool {
        self.active.is_empty() && self.groups.is_empty()
    }

    /// The worker and file of the next block; unchanged until [`Turns::taken`] is called.
    fn next(&mut self) -> Option<Turn> {
        while self.active.is_empty() {
            self.active = self.groups.pop()?;
            self.at = 0;
        }
        if self.at >= self.active.len() {
            self.at = 0;
        }
        self.active.get(self.at).copied()
    }

    /// The turn is over; `ended` means that its file has no more samples.
    fn taken(&mut self, ended: bool) {
        if ended {
            self.active.remove(self.at);
        } else {
            self.at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_share_the_files_of_a_group_in_turn() {
        let groups = vec![vec![4, 2, 0], vec![1, 3]];
        assert_eq!(
            shares(&groups, 2),
            [vec![vec![4, 0], vec![3]], vec![vec![2], vec![1]]]
        );
        assert_eq!(shares(&groups, 1)[0], groups);
        let mut turns = Turns::new(groups, 2);
        let mut seen = Vec::new();
        // File 2 ends immediately, the others after two blocks.
        let mut left = [2, 2, 1, 2, 2];
        while let Some(turn) = turns.next() {
            seen.push((turn.file, turn.worker));
            left[turn.file as usize] -= 1;
            turns.taken(left[turn.file as usize] == 0);
        }
        assert!(turns.is_over());
        let want = [
            (4, 0),
            (2, 1),
            (0, 0),
            (4, 0),
            (0, 0),
            (1, 1),
            (3, 0),
            (1, 1),
            (3, 0),
        ];
        assert_eq!(seen, want);
    }
}
