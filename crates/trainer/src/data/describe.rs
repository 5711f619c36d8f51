//! Describes a data source without reading a sample: the types of its slots, and the words that their ids stand for.

use std::path::Path;

use config::DataConfig;
use serde::Deserialize;

use super::error::DataError;
use super::list::FileList;
use super::provider::Provider;
use super::table::SlotType;
use super::{DataInput, DataOptions, check_slots, native};

/// The slots of a data source and the dictionaries that it uses.
#[derive(Debug, Clone, PartialEq)]
pub struct Description {
    /// One per data layer, in the order of the network's inputs.
    pub slots: Vec<SlotType>,
    /// Dictionaries of slots; a slot without one has plain ids.
    pub dictionaries: Vec<WordList>,
}

/// The words of a dictionary.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct WordList {
    /// The words by id.
    pub words: Vec<String>,
    /// The id that stands for words that are not in the list, if the source has one.
    pub unknown: Option<u32>,
    /// Names of the slots whose ids these are.
    pub slots: Vec<String>,
}

impl WordList {
    /// The words of a file by line number: each is the start of a line, what follows a tab is ignored.
    pub fn read(path: &Path) -> Result<Vec<String>, DataError> {
        let bytes = std::fs::read(path).map_err(|source| DataError::Dictionary {
            path: path.to_owned(),
            source,
        })?;
        let text = String::from_utf8_lossy(&bytes);
        let word = |line: &str| line.split('\t').next().unwrap_or("").trim().to_owned();
        Ok(text.lines().map(word).collect())
    }
}

/// The slots and dictionaries of a data source. A Python provider is started and initialized for it; if its list of files
/// cannot be read, it gets an empty one.
pub fn describe(
    config: &DataConfig,
    inputs: &[DataInput],
    options: &DataOptions,
) -> Result<Description, DataError> {
    let description = match config.r#type.as_str() {
        "py2" => {
            let list = FileList::of(&options.directory, config);
            let list = list.unwrap_or_else(|_| FileList {
                path: Some(options.directory.join(config.files())),
                files: Vec::new(),
            });
            Provider::describe(config, list, inputs, options)?
        }
        "native" => native::describe(config, inputs, options)?,
        other => {
            return Err(DataError::Kind {
                kind: other.to_owned(),
            });
        }
    };
    check_slots(&super::describe_source(config), &description.slots, inputs)?;
    Ok(description)
}
