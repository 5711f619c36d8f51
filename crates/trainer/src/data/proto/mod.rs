//! Data sources of type `proto` and `proto_sequence`: v1's binary files of samples, described in [`message`].
//!
//! `proto`: samples that all begin a sequence stand for themselves. If one does not, samples are the frames of sequences:
//! every slot is a sequence then, a sequence counts as many as it has frames, and one that is longer than a batch is a
//! batch of its own. `proto_sequence`: the ids of a sparse slot are a sequence, nested if the sample gives the lengths
//! of sub-sequences, and the id -1 if there is none; ids and vectors are sequences of length one.
//!
//! Which of these holds is in the samples, so the files are scanned when the source is opened. As in v1, samples are kept
//! in memory and shuffled in training, and ids are compared with the header of the file.

mod message;

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;

use config::DataConfig;

use super::error::{DataError, FilePosition};
use super::list::FileList;
use super::order::{OrderPlan, PoolLevel};
use super::origin::{Next, SampleStream};
use super::stop::Stop;
use super::table::{Column, ElementKind, SampleTable, SlotType};
use super::{DataInput, DataOptions};
use message::{Messages, ProtoSample, SlotDef, SlotKind, SlotSubsequences};

/// Samples of a block.
const BLOCK: usize = 128;

/// The id that stands for none.
const NO_ID: u32 = u32::MAX;

/// What a sample of the file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A sample.
    Single,
    /// A frame of a sequence, which is the sample.
    Frames,
    /// A sample whose sparse ids are sequences.
    Sequences,
}

/// An opened source.
pub(crate) struct Proto {
    files: Files,
    plan: OrderPlan,
    form: Form,
    defs: Vec<SlotDef>,
    slots: Vec<SlotType>,
    constants: Vec<f32>,
    waiting: VecDeque<u32>,
    open: Option<Open>,
}

/// The file that is being read.
struct Open {
    file: u32,
    messages: Messages,
    /// Samples that were read of the file.
    number: u64,
    /// The frames of a sequence that has not ended, which also begins the next one.
    frames: Vec<ProtoSample>,
}

/// Opens the source and scans its files.
pub(crate) fn open(
    config: &DataConfig,
    list: FileList,
    inputs: &[DataInput],
    options: &DataOptions,
) -> Result<Box<dyn SampleStream>, DataError> {
    let files = Files {
        list,
        directory: options.directory.clone(),
    };
    let sequences = config.r#type.starts_with("proto_sequence");
    let refuse = |reason: String| DataError::Native {
        format: config.r#type.clone(),
        reason,
    };
    if config.usage_ratio() != 1.0 {
        let ratio = config.usage_ratio();
        return Err(refuse(format!(
            "usage_ratio={ratio} is not supported, only 1"
        )));
    }
    if sequences && !config.constant_slots.is_empty() {
        return Err(refuse("constant_slots do not fit sequences".to_owned()));
    }
    let found = files.scan(sequences)?;
    if let Some(def) = found.defs.iter().find(|def| !readable(def.kind, sequences)) {
        return Err(refuse(format!(
            "slots of type {:?} are not supported",
            def.kind
        )));
    }
    let order =
        |pair: &[SlotDef]| pair[0].kind == SlotKind::Index && pair[1].kind != SlotKind::Index;
    if found.defs.windows(2).any(order) {
        let text = "the header lists ids before vectors; vectors have to come first";
        return Err(refuse(text.to_owned()));
    }
    let form = match (sequences, found.frames) {
        (true, true) => {
            let text = "a sample does not begin a sequence; the type is proto";
            return Err(refuse(text.to_owned()));
        }
        (true, false) => Form::Sequences,
        (false, true) => Form::Frames,
        (false, false) => Form::Single,
    };
    let constants: Vec<f32> = config.constant_slots.iter().map(|c| *c as f32).collect();
    let name = |at: usize| inputs.get(at).map_or_else(String::new, |i| i.name.clone());
    let mut slots: Vec<SlotType> = Vec::new();
    for (at, def) in found.defs.iter().enumerate() {
        let nested = found.nested.contains(&(at as u32));
        slots.push(slot_type(name(at), def, form, nested));
    }
    for _ in &constants {
        slots.push(SlotType {
            name: name(slots.len()),
            kind: ElementKind::Dense,
            level: u8::from(form == Form::Frames),
            dim: 1,
            first: 0,
        });
    }
    Ok(Box::new(Proto {
        files,
        plan: OrderPlan {
            shuffle: options.training,
            level: PoolLevel::Everything,
            cache: true,
            batch_size: options.batch_size.max(1),
            can_over_batch_size: false,
        },
        form,
        defs: found.defs,
        slots,
        constants,
        waiting: VecDeque::new(),
        open: None,
    }))
}

