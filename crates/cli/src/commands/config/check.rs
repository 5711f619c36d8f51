//! `canoe config check`: evaluates a configuration, reads its first samples and computes them, and says with file and
//! line what would stop a job.

use std::path::{Path, PathBuf};

use anyhow::Context;
use config::python::SourceLines;
use config::{ConfigError, DataConfig, Evaluated, TrainerConfig, command};
use trainer::check::{Findings, JobProblem};

use super::{File, options};
use crate::commands::{doctor, train};
use crate::exit::Exit;
use crate::form::Form;
use crate::wherever::{self, DoneThere, WhereverError};

pub(super) fn run(file: &File, fast: bool, form: Form) -> anyhow::Result<Exit> {
    let path = std::path::absolute(&file.file).context("find the configuration")?;
    let DoneThere {
        done: evaluated,
        folder,
    } = match wherever::evaluate(&options(file)) {
        Ok(evaluated) => evaluated,
        Err(WhereverError::Configuration(error)) => {
            let problem = (script_place(&error), words::causes::chain(&error));
            tell(form, file, None, &[problem], &[])?;
            return Ok(Exit::Configuration);
        }
        Err(error) => return Err(error.into()),
    };
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory = doctor::meminfo(&text, "MemTotal");
    let findings = if fast {
        trainer::check::check_described(&evaluated.config, memory)
    } else {
        tried(file, path, &folder, &evaluated, memory)?
    };
    for note in &evaluated.notes {
        eprintln!("{note}");
    }
    let place = |problem: &JobProblem| place(problem, &evaluated.places);
    let problems: Vec<(Option<String>, String)> = findings
        .problems
        .iter()
        .map(|problem| (place(problem), problem.text.clone()))
        .collect();
    let config = Some(&evaluated.config);
    tell(form, file, config, &problems, &findings.tried)?;
    Ok(if problems.is_empty() {
        Exit::Success
    } else {
        Exit::Configuration
    })
}

/// Reads and computes the first samples, in the folder in which a job would run.
fn tried(
    file: &File,
    path: PathBuf,
    evaluated_in: &Path,
    evaluated: &Evaluated,
    memory: Option<u64>,
) -> anyhow::Result<Findings> {
    let data = evaluated.config.data_config.as_ref();
    let list = data.map(first_file).unwrap_or_default();
    let work = tempfile::tempdir().context("create a working directory")?;
    let folder = folder(&path, &list, evaluated_in, work.path())?;
    let python = evaluated.python.clone();
    let settings = train::settings_for_check(path, python, folder.clone(), &file.config_args)?;
    let mut findings = trainer::check::check(&evaluated.config, &settings, memory);
    if std::env::current_dir().ok().as_deref() != Some(&folder) && folder != work.path() {
        let text = format!("file names are relative to {}", folder.display());
        findings.tried.insert(0, text);
    }
    Ok(findings)
}

/// The list file of a data source, or the first of the files that the configuration names itself.
fn first_file(data: &DataConfig) -> String {
    let own = data.own_files();
    let first = own.map(|files| files.into_iter().next());
    first.map_or_else(|| data.files().to_owned(), Option::unwrap_or_default)
}

/// The folder that has the list of training files, or the first of them. A job folder with shards gets the working
/// directory of its first node.
fn folder(path: &Path, list: &str, evaluated_in: &Path, work: &Path) -> anyhow::Result<PathBuf> {
    let choices = wherever::choices(path)?;
    let has_list = |folder: &&PathBuf| !list.is_empty() && folder.join(list).is_file();
    if let Some(found) = choices.iter().find(has_list) {
        return Ok(found.clone());
    }
    let shard = choices
        .iter()
        .flat_map(|job| [(job, job.join("data/0")), (job, job.join("0/data"))])
        .find(|(_, shard)| shard.is_dir() && !was_split(shard));
    if let Some((job, shard)) = shard {
        let beside = path.parent().unwrap_or(Path::new("/"));
        run::local::workdir::prepare(work, job, beside, &shard)?;
        return Ok(work.to_owned());
    }
    Ok(evaluated_in.to_owned())
}

/// Whether the data from which a shard was split are beside it: a job then reads those data, by their list.
fn was_split(shard: &Path) -> bool {
    let beside = shard.parent().map(std::fs::read_dir);
    let entries = beside.into_iter().flatten().flatten().flatten();
    let mut files = entries.filter(|entry| entry.path().is_file());
    shard.ends_with("data/0")
        && files.any(|entry| !entry.file_name().to_string_lossy().starts_with('.'))
}

/// `FILE:LINE` of what a problem is about.
fn place(problem: &JobProblem, places: &SourceLines) -> Option<String> {
    let (file, line) = places.get(problem.subject.as_ref()?)?;
    Some(format!("{}:{line}", file.display()))
}

/// `FILE:LINE` of what stopped the evaluation.
fn script_place(error: &ConfigError) -> Option<String> {
    let ConfigError::Script(failure) = error else {
        return None;
    };
    let last = failure.frames.last()?;
    Some(format!("{}:{}", last.file, last.line))
}

/// Prints the result: a summary, then every problem on a line of its own.
fn tell(
    form: Form,
    file: &File,
    config: Option<&TrainerConfig>,
    problems: &[(Option<String>, String)],
    tried: &[String],
) -> anyhow::Result<()> {
    if form.json() {
        let problems: Vec<_> = problems
            .iter()
            .map(|(place, text)| serde_json::json!({"place": place, "text": text}))
            .collect();
        let model = config.and_then(|config| config.model_config.as_ref());
        let value = serde_json::json!({
            "file": file.file,
            "valid": problems.is_empty(),
            "problems": problems,
            "checked": tried,
            "layers": model.map(|model| model.layers.len()),
            "parameters": model.map(|model| model.parameters.iter().map(|p| p.size).sum::<u64>()),
        });
        println!("{}", serde_json::to_string_pretty(&value)?);
        return Ok(());
    }
    let name = file.file.display().to_string();
    if let Some(config) = config {
        print!("{}", command::summary(&name, config));
        println!();
    }
    for text in tried {
        println!("{text}");
    }
    for (place, text) in problems {
        // The error of a file that cannot be evaluated already has the line.
        match (config, place) {
            (None, _) => eprintln!("{text}"),
            (Some(_), place) => eprintln!("{}: {text}", place.as_deref().unwrap_or(&name)),
        }
    }
    if problems.is_empty() {
        println!("{name} can be trained");
    } else {
        eprintln!(
            "{name} cannot be trained: {} to correct",
            match problems.len() {
                1 => "one thing".to_owned(),
                n => format!("{n} things"),
            }
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn shards_do_not_stand_for_a_list_that_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        let (job, work) = (dir.path().join("job"), dir.path().join("work"));
        let config = job.join("river/trainer_config.py");
        for folder in [job.join("data/0"), job.join("river"), work.clone()] {
            fs::create_dir_all(folder).unwrap();
        }
        fs::write(&config, "").unwrap();
        fs::write(job.join("data/0/train.list"), "").unwrap();
        let found = || folder(&config, "data/train.list", &job, &work).unwrap();
        assert_eq!(found(), work, "a job whose data are only shards");
        fs::write(job.join("data/train.txt"), "").unwrap();
        assert_eq!(found(), job, "the shards were split from this file");
        fs::write(job.join("data/train.list"), "").unwrap();
        assert_eq!(found(), job);
    }
}
