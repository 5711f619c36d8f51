//! bow: `label<TAB>words separated by blanks`, the format of the quick start demo.
//!
//! A word's id is its line number in the dictionary, from 0; words that are not in it get the id `unknown`. Slots: the
//! words as a sparse binary vector (repeated words stay repeated, as with v1's providers) or as a sequence of ids; the
//! label. Where no slot takes the label, lines may lack it (text to be classified).

use std::path::Path;

use super::dictionary::{WordIds, Words};
use super::format::{LineError, LineFormat, shown, slot};
use super::{Declaration, Part, number};
use crate::data::DataInput;
use crate::data::error::DataError;
use crate::data::table::{Column, ElementKind, SlotType};

/// Parses lines of the format.
pub(super) struct Bow {
    slots: Vec<SlotType>,
    parts: Vec<Take>,
    dictionary: WordIds,
    unknown: u32,
    labelled: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Take {
    Bag,
    Ids,
    Label,
}

impl Bow {
    /// Reads the dictionary.
    pub(super) fn open(
        declaration: &Declaration,
        inputs: &[DataInput],
        directory: &Path,
    ) -> Result<Box<dyn LineFormat>, DataError> {
        let refuse = |reason: String| DataError::Native {
            format: "bow".to_owned(),
            reason,
        };
        let Some(path) = &declaration.dictionary else {
            return Err(refuse("it needs a dictionary".to_owned()));
        };
        let dictionary = WordIds::read(&directory.join(path))?;
        if declaration.unknown >= dictionary.len() {
            return Err(refuse(format!(
                "the id {} of unknown words is not in dictionary {path}, which has {} words",
                declaration.unknown,
                dictionary.len()
            )));
        }
        let made = Self::new(&declaration.slots, inputs, dictionary, declaration.unknown);
        Ok(Box::new(made.map_err(refuse)?))
    }

    fn new(
        parts: &[Part],
        inputs: &[DataInput],
        dictionary: WordIds,
        unknown: u32,
    ) -> Result<Self, String> {
        let words = dictionary.len();
        let mut slots = Vec::new();
        let mut takes = Vec::new();
        for (part, input) in parts.iter().zip(inputs) {
            let (take, slot) = match part {
                Part::Bag { .. } => (Take::Bag, slot(&input.name, ElementKind::Binary, 0, words)?),
                Part::Ids { .. } => (Take::Ids, slot(&input.name, ElementKind::Ids, 1, words)?),
                Part::Label { classes, .. } => (
                    Take::Label,
                    slot(&input.name, ElementKind::Ids, 0, *classes)?,
                ),
                _ => return Err("its slots are native_bag, native_ids, native_label".to_owned()),
            };
            takes.push(take);
            slots.push(slot);
        }
        Ok(Self {
            slots,
            labelled: takes.contains(&Take::Label),
            parts: takes,
            dictionary,
            unknown,
        })
    }

    /// Appends the ids of all words.
    fn words(&self, text: &[u8], ids: &mut Vec<u32>) {
        for (hash, word) in Words::new(text) {
            ids.push(self.dictionary.id(hash, word).unwrap_or(self.unknown));
        }
    }

    fn label(&self, slot: usize, text: &[u8]) -> Result<u32, LineError> {
        let Some(value) = number::integer(text.trim_ascii()) else {
            return Err(LineError::Form(format!(
                "the label {} is not an integer",
                shown(text)
            )));
        };
        match u32::try_from(value) {
            Ok(label) if (label as usize) < self.slots[slot].dim => Ok(label),
            _ => Err(LineError::OutOfRange { slot, value }),
        }
    }
}

impl LineFormat for Bow {
    fn slots(&self) -> &[SlotType] {
        &self.slots
    }

    fn header(&mut self, _line: &[u8]) -> Result<bool, LineError> {
        Ok(false)
    }

    fn sample(&self, line: &[u8], columns: &mut [Column]) -> Result<(), LineError> {
        let (label, text) = match memchr::memchr(b'\t', line) {
            Some(tab) => (&line[..tab], &line[tab + 1..]),
            None if !self.labelled => (&line[..0], line),
            None => {
                let form = "there is no tab between label and words";
                return Err(LineError::Form(form.to_owned()));
            }
        };
        for (number, (take, column)) in self.parts.iter().zip(columns).enumerate() {
            match take {
                Take::Bag => {
                    self.words(text, &mut column.ids);
                    column.rows.push(column.ids.len() as u64);
                }
                Take::Ids => {
                    self.words(text, &mut column.ids);
                    column.samples.push(column.ids.len() as u64);
                }
                Take::Label => column.ids.push(self.label(number, label)?),
            }
        }
        Ok(())
    }
}
