//! Fields of samples become the slots of a batch: every id, number and length is checked here.
//!
//! A field is text (a line, a cell of CSV) or a JSON value. Its form depends on the type of its slot:
//!
//! | type | text | JSON |
//! |---|---|---|
//! | id | `7`, or a word of the slot's dictionary (`#7`: an id nevertheless) | `7`, `"word"` |
//! | ids, sequence | such, separated by blanks | a list of these, or such a text |
//! | dense | numbers, separated by blanks | a list of numbers; one number if the slot has one |
//! | sparse, all ones | ids or words, separated by blanks | a list of ids or words, or such a text |
//! | sparse | `id:number`, separated by blanks | a list of `[id, number]`, or an object |
//! | sequence of the last three | positions, separated by `;` | a list of positions |
//! | sequence of sequences | | a list of sequences |

use std::sync::Arc;

use nn::{Batch, Slot, SlotData};
use serde_json::Value;
use trainer::data::{ElementKind, SlotType};

use crate::dictionary::{Dictionary, Unknown};

/// The longest field that is accepted, in positions of all its sequences.
pub const LONGEST: usize = 1 << 24;

/// What is wrong with a field.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{}{reason}", if field.is_empty() { String::new() } else { format!("field '{field}': ") })]
pub struct FieldError {
    /// Name of the data layer, or of the column; empty if it is the whole sample.
    pub field: String,
    /// What is wrong and what is expected.
    pub reason: String,
}

/// An input of a model: a data layer with its type and, perhaps, its dictionary.
#[derive(Debug, Clone)]
pub struct InputField {
    /// Type of the slot; its name is the data layer's.
    pub slot: SlotType,
    /// The words of its ids.
    pub dictionary: Option<Arc<Dictionary>>,
}

/// A batch that is being filled.
#[derive(Debug)]
pub struct Filling<'a> {
    fields: &'a [InputField],
    columns: Vec<Column>,
    samples: usize,
}

/// The rows of one slot.
#[derive(Debug, Default)]
struct Column {
    ids: Vec<u32>,
    values: Vec<f32>,
    /// Ends of positions in `ids` (sparse kinds).
    ends: Vec<u32>,
    sequences: Vec<u32>,
    subsequences: Vec<u32>,
    positions: u32,
}

type Checked<T> = Result<T, String>;

impl<'a> Filling<'a> {
    /// An empty batch of these inputs.
    pub fn new(fields: &'a [InputField]) -> Self {
        let offsets = |wanted: bool| if wanted { vec![0] } else { Vec::new() };
        let column = |field: &InputField| {
            let SlotType { kind, level, .. } = field.slot;
            Column {
                ends: offsets(matches!(kind, ElementKind::Binary | ElementKind::Sparse)),
                sequences: offsets(level > 0),
                subsequences: offsets(level > 1),
                ..Column::default()
            }
        };
        Self {
            fields,
            columns: fields.iter().map(column).collect(),
            samples: 0,
        }
    }

    /// Adds a field of the next sample, from text.
    pub fn text(&mut self, input: usize, text: &str) -> Result<(), FieldError> {
        let field = &self.fields[input];
        let column = &mut self.columns[input];
        let done = match field.slot.level {
            0 => column.position_of_text(field, text),
            1 => column.sequence_of_text(field, text),
            _ => {
                Err("sequences of sequences cannot be written as text; give JSON lines".to_owned())
            }
        };
        self.named(input, done)
    }

    /// Adds a field of the next sample, from JSON.
    pub fn json(&mut self, input: usize, value: &Value) -> Result<(), FieldError> {
        let field = &self.fields[input];
        let column = &mut self.columns[input];
        let done = match (field.slot.level, value) {
            (0, Value::String(text)) => column.position_of_text(field, text),
            (0, value) => column.position_of_json(field, value),
            (1, Value::String(text)) => column.sequence_of_text(field, text),
            (1, value) => column.sequence_of_json(field, value),
            (_, value) => column.nested_of_json(field, value),
        };
        self.named(input, done)
    }

    /// Adds a field of the next sample, from the numbers of its rows: for dense slots.
    pub fn numbers(&mut self, input: usize, numbers: &[f32]) -> Result<(), FieldError> {
        let field = &self.fields[input];
        let column = &mut self.columns[input];
        let done = column.rows_of_numbers(field, numbers);
        self.named(input, done)
    }

