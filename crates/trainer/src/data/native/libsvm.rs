//! libsvm: `label index:value index:value …`, comments after `#`, `qid:` ignored.
//!
//! The label is an integer below the number of classes; with two classes -1 is read as 0. Indices count from `first`
//! (1 in most files). As a binary vector only the indices with a value other than 0 count.

use super::format::{LineError, LineFormat, shown, slot};
use super::{Part, number};
use crate::data::DataInput;
use crate::data::table::{Column, ElementKind, SlotType};

/// Parses lines of the format.
pub(super) struct Libsvm {
    slots: Vec<SlotType>,
    parts: Vec<Take>,
}

enum Take {
    Label,
    Features { first: u32, binary: bool },
}

impl Libsvm {
    /// A parser for the given parts of a line.
    pub(super) fn open(
        parts: &[Part],
        inputs: &[DataInput],
    ) -> Result<Box<dyn LineFormat>, String> {
        let mut slots = Vec::new();
        let mut takes = Vec::new();
        for (part, input) in parts.iter().zip(inputs) {
            match part {
                Part::Label { classes, .. } => {
                    takes.push(Take::Label);
                    slots.push(slot(&input.name, ElementKind::Ids, 0, *classes)?);
                }
                Part::Features {
                    dimension,
                    first,
                    binary,
                    ..
                } => {
                    let kind = if *binary {
                        ElementKind::Binary
                    } else {
                        ElementKind::Sparse
                    };
                    takes.push(Take::Features {
                        first: *first,
                        binary: *binary,
                    });
                    slots.push(SlotType {
                        first: *first,
                        ..slot(&input.name, kind, 0, *dimension)?
                    });
                }
                _ => return Err("its slots are native_features and native_label".to_owned()),
            }
        }
        Ok(Box::new(Self {
            slots,
            parts: takes,
        }))
    }

    fn label(&self, slot: usize, text: &[u8]) -> Result<u32, LineError> {
        let Some(value) = number::whole(text) else {
            return Err(LineError::Form(format!(
                "the label {} is not an integer",
                shown(text)
            )));
        };
        match u32::try_from(value) {
            Ok(label) if (label as usize) < self.slots[slot].dim => Ok(label),
            Err(_) if value == -1 && self.slots[slot].dim == 2 => Ok(0),
            _ => Err(LineError::OutOfRange { slot, value }),
        }
    }

    fn feature(&self, slot: usize, first: u32, text: &[u8]) -> Result<(u32, f32), LineError> {
        let pair = memchr::memchr(b':', text).and_then(|colon| {
            let value = number::float(&text[colon + 1..])?;
            Some((number::integer(&text[..colon])?, value))
        });
        let Some((index, value)) = pair else {
            return Err(LineError::Form(format!(
                "{} is not INDEX:VALUE",
                shown(text)
            )));
        };
        match u32::try_from(index - i64::from(first)) {
            Ok(column) if (column as usize) < self.slots[slot].dim => Ok((column, value)),
            _ => Err(LineError::OutOfRange { slot, value: index }),
        }
    }
}

impl LineFormat for Libsvm {
    fn slots(&self) -> &[SlotType] {
        &self.slots
    }

    fn header(&mut self, _line: &[u8]) -> Result<bool, LineError> {
        Ok(false)
    }

    fn is_blank(&self, line: &[u8]) -> bool {
        without_comment(line).trim_ascii().is_empty()
    }

    fn sample(&self, line: &[u8], columns: &mut [Column]) -> Result<(), LineError> {
        let line = without_comment(line);
        let mut fields = line
            .split(|byte| *byte <= b' ')
            .filter(|field| !field.is_empty());
        let Some(label) = fields.next() else {
            return Err(LineError::Form("there is no label".to_owned()));
        };
        for (number, (take, column)) in self.parts.iter().zip(columns).enumerate() {
            match take {
                Take::Label => column.ids.push(self.label(number, label)?),
                Take::Features { first, binary } => {
                    for field in fields.clone().filter(|field| !field.starts_with(b"qid:")) {
                        let (index, value) = self.feature(number, *first, field)?;
                        if !binary {
                            column.ids.push(index);
                            column.values.push(value);
                        } else if value != 0.0 {
                            column.ids.push(index);
                        }
                    }
                    column.rows.push(column.ids.len() as u64);
                }
            }
        }
        Ok(())
    }
}

fn without_comment(line: &[u8]) -> &[u8] {
    &line[..memchr::memchr(b'#', line).unwrap_or(line.len())]
}
