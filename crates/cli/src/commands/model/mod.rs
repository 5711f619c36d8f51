//! `canoe model`: look into a pass directory or a merged model, check it, export it, compare two.

mod exchange;
mod rows;

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Subcommand};
use trainer::model::{self, Difference};
use trainer::saved_rows::SavedRows;
use trainer::scores_file;
use words::result::Best;

use crate::exit::Exit;
use crate::form::Form;
use crate::table::{Align, TextTable};

/// Arguments of `canoe model`.
#[derive(Debug, Args)]
pub(crate) struct ModelArgs {
    #[command(subcommand)]
    command: ModelCommand,
}

#[derive(Debug, Subcommand)]
enum ModelCommand {
    /// List the models of a job with their test results; the best one is marked.
    List {
        /// The output folder of a job, or the job folder.
        folder: PathBuf,
        #[command(flatten)]
        form: Form,
    },
    /// Show the parameters of a pass directory with statistics.
    Show {
        /// A pass directory or merged model (output/pass-00000, model.paddle).
        directory: PathBuf,
        #[command(flatten)]
        form: Form,
    },
    /// Write the parameters to one safetensors or npz file, with their shapes and readable names.
    Export(exchange::ExportArgs),
    /// Make a pass directory from a safetensors or npz file, to start training from it or to apply it.
    Import(exchange::ImportArgs),
    /// List the rows of a table that are closest to one, such as the words closest to a word.
    Neighbours(rows::NeighboursArgs),
    /// Write the rows of a table for a vector store.
    Embed(rows::EmbedArgs),
    /// Read all files of a pass directory and name what is missing, cut off or changed since it was saved; ends with 1 if
    /// anything is. Checksums are in canoe.sums, which directories of v1 and of earlier versions do not have.
    Verify {
        /// A pass directory or merged model.
        directory: PathBuf,
    },
    /// Compare two pass directories; ends with 1 if they differ.
    Diff {
        /// A pass directory or merged model.
        left: PathBuf,
        /// Another one.
        right: PathBuf,
        #[command(flatten)]
        form: Form,
    },
}

pub(crate) fn run(args: ModelArgs) -> anyhow::Result<Exit> {
    match args.command {
        ModelCommand::List { folder, form } => list(&folder, form),
        ModelCommand::Show { directory, form } => show(&directory, form),
        ModelCommand::Export(args) => exchange::export(&args),
        ModelCommand::Import(args) => exchange::import(&args),
        ModelCommand::Neighbours(args) => rows::neighbours(&args),
        ModelCommand::Embed(args) => rows::embed(&args),
        ModelCommand::Verify { directory } => verify(&directory),
        ModelCommand::Diff { left, right, form } => diff(&left, &right, form),
    }
}

/// The models of an output folder, by pass, with what their tests measured.
fn list(folder: &Path, form: Form) -> anyhow::Result<Exit> {
    let inside = folder.join("output");
    let folder = if inside.is_dir() { &inside } else { folder };
    let scores = scores_file::read(folder)?;
    let best = scores.best().map(|(pass, _)| pass);
    let measure = scores.measure.as_ref().map(|measure| measure.name.clone());
    let mut rows = Vec::new();
    let entries =
        std::fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let Some(pass) = name
            .strip_prefix("pass-")
            .and_then(|n| n.parse::<u32>().ok())
        else {
            continue;
        };
        if path.join(trainer::pass_directory::DONE).is_file() {
            let value = scores.passes.get(&pass).and_then(|score| score.value);
            rows.push((pass, path, value));
        }
    }
    rows.sort_by_key(|(pass, ..)| *pass);
    anyhow::ensure!(
        !rows.is_empty(),
        "{} holds no model: a trained job has pass directories (pass-00000, …) there",
        folder.display()
    );
    if form.json() {
        let models: Vec<_> = rows
            .iter()
            .map(|(pass, path, value)| {
                serde_json::json!({"pass": pass, "path": path, "test": value, "best": Some(*pass) == best})
            })
            .collect();
        let value = serde_json::json!({"measure": measure, "models": models});
        println!("{}", serde_json::to_string_pretty(&value)?);
        return Ok(Exit::Success);
    }
    let name = measure.as_deref().map(words::result::plain_name);
    let head = name.map_or("test".to_owned(), |name| format!("test {name}"));
    let mut table = TextTable::new(&[
        ("model", Align::Left),
        (&head, Align::Right),
        ("", Align::Left),
    ]);
    for (pass, path, value) in rows {
        let value = value.zip(measure.as_deref());
        table.row([
            path.display().to_string(),
            value.map_or("-".to_owned(), |(v, m)| words::result::value_text(m, v)),
            (if Some(pass) == best { "best" } else { "" }).to_owned(),
        ]);
    }
    print!("{table}");
    Ok(Exit::Success)
}

/// Says how good a model is, if its folder has the results of its tests.
fn tell_score(directory: &Path) {
    let Ok(directory) = std::fs::canonicalize(directory) else {
        return;
    };
    let (Some(folder), Some(name)) = (directory.parent(), directory.file_name()) else {
        return;
    };
    let pass = name.to_string_lossy();
    let pass = pass
        .strip_prefix("pass-")
        .and_then(|n| n.parse::<u32>().ok());
    let scores = scores_file::read(folder).unwrap_or_default();
    let (Some(pass), Some(measure), Some((best, value))) = (pass, &scores.measure, scores.best())
    else {
        return;
    };
    if pass == best {
        let best = Best {
            pass: u64::from(pass),
            measure: measure.name.clone(),
            value,
        };
        eprintln!("{}", words::result::sentence(&best, None));
    } else if let Some(own) = scores.passes.get(&pass).and_then(|score| score.value) {
        let text = |value| words::result::value_text(&measure.name, value);
        let name = words::result::plain_name(&measure.name);
        eprintln!(
            "test {name} {} after pass {pass}; the best is pass {best} with {}",
            text(own),
            text(value)
        );
    }
}