    /// Adds a field of the next sample, from ids: for slots of ids and of sparse vectors whose values are 1.
    pub fn ids(&mut self, input: usize, ids: &[i64]) -> Result<(), FieldError> {
        let field = &self.fields[input];
        let column = &mut self.columns[input];
        let done = column.position_of_ids(field, ids);
        self.named(input, done)
    }

    fn named(&self, input: usize, done: Checked<()>) -> Result<(), FieldError> {
        let done = done.and_then(|()| self.not_empty(input));
        done.map_err(|reason| FieldError {
            field: self.fields[input].slot.name.clone(),
            reason,
        })
    }

    /// Refuses an empty sequence: a network would compute an output for it, but a meaningless one.
    fn not_empty(&self, input: usize) -> Checked<()> {
        let column = &self.columns[input];
        match column.sequences.last() {
            Some(end) if column.positions == *end => Err(
                "the sequence is empty, or none of its words is known; leave such a sample out"
                    .to_owned(),
            ),
            _ => Ok(()),
        }
    }

    /// All fields of the sample have been added.
    pub fn end(&mut self) {
        for (column, field) in self.columns.iter_mut().zip(self.fields) {
            if field.slot.level > 0 {
                column.sequences.push(column.positions);
            }
        }
        self.samples += 1;
    }

    /// The batch.
    pub fn finish(self) -> Batch {
        let slots = self.columns.into_iter().zip(self.fields);
        Batch {
            samples: self.samples,
            slots: slots
                .map(|(column, field)| column.slot(&field.slot))
                .collect(),
        }
    }
}

impl Column {
    fn slot(self, slot: &SlotType) -> Slot {
        let data = match slot.kind {
            ElementKind::Ids => SlotData::Ids(self.ids),
            ElementKind::Dense => SlotData::Dense {
                dim: slot.dim,
                values: self.values,
            },
            ElementKind::Binary => SlotData::Binary {
                offsets: self.ends,
                columns: self.ids,
            },
            ElementKind::Sparse => SlotData::Sparse {
                offsets: self.ends,
                columns: self.ids,
                values: self.values,
            },
        };
        Slot {
            data,
            sequences: (slot.level > 0).then(|| Arc::from(self.sequences)),
            subsequences: (slot.level > 1).then(|| Arc::from(self.subsequences)),
        }
    }

    fn position_of_text(&mut self, field: &InputField, text: &str) -> Checked<()> {
        match field.slot.kind {
            ElementKind::Ids => {
                let word = text.trim();
                match id_of_text(field, word)? {
                    Some(id) => self.id(id),
                    None => Err(format!(
                        "the word {} has no id, but this data layer needs one",
                        shown(word)
                    )),
                }
            }
            ElementKind::Dense => self.dense(field, text.split_whitespace().map(number_of_text)),
            ElementKind::Binary => {
                for word in text.split_whitespace() {
                    if let Some(id) = id_of_text(field, word)? {
                        self.ids.push(id);
                    }
                }
                self.end_position()
            }
            ElementKind::Sparse => {
                for pair in text.split_whitespace() {
                    let (word, number) = pair
                        .rsplit_once(':')
                        .ok_or_else(|| format!("{} is not id:number", shown(pair)))?;
                    let number = number_of_text(number)?;
                    if let Some(id) = id_of_text(field, word)? {
                        self.ids.push(id);
                        self.values.push(number);
                    }
                }
                self.end_position()
            }
        }
    }

    fn sequence_of_text(&mut self, field: &InputField, text: &str) -> Checked<()> {
        if field.slot.kind == ElementKind::Ids {
            for word in text.split_whitespace() {
                if let Some(id) = id_of_text(field, word)? {
                    self.id(id)?;
                }
            }
            return Ok(());
        }
        if text.trim().is_empty() {
            return Ok(());
        }
        let mut positions = text.split(';');
        positions.try_for_each(|position| self.position_of_text(field, position))
    }

