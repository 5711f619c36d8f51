//! Tables that parameter servers saved (`pserver.NNNN`, see `docs/protocol.md` section 7), read without holding them:
//! of every saved row its id is kept in memory, its numbers stay on disk until a batch needs them.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use nn::ParameterSpec;
use optim::{Initial, Progress, Rule};
use serde::Deserialize;
use wire::shard::{SHARDS, row_shard, table_hash};

const MAGIC: &[u8; 8] = b"CANOPART";
const VERSION: u32 = 1;
const LONGEST_HEADER: u32 = 64 << 20;
const SECTION_HEAD: usize = 24;
/// Kinds of sections.
const END: u32 = 0;
const ROWS: u32 = 2;
/// Bytes that are looked at together when a checksum is computed.
const PIECE: usize = 1 << 20;

/// Why saved tables cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SavedRowsError {
    /// The disk said no, or the file ends early.
    #[error("read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A file is damaged, of another kind or of another version.
    #[error("{path} cannot be used: {reason}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Not all files are there.
    #[error("{directory} lacks {missing}: copy the files of all servers into it")]
    Missing {
        /// Where they should be.
        directory: PathBuf,
        /// What is not there.
        missing: String,
    },
    /// The tables belong to another model.
    #[error("{directory} is of another model: {reason}")]
    Foreign {
        /// The directory.
        directory: PathBuf,
        /// What does not fit.
        reason: String,
    },
}

/// Saved tables of a pass directory.
#[derive(Debug)]
pub struct SavedRows {
    directory: PathBuf,
    files: Vec<(PathBuf, File)>,
    tables: HashMap<String, Table>,
}

#[derive(Debug)]
struct Table {
    cols: usize,
    slots: usize,
    progress: Option<Progress>,
    /// Where the rows of each logical shard are.
    shards: HashMap<u32, Section>,
}

/// The rows of a shard.
#[derive(Debug)]
struct Section {
    file: usize,
    /// Ascending.
    ids: Vec<u32>,
    /// Where the first row begins.
    start: u64,
}

/// How the rows of one parameter are understood.
#[derive(Debug)]
pub struct Reading<'a> {
    /// The parameter.
    pub spec: &'a ParameterSpec,
    /// What rows are that nobody has touched.
    pub initial: &'a Initial,
    /// How it learned: decay that is still due, and averages.
    pub rule: &'a Rule,
}

#[derive(Debug, Deserialize)]
struct Header {
    tables: Vec<TableHeader>,
}

#[derive(Debug, Deserialize)]
struct TableHeader {
    name: String,
    cols: u32,
    slots: u32,
    progress: Option<Progress>,
}

impl SavedRows {
    /// Opens the saved tables of a directory and checks every byte; `None` if it has none.
    pub fn open(directory: &Path) -> Result<Option<Self>, SavedRowsError> {
        let paths = parts(directory)?;
        if paths.is_empty() {
            return Ok(None);
        }
        let mut saved = Self {
            directory: directory.to_owned(),
            files: Vec::new(),
            tables: HashMap::new(),
        };
        for (number, path) in paths.iter().enumerate() {
            saved.add(path, (number, paths.len()))?;
        }
        Ok(Some(saved))
    }

    /// Whether the table is among them.
    pub fn has(&self, name: &str) -> bool {
        self.tables.contains_key(name)
    }

    /// Name, saved rows and columns of every table that has rows, by name.
    pub fn tables(&self) -> Vec<(String, usize, usize)> {
        let of = |(name, table): (&String, &Table)| {
            let rows = table.shards.values().map(|section| section.ids.len()).sum();
            (name.clone(), rows, table.cols)
        };
        let mut tables: Vec<_> = self.tables.iter().map(of).filter(|t| t.1 > 0).collect();
        tables.sort_unstable();
        tables
    }

    /// Whether the saved state is that of the rule. If not, rows are read as they were written.
    pub fn fits(&self, reading: &Reading<'_>) -> bool {
        let table = self.tables.get(&reading.spec.name);
        table.is_some_and(|table| table.slots == reading.rule.slots())
    }