fn show(directory: &Path, form: Form) -> anyhow::Result<Exit> {
    let model = model::read(directory)?;
    tell_score(directory);
    let rows = model.iter().map(|p| (p, model::statistics(&p.values)));
    match form.json() {
        true => {
            let list: Vec<_> = rows
                .map(|(p, s)| serde_json::json!({"name": p.name, "dims": [p.dims.0, p.dims.1], "statistics": s}))
                .collect();
            println!("{}", serde_json::to_string_pretty(&list)?);
        }
        false => {
            let mut table = TextTable::new(&[
                ("parameter", Align::Left),
                ("shape", Align::Right),
                ("values", Align::Right),
                ("mean", Align::Right),
                ("deviation", Align::Right),
                ("min", Align::Right),
                ("max", Align::Right),
                ("zeros", Align::Right),
            ]);
            for (p, s) in rows {
                let number = nn::number::general;
                table.row([
                    p.name.clone(),
                    format!("{}x{}", p.dims.0, p.dims.1),
                    s.values.to_string(),
                    number(s.mean),
                    number(s.deviation),
                    number(f64::from(s.min)),
                    number(f64::from(s.max)),
                    format!("{:.1}%", 100.0 * s.zeros),
                ]);
            }
            print!("{table}");
        }
    }
    tell_tables(directory, "")?;
    Ok(Exit::Success)
}

/// Prints which tables are in the files of servers; they may be larger than memory, and `--job=test` reads them.
fn tell_tables(directory: &Path, consequence: &str) -> anyhow::Result<()> {
    // A merged model has its tables inside.
    if directory.is_file() {
        return Ok(());
    }
    let saved = SavedRows::open(directory)?;
    for (name, rows, cols) in saved.iter().flat_map(SavedRows::tables) {
        eprintln!("{name}: {rows} rows of {cols}, saved by servers in pserver.NNNN{consequence}");
    }
    Ok(())
}

fn verify(directory: &Path) -> anyhow::Result<Exit> {
    if directory.is_file() {
        let parameters = model::read(directory)?.len();
        println!(
            "{}: {parameters} parameters: all whole",
            directory.display()
        );
        return Ok(Exit::Success);
    }
    let checked = trainer::verify::verify(directory)
        .with_context(|| format!("list {}", directory.display()))?;
    let mut problems = checked.problems;
    let servers = directory.join(trainer::pass_directory::SERVERS);
    let mut state = 0;
    if servers.is_dir() {
        let findings = pserver::snapshot::verify::verify(&servers)?;
        problems.extend(findings.problems);
        for found in findings.snapshots.iter().filter(|found| !found.complete()) {
            let (whole, all) = (found.whole.len(), found.servers);
            let text = format!("the files of {whole} of {all} servers are whole; all are needed");
            problems.push((found.path.clone(), text));
        }
        state = findings.snapshots.len();
    }
    for (path, text) in &problems {
        println!("{}: {text}", path.display());
    }
    if !problems.is_empty() {
        return Ok(Exit::Failure);
    }
    let proof = match checked.sums {
        Some(files) => format!("{files} files have the checksums they were saved with"),
        None => "saved without checksums, so only lengths were compared".to_owned(),
    };
    println!(
        "{}: {} parameters, {} tables of servers, {state} saved states of servers: all whole; {proof}",
        directory.display(),
        checked.parameters,
        checked.tables
    );
    Ok(Exit::Success)
}

fn diff(left: &Path, right: &Path, form: Form) -> anyhow::Result<Exit> {
    let told = model::diff(&model::read(left)?, &model::read(right)?);
    for directory in [left, right] {
        tell_tables(directory, ": not compared")?;
    }
    let equal = told.iter().all(|(_, d)| *d == Difference::Equal);
    match form.json() {
        true => {
            let list: Vec<_> = told
                .iter()
                .map(|(name, d)| serde_json::json!({"name": name, "difference": d}))
                .collect();
            println!("{}", serde_json::to_string_pretty(&list)?);
        }
        false => {
            let mut table =
                TextTable::new(&[("parameter", Align::Left), ("difference", Align::Left)]);
            for (name, difference) in told {
                table.row([name, sentence(&difference)]);
            }
            print!("{table}");
        }
    }
    Ok(if equal { Exit::Success } else { Exit::Failure })
}

fn sentence(difference: &Difference) -> String {
    let number = nn::number::general;
    match difference {
        Difference::Equal => "equal, byte for byte".to_owned(),
        Difference::Changed { values, max, rms } => format!(
            "{values} values differ, by at most {} (root mean square {})",
            number(*max),
            number(*rms)
        ),
        Difference::Resized { left, right } => format!("{left} values against {right}"),
        Difference::OnlyLeft => "only in the first".to_owned(),
        Difference::OnlyRight => "only in the second".to_owned(),
    }
}
