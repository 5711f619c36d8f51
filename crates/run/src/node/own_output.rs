//! Keeps results of different runs apart on the volume. A hidden file in the output folder names the run. Results of an
//! earlier run are moved aside before a new run writes anything, as `canoe run` does on a machine.
//!
//! Node 0 does this, and the others wait for it. There is only one node 0 at a time, and a pod that replaces it sees
//! whether it is already done.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::finish::run_name;
use crate::local::archive::archive;
use crate::local::found::find_work;

/// The file that names the run.
const RUN: &str = ".run";

/// Whether the folder belongs to the run with this token.
pub fn is_of(output: &Path, token: &str) -> bool {
    fs::read_to_string(output.join(RUN)).is_ok_and(|run| run == run_name(token))
}

/// Prepares the folder for this run. Returns where results of an earlier run were moved to; `keep` leaves them in place.
pub(super) fn begin(output: &Path, token: &str, keep: bool) -> io::Result<Option<PathBuf>> {
    if is_of(output, token) {
        return Ok(None);
    }
    let work = find_work(output);
    let moved = if !keep && work.any() {
        archive(output).map_err(io::Error::other)?
    } else {
        None
    };
    write(output, token).map_err(|error| {
        let text = format!("write to {} on the volume: {error}", output.display());
        io::Error::new(error.kind(), text)
    })?;
    Ok(moved)
}

fn write(output: &Path, token: &str) -> io::Result<()> {
    fs::create_dir_all(output)?;
    let new = output.join(format!("{RUN}.new"));
    fs::write(&new, run_name(token))?;
    fs::rename(&new, output.join(RUN))
}

/// Whether a trainer with these flags starts from results in the output folder, which must then stay there.
pub(super) fn starts_from(flags: &[String], output: &Path) -> bool {
    flags.iter().any(|flag| {
        let flag = flag.trim_start_matches('-');
        let (name, value) = flag.split_once('=').unwrap_or((flag, ""));
        let is_start = name == "start_pass" && value != "0";
        is_start || Path::new(value).starts_with(output) || Path::new(flag).starts_with(output)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_an_earlier_run_are_moved_aside_once() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("output");
        assert!(!is_of(&output, "one"));
        assert_eq!(begin(&output, "one", false).unwrap(), None);
        assert!(is_of(&output, "one") && !is_of(&output, "two"));
        fs::create_dir_all(output.join("pass-00003")).unwrap();
        assert_eq!(begin(&output, "one", false).unwrap(), None, "its successor");
        assert!(output.join("pass-00003").exists());
        let moved = begin(&output, "two", false).unwrap();
        let aside = folder.path().join("output-1");
        assert_eq!(moved.as_ref(), Some(&aside));
        assert!(is_of(&output, "two") && !output.join("pass-00003").exists());
        assert!(aside.join("pass-00003").exists() && is_of(&aside, "one"));
        assert_eq!(begin(&output, "two", false).unwrap(), None);
        // Logs alone are no results.
        fs::create_dir_all(output.join("node_0")).unwrap();
        assert_eq!(begin(&output, "three", false).unwrap(), None);
        assert!(output.join("node_0").exists());
        fs::create_dir_all(output.join("snapshots/step-000000000007")).unwrap();
        let moved = begin(&output, "four", false).unwrap();
        assert_eq!(moved, Some(folder.path().join("output-2")));
    }

    #[test]
    fn a_run_that_starts_from_results_finds_them() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("output");
        begin(&output, "one", false).unwrap();
        fs::create_dir_all(output.join("pass-00003")).unwrap();
        assert_eq!(begin(&output, "two", true).unwrap(), None);
        assert!(is_of(&output, "two") && output.join("pass-00003").exists());
        let inside = output.join("pass-00003").display().to_string();
        let starts = |flags: &[&str]| {
            let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
            starts_from(&flags, &output)
        };
        assert!(starts(&["--log_period=5", "--start_pass=4"]));
        assert!(starts(&["--start_pass", "4"]));
        assert!(starts(&[&format!("--init_model_path={inside}")]));
        assert!(starts(&["--init_model_path", &inside]));
        assert!(!starts(&[
            "--num_passes=4",
            "--init_model_path=/elsewhere",
            "--start_pass=0"
        ]));
    }
}
