//! Applies a model to a stream of samples: batches are parsed, computed and converted to text on all cores, and written
//! in the order in which they were read.
//!
//! One thread reads and writes; the others compute, each with its own network and without threads inside it, because
//! whole batches are the coarsest work there is. At most [`AHEAD`] batches per thread are under way, so memory does
//! not grow with the input, and a slow batch holds the others back instead of letting results pile up.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use words::lock::Mutex;

use nn::Batch;

use crate::error::PredictError;
use crate::model::{Model, Runner};
use crate::read::{self, BatchText, Parser, SampleText};
use crate::sample::FieldError;
use crate::write::{OutputFormat, Outputs};

/// Batches in progress per thread.
const AHEAD: usize = 3;

/// Something to compute.
#[derive(Debug)]
pub enum PipelineWork {
    /// Text to be parsed.
    Piece(BatchText),
    /// A batch of the configuration's own data source; the number of its first sample, from 1.
    Batch(u64, Batch),
}

/// How a stream is computed.
#[derive(Debug)]
pub struct PipelinePlan<'a> {
    /// The model.
    pub model: &'a Model,
    /// Parses pieces of text.
    pub parser: Option<&'a Parser>,
    /// How outputs are written.
    pub format: OutputFormat,
    /// Write the input's own fields before the outputs; the header of CSV, or nothing.
    pub keep: Option<&'a [String]>,
    /// The character between the fields of CSV.
    pub separator: u8,
    /// Number of threads that compute.
    pub threads: usize,
    /// Wait for the result of a batch before the next is read, because a user types the samples.
    pub one_by_one: bool,
}

/// The text of a batch.
struct Done {
    header: Vec<u8>,
    text: Vec<u8>,
    samples: u64,
    /// Why the samples after these are missing.
    error: Option<PredictError>,
}

type Numbered = (u64, Result<Done, PredictError>);

/// Computes everything that `next` yields and passes the text to `write`; returns the number of samples. On an error, all
/// results before it have been written.
pub fn run(
    plan: &PipelinePlan<'_>,
    next: &mut dyn FnMut() -> Result<Option<PipelineWork>, PredictError>,
    write: &mut dyn FnMut(&[u8]) -> Result<(), PredictError>,
) -> Result<u64, PredictError> {
    let threads = plan.threads.max(1);
    let runners = (0..threads).map(|_| plan.model.runner());
    let runners: Vec<Runner> = runners.collect::<Result<_, _>>()?;
    let (work, todo) = channel::<(u64, PipelineWork)>();
    let todo = Arc::new(Mutex::new(todo));
    let (done, results) = channel::<Numbered>();
    std::thread::scope(|scope| {
        for runner in runners {
            let (todo, done) = (todo.clone(), done.clone());
            scope.spawn(move || compute(plan, runner, &todo, &done));
        }
        drop(done);
        let window = if plan.one_by_one { 1 } else { AHEAD * threads };
        // Dropping `work` at the end of this block lets the threads end.
        let work = work;
        let mut stream = Stream {
            waiting: BTreeMap::new(),
            sent: 0,
            written: 0,
            samples: 0,
        };
        loop {
            while stream.sent - stream.written < window as u64 {
                let Some(item) = next().transpose() else {
                    return stream.finish(&results, write);
                };
                let item = match item {
                    Ok(item) => item,
                    Err(error) => {
                        stream.finish(&results, write)?;
                        return Err(error);
                    }
                };
                if work.send((stream.sent, item)).is_err() {
                    return Err(PredictError::Thread);
                }
                stream.sent += 1;
            }
            stream.receive(&results, write)?;
        }
    })
}

/// The batches in progress.
struct Stream {
    waiting: BTreeMap<u64, Result<Done, PredictError>>,
    sent: u64,
    written: u64,
    samples: u64,
}

impl Stream {
    /// Waits for a result and writes all results that are next in order.
    fn receive(
        &mut self,
        results: &Receiver<Numbered>,
        write: &mut dyn FnMut(&[u8]) -> Result<(), PredictError>,
    ) -> Result<(), PredictError> {
        let (number, result) = results.recv().map_err(|_| PredictError::Thread)?;
        self.waiting.insert(number, result);
        while let Some(result) = self.waiting.remove(&self.written) {
            let done = result?;
            if self.written == 0 {
                write(&done.header)?;
            }
            write(&done.text)?;
            self.written += 1;
            self.samples += done.samples;
            if let Some(error) = done.error {
                return Err(error);
            }
        }
        Ok(())
    }

