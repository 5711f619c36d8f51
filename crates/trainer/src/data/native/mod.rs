//! Native readers: formats that are read without Python.
//!
//! A configuration declares them with `define_native_data_sources`; the declaration arrives as JSON. A format is a
//! parser of lines ([`format::LineFormat`]) that appends to the columns of a table; files are read in blocks of a megabyte
//! ([`lines`]), one file after the other. By default samples are shuffled in training and kept in memory.

mod bow;
mod csv;
mod dictionary;
mod format;
mod libsvm;
mod lines;
mod number;
mod reader;
mod simple;

use config::DataConfig;
use serde::Deserialize;

use super::describe::{Description, WordList};
use super::error::DataError;
use super::list::FileList;
use super::order::{OrderPlan, PoolLevel};
use super::origin::SampleStream;
use super::{DataInput, DataOptions};
use format::LineFormat;
use reader::Reader;

pub(crate) use simple::open as open_simple;

/// A declaration, as `native_readers.py` writes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Declaration {
    slots: Vec<Part>,
    #[serde(default)]
    dictionary: Option<String>,
    #[serde(default)]
    unknown: u32,
    #[serde(default = "comma")]
    separator: String,
    #[serde(default)]
    header: bool,
    #[serde(default)]
    shuffle: Option<bool>,
    #[serde(default = "yes")]
    cache: bool,
    #[serde(default = "unlimited")]
    pool_size: i64,
}

/// The part of a line that a slot uses.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(tag = "part", rename_all = "lowercase", deny_unknown_fields)]
enum Part {
    /// The words as a sparse binary vector.
    Bag { layer: Option<String> },
    /// The words as a sequence of ids.
    Ids { layer: Option<String> },
    /// The label, an integer below `classes`.
    Label { classes: u32, layer: Option<String> },
    /// `index:value` pairs.
    Features {
        dimension: u32,
        first: u32,
        binary: bool,
        layer: Option<String>,
    },
    /// Columns as a dense vector.
    Dense {
        columns: Vec<ColumnName>,
        layer: Option<String>,
    },
    /// A column as an integer.
    Integer {
        column: ColumnName,
        limit: u32,
        layer: Option<String>,
    },
}

/// A column of a CSV file: its index from 0, or its name in the header.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(untagged)]
enum ColumnName {
    Number(usize),
    Name(String),
}

fn comma() -> String {
    ",".to_owned()
}

fn yes() -> bool {
    true
}

fn unlimited() -> i64 {
    -1
}

/// Whether the first line of each file is a header, which every part of a divided file needs.
pub fn has_header(config: &DataConfig) -> bool {
    let declaration = serde_json::from_str::<Declaration>(config.load_data_args());
    config.r#type == "native" && declaration.is_ok_and(|declaration| declaration.header)
}

impl Part {
    fn layer(&self) -> Option<&str> {
        match self {
            Self::Bag { layer }
            | Self::Ids { layer }
            | Self::Label { layer, .. }
            | Self::Features { layer, .. }
            | Self::Dense { layer, .. }
            | Self::Integer { layer, .. } => layer.as_deref(),
        }
    }
}

/// Opens a native reader.
pub(crate) fn open(
    config: &DataConfig,
    list: FileList,
    inputs: &[DataInput],
    options: &DataOptions,
) -> Result<Box<dyn SampleStream>, DataError> {
    let name = config.load_data_module();
    let refuse = |reason: String| DataError::Native {
        format: name.to_owned(),
        reason,
    };
    let mut declaration: Declaration = serde_json::from_str(config.load_data_args())
        .map_err(|error| refuse(format!("its declaration cannot be read: {error}")))?;
    declaration.slots = arrange(declaration.slots, inputs).map_err(refuse)?;
    let format = format(name, &declaration, inputs, options)?;
    let plan = OrderPlan {
        shuffle: declaration.shuffle.unwrap_or(options.training),
        level: PoolLevel::new(declaration.pool_size, -1, options.batch_size.max(1)),
        cache: declaration.cache,
        batch_size: options.batch_size.max(1),
        can_over_batch_size: true,
    };
    Ok(Box::new(Reader::new(
        format,
        list,
        plan,
        options.directory.clone(),
    )))
}

