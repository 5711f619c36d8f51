//! csv: fields between separators, one sample per line; columns become dense vectors and integers.
//!
//! All lines of a file have as many fields as its first. Columns are named by the header, if there is one, or by number.
//! A field may be in double quotes, with `""` for a quote in it; it cannot contain a line end. Blanks around numbers do
//! not matter.

use super::format::{LineError, LineFormat, shown, slot};
use super::{ColumnName, Declaration, Part, number};
use crate::data::DataInput;
use crate::data::table::{Column, ElementKind, SlotType};

/// Parses lines of the format.
pub(super) struct Csv {
    slots: Vec<SlotType>,
    wanted: Vec<Vec<ColumnName>>,
    /// For each slot, whether a layer uses it; the other slots are zeros, and their columns may be missing.
    needed: Vec<bool>,
    /// For each field that a slot uses, in order of fields: its index, its slot and its index in the slot.
    takes: Vec<Take>,
    separator: u8,
    header: bool,
    /// Fields of the first line of the file, which every line has.
    width: Option<usize>,
}

#[derive(Clone, Copy)]
struct Take {
    field: usize,
    slot: usize,
    place: usize,
}

impl Csv {
    /// A reader for the declared columns; `needed` names the data layers that are used, if these are not all.
    pub(super) fn open(
        declaration: &Declaration,
        inputs: &[DataInput],
        needed: Option<&[String]>,
    ) -> Result<Box<dyn LineFormat>, String> {
        let &[separator] = declaration.separator.as_bytes() else {
            return Err(format!(
                "the separator {:?} is not one byte",
                declaration.separator
            ));
        };
        let mut csv = Self {
            slots: Vec::new(),
            wanted: Vec::new(),
            needed: Vec::new(),
            takes: Vec::new(),
            separator,
            header: declaration.header,
            width: None,
        };
        for (part, input) in declaration.slots.iter().zip(inputs) {
            let (columns, slot) = match part {
                Part::Dense { columns, .. } => {
                    let dim = u32::try_from(columns.len()).unwrap_or(0);
                    (
                        columns.clone(),
                        slot(&input.name, ElementKind::Dense, 0, dim)?,
                    )
                }
                Part::Integer { column, limit, .. } => (
                    vec![column.clone()],
                    slot(&input.name, ElementKind::Ids, 0, *limit)?,
                ),
                _ => return Err("its slots are native_dense and native_integer".to_owned()),
            };
            csv.wanted.push(columns);
            csv.needed
                .push(needed.is_none_or(|needed| needed.contains(&input.name)));
            csv.slots.push(slot);
        }
        if !declaration.header {
            csv.resolve(&[])?;
        }
        Ok(Box::new(csv))
    }

    /// Finds the indices of the declared columns by their names.
    fn resolve(&mut self, names: &[Vec<u8>]) -> Result<(), String> {
        self.takes.clear();
        let needed = |slot: &(usize, &Vec<ColumnName>)| self.needed[slot.0];
        for (slot, columns) in self.wanted.iter().enumerate().filter(needed) {
            for (place, column) in columns.iter().enumerate() {
                let field = match column {
                    ColumnName::Number(number) => *number,
                    ColumnName::Name(name) => names
                        .iter()
                        .position(|field| field == name.as_bytes())
                        .ok_or_else(|| missing_column(name, names))?,
                };
                self.takes.push(Take { field, slot, place });
            }
        }
        self.takes.sort_by_key(|take| take.field);
        Ok(())
    }

    fn take(&self, take: Take, field: &[u8], columns: &mut [Column]) -> Result<(), LineError> {
        let text = field.trim_ascii();
        let column = &mut columns[take.slot];
        let dim = self.slots[take.slot].dim;
        let wrong = |what| {
            let name = &self.slots[take.slot].name;
            LineError::Form(format!(
                "column {} of slot {name}: {} is not {what}",
                take.field,
                shown(field)
            ))
        };
        if self.slots[take.slot].kind == ElementKind::Dense {
            let value = number::float(text).ok_or_else(|| wrong("a number"))?;
            let row = column.values.len() - dim;
            column.values[row + take.place] = value;
            return Ok(());
        }
        let value = number::whole(text).ok_or_else(|| wrong("an integer"))?;
        match u32::try_from(value) {
            Ok(id) if (id as usize) < dim => column.ids.push(id),
            _ => {
                let slot = take.slot;
                return Err(LineError::OutOfRange { slot, value });
            }
        }
        Ok(())
    }
}

