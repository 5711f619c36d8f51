//! When and what to save: pass directories with parameters, optimizer state and configuration.

use std::fs;
use std::path::PathBuf;

use nn::{ParameterSpec, Parameters, Values};

use crate::error::TrainError;
use crate::pass_directory::{self, Extras, STATE, Writer};
use crate::state_file::{self, SavedState};

/// Writes pass directories.
#[derive(Debug, Clone)]
pub struct Saver {
    /// Where they go.
    pub save_dir: PathBuf,
    /// What goes in besides parameters.
    pub extras: Extras,
    /// Remove the directory of the save before, this many passes ago.
    pub replaces: Option<u32>,
}

impl Saver {
    /// Where a save will be found.
    pub fn path(&self, pass: u32, part: Option<u64>) -> PathBuf {
        self.save_dir.join(pass_directory::name(pass, part))
    }

    /// Writes a whole directory, or nothing; `beside` adds what others write into it.
    pub fn save(
        &self,
        pass: u32,
        part: Option<u64>,
        specs: &[ParameterSpec],
        (parameters, state): (&Parameters, Option<&SavedState<'_>>),
        beside: impl FnOnce(&Writer) -> Result<(), TrainError>,
    ) -> Result<PathBuf, TrainError> {
        let writer = Writer::create(&self.save_dir, &pass_directory::name(pass, part))?;
        for (spec, values) in specs.iter().zip(&parameters.0) {
            if let Values::Full(values) = values {
                writer.parameter(&spec.name, values)?;
            }
        }
        if let Some(state) = state {
            state_file::write(&writer.path(STATE), state)?;
        }
        beside(&writer)?;
        let path = writer.commit(&self.extras)?;
        if part.is_none() {
            self.remove_replaced(pass);
        }
        Ok(path)
    }

    fn remove_replaced(&self, pass: u32) {
        let old = self.replaces.and_then(|period| pass.checked_sub(period));
        if let Some(old) = old {
            // What cannot be removed costs only room on the disk.
            let _ = fs::remove_dir_all(self.path(old, None));
        }
    }
}
