//! Reads tables that parameter servers saved (`pserver.NNNN`, see `docs/protocol.md` section 7) without loading them:
//! the ids of all saved rows are kept in memory, their values stay on disk until a batch needs them.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use nn::ParameterSpec;
use optim::{Initial, ParameterProgress, Rule};
use wire::binding::Binding;
use wire::part::{self, FormatError, PartReader, TableHeader};
use wire::shard::{row_shard, table_hash};

/// Why saved tables cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SavedRowsError {
    /// The file cannot be opened or read, or it ends early.
    #[error("read {path}")]
    Read {
        /// Path of the file, or of the directory that could not be listed.
        path: PathBuf,
        /// The I/O error, or that the file ends early.
        #[source]
        source: io::Error,
    },
    /// A file is damaged, of another kind or of another version.
    #[error("{path} cannot be used: {reason}")]
    Damaged {
        /// Path of the `pserver.NNNN` file.
        path: PathBuf,
        /// The check that failed.
        reason: String,
    },
    /// Some of the files are missing.
    #[error("{directory} lacks {missing}: copy the files of all servers into it")]
    Missing {
        /// Path of the pass directory.
        directory: PathBuf,
        /// The missing files, as text.
        missing: String,
    },
    /// The tables do not fit this model.
    #[error("{directory} is of another model: {reason}")]
    Foreign {
        /// Path of the pass directory.
        directory: PathBuf,
        /// The table that does not fit, and why.
        reason: String,
    },
}

/// Saved tables of a pass directory.
#[derive(Debug)]
pub struct SavedRows {
    directory: PathBuf,
    files: Vec<(PathBuf, File)>,
    tables: HashMap<String, Table>,
    /// The save that the first file belongs to.
    save: Option<Binding>,
}

#[derive(Debug)]
struct Table {
    cols: usize,
    slots: usize,
    progress: Option<ParameterProgress>,
    /// File and offset of the rows of each shard.
    shards: HashMap<u32, Section>,
}

/// The rows of a shard.
#[derive(Debug)]
struct Section {
    file: usize,
    /// Ids of the saved rows, ascending.
    ids: Vec<u32>,
    /// Offset of the first row in the file, in bytes.
    start: u64,
}

/// A table with saved rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedTable {
    /// The name of the parameter.
    pub name: String,
    /// How many rows are saved.
    pub rows: usize,
    /// Values per row.
    pub cols: usize,
}

/// How to interpret the rows of one parameter.
#[derive(Debug)]
pub struct RowInterpretation<'a> {
    /// Shape and name of the parameter.
    pub spec: &'a ParameterSpec,
    /// Values of rows that no batch has used.
    pub initial: &'a Initial,
    /// How the parameter learned: for decay that is still to be applied, and averages.
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
            save: None,
        };
        for (number, path) in paths.iter().enumerate() {
            saved.add(path, number, paths.len())?;
        }
        Ok(Some(saved))
    }

    /// Whether the directory has rows of this table.
    pub fn has(&self, name: &str) -> bool {
        self.tables.contains_key(name)
    }

    /// The tables that have rows, by name.
    pub fn tables(&self) -> Vec<SavedTable> {
        let of = |(name, table): (&String, &Table)| SavedTable {
            name: name.clone(),
            rows: table.shards.values().map(|section| section.ids.len()).sum(),
            cols: table.cols,
        };
        let mut tables: Vec<_> = self.tables.iter().map(of).filter(|t| t.rows > 0).collect();
        tables.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        tables
    }

    /// Whether the saved state has as many values per row as the rule needs. If not, rows are read as they were
    /// written.
    pub fn fits(&self, reading: &RowInterpretation<'_>) -> bool {
        let table = self.tables.get(&reading.spec.name);
        table.is_some_and(|table| table.slots == reading.rule.slots())
    }

    /// The values of some rows, concatenated in the order of the ids.
    pub fn read(
        &self,
        reading: &RowInterpretation<'_>,
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

    /// Checks one file, `number` of `count`, and indexes its rows.
    fn add(&mut self, path: &Path, number: usize, count: usize) -> Result<(), SavedRowsError> {
        let file = File::open(path).map_err(read_error(path))?;
        let length = file.metadata().map_err(read_error(path))?.len();
        let input = BufReader::new(&file);
        let mut reader = PartReader::new(input, length).map_err(unusable(path))?;
        let tables = reader.header().tables.clone();
        let binding = &reader.header().binding;
        let save = self.save.get_or_insert_with(|| binding.clone());
        if let Some(reason) = binding.stray_rows(save, number as u32) {
            return Err(damaged(path, reason));
        }
        while let Some(section) = reader.next_section().map_err(unusable(path))? {
            let (at, shard, ids) = match section {
                part::Section::Rows {
                    table, shard, ids, ..
                } if ids.is_sorted_by(|a, b| a < b) => (table, shard, ids.to_vec()),
                _ => {
                    return Err(damaged(
                        path,
                        "it has sections other than rows, or rows out of order",
                    ));
                }
            };
            // Shard s belongs to service s mod services.
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

    fn table(
        &mut self,
        header: &TableHeader<ParameterProgress>,
    ) -> Result<&mut Table, SavedRowsError> {
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

/// Brings a stored row (mark, values, state) up to date and appends the values that a test uses.
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
