//! The interface of a native format: its slots, and a parser of lines.

use crate::data::table::{Column, SlotType};

/// A format of text files with one sample per line.
pub(super) trait LineFormat: Send {
    /// The slots, in the order of the data layers.
    fn slots(&self) -> &[SlotType];

    /// Reads the first line of a file if it is a header; returns whether it was.
    fn header(&mut self, line: &[u8]) -> Result<bool, LineError>;

    /// Whether a line has no sample.
    fn is_blank(&self, line: &[u8]) -> bool {
        line.trim_ascii().is_empty()
    }

    /// Appends the sample of a line to the columns.
    fn sample(&self, line: &[u8], columns: &mut [Column]) -> Result<(), LineError>;
}

/// Why a line is not a valid sample.
#[derive(Debug, PartialEq)]
pub(super) enum LineError {
    /// The line does not follow the format; says what was expected.
    Form(String),
    /// A value is too small or too large for its slot.
    OutOfRange { slot: usize, value: i64 },
}

/// The type of a slot for the given data layer.
pub(super) fn slot(
    name: &str,
    kind: crate::data::table::ElementKind,
    level: u8,
    dim: u32,
) -> Result<SlotType, String> {
    if dim == 0 {
        return Err(format!("the slot of data layer {name} has dimension 0"));
    }
    Ok(SlotType {
        name: name.to_owned(),
        kind,
        level,
        dim: dim as usize,
        first: 0,
    })
}

/// The text of a field for an error message, shortened if it is long.
pub(super) fn shown(field: &[u8]) -> String {
    let text = String::from_utf8_lossy(&field[..field.len().min(40)]);
    let more = if field.len() > 40 { "…" } else { "" };
    format!("{:?}", format!("{text}{more}"))
}