fn readable(kind: SlotKind, sequences: bool) -> bool {
    match kind {
        SlotKind::Dense | SlotKind::Binary | SlotKind::Index => true,
        SlotKind::Sparse => !sequences,
        SlotKind::Other(_) => false,
    }
}

fn slot_type(name: String, def: &SlotDef, form: Form, nested: bool) -> SlotType {
    let kind = match (def.kind, form) {
        (SlotKind::Dense, _) => ElementKind::Dense,
        (SlotKind::Binary, Form::Sequences) | (SlotKind::Index, _) => ElementKind::Ids,
        (SlotKind::Binary, _) => ElementKind::Binary,
        _ => ElementKind::Sparse,
    };
    let level = match form {
        Form::Single => 0,
        Form::Sequences if nested => 2,
        _ => 1,
    };
    SlotType {
        name,
        kind,
        level,
        dim: def.dim as usize,
        first: 0,
    }
}

/// The files of the list.
struct Files {
    list: FileList,
    directory: PathBuf,
}

/// What the samples of all files say about the form of the data.
struct Scanned {
    defs: Vec<SlotDef>,
    /// Whether a sample does not begin a sequence.
    frames: bool,
    /// Slots with sub-sequences.
    nested: Vec<u32>,
}

impl Files {
    fn name(&self, file: u32) -> &str {
        &self.list.files[file as usize]
    }

    fn unreadable(&self, file: u32) -> impl FnOnce(io::Error) -> DataError {
        let (file, list) = (self.name(file).to_owned(), self.list.path.clone());
        move |source| DataError::File { file, list, source }
    }

    fn wrong(&self, file: u32, sample: u64, reason: &str) -> DataError {
        DataError::File {
            file: self.name(file).to_owned(),
            list: self.list.path.clone(),
            source: io::Error::new(
                io::ErrorKind::InvalidData,
                format!("sample {sample}: {reason}"),
            ),
        }
    }

    /// Opens a file and decodes its header.
    fn open(&self, file: u32) -> Result<(Messages, Vec<SlotDef>), DataError> {
        let mut messages =
            Messages::open(&self.directory.join(self.name(file))).map_err(self.unreadable(file))?;
        let header = messages.next().map_err(self.unreadable(file))?;
        let defs = header.and_then(|bytes| message::header(bytes).ok());
        match defs.filter(|defs| !defs.is_empty()) {
            Some(defs) => Ok((messages, defs)),
            None => Err(self.wrong(file, 0, "the file does not begin with a header of slots")),
        }
    }

