//! `canoe model verify`: reads every file of a model and names what is missing, cut off or changed.

use std::path::{Path, PathBuf};

use anyhow::Context;
use trainer::model;

use super::model_at;
use crate::exit::Exit;
use crate::form::Form;

/// What is wrong with a file.
pub(crate) type FileProblem = (PathBuf, String);

/// Problems as JSON.
pub(crate) fn problems_json(problems: &[FileProblem]) -> serde_json::Value {
    let problems = problems.iter();
    problems
        .map(|(path, text)| serde_json::json!({"path": path, "text": text}))
        .collect()
}

/// Refuses a job folder or output folder whose best model is missing, because another model would be checked instead.
fn check_best(given: &Path) -> anyhow::Result<()> {
    for folder in [given.join(predict::locate::OUTPUT), given.to_owned()] {
        let best = folder.join(predict::locate::BEST);
        if best.is_symlink() && !best.exists() {
            let to = std::fs::read_link(&best)?;
            anyhow::bail!(
                "{} names the best model, {}, which does not exist; name another pass directory to check that one",
                best.display(),
                to.display()
            );
        }
    }
    Ok(())
}

/// Runs the command.
pub(super) fn verify(given: &Path, form: Form) -> anyhow::Result<Exit> {
    check_best(given)?;
    // The directory may lack the file `done`: this command reports it.
    let directory = &model_at(given).or_else(|error| match given.is_dir() {
        true if given.join(predict::locate::OUTPUT).is_dir() => Err(error),
        true => Ok(given.to_owned()),
        false => Err(error),
    })?;
    if directory.is_file() {
        let parameters = model::read(directory)?.len();
        if form.json() {
            let value = serde_json::json!({"path": directory, "whole": true, "parameters": parameters, "problems": []});
            println!("{}", serde_json::to_string_pretty(&value)?);
        } else {
            println!(
                "{}: {parameters} parameters: all whole",
                directory.display()
            );
        }
        return Ok(Exit::Success);
    }
    let checked = trainer::verify::verify(directory)
        .with_context(|| format!("list {}", directory.display()))?;
    let mut problems = checked.problems;
    let servers = directory.join(trainer::pass_directory::SERVERS);
    let mut states = 0;
    if servers.is_dir() {
        let findings = pserver::snapshot::verify::verify(&servers)?;
        problems.extend(findings.problems);
        for found in findings.snapshots.iter().filter(|found| !found.complete()) {
            let (whole, all) = (found.whole.len(), found.servers);
            let text = format!("the files of {whole} of {all} servers are whole; all are needed");
            problems.push((found.path.clone(), text));
        }
        states = findings.snapshots.len();
    }
    let exit = if problems.is_empty() {
        Exit::Success
    } else {
        Exit::Failure
    };
    if form.json() {
        let value = serde_json::json!({
            "path": directory,
            "whole": problems.is_empty(),
            "parameters": checked.parameters,
            "tables": checked.tables,
            "server_states": states,
            "checksums": checked.sums,
            "problems": problems_json(&problems),
        });
        println!("{}", serde_json::to_string_pretty(&value)?);
        return Ok(exit);
    }
    for (path, text) in &problems {
        println!("{}: {text}", path.display());
    }
    if problems.is_empty() {
        let proof = match checked.sums {
            Some(files) => format!("{files} files have the checksums they were saved with"),
            None => "saved without checksums, so only lengths were compared".to_owned(),
        };
        println!(
            "{}: {} parameters, {} tables of servers, {states} saved states of servers: all whole; {proof}",
            directory.display(),
            checked.parameters,
            checked.tables
        );
    }
    Ok(exit)
}
