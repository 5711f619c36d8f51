//! `canoe model`: look into a pass directory or a merged model, check it, export it, compare two.

mod exchange;
mod rows;
mod verify;

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Subcommand};
use predict::locate;
use trainer::model::{self, Difference};
use trainer::saved_rows::{SavedRows, SavedTable};
use trainer::scores_file;

pub(crate) use verify::problems_json;

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
    /// Show the parameters of a model with their shapes and statistics.
    Show {
        /// A pass directory, a merged model, or a job folder (its best pass).
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
        /// A pass directory, a merged model, or a job folder (its best pass).
        directory: PathBuf,
        #[command(flatten)]
        form: Form,
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
        ModelCommand::Verify { directory, form } => verify::verify(&directory, form),
        ModelCommand::Diff { left, right, form } => diff(&left, &right, form),
    }
}

/// The models of an output folder, by pass, with what their tests measured.
fn list(folder: &Path, form: Form) -> anyhow::Result<Exit> {
    let inside = folder.join("output");
    let folder = if inside.is_dir() { &inside } else { folder };
    anyhow::ensure!(
        folder.is_dir(),
        "{} does not exist; give a job folder or its output folder",
        folder.display()
    );
    let scores = scores_file::read(folder)?;
    let best = scores.best().map(|best| best.pass);
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

/// Prints the test result of a model, if its folder has the test results.
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
    let (Some(pass), Some(measure), Some(told)) = (pass, &scores.measure, scores.told_best())
    else {
        return;
    };
    let (best, value) = (told.pass, told.value);
    if u64::from(pass) == best {
        eprintln!("{}", words::result::sentence(&told, None));
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

/// The pass directory or merged model for a path; the error for a folder without one says what is missing.
fn model_at(path: &Path) -> anyhow::Result<PathBuf> {
    if path.is_file() {
        return Ok(path.to_owned());
    }
    match locate::pass_directory(path) {
        Ok(found) => Ok(found),
        // Copies of v1's models may lack the file `done`, but can be shown.
        Err(_) if path.is_dir() && model::read(path).is_ok_and(|model| !model.is_empty()) => {
            Ok(path.to_owned())
        }
        Err(error) => Err(error.into()),
    }
}

/// The shapes of all parameters, from the configuration of the model; what v1's files say of them if it cannot be
/// evaluated here.
fn shapes(directory: &Path, model: &[model::ModelParameter]) -> Vec<Vec<usize>> {
    let described = predict::export::description(directory).ok();
    let shape = |parameter: &model::ModelParameter| {
        let shape = described
            .as_ref()
            .map(|network| predict::export::shape(network, &parameter.name));
        let fits = |shape: &Vec<usize>| shape.iter().product::<usize>() == parameter.values.len();
        let (rows, columns) = parameter.dims;
        shape
            .filter(|shape| !shape.is_empty() && fits(shape))
            .unwrap_or_else(|| vec![rows as usize, columns as usize])
    };
    model.iter().map(shape).collect()
}

fn show(given: &Path, form: Form) -> anyhow::Result<Exit> {
    let directory = &model_at(given)?;
    let model = model::read(directory)?;
    tell_score(directory);
    let shapes = shapes(directory, &model);
    let rows = model.iter().zip(&shapes);
    let rows = rows.map(|(p, shape)| (p, shape, model::statistics(&p.values)));
    match form.json() {
        true => {
            let list: Vec<_> = rows
                .map(|(p, shape, s)| serde_json::json!({"name": p.name, "shape": shape, "dims": [p.dims.0, p.dims.1], "statistics": s}))
                .collect();
            println!("{}", serde_json::to_string_pretty(&list)?);
        }
        false => {
            let mut table = TextTable::new(&[
                ("parameter", Align::Left),
                ("shape", Align::Right),
                ("mean", Align::Right),
                ("deviation", Align::Right),
                ("min", Align::Right),
                ("max", Align::Right),
                ("zeros", Align::Right),
            ]);
            for (p, shape, s) in rows {
                // As many values as fit into one line on a narrow terminal; --json has all.
                let number = |value| nn::number::significant(value, 3);
                let shape: Vec<String> = shape.iter().map(ToString::to_string).collect();
                table.row([
                    p.name.clone(),
                    shape.join("x"),
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
    for SavedTable { name, rows, cols } in saved.iter().flat_map(SavedRows::tables) {
        eprintln!("{name}: {rows} rows of {cols}, saved by servers in pserver.NNNN{consequence}");
    }
    Ok(())
}

fn diff(left: &Path, right: &Path, form: Form) -> anyhow::Result<Exit> {
    let (left, right) = (&model_at(left)?, &model_at(right)?);
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
