//! Selects the models that `--job=test` measures: those of a list, a single one, or the passes of the save directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::TrainError;
use crate::pass_directory::{self, DONE};
use crate::settings::Passes;

/// Time between two checks for a pass that is awaited.
const POLL: Duration = Duration::from_millis(500);

/// The directories to test, in order. With `test_wait`, waits for each pass that does not exist yet.
pub(crate) fn to_test(
    save_dir: &Path,
    passes: &Passes,
) -> Result<Box<dyn Iterator<Item = Result<PathBuf, TrainError>>>, TrainError> {
    if let Some(list) = &passes.model_list {
        let text = fs::read_to_string(list).map_err(|source| TrainError::Read {
            path: list.clone(),
            source,
        })?;
        let lines = text.lines().map(str::trim).filter(|l| !l.is_empty());
        let directories: Vec<_> = lines.map(|l| Ok(PathBuf::from(l))).collect();
        return Ok(Box::new(directories.into_iter()));
    }
    if let Some(path) = &passes.init_model_path {
        return Ok(Box::new(std::iter::once(Ok(path.clone()))));
    }
    let (save_dir, wait) = (save_dir.to_owned(), passes.test_wait);
    let period = passes.saving_period.max(1);
    let chosen = (passes.test_pass.unwrap_or(0)..passes.count).filter(move |p| p % period == 0);
    Ok(Box::new(chosen.filter_map(move |pass| {
        let directory = save_dir.join(pass_directory::name(pass, None));
        // A pass that is missing although a later one exists was removed (`--keep`).
        let removed = || pass_directory::newest(&save_dir).is_some_and(|newest| newest > pass);
        while !directory.join(DONE).is_file() {
            if removed() {
                return None;
            }
            if !wait {
                break;
            }
            std::thread::sleep(POLL);
        }
        Some(pass_directory::complete(&save_dir, pass).map_err(TrainError::from))
    })))
}
