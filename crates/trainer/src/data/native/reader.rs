//! Reads the files of a native format as a stream of samples.

use std::collections::VecDeque;
use std::fs::File;
use std::path::PathBuf;

use super::format::{LineError, LineFormat};
use super::lines::Lines;
use crate::data::error::{DataError, FilePosition};
use crate::data::list::FileList;
use crate::data::order::OrderPlan;
use crate::data::origin::{Next, SampleStream};
use crate::data::stop::Stop;
use crate::data::table::{SampleTable, SlotType};

/// What some editors and spreadsheets put at the start of a file.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A native reader.
pub(super) struct Reader {
    format: Box<dyn LineFormat>,
    list: FileList,
    plan: OrderPlan,
    directory: PathBuf,
    waiting: VecDeque<u32>,
    open: Option<Open>,
}

/// The file that is being read, and how far.
struct Open {
    file: u32,
    lines: Lines,
    line: u64,
}

impl Reader {
    pub(super) fn new(
        format: Box<dyn LineFormat>,
        list: FileList,
        plan: OrderPlan,
        directory: PathBuf,
    ) -> Self {
        Self {
            format,
            list,
            plan,
            directory,
            waiting: VecDeque::new(),
            open: None,
        }
    }

    fn open_next(&mut self) -> Result<bool, DataError> {
        let Some(file) = self.waiting.pop_front() else {
            return Ok(false);
        };
        let name = &self.list.files[file as usize];
        let opened = File::open(self.directory.join(name));
        let lines = opened
            .map(Lines::new)
            .map_err(|e| self.unreadable(file, e))?;
        self.open = Some(Open {
            file,
            lines,
            line: 0,
        });
        Ok(true)
    }

    fn unreadable(&self, file: u32, source: std::io::Error) -> DataError {
        DataError::File {
            file: self.list.files[file as usize].clone(),
            list: self.list.path.clone(),
            source,
        }
    }

    fn line_error(&self, error: LineError, file: u32, line: u64) -> DataError {
        let file = self.list.files[file as usize].clone();
        match error {
            LineError::Form(reason) => DataError::Line { file, line, reason },
            LineError::OutOfRange { slot, value } => {
                let slot = &self.format.slots()[slot];
                DataError::OutOfRange {
                    file,
                    place: FilePosition::Line(line),
                    slot: slot.name.clone(),
                    value,
                    first: i64::from(slot.first),
                    limit: slot.dim as u64,
                }
            }
        }
    }
}

impl SampleStream for Reader {
    fn slots(&self) -> &[SlotType] {
        self.format.slots()
    }

    fn plan(&self) -> &OrderPlan {
        &self.plan
    }

    fn files(&self) -> usize {
        self.list.files.len()
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
            let Some(open) = &mut self.open else {
                if self.open_next()? {
                    continue;
                }
                return Ok(Next::End);
            };
            let file = open.file;
            match open.lines.block() {
                Ok(Some(block)) => {
                    let taken = samples(self.format.as_mut(), block, &mut open.line, table);
                    let line = open.line;
                    taken.map_err(|error| self.line_error(error, file, line))?;
                    return Ok(Next::More);
                }
                Ok(None) => self.open = None,
                Err(error) => return Err(self.unreadable(file, error)),
            }
        }
    }

    fn release(&mut self) {}
}

/// Appends the samples of a block of lines; `number` counts lines and names the one that failed.
fn samples(
    format: &mut dyn LineFormat,
    block: &[u8],
    number: &mut u64,
    table: &mut SampleTable,
) -> Result<(), LineError> {
    let mut start = 0;
    while start < block.len() {
        let end = memchr::memchr(b'\n', &block[start..]).map_or(block.len(), |at| start + at);
        let line = &block[start..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        start = end + 1;
        *number += 1;
        let line = match *number {
            1 => line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line),
            _ => line,
        };
        let is_header = *number == 1 && format.header(line)?;
        if is_header || format.is_blank(line) {
            continue;
        }
        format.sample(line, table.columns_mut())?;
        table.grow(1, std::iter::empty());
    }
    Ok(())
}