/// The slots of a declaration and, for format bow, the words of its dictionary.
pub(crate) fn describe(
    config: &DataConfig,
    inputs: &[DataInput],
    options: &DataOptions,
) -> Result<Description, DataError> {
    let name = config.load_data_module();
    let refuse = |reason: String| DataError::Native {
        format: name.to_owned(),
        reason,
    };
    let mut declaration: Declaration = serde_json::from_str(config.load_data_args())
        .map_err(|error| refuse(format!("its declaration cannot be read: {error}")))?;
    declaration.slots = arrange(declaration.slots, inputs).map_err(refuse)?;
    let slots = format(name, &declaration, inputs, options)?
        .slots()
        .to_vec();
    let mut dictionaries = Vec::new();
    if let Some(path) = &declaration.dictionary {
        let worded = declaration.slots.iter().zip(&slots);
        let worded = worded.filter(|(part, _)| matches!(part, Part::Bag { .. } | Part::Ids { .. }));
        let words = WordList::read(&options.directory.join(path))?;
        dictionaries.push(WordList {
            unknown: Some(declaration.unknown),
            slots: worded.map(|(_, slot)| slot.name.clone()).collect(),
            words,
        });
    }
    Ok(Description {
        slots,
        dictionaries,
    })
}

fn format(
    name: &str,
    declaration: &Declaration,
    inputs: &[DataInput],
    options: &DataOptions,
) -> Result<Box<dyn LineFormat>, DataError> {
    let made = match name {
        "bow" => return bow::Bow::open(declaration, inputs, &options.directory),
        "libsvm" => libsvm::Libsvm::open(&declaration.slots, inputs),
        "csv" => csv::Csv::open(declaration, inputs, options.needed.as_deref()),
        _ => Err("it is unknown; use bow, libsvm or csv".to_owned()),
    };
    made.map_err(|reason| DataError::Native {
        format: name.to_owned(),
        reason,
    })
}

/// Sorts the parts by data layer: named ones to their layer, the others to the remaining layers in order.
fn arrange(parts: Vec<Part>, inputs: &[DataInput]) -> Result<Vec<Part>, String> {
    let (named, mut unnamed): (Vec<Part>, Vec<Part>) =
        parts.into_iter().partition(|part| part.layer().is_some());
    for part in &named {
        if !inputs
            .iter()
            .any(|input| Some(input.name.as_str()) == part.layer())
        {
            let names: Vec<&str> = inputs.iter().map(|input| input.name.as_str()).collect();
            return Err(format!(
                "there is no data layer {:?}; the network has {}",
                part.layer().unwrap_or_default(),
                names.join(", ")
            ));
        }
    }
    let mut arranged = Vec::new();
    for input in inputs {
        let its = named.iter().find(|part| part.layer() == Some(&input.name));
        match its {
            Some(part) => arranged.push(part.clone()),
            None if !unnamed.is_empty() => arranged.push(unnamed.remove(0)),
            None => return Err(format!("data layer {} has no slot", input.name)),
        }
    }
    if !unnamed.is_empty() {
        let spare = unnamed.len();
        return Err(format!("{spare} of its slots belong to no data layer"));
    }
    Ok(arranged)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(name: &str) -> DataInput {
        DataInput {
            name: name.to_owned(),
            size: 2,
        }
    }

    fn label(layer: Option<&str>, classes: u32) -> Part {
        Part::Label {
            classes,
            layer: layer.map(str::to_owned),
        }
    }

    #[test]
    fn parts_go_to_layers_by_name_and_by_order() {
        let inputs = [input("a"), input("b"), input("c")];
        let parts = vec![label(None, 1), label(Some("a"), 2), label(None, 3)];
        let arranged = arrange(parts, &inputs).unwrap();
        assert_eq!(
            arranged,
            [label(Some("a"), 2), label(None, 1), label(None, 3)]
        );
    }

    #[test]
    fn parts_and_layers_that_do_not_match_are_named() {
        let inputs = [input("a"), input("b")];
        let reason = |parts| arrange(parts, &inputs).unwrap_err();
        assert_eq!(
            reason(vec![label(Some("z"), 1)]),
            "there is no data layer \"z\"; the network has a, b"
        );
        assert_eq!(reason(vec![label(None, 1)]), "data layer b has no slot");
        assert_eq!(
            reason(vec![label(None, 1); 3]),
            "1 of its slots belong to no data layer"
        );
    }
}