    fn position_of_json(&mut self, field: &InputField, value: &Value) -> Checked<()> {
        match (field.slot.kind, value) {
            (ElementKind::Ids, value) => match id_of_json(field, value)? {
                Some(id) => self.id(id),
                None => Err(format!(
                    "the word {value} has no id, but this data layer needs one"
                )),
            },
            (ElementKind::Dense, Value::Number(_)) => {
                self.dense(field, std::iter::once(number_of_json(value)))
            }
            (ElementKind::Dense, Value::Array(list)) => {
                self.dense(field, list.iter().map(number_of_json))
            }
            (ElementKind::Binary, Value::String(text)) => self.position_of_text(field, text),
            (ElementKind::Binary, Value::Array(list)) => {
                for each in list {
                    if let Some(id) = id_of_json(field, each)? {
                        self.ids.push(id);
                    }
                }
                self.end_position()
            }
            (ElementKind::Sparse, Value::Array(list)) => {
                for each in list {
                    let pair = each.as_array().filter(|pair| pair.len() == 2);
                    let pair =
                        pair.ok_or_else(|| format!("{} is not [id, number]", brief(each)))?;
                    self.entry(id_of_json(field, &pair[0])?, number_of_json(&pair[1])?);
                }
                self.end_position()
            }
            (ElementKind::Sparse, Value::Object(entries)) => {
                for (key, number) in entries {
                    self.entry(id_of_text(field, key)?, number_of_json(number)?);
                }
                self.end_position()
            }
            (_, other) => Err(format!(
                "{} is not {}",
                brief(other),
                expected(&field.slot, 0)
            )),
        }
    }

    fn entry(&mut self, id: Option<u32>, number: f32) {
        if let Some(id) = id {
            self.ids.push(id);
            self.values.push(number);
        }
    }

    fn sequence_of_json(&mut self, field: &InputField, value: &Value) -> Checked<()> {
        let list = value
            .as_array()
            .ok_or_else(|| format!("{} is not {}", brief(value), expected(&field.slot, 1)))?;
        for each in list {
            match (field.slot.kind, id_if_word(field, each)?) {
                // A word that is left out has no position in the sequence.
                (ElementKind::Ids, Some(None)) => {}
                _ => self.position_of_json(field, each)?,
            }
        }
        Ok(())
    }

    fn nested_of_json(&mut self, field: &InputField, value: &Value) -> Checked<()> {
        let list = value
            .as_array()
            .ok_or_else(|| format!("{} is not {}", brief(value), expected(&field.slot, 2)))?;
        for each in list {
            match each {
                Value::String(text) => self.sequence_of_text(field, text)?,
                each => self.sequence_of_json(field, each)?,
            }
            self.subsequences.push(self.positions);
        }
        Ok(())
    }

    fn rows_of_numbers(&mut self, field: &InputField, numbers: &[f32]) -> Checked<()> {
        let (slot, dim) = (&field.slot, field.slot.dim.max(1));
        let fits = match slot.level {
            0 => numbers.len() == dim,
            level => level == 1 && numbers.len().is_multiple_of(dim),
        };
        if slot.kind != ElementKind::Dense || !fits {
            return Err(format!(
                "an array of {} numbers is not {}",
                numbers.len(),
                expected(slot, slot.level)
            ));
        }
        for row in numbers.chunks_exact(dim) {
            let checked = row
                .iter()
                .map(|number| finite(*number, &number.to_string()));
            self.dense(field, checked)?;
        }
        Ok(())
    }

    fn position_of_ids(&mut self, field: &InputField, ids: &[i64]) -> Checked<()> {
        let slot = &field.slot;
        let one = |id: &i64| in_range(field, i128::from(*id));
        match (slot.kind, slot.level) {
            (ElementKind::Ids, 0) if ids.len() == 1 => self.id(one(&ids[0])?),
            (ElementKind::Ids, 1) => ids.iter().try_for_each(|id| self.id(one(id)?)),
            (ElementKind::Binary, 0) => {
                for id in ids {
                    self.ids.push(one(id)?);
                }
                self.end_position()
            }
            _ => Err(format!(
                "an array of {} integers is not {}",
                ids.len(),
                expected(slot, slot.level)
            )),
        }
    }

    fn id(&mut self, id: u32) -> Checked<()> {
        self.ids.push(id);
        self.count()
    }

    fn dense(
        &mut self,
        field: &InputField,
        numbers: impl Iterator<Item = Checked<f32>>,
    ) -> Checked<()> {
        let start = self.values.len();
        for number in numbers {
            if self.values.len() - start == field.slot.dim {
                return Err(format!("more than {} numbers", field.slot.dim));
            }
            self.values.push(number?);
        }
        let got = self.values.len() - start;
        if got != field.slot.dim {
            return Err(format!("{got} numbers, {} are needed", field.slot.dim));
        }
        self.count()
    }