/// The message about a missing column, with the name of the header that is closest to it, if one is.
fn missing_column(name: &str, names: &[Vec<u8>]) -> String {
    let known: Vec<_> = names
        .iter()
        .map(|name| String::from_utf8_lossy(name))
        .collect();
    let meant = words::guess::nearest(name, known.iter().map(|name| &**name));
    let meant = meant.map_or_else(String::new, |meant| format!("; did you mean {meant:?}?"));
    format!("there is no column {name:?} in the header{meant}")
}

impl LineFormat for Csv {
    fn slots(&self) -> &[SlotType] {
        &self.slots
    }

    fn header(&mut self, line: &[u8]) -> Result<bool, LineError> {
        let mut names = Vec::new();
        let mut rest = Some(line).filter(|line| !line.trim_ascii().is_empty());
        let mut unquoted = Vec::new();
        while let Some(text) = rest {
            let field = CsvField::first(text, self.separator, &mut unquoted)?;
            names.push(field.text.trim_ascii().to_vec());
            rest = field.rest;
        }
        self.width = Some(names.len()).filter(|width| *width > 0);
        if !self.header {
            return Ok(false);
        }
        self.resolve(&names).map_err(LineError::Form)?;
        Ok(true)
    }

    fn sample(&self, line: &[u8], columns: &mut [Column]) -> Result<(), LineError> {
        let slots = self.slots.iter().zip(&self.needed);
        for ((slot, needed), column) in slots.zip(columns.iter_mut()) {
            if slot.kind == ElementKind::Dense {
                column.values.resize(column.values.len() + slot.dim, 0.0);
            } else if !needed {
                column.ids.push(0);
            }
        }
        let mut takes = self.takes.iter().copied().peekable();
        let (mut rest, mut number, mut unquoted) = (Some(line), 0, Vec::new());
        while let Some(text) = rest {
            let field = CsvField::first(text, self.separator, &mut unquoted)?;
            while let Some(take) = takes.next_if(|take| take.field == number) {
                self.take(take, field.text, columns)?;
            }
            rest = field.rest;
            number += 1;
        }
        if let Some(missing) = takes.next() {
            return Err(LineError::Form(format!(
                "the line has {number} fields, column {} is missing",
                missing.field
            )));
        }
        match self.width {
            Some(width) if width != number => Err(LineError::Form(format!(
                "the line has {number} fields, but the {} has {width}",
                if self.header { "header" } else { "first line" }
            ))),
            _ => Ok(()),
        }
    }
}

/// The first field of a line.
struct CsvField<'t, 'f> {
    /// Without quotes.
    text: &'f [u8],
    /// What follows its separator; `None` after the last field.
    rest: Option<&'t [u8]>,
}

impl<'t: 'f, 'f> CsvField<'t, 'f> {
    /// Splits the field off. One in quotes is written to `unquoted`.
    fn first(line: &'t [u8], separator: u8, unquoted: &'f mut Vec<u8>) -> Result<Self, LineError> {
        if line.first() != Some(&b'"') {
            return Ok(match memchr::memchr(separator, line) {
                Some(at) => Self {
                    text: &line[..at],
                    rest: Some(&line[at + 1..]),
                },
                None => Self {
                    text: line,
                    rest: None,
                },
            });
        }
        unquoted.clear();
        let mut at = 1;
        let rest = loop {
            match (line.get(at), line.get(at + 1)) {
                (None, _) => return Err(LineError::Form("a quote is not closed".to_owned())),
                (Some(b'"'), Some(b'"')) => {
                    unquoted.push(b'"');
                    at += 2;
                }
                (Some(b'"'), None) => break None,
                (Some(b'"'), Some(next)) if *next == separator => break Some(&line[at + 2..]),
                (Some(b'"'), Some(_)) => {
                    return Err(LineError::Form(
                        "something follows a closing quote".to_owned(),
                    ));
                }
                (Some(byte), _) => {
                    unquoted.push(*byte);
                    at += 1;
                }
            }
        };
        Ok(Self {
            text: unquoted,
            rest,
        })
    }
}