    fn finish(
        mut self,
        results: &Receiver<Numbered>,
        write: &mut dyn FnMut(&[u8]) -> Result<(), PredictError>,
    ) -> Result<u64, PredictError> {
        while self.written < self.sent {
            self.receive(results, write)?;
        }
        Ok(self.samples)
    }
}

/// One thread: computes batches until there are no more.
fn compute(
    plan: &PipelinePlan<'_>,
    mut runner: Runner,
    todo: &Mutex<Receiver<(u64, PipelineWork)>>,
    done: &Sender<Numbered>,
) {
    let mut loop_ = || {
        loop {
            let next = todo.lock().recv();
            let Ok((number, work)) = next else {
                return;
            };
            if done.send((number, one(plan, &mut runner, &work))).is_err() {
                return;
            }
        }
    };
    // A pool of one thread keeps operations from using several.
    match rayon::ThreadPoolBuilder::new().num_threads(1).build() {
        Ok(pool) => pool.install(loop_),
        Err(_) => loop_(),
    }
}

fn one(
    plan: &PipelinePlan<'_>,
    runner: &mut Runner,
    work: &PipelineWork,
) -> Result<Done, PredictError> {
    match work {
        PipelineWork::Batch(first, batch) => {
            let place = |sample: usize| format!("sample {}", first + sample as u64);
            runner.run(batch, || place(0))?;
            let outputs = Outputs::of(runner, &plan.model.outputs, place)?;
            let mut text = Texts::new(plan, &outputs);
            for sample in 0..batch.samples {
                text.add(sample, None)
                    .map_err(|source| PredictError::Sample {
                        place: place(sample),
                        source,
                    })?;
            }
            Ok(text.done(batch.samples))
        }
        PipelineWork::Piece(piece) => {
            let Some(parser) = plan.parser else {
                return Err(PredictError::Thread);
            };
            let (batch, error) = match parser.parse_first(piece, usize::MAX) {
                Ok(batch) => (batch, None),
                Err(unusable) if unusable.before == 0 => return Err(unusable.error),
                Err(unusable) => {
                    let usable = parser.parse_first(piece, unusable.before);
                    (usable.map_err(|other| other.error)?, Some(unusable.error))
                }
            };
            let place = || format!("the samples of {} from {}", piece.name, piece.start());
            runner.run(&batch, place)?;
            let outputs = Outputs::of(runner, &plan.model.outputs, |sample| {
                format!("{}, sample {} from {}", piece.name, sample, piece.start())
            })?;
            let mut text = Texts::new(plan, &outputs);
            let mut sample = 0;
            let kept = parser.for_each(piece, &mut |line, own| {
                if sample < batch.samples {
                    text.add(sample, Some(own))
                        .map_err(|source| PredictError::Sample {
                            place: format!("{} line {line}", piece.name),
                            source,
                        })?;
                    sample += 1;
                }
                Ok(())
            });
            Ok(Done {
                error: kept.err().or(error),
                ..text.done(sample)
            })
        }
    }
}

/// The text of a batch under construction.
struct Texts<'a> {
    plan: &'a PipelinePlan<'a>,
    outputs: &'a Outputs<'a>,
    csv: csv::Writer<Vec<u8>>,
    lines: Vec<u8>,
}

impl<'a> Texts<'a> {
    fn new(plan: &'a PipelinePlan<'a>, outputs: &'a Outputs<'a>) -> Self {
        Self {
            plan,
            outputs,
            csv: writer(plan.separator),
            lines: Vec::new(),
        }
    }

