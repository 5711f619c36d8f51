//! How a run begins in an output folder: results in it are resumed, continued, moved aside or refused.

use std::path::{Path, PathBuf};

use anyhow::Context;
use run::local::archive::archive;
use run::local::claim::{self, Beginning, ClaimError, FinishedPasses, StartOptions};
use run::local::found::{find_work, whole_passes};
use run::local::inputs::{config_files, data_checksum};
use run::local::layout::JobData;
use run::local::lease::Owner;
use run::local::run_file::{self, RunFile, RunSettings};
use run::local::{self, FolderLayout, RunOptions, Shutdown};
use words::result::Stopped;

use crate::record;

/// A flag of the trainers whose value lies in the output folder: results that the run starts from.
pub(super) struct InsideFlag {
    /// Index of the flag.
    index: usize,
    /// What is in front of the path, with the `=`; empty if the path is a word of its own.
    name: String,
    /// The path inside the output folder.
    rest: PathBuf,
}

impl InsideFlag {
    /// Where the results are: in the output folder, or where an earlier run of the same flags has moved them.
    fn place<'a>(&self, output: &'a Path, moved: Option<&'a Path>) -> Option<&'a Path> {
        let mut places = [Some(output), moved].into_iter().flatten();
        places.find(|place| place.join(&self.rest).exists())
    }

    /// Changes the flag for results that were moved to a folder.
    pub(super) fn follow(&self, moved: &Path, flags: &mut [String]) {
        // A path that does not exist will be written by the new run, so it is not moved.
        if moved.join(&self.rest).exists() {
            self.rename(moved, flags);
        }
    }

    fn rename(&self, folder: &Path, flags: &mut [String]) {
        flags[self.index] = format!("{}{}", self.name, folder.join(&self.rest).display());
    }
}

/// The flags whose values lie in the output folder.
pub(super) fn inside(flags: &[String], output: &Path) -> Vec<InsideFlag> {
    let real = std::fs::canonicalize(output).ok();
    let is_output = |folder: &&Path| {
        *folder == output || real.is_some() && std::fs::canonicalize(folder).ok() == real
    };
    let rest = |path: &Path| -> Option<PathBuf> {
        // A link inside, such as `best`, stays a link: it is moved with what it points to.
        let folder = path.ancestors().skip(1).find(is_output)?;
        path.strip_prefix(folder).ok().map(Path::to_owned)
    };
    let flag = |(index, flag): (usize, &String)| {
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (format!("{name}="), value),
            None => (String::new(), flag.as_str()),
        };
        let path = Path::new(value);
        let rest = rest(path).filter(|_| path.is_absolute())?;
        Some(InsideFlag { index, name, rest })
    };
    flags.iter().enumerate().filter_map(flag).collect()
}

/// Where an earlier run has moved the results that it started from, as far as its note can be read.
pub(super) fn moved_before(output: &Path) -> Option<PathBuf> {
    run_file::read(output).ok()??.moved_to
}

/// The flags as the processes can use them before the run begins: results that the run in the folder has moved aside are
/// looked for where they are now.
pub(super) fn followed(flags: &[String], inside: &[InsideFlag], output: &Path) -> Vec<String> {
    let (moved, mut flags) = (moved_before(output), flags.to_vec());
    for flag in inside {
        if let Some(place) = flag.place(output, moved.as_deref())
            && place != output
        {
            flag.follow(place, &mut flags);
        }
    }
    flags
}

/// The flags as the run in the folder was given them, if these name the same results where that run has moved them.
fn as_given(flags: &[String], found: &RunFile, output: &Path) -> Vec<String> {
    let Some(moved) = &found.moved_to else {
        return flags.to_vec();
    };
    let mut given = flags.to_vec();
    for flag in inside(flags, moved) {
        flag.rename(output, &mut given);
    }
    match given == found.settings.trainer_flags {
        true => given,
        false => flags.to_vec(),
    }
}