    fn end_position(&mut self) -> Checked<()> {
        let end = u32::try_from(self.ids.len()).map_err(|_| "too many ids".to_owned())?;
        self.ends.push(end);
        self.count()
    }

    fn count(&mut self) -> Checked<()> {
        self.positions += 1;
        let start = self.sequences.last().copied().unwrap_or(0);
        if (self.positions - start) as usize > LONGEST {
            return Err(format!("longer than {LONGEST} positions"));
        }
        Ok(())
    }
}

/// The id of a word or number in text; `None` for a word that is left out.
fn id_of_text(field: &InputField, word: &str) -> Checked<Option<u32>> {
    let Some(dictionary) = &field.dictionary else {
        return id_of_number(field, word).map(Some);
    };
    if let Some(id) = dictionary.id(word) {
        // Ids of words count from 0, even if other ids of the slot count from 1.
        return in_range(field, i128::from(id) + i128::from(field.slot.first)).map(Some);
    }
    if let Some(number) = word.strip_prefix('#')
        && number.bytes().all(|byte| byte.is_ascii_digit())
        && !number.is_empty()
    {
        return id_of_number(field, number).map(Some);
    }
    match dictionary.unknown {
        Unknown::Id(id) => Ok(Some(id)),
        Unknown::Drop => Ok(None),
        Unknown::Refuse => Err(format!(
            "the word {} is not in the dictionary; --unknown drop leaves such words out, --unknown N gives them id N",
            shown(word)
        )),
    }
}

fn id_of_number(field: &InputField, text: &str) -> Checked<u32> {
    let number: i128 = text
        .parse()
        .map_err(|_| format!("{} is not an id (an integer)", shown(text)))?;
    in_range(field, number)
}

/// The row of an id as users write it: in libsvm files ids count from 1.
fn in_range(field: &InputField, id: i128) -> Checked<u32> {
    let (limit, first) = (field.slot.dim, field.slot.first);
    u32::try_from(id - i128::from(first))
        .ok()
        .filter(|id| (*id as usize) < limit)
        .ok_or_else(|| {
            let last = (limit + first as usize).saturating_sub(1);
            format!("id {id} is out of range, ids are {first} to {last}")
        })
}

fn id_of_json(field: &InputField, value: &Value) -> Checked<Option<u32>> {
    if let Some(id) = id_if_word(field, value)? {
        return Ok(id);
    }
    let number = value
        .as_i64()
        .ok_or_else(|| format!("{} is not an id (an integer) or a word", brief(value)))?;
    in_range(field, i128::from(number)).map(Some)
}

/// The id of a JSON string; `None` if the value is something else.
fn id_if_word(field: &InputField, value: &Value) -> Checked<Option<Option<u32>>> {
    match (value, field.slot.kind) {
        (Value::String(word), ElementKind::Ids | ElementKind::Binary | ElementKind::Sparse) => {
            id_of_text(field, word.trim()).map(Some)
        }
        _ => Ok(None),
    }
}

fn number_of_text(text: &str) -> Checked<f32> {
    let text = text.trim();
    let number: f32 = text
        .parse()
        .map_err(|_| format!("{} is not a number", shown(text)))?;
    finite(number, text)
}

fn number_of_json(value: &Value) -> Checked<f32> {
    let number = value
        .as_f64()
        .ok_or_else(|| format!("{} is not a number", brief(value)))?;
    finite(number as f32, &number.to_string())
}

fn finite(number: f32, text: &str) -> Checked<f32> {
    if number.is_finite() {
        Ok(number)
    } else {
        Err(format!("{} is not a finite number", shown(text)))
    }
}

/// The values that a slot accepts, for messages.
pub fn expected(slot: &SlotType, level: u8) -> String {
    let range = match slot.first {
        0 => format!("below {}", slot.dim),
        first => format!("from {first} to {}", slot.dim + first as usize - 1),
    };
    let one = match slot.kind {
        ElementKind::Ids => format!("an id {range}"),
        ElementKind::Dense if slot.dim == 1 => "a number".to_owned(),
        ElementKind::Dense => format!("a list of {} numbers", slot.dim),
        ElementKind::Binary => format!("a list of ids {range}"),
        ElementKind::Sparse => format!("a list of [id {range}, number]"),
    };
    match level {
        0 => one,
        1 => format!("a list, each entry {one}"),
        _ => format!("a list of lists, each entry {one}"),
    }
}