    fn add(&mut self, sample: usize, own: Option<SampleText<'_>>) -> Result<(), FieldError> {
        let kept = self.plan.keep.and(own);
        let is_json = self.plan.parser.is_some_and(Parser::is_json);
        let names = self.plan.keep.unwrap_or(&[]);
        match self.plan.format {
            OutputFormat::Csv => {
                let mut cells: Vec<Vec<u8>> = match kept {
                    Some(SampleText::Record(record)) => record.iter().map(<[u8]>::to_vec).collect(),
                    Some(SampleText::Line(line)) if is_json => cells(line, names)?,
                    Some(SampleText::Line(line)) => vec![line.to_vec()],
                    None => Vec::new(),
                };
                cells.extend(
                    self.outputs
                        .record(sample)
                        .into_iter()
                        .map(String::into_bytes),
                );
                // Writing to memory does not fail.
                let _ = self.csv.write_record(cells);
            }
            OutputFormat::JsonLines => {
                if let (Some(SampleText::Line(line)), true) = (kept, is_json) {
                    self.check_names(line)?;
                }
                self.lines.push(b'{');
                if let Some(kept) = kept {
                    let before = self.lines.len();
                    members(kept, is_json, names, &mut self.lines);
                    if self.lines.len() > before {
                        self.lines.push(b',');
                    }
                }
                self.outputs.members(sample, &mut self.lines);
                self.lines.extend_from_slice(b"}\n");
            }
            OutputFormat::V1 => {
                self.lines
                    .extend_from_slice(self.outputs.v1(sample).as_bytes());
                self.lines.push(b'\n');
            }
        }
        Ok(())
    }

    /// With `--keep`, refuses a field that has the name of an output.
    fn check_names(&self, line: &[u8]) -> Result<(), FieldError> {
        let members = read::json_members(line).unwrap_or_default();
        let outputs = &self.plan.model.outputs;
        let twice = |key: &String| outputs.iter().any(|output| output.name == *key);
        match members.into_iter().find(|(key, _)| twice(key)) {
            None => Ok(()),
            Some((field, _)) => Err(FieldError {
                field,
                reason: "an output has this name too; rename the field, or leave out --keep"
                    .to_owned(),
            }),
        }
    }

    fn done(self, samples: usize) -> Done {
        let mut header = writer(self.plan.separator);
        if self.plan.format == OutputFormat::Csv {
            let kept = self.plan.keep.unwrap_or(&[]).iter().cloned();
            let _ = header.write_record(kept.chain(self.outputs.columns()));
        }
        let text = match self.plan.format {
            OutputFormat::Csv => self.csv.into_inner().unwrap_or_default(),
            _ => self.lines,
        };
        Done {
            header: header.into_inner().unwrap_or_default(),
            text,
            samples: samples as u64,
            error: None,
        }
    }
}

fn writer(separator: u8) -> csv::Writer<Vec<u8>> {
    csv::WriterBuilder::new()
        .delimiter(separator)
        .from_writer(Vec::new())
}

/// The fields of an object as cells of CSV, in the order of these columns: texts without quotes, everything else as it is.
fn cells(line: &[u8], columns: &[String]) -> Result<Vec<Vec<u8>>, FieldError> {
    let mut cells = vec![Vec::new(); columns.len()];
    for (key, value) in read::json_members(line).unwrap_or_default() {
        let Some(at) = columns.iter().position(|column| *column == key) else {
            return Err(FieldError {
                field: key,
                reason: "the first line has no such field, so --keep has no column for it; --format jsonl needs none"
                    .to_owned(),
            });
        };
        cells[at] = match serde_json::from_slice::<Option<String>>(value) {
            Ok(text) => text.unwrap_or_default().into_bytes(),
            Err(_) => value.to_vec(),
        };
    }
    Ok(cells)
}

/// The input's own fields as members of an object.
fn members(own: SampleText<'_>, is_json: bool, header: &[String], out: &mut Vec<u8>) {
    let pairs: Vec<(&String, &[u8])> = match own {
        SampleText::Line(line) if is_json => {
            return out.extend_from_slice(read::inside_of_object(line));
        }
        SampleText::Line(line) => header.iter().zip([line]).collect(),
        SampleText::Record(record) => header.iter().zip(record.iter()).collect(),
    };
    for (at, (name, cell)) in pairs.into_iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        let quoted = |text: &str| serde_json::to_string(text).unwrap_or_default();
        let cell = String::from_utf8_lossy(cell);
        out.extend_from_slice(format!("{}:{}", quoted(name), quoted(&cell)).as_bytes());
    }
}