/// Number of finished passes when a run has finished.
pub(super) fn done(output: &Path, file: &RunFile, stopped: Option<Stopped>) -> Option<u64> {
    let first = run_file::start_pass(&file.settings.trainer_flags);
    let asked = file.settings.passes.map(|passes| first + passes);
    let stopped = stopped.map(|stopped| stopped.pass + 1);
    let saved = || whole_passes(output).last().map(|last| last + 1);
    stopped.or(asked).or_else(saved)
}

/// The settings that determine the results of a run; an earlier run with the same settings can be resumed.
pub(super) fn settings(layout: &FolderLayout, options: &RunOptions) -> anyhow::Result<RunSettings> {
    let files = config_files(&layout.config_dir, &layout.job);
    let configuration = layout.config_dir.join(&layout.config);
    let configuration = configuration
        .strip_prefix(&layout.job)
        .unwrap_or(&configuration);
    // Flat data are split into their own folder before the run, so that their checksum would change.
    let data = match &layout.data {
        JobData::Shards(folders) => Some(data_checksum(folders)),
        JobData::Listed(listed) => Some(data_checksum(&listed.paths()?)),
        JobData::Flat(_) => None,
    };
    let data = data.transpose().context("read the data")?;
    Ok(RunSettings {
        config: configuration.display().to_string(),
        config_files: Some(files.context("read the configuration folder")?),
        nodes: options.nodes,
        trainer_flags: deciding(&options.trainer_flags),
        data_checksum: data,
        passes: options.num_passes,
    })
}

/// Notes the checksum of the data after they were split, so that a change is detected when the run is resumed.
pub(super) fn note_data(output: &Path, file: &mut RunFile, shards: &[PathBuf]) {
    if file.settings.data_checksum.is_some() {
        return;
    }
    let noted = data_checksum(shards)
        .map_err(anyhow::Error::from)
        .and_then(|sum| {
            file.settings.data_checksum = Some(sum);
            Ok(run_file::write(output, file)?)
        });
    if let Err(error) = noted {
        eprintln!("canoe run: a later change of the data will not be detected: {error:#}");
    }
}

/// The flags that determine the result of a pass. The number of passes, and which of them are kept, may change when a run
/// is resumed.
fn deciding(flags: &[String]) -> Vec<String> {
    let length = ["--keep=", "--patience=", "--best_by="];
    let decides = |flag: &&String| !length.iter().any(|name| flag.starts_with(name));
    flags.iter().filter(decides).cloned().collect()
}

