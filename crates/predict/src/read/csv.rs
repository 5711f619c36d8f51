//! Records of CSV: a column per data layer, or for dense ones a column per number (`pixels.0`, `pixels.1`, …).

use trainer::data::{ElementKind, SlotType};

use crate::sample::{FieldError, Filling, InputField, expected};

/// Where each input is in a record.
#[derive(Debug)]
pub(super) struct CsvColumns {
    inputs: Vec<Column>,
    names: Vec<String>,
}

#[derive(Debug)]
enum Column {
    One(usize),
    Each(Vec<usize>),
}

impl CsvColumns {
    /// Finds the inputs in a header.
    pub(super) fn new(fields: &[InputField], header: &[String]) -> Result<Self, FieldError> {
        let find = |name: &str| header.iter().position(|column| column == name);
        let surplus = |slot: &SlotType| {
            let number = |column: &&String| -> Option<usize> {
                let rest = column.strip_prefix(slot.name.as_str())?;
                rest.strip_prefix('.')?.parse().ok()
            };
            let is_field = |column: &&String| fields.iter().any(|f| f.slot.name == **column);
            let mut columns = header.iter().filter(|column| !is_field(column));
            columns.find(|column| number(column).is_some_and(|number| number >= slot.dim))
        };
        let inputs = fields.iter().map(|field| {
            let slot = &field.slot;
            let is_vector = slot.kind == ElementKind::Dense && slot.level == 0;
            if let Some(column) = surplus(slot).filter(|_| is_vector) {
                return Err(FieldError {
                    field: column.clone(),
                    reason: format!(
                        "data layer '{}' has {} numbers, and their columns are counted from 0",
                        slot.name, slot.dim
                    ),
                });
            }
            if let Some(at) = find(&slot.name) {
                return Ok(Column::One(at));
            }
            let each = (0..slot.dim).map(|n| find(&format!("{}.{n}", slot.name)));
            let each: Option<Vec<usize>> = if is_vector { each.collect() } else { None };
            each.map(Column::Each).ok_or_else(|| FieldError {
                field: slot.name.clone(),
                reason: format!(
                    "the header has no such column (it takes {}); the header has {}. A file as the model was trained from is read with --input-format provider",
                    expected(slot, slot.level),
                    header.join(", ")
                ),
            })
        });
        Ok(Self {
            inputs: inputs.collect::<Result<_, _>>()?,
            names: fields.iter().map(|field| field.slot.name.clone()).collect(),
        })
    }

    /// Adds the sample of a record.
    pub(super) fn fill(
        &self,
        record: &csv::ByteRecord,
        filling: &mut Filling<'_>,
    ) -> Result<(), FieldError> {
        for (input, column) in self.inputs.iter().enumerate() {
            let cell = |at: usize| {
                let bytes = record.get(at).ok_or_else(|| FieldError {
                    field: self.names[input].clone(),
                    reason: "the record ends before this column".to_owned(),
                })?;
                super::utf8(bytes)
            };
            match column {
                Column::One(at) => filling.text(input, cell(*at)?)?,
                Column::Each(all) => {
                    let mut joined = String::new();
                    for at in all {
                        joined.push_str(cell(*at)?);
                        joined.push(' ');
                    }
                    filling.text(input, &joined)?;
                }
            }
        }
        filling.end();
        Ok(())
    }
}