    /// The values of some rows, one after another.
    pub fn read(
        &self,
        reading: &Reading<'_>,
        ids: impl Iterator<Item = u32>,
        out: &mut Vec<f32>,
    ) -> Result<(), SavedRowsError> {
        let (spec, cols) = (reading.spec, reading.spec.cols);
        let table = self.tables.get(&spec.name).filter(|t| t.cols == cols);
        let table = table.ok_or_else(|| SavedRowsError::Foreign {
            directory: self.directory.clone(),
            reason: format!(
                "its servers saved no table '{}' with {cols} columns",
                spec.name
            ),
        })?;
        let hash = table_hash(&spec.name);
        let mut numbers = vec![0.0_f32; 1 + table.cols * (1 + table.slots)];
        let mut bytes = vec![0_u8; 4 * numbers.len()];
        out.clear();
        for id in ids {
            let section = table.shards.get(&row_shard(hash, id));
            let found = section.and_then(|s| Some((s, s.ids.binary_search(&id).ok()?)));
            let Some((section, at)) = found else {
                numbers.fill(0.0);
                reading.initial.fill(u64::from(id), &mut numbers[1..=cols]);
                present(table, reading.rule, &mut numbers, out);
                continue;
            };
            let (path, file) = &self.files[section.file];
            let place = section.start + (at * bytes.len()) as u64;
            file.read_exact_at(&mut bytes, place)
                .map_err(read_error(path))?;
            let words = bytes.chunks_exact(4).map(|four| word(four, 0));
            let read = numbers.iter_mut().zip(words);
            read.for_each(|(number, word)| *number = f32::from_bits(word));
            present(table, reading.rule, &mut numbers, out);
        }
        Ok(())
    }

    /// Looks through one file: `number` of `count`.
    fn add(&mut self, path: &Path, (number, count): (usize, usize)) -> Result<(), SavedRowsError> {
        let file = File::open(path).map_err(read_error(path))?;
        let length = file.metadata().map_err(read_error(path))?.len();
        let mut scan = Scan {
            path,
            input: BufReader::with_capacity(PIECE, &file),
            left: length,
            crc: crc32fast::Hasher::new(),
            sections: 0,
        };
        let header = scan.header()?;
        while let Some((at, shard, ids)) = scan.section(&header)? {
            // Shard s lies on service s mod services.
            if shard as usize % count != number {
                return Err(SavedRowsError::Missing {
                    directory: self.directory.clone(),
                    missing: format!(
                        "pserver.{count:04} or later ones, as {} shows",
                        path.display()
                    ),
                });
            }
            let table = &header.tables[at];
            let start = scan.position()?;
            let stride = 4 * (1 + u64::from(table.cols) * (1 + u64::from(table.slots)));
            scan.skip(ids.len() as u64 * stride)?;
            scan.check("a section")?;
            let section = Section {
                file: self.files.len(),
                ids,
                start,
            };
            self.table(table)?.shards.insert(shard, section);
        }
        header
            .tables
            .iter()
            .try_for_each(|table| self.table(table).map(|_| ()))?;
        self.files.push((path.to_owned(), file));
        Ok(())
    }

    fn table(&mut self, header: &TableHeader) -> Result<&mut Table, SavedRowsError> {
        let (cols, slots) = (header.cols as usize, header.slots as usize);
        let table = self
            .tables
            .entry(header.name.clone())
            .or_insert_with(|| Table {
                cols,
                slots,
                progress: header.progress.clone(),
                shards: HashMap::new(),
            });
        if (table.cols, table.slots) != (cols, slots) {
            return Err(SavedRowsError::Foreign {
                directory: self.directory.clone(),
                reason: format!("its files disagree about table '{}'", header.name),
            });
        }
        Ok(table)
    }
}

/// Brings a stored row (mark, values, state) to the present and appends what a test uses of it.
fn present(table: &Table, rule: &Rule, numbers: &mut [f32], out: &mut Vec<f32>) {
    let cols = table.cols;
    let Some(progress) = table
        .progress
        .as_ref()
        .filter(|_| table.slots == rule.slots())
    else {
        out.extend_from_slice(&numbers[1..=cols]);
        return;
    };
    let mut mark = numbers[0].to_bits();
    let row = &mut numbers[1..];
    rule.catch_up(progress, row, &mut mark);
    let (value, state) = row.split_at(cols);
    let start = out.len();
    out.resize(start + cols, 0.0);
    rule.averaged(progress, value, state, &mut out[start..]);
}

/// One file, read from front to back; `crc` covers what was read since the last check.
struct Scan<'a> {
    path: &'a Path,
    input: BufReader<&'a File>,
    left: u64,
    crc: crc32fast::Hasher,
    sections: u64,
}