/// Claims the output folder and prints in one line what happens to the results in it.
pub(super) fn begin(
    output: &Path,
    mut settings: RunSettings,
    wanted: StartOptions,
    inside: &[InsideFlag],
    shutdown: &Shutdown,
) -> anyhow::Result<(Owner, RunFile)> {
    let create = || {
        std::fs::create_dir_all(output).with_context(|| {
            format!(
                "create the output folder {}; if something else has this name, move it away",
                output.display()
            )
        })
    };
    let new_name = || -> anyhow::Result<String> {
        let random = local::token::generate().context("name the run")?;
        Ok(random[..16].to_owned())
    };
    let claim = || {
        let (stop, folder) = (shutdown.clone(), output.to_owned());
        Owner::claim(output, &record::host(), move |loss| {
            // First the processes are ended: standard error may be slow.
            stop.request_now();
            eprintln!(
                "canoe run: {} no longer belongs to this run, because it was stopped for too long: {loss}; it ends here and writes nothing more",
                folder.display()
            );
        })
    };
    create()?;
    let mut owner = claim()?;
    let found = match run_file::read(output) {
        // --fresh: the contents are moved aside, whatever they are.
        Err(ClaimError::Damaged { .. }) if wanted.fresh => None,
        found => found?,
    };
    let mut start_pass = found.as_ref().map_or(0, |found| found.start_pass);
    let mut moved_to = found.as_ref().and_then(|found| found.moved_to.clone());
    let given = found
        .as_ref()
        .map(|found| as_given(&settings.trainer_flags, found, output));
    let is_renamed = given
        .as_ref()
        .is_some_and(|given| *given != settings.trainer_flags);
    settings.trainer_flags = given.unwrap_or(settings.trainer_flags);
    // The model is not among the results that are in the folder now.
    let elsewhere = moved_to.clone().filter(|moved| {
        let mut places = inside.iter().map(|flag| flag.place(output, Some(moved)));
        is_renamed || places.any(|place| place == Some(moved))
    });
    let mut work = find_work(output);
    if let Some(found) = found.as_ref().filter(|found| found.finished) {
        work.restorable = trainer::saved_note::newest_restorable(output, &found.run);
    }
    let beginning = claim::decide(found.as_ref(), &settings, wanted, &work);
    let continues = matches!(beginning, Beginning::Resume(_) | Beginning::More(_));
    let run = match beginning {
        Beginning::Resume(run) => {
            eprintln!(
                "resuming the run in {} that did not finish (--fresh starts again)",
                output.display()
            );
            run
        }
        Beginning::More(passes) => {
            let FinishedPasses { count, lost } = passes;
            let done = match (lost, count) {
                (Some(lost), _) => format!(
                    "pass {}: the model of its last pass, {lost}, is missing or cannot be continued, so the passes from {count} on are repeated",
                    count - 1
                ),
                (None, 1) => "its pass".to_owned(),
                (None, _) => format!("its {count} passes"),
            };
            eprintln!(
                "continuing the run in {} after {done} (--fresh starts again)",
                output.display()
            );
            start_pass = count;
            new_name()?
        }
        Beginning::Differs(differences) => {
            let folder = output.to_owned();
            let error = ClaimError::Differs {
                folder,
                differences,
            };
            return Err(error.into());
        }
        Beginning::Nameless(fault) => {
            let folder = output.to_owned();
            return Err(ClaimError::Nameless { folder, fault }.into());
        }
        Beginning::New => {
            (start_pass, moved_to) = (0, None);
            new_name()?
        }
        Beginning::Archive(why) => {
            start_pass = 0;
            drop(owner);
            moved_to = archive(output)?;
            if let Some(moved) = &moved_to {
                let moved = moved.display();
                match why.as_str() {
                    "" => eprintln!("the results of an earlier run are now in {moved}"),
                    why => eprintln!(
                        "the results of an earlier run are now in {moved}: more passes cannot continue after them, because {why}"
                    ),
                }
            }
            create()?;
            owner = claim()?;
            new_name()?
        }
    };
    let settings = match &found {
        Some(found) if continues => settings.continuing(&found.settings),
        _ => settings,
    };
    let file = RunFile {
        run,
        settings,
        finished: false,
        start_pass,
        done: None,
        moved_to: elsewhere.or_else(|| moved_to.filter(|_| !inside.is_empty())),
    };
    run_file::write(output, &file)?;
    Ok((owner, file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_of_the_earlier_run_is_found_where_it_was_moved() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("output");
        std::fs::create_dir_all(output.join("pass-00003")).unwrap();
        std::os::unix::fs::symlink("pass-00003", output.join("best")).unwrap();
        let other = folder.path().join("job");
        std::os::unix::fs::symlink(folder.path(), &other).unwrap();
        let mut flags = vec![
            format!("--init_model_path={}", output.join("best").display()),
            format!("--predict_file={}", output.join("new.txt").display()),
            "--log_period=50".to_owned(),
            other.join("output/pass-00003").display().to_string(),
            format!("--x={}", folder.path().display()),
        ];
        let before = flags.clone();
        let found = inside(&flags, &output);
        assert_eq!(found.len(), 3);
        let moved = archive(&output).unwrap().unwrap();
        for flag in &found {
            flag.follow(&moved, &mut flags);
        }
        let best = format!("--init_model_path={}", moved.join("best").display());
        assert_eq!(flags[0], best);
        assert_eq!(flags[3], moved.join("pass-00003").display().to_string());
        assert_eq!((&flags[1..3], &flags[4]), (&before[1..3], &before[4]));
    }
}
