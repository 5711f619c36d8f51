//! Tables that parameter servers saved (`pserver.NNNN`, see `docs/protocol.md` section 7), read without holding them:
//! of every saved row its id is kept in memory, its numbers stay on disk until a batch needs them.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use nn::ParameterSpec;
use optim::{Initial, Progress, Rule};
use wire::part::{self, FormatError, PartReader, TableHeader};
use wire::shard::{row_shard, table_hash};

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
            let (words, _) = bytes.as_chunks::<4>();
            let read = numbers.iter_mut().zip(words);
            read.for_each(|(number, word)| *number = f32::from_le_bytes(*word));
            present(table, reading.rule, &mut numbers, out);
        }
        Ok(())
    }

    /// Looks through one file: `number` of `count`.
    fn add(&mut self, path: &Path, (number, count): (usize, usize)) -> Result<(), SavedRowsError> {
        let file = File::open(path).map_err(read_error(path))?;
        let length = file.metadata().map_err(read_error(path))?.len();
        let input = BufReader::new(&file);
        let mut reader = PartReader::new(input, length).map_err(unusable(path))?;
        let tables = reader.header().tables.clone();
        while let Some(section) = reader.next_section().map_err(unusable(path))? {
            let (at, shard, ids) = match section {
                part::Section::Rows {
                    table, shard, ids, ..
                } if ids.is_sorted_by(|a, b| a < b) => (table, shard, ids.to_vec()),
                _ => return Err(damaged(path, "it has something else than rows in order")),
            };
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
            let section = Section {
                file: self.files.len(),
                ids,
                start: reader.numbers_at(),
            };
            self.table(&tables[at])?.shards.insert(shard, section);
        }
        tables
            .iter()
            .try_for_each(|table| self.table(table).map(|_| ()))?;
        self.files.push((path.to_owned(), file));
        Ok(())
    }

    fn table(&mut self, header: &TableHeader<Progress>) -> Result<&mut Table, SavedRowsError> {
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

fn damaged(path: &Path, reason: impl Into<String>) -> SavedRowsError {
    SavedRowsError::Damaged {
        path: path.to_owned(),
        reason: reason.into(),
    }
}

fn unusable(path: &Path) -> impl Fn(FormatError) -> SavedRowsError {
    move |error| match error {
        FormatError::Read(source) if source.kind() == io::ErrorKind::UnexpectedEof => {
            damaged(path, "it ends too early")
        }
        FormatError::Read(source) => read_error(path)(source),
        FormatError::Header(cause) => damaged(path, format!("its header: {cause}")),
        other => damaged(path, other.to_string()),
    }
}