impl Scan<'_> {
    fn damaged(&self, reason: impl Into<String>) -> SavedRowsError {
        SavedRowsError::Damaged {
            path: self.path.to_owned(),
            reason: reason.into(),
        }
    }

    fn take(&mut self, bytes: &mut [u8]) -> Result<(), SavedRowsError> {
        self.left = self
            .left
            .checked_sub(bytes.len() as u64)
            .ok_or_else(|| self.damaged("it ends too early"))?;
        self.input
            .read_exact(bytes)
            .map_err(read_error(self.path))?;
        self.crc.update(bytes);
        Ok(())
    }

    fn check(&mut self, what: &str) -> Result<(), SavedRowsError> {
        let expected = std::mem::take(&mut self.crc).finalize();
        let mut stored = [0; 4];
        self.take(&mut stored)?;
        self.crc = crc32fast::Hasher::new();
        if u32::from_le_bytes(stored) == expected {
            Ok(())
        } else {
            Err(self.damaged(format!("the checksum of {what} is wrong")))
        }
    }

    fn position(&mut self) -> Result<u64, SavedRowsError> {
        self.input.stream_position().map_err(read_error(self.path))
    }

    /// Goes through bytes that are only checked.
    fn skip(&mut self, mut bytes: u64) -> Result<(), SavedRowsError> {
        let mut piece = vec![0; PIECE.min(bytes as usize)];
        while bytes > 0 {
            let now = bytes.min(PIECE as u64) as usize;
            self.take(&mut piece[..now])?;
            bytes -= now as u64;
        }
        Ok(())
    }

    fn header(&mut self) -> Result<Header, SavedRowsError> {
        let mut front = [0; 16];
        self.take(&mut front)?;
        let (version, size) = (word(&front, 8), word(&front, 12));
        if &front[..8] != MAGIC {
            return Err(self.damaged("it was not saved by a server of canoe"));
        }
        if version != VERSION {
            return Err(self.damaged(format!("this build does not know its format {version}")));
        }
        if size > LONGEST_HEADER || u64::from(size) > self.left {
            return Err(self.damaged(format!("it has no room for a header of {size} bytes")));
        }
        let mut text = vec![0; size as usize];
        self.take(&mut text)?;
        self.check("the header")?;
        serde_json::from_slice(&text).map_err(|cause| self.damaged(cause.to_string()))
    }

    /// The next section up to its rows: table, shard, ids. `None` at the proper end.
    fn section(
        &mut self,
        header: &Header,
    ) -> Result<Option<(usize, u32, Vec<u32>)>, SavedRowsError> {
        let mut head = [0; SECTION_HEAD];
        self.take(&mut head)?;
        let (kind, table) = (word(&head, 0), word(&head, 4) as usize);
        let (shard, count) = (long(&head, 8), long(&head, 16));
        if kind == END {
            self.check("the end")?;
            if count != self.sections {
                return Err(
                    self.damaged(format!("{} of {count} sections are there", self.sections))
                );
            }
            return Ok(None);
        }
        self.sections += 1;
        if kind != ROWS || table >= header.tables.len() || shard >= u64::from(SHARDS) {
            return Err(self.damaged("it has something else than rows of its tables"));
        }
        // Before anything is allocated: the ids of so many rows are shorter than what is left.
        if count.checked_mul(4).is_none_or(|bytes| bytes > self.left) {
            return Err(self.damaged(format!("it has no room for {count} rows")));
        }
        let mut bytes = vec![0; 4 * count as usize];
        self.take(&mut bytes)?;
        let ids: Vec<u32> = bytes.chunks_exact(4).map(|four| word(four, 0)).collect();
        if !ids.is_sorted_by(|a, b| a < b) {
            return Err(self.damaged("its rows are not in order"));
        }
        Ok(Some((table, shard as u32, ids)))
    }
}

/// The files `pserver.NNNN`, which must be numbered from 0 without a gap.
fn parts(directory: &Path) -> Result<Vec<PathBuf>, SavedRowsError> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(directory).map_err(read_error(directory))? {
        let name = entry.map_err(read_error(directory))?.file_name();
        let name = name.to_string_lossy();
        let digits = name.strip_prefix("pserver.").filter(|d| d.len() == 4);
        numbers.extend(digits.and_then(|digits| digits.parse::<usize>().ok()));
    }
    numbers.sort_unstable();
    let part = |number: usize| format!("pserver.{number:04}");
    match (0..).zip(&numbers).find(|(at, number)| at != *number) {
        Some((gap, _)) => Err(SavedRowsError::Missing {
            directory: directory.to_owned(),
            missing: part(gap),
        }),
        None => Ok((0..numbers.len())
            .map(|n| directory.join(part(n)))
            .collect()),
    }
}

fn read_error(path: &Path) -> impl FnOnce(io::Error) -> SavedRowsError {
    let path = path.to_owned();
    move |source| SavedRowsError::Read { path, source }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}