    /// Reads all files once; for `proto`, only until a sample is found that does not begin a sequence.
    fn scan(&self, sequences: bool) -> Result<Scanned, DataError> {
        let mut found = Scanned {
            defs: Vec::new(),
            frames: false,
            nested: Vec::new(),
        };
        for file in 0..self.list.files.len() as u32 {
            let (mut messages, defs) = self.open(file)?;
            if found.defs.is_empty() {
                found.defs = defs;
            } else if found.defs != defs {
                return Err(self.wrong(file, 0, "its slots are not those of the first file"));
            }
            let mut number = 0;
            while !found.frames || sequences {
                let Some(bytes) = messages.next().map_err(self.unreadable(file))? else {
                    break;
                };
                number += 1;
                let sample = message::sample(bytes)
                    .map_err(|cut| self.wrong(file, number, &cut.to_string()))?;
                found.frames |= !sample.beginning;
                for SlotSubsequences { slot, .. } in &sample.subsequences {
                    if !found.nested.contains(slot) {
                        found.nested.push(*slot);
                    }
                }
            }
        }
        Ok(found)
    }
}

impl Proto {
    fn open_next(&mut self) -> Result<bool, DataError> {
        let Some(file) = self.waiting.pop_front() else {
            return Ok(false);
        };
        let (messages, defs) = self.files.open(file)?;
        if defs != self.defs {
            return Err(self.files.wrong(file, 0, "its slots have changed"));
        }
        self.open = Some(Open {
            file,
            messages,
            number: 0,
            frames: Vec::new(),
        });
        Ok(true)
    }

    /// Reads and checks the next sample of the open file; `None` at its end.
    fn sample(&self, open: &mut Open) -> Result<Option<ProtoSample>, DataError> {
        let file = open.file;
        let bytes = open.messages.next().map_err(self.files.unreadable(file))?;
        let Some(bytes) = bytes else {
            return Ok(None);
        };
        open.number += 1;
        let wrong = |reason: &str| self.files.wrong(file, open.number, reason);
        let sample = message::sample(bytes).map_err(|cut| wrong(&cut.to_string()))?;
        let vectors = self.defs.iter().filter(|def| def.kind != SlotKind::Index);
        let vectors = vectors.count();
        if sample.vectors.len() != vectors || sample.ids.len() != self.defs.len() - vectors {
            return Err(wrong("it does not have the slots of the header"));
        }
        if open.number == 1 && !sample.beginning {
            return Err(wrong("the file begins inside a sequence"));
        }
        let ids = sample.ids.iter().map(std::slice::from_ref);
        let lists = sample.vectors.iter().map(|v| &v.ids[..]).chain(ids);
        for (at, (def, ids)) in self.defs.iter().zip(lists).enumerate() {
            let is_index = def.kind == SlotKind::Index;
            let bad = |id: &&u32| **id >= def.dim && !(is_index && **id == NO_ID);
            if let Some(id) = ids.iter().find(bad) {
                return Err(DataError::OutOfRange {
                    file: self.files.name(file).to_owned(),
                    place: FilePosition::Sample(open.number),
                    slot: self.slots[at].name.clone(),
                    value: i64::from(*id),
                    first: 0,
                    limit: u64::from(def.dim),
                });
            }
        }
        for (def, vector) in self.defs.iter().zip(&sample.vectors) {
            let fits = match def.kind {
                SlotKind::Dense => vector.values.len() == def.dim as usize && vector.ids.is_empty(),
                SlotKind::Sparse => vector.values.len() == vector.ids.len(),
                _ => vector.values.is_empty(),
            };
            if !fits {
                return Err(wrong("a vector does not have the form of its slot"));
            }
        }
        Ok(Some(sample))
    }

    /// Appends one sample: a frame or more, the frames of a sequence.
    fn append(&self, frames: &[ProtoSample], table: &mut SampleTable) {
        let vectors = frames.first().map_or(0, |frame| frame.vectors.len());
        let known = self.defs.len();
        for (at, column) in table.columns_mut().iter_mut().enumerate() {
            if self.form == Form::Sequences {
                sequence(at, vectors, &frames[0], column);
                continue;
            }
            for frame in frames {
                if at >= known {
                    column.values.push(self.constants[at - known]);
                } else if at >= vectors {
                    column.ids.push(frame.ids[at - vectors]);
                } else {
                    column.ids.extend_from_slice(&frame.vectors[at].ids);
                    column.values.extend_from_slice(&frame.vectors[at].values);
                    if column.slot.kind != ElementKind::Dense {
                        column.rows.push(column.ids.len() as u64);
                    }
                }
            }
            if self.form == Form::Frames {
                lengthen(&mut column.samples, frames.len());
            }
        }
        // A sequence that is longer than a batch fills one.
        let weight = (frames.len() as u64).min(self.plan.batch_size) as u32;
        let weight = (self.form == Form::Frames).then_some(weight);
        table.grow(1, weight.into_iter());
    }