fn shown(text: &str) -> String {
    let short: String = text.chars().take(40).collect();
    let more = if short.len() < text.len() { "…" } else { "" };
    format!("\"{short}{more}\"")
}

fn brief(value: &Value) -> String {
    let text = value.to_string();
    let short: String = text.chars().take(40).collect();
    let more = if short.len() < text.len() { "…" } else { "" };
    format!("{short}{more}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(
        kind: ElementKind,
        level: u8,
        dim: usize,
        words: Option<(&[&str], Unknown)>,
    ) -> InputField {
        InputField {
            slot: SlotType {
                name: "f".into(),
                kind,
                level,
                dim,
                first: 0,
            },
            dictionary: words.map(|(words, unknown)| {
                let words = words.iter().map(|w| (*w).to_owned()).collect();
                Arc::new(Dictionary::new(words, unknown))
            }),
        }
    }

    fn text(field: &InputField, text: &str) -> Result<Slot, String> {
        let fields = std::slice::from_ref(field);
        let mut filling = Filling::new(fields);
        filling.text(0, text).map_err(|e| e.reason)?;
        filling.end();
        Ok(filling.finish().slots.remove(0))
    }

    fn json(field: &InputField, value: Value) -> Result<Slot, String> {
        let fields = std::slice::from_ref(field);
        let mut filling = Filling::new(fields);
        filling.json(0, &value).map_err(|e| e.reason)?;
        filling.end();
        Ok(filling.finish().slots.remove(0))
    }

    const WORDS: &[&str] = &["unk", "good", "bad"];

    #[test]
    fn text_and_json_of_the_same_sample_are_the_same() {
        use serde_json::json as j;
        let cases = [
            (field(ElementKind::Ids, 0, 9, None), "7", j!(7)),
            (field(ElementKind::Ids, 1, 9, None), "7 0 7", j!([7, 0, 7])),
            (
                field(ElementKind::Ids, 1, 3, Some((WORDS, Unknown::Id(0)))),
                "bad day",
                j!(["bad", "day"]),
            ),
            (
                field(ElementKind::Ids, 1, 3, Some((WORDS, Unknown::Drop))),
                "bad day good",
                j!(["bad", "day", 1]),
            ),
            (
                field(ElementKind::Dense, 0, 2, None),
                "1.5 -2",
                j!([1.5, -2]),
            ),
            (field(ElementKind::Dense, 0, 1, None), "3", j!(3)),
            (
                field(ElementKind::Dense, 1, 2, None),
                "1 2; 3 4",
                j!([[1, 2], [3, 4]]),
            ),
            (field(ElementKind::Binary, 0, 9, None), "1 3", j!([1, 3])),
            (
                field(ElementKind::Binary, 1, 9, None),
                "1 3;2",
                j!([[1, 3], [2]]),
            ),
            (
                field(ElementKind::Sparse, 0, 9, None),
                "1:0.5 3:2",
                j!([[1, 0.5], [3, 2]]),
            ),
            (
                field(ElementKind::Sparse, 0, 9, None),
                "1:0.5",
                j!({"1": 0.5}),
            ),
        ];
        for (field, line, value) in cases {
            let (a, b) = (text(&field, line).unwrap(), json(&field, value).unwrap());
            assert_eq!(a.data, b.data, "{line}");
            assert_eq!(a.sequences, b.sequences, "{line}");
        }
    }

    #[test]
    fn arrays_are_checked_like_text() {
        fn one(
            field: &InputField,
            fill: impl Fn(&mut Filling<'_>) -> Result<(), FieldError>,
        ) -> Result<Slot, String> {
            let mut filling = Filling::new(std::slice::from_ref(field));
            fill(&mut filling).map_err(|error| error.reason)?;
            filling.end();
            Ok(filling.finish().slots.remove(0))
        }
        let dense = field(ElementKind::Dense, 1, 2, None);
        let rows = one(&dense, |f| f.numbers(0, &[1.0, 2.0, 3.0, 4.0])).unwrap();
        assert_eq!(rows.data, text(&dense, "1 2; 3 4").unwrap().data);
        assert!(
            one(&dense, |f| f.numbers(0, &[1.0]))
                .unwrap_err()
                .contains("list")
        );
        assert!(
            one(&dense, |f| f.numbers(0, &[1.0, f32::NAN]))
                .unwrap_err()
                .contains("finite")
        );
        let ids = field(ElementKind::Ids, 1, 9, None);
        assert_eq!(
            one(&ids, |f| f.ids(0, &[7, 0])).unwrap().data,
            SlotData::Ids(vec![7, 0])
        );
        assert!(
            one(&ids, |f| f.ids(0, &[9]))
                .unwrap_err()
                .contains("0 to 8")
        );
        assert!(one(&ids, |f| f.numbers(0, &[1.0])).is_err());
        let bag = field(ElementKind::Binary, 0, 9, None);
        assert_eq!(
            one(&bag, |f| f.ids(0, &[1, 3])).unwrap().data,
            text(&bag, "1 3").unwrap().data
        );
    }

    #[test]
    fn ids_count_from_where_the_training_data_count() {
        let mut libsvm = field(ElementKind::Sparse, 0, 100, None);
        libsvm.slot.first = 1;
        let SlotData::Sparse { columns, .. } = text(&libsvm, "3:0.5 100:1").unwrap().data else {
            panic!("sparse");
        };
        assert_eq!(columns, [2, 99]);
        let as_json = json(&libsvm, serde_json::json!([[3, 0.5], [100, 1]])).unwrap();
        assert_eq!(as_json.data, text(&libsvm, "3:0.5 100:1").unwrap().data);
        assert!(text(&libsvm, "0:1").unwrap_err().contains("1 to 100"));
        assert!(expected(&libsvm.slot, 0).contains("from 1 to 100"));
        libsvm.dictionary = Some(Arc::new(Dictionary::new(
            vec!["first".into()],
            Unknown::Refuse,
        )));
        let SlotData::Sparse { columns, .. } = text(&libsvm, "first:1 #1:2").unwrap().data else {
            panic!("sparse");
        };
        assert_eq!(
            columns,
            [0, 0],
            "a word is a row, a number is as in the files"
        );
    }

    #[test]
    fn nested_sequences_come_from_json() {
        let nested = field(ElementKind::Ids, 2, 9, None);
        let slot = json(&nested, serde_json::json!([[1, 2], [3]])).unwrap();
        assert_eq!(slot.data, SlotData::Ids(vec![1, 2, 3]));
        assert_eq!(slot.sequences.as_deref(), Some(&[0, 3][..]));
        assert_eq!(slot.subsequences.as_deref(), Some(&[0, 2, 3][..]));
        assert!(text(&nested, "1 2").unwrap_err().contains("JSON"));
    }

    #[test]
    fn what_does_not_fit_is_refused_with_the_reason() {
        let ids = field(ElementKind::Ids, 1, 9, None);
        let words = field(ElementKind::Ids, 1, 3, Some((WORDS, Unknown::Refuse)));
        let dense = field(ElementKind::Dense, 0, 2, None);
        let dropping = field(ElementKind::Ids, 1, 3, Some((WORDS, Unknown::Drop)));
        for (reason, part) in [
            (text(&ids, "9").unwrap_err(), "0 to 8"),
            (text(&ids, " ").unwrap_err(), "the sequence is empty"),
            (
                json(&ids, serde_json::json!([])).unwrap_err(),
                "the sequence is empty",
            ),
            (text(&dropping, "day").unwrap_err(), "none of its words"),
            (text(&ids, "-1").unwrap_err(), "out of range"),
            (text(&ids, "x").unwrap_err(), "not an id"),
            (text(&words, "day").unwrap_err(), "--unknown"),
            (text(&words, "#3").unwrap_err(), "0 to 2"),
            (text(&dense, "1").unwrap_err(), "1 numbers, 2 are needed"),
            (text(&dense, "1 2 3").unwrap_err(), "more than 2"),
            (text(&dense, "1 nan").unwrap_err(), "finite"),
            (text(&dense, "1 1e99").unwrap_err(), "finite"),
            (
                json(&dense, serde_json::json!({"a": 1})).unwrap_err(),
                "list of 2 numbers",
            ),
            (json(&ids, serde_json::json!(7)).unwrap_err(), "a list"),
            (
                json(&ids, serde_json::json!([1.5])).unwrap_err(),
                "not an id",
            ),
        ] {
            assert!(reason.contains(part), "{reason:?} lacks {part:?}");
        }
        assert_eq!(text(&words, "#2").unwrap().data, SlotData::Ids(vec![2]));
    }
}