    /// Appends the next sample of the open file; returns false at its end.
    fn step(&self, open: &mut Open, table: &mut SampleTable) -> Result<bool, DataError> {
        let Some(sample) = self.sample(open)? else {
            if !open.frames.is_empty() {
                self.append(&open.frames, table);
                open.frames.clear();
            }
            return Ok(false);
        };
        if self.form != Form::Frames {
            self.append(std::slice::from_ref(&sample), table);
            return Ok(true);
        }
        if sample.beginning && !open.frames.is_empty() {
            self.append(&open.frames, table);
            open.frames.clear();
        }
        open.frames.push(sample);
        Ok(true)
    }
}

/// Appends a slot of a sample of `proto_sequence`.
fn sequence(at: usize, vectors: usize, sample: &ProtoSample, column: &mut Column) {
    let Some(vector) = sample.vectors.get(at) else {
        column.ids.push(sample.ids[at - vectors]);
        lengthen(&mut column.samples, 1);
        return;
    };
    if column.slot.kind == ElementKind::Dense {
        column.values.extend_from_slice(&vector.values);
        lengthen(&mut column.samples, 1);
        return;
    }
    column.ids.extend_from_slice(&vector.ids);
    if vector.ids.is_empty() {
        column.ids.push(NO_ID);
    }
    let length = vector.ids.len().max(1);
    if column.slot.level < 2 {
        lengthen(&mut column.samples, length);
        return;
    }
    let given = sample
        .subsequences
        .iter()
        .find(|given| given.slot as usize == at);
    let lengths = given.map(|given| &given.lengths[..]).unwrap_or_default();
    let total: u64 = lengths.iter().map(|length| u64::from(*length)).sum();
    if total == length as u64 {
        let filled = lengths.iter().filter(|length| **length > 0);
        let count = filled.clone().count();
        filled.for_each(|each| lengthen(&mut column.subsequences, *each as usize));
        lengthen(&mut column.samples, count);
    } else {
        lengthen(&mut column.subsequences, length);
        lengthen(&mut column.samples, 1);
    }
}

fn lengthen(offsets: &mut Vec<u64>, by: usize) {
    let end = offsets.last().copied().unwrap_or(0);
    offsets.push(end + by as u64);
}

impl SampleStream for Proto {
    fn slots(&self) -> &[SlotType] {
        &self.slots
    }

    fn plan(&self) -> &OrderPlan {
        &self.plan
    }

    fn files(&self) -> usize {
        self.files.list.files.len()
    }

    fn start(&mut self, _pass: u64, groups: Vec<Vec<u32>>) -> Result<(), DataError> {
        self.open = None;
        self.waiting = groups.concat().into();
        Ok(())
    }

    fn next(&mut self, table: &mut SampleTable, stop: &Stop) -> Result<Next, DataError> {
        if stop.is_asked() {
            return Ok(Next::Stopped);
        }
        loop {
            let Some(mut open) = self.open.take() else {
                if self.open_next()? {
                    continue;
                }
                return Ok(Next::End);
            };
            let before = table.len();
            let mut more = true;
            while more && table.len() - before < BLOCK {
                more = self.step(&mut open, table)?;
            }
            if more {
                self.open = Some(open);
            }
            if table.len() > before {
                return Ok(Next::More);
            }
        }
    }

    fn release(&mut self) {}
}

#[cfg(test)]
mod tests;
