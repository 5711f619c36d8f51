//! `canoe model neighbours` and `canoe model embed`: the rows of a table, such as an embedding.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use predict::PredictError;
use predict::export::{self, neighbours};

use super::exchange::open_whole;
use crate::command_output::CommandOutput;
use crate::commands::opening::OpenArgs;
use crate::exit::Exit;
use crate::table::{Align, TextTable};

/// Arguments of `canoe model neighbours`.
#[derive(Debug, Args)]
pub(super) struct NeighboursArgs {
    #[command(flatten)]
    open: OpenArgs,
    /// A parameter, by its readable name or v1's.
    parameter: String,
    /// A word of the parameter's dictionary, or the number of a row.
    row: String,
    /// How many rows to list.
    #[arg(long, default_value_t = 10)]
    top: usize,
    /// Print JSON, for programs.
    #[arg(long)]
    json: bool,
}

/// Arguments of `canoe model embed`.
#[derive(Debug, Args)]
pub(super) struct EmbedArgs {
    #[command(flatten)]
    open: OpenArgs,
    /// A parameter, by its readable name or v1's.
    parameter: String,
    /// The file to write; by default standard output.
    #[arg(long, short = 'o')]
    to: Option<PathBuf>,
    /// How rows are written.
    #[arg(long, value_enum, default_value = "jsonl")]
    format: EmbedFormat,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum EmbedFormat {
    /// An object per row: id, text if the row has a word, vector.
    Jsonl,
    /// The word (or the number of the row) and its values, separated by blanks, under a line with both sizes: the text
    /// form of word2vec.
    Word2vec,
}

/// Runs `canoe model neighbours`.
pub(super) fn neighbours(args: &NeighboursArgs) -> anyhow::Result<Exit> {
    let model = open_whole(&args.open)?;
    let listed = export::find(&export::list(&model), &args.parameter)?;
    let row = neighbours::row(&listed, &args.row)?;
    let found = neighbours::nearest(&model, &listed, row, args.top)?;
    let word = |row: u32| {
        let words = listed.rows.as_ref();
        words
            .and_then(|words| words.word(row))
            .unwrap_or("")
            .to_owned()
    };
    if args.json {
        let list: Vec<_> = found
            .iter()
            .map(|n| serde_json::json!({"id": n.row, "text": word(n.row), "cosine": n.cosine}))
            .collect();
        println!("{}", serde_json::to_string_pretty(&list)?);
    } else {
        let mut table = TextTable::new(&[
            ("row", Align::Right),
            ("word", Align::Left),
            ("cosine", Align::Right),
        ]);
        for each in &found {
            let cosine = format!("{:.4}", each.cosine);
            table.row([each.row.to_string(), word(each.row), cosine]);
        }
        print!("{table}");
    }
    Ok(Exit::Success)
}

/// Runs `canoe model embed`.
pub(super) fn embed(args: &EmbedArgs) -> anyhow::Result<Exit> {
    let model = open_whole(&args.open)?;
    let listed = export::find(&export::list(&model), &args.parameter)?;
    let mut out = CommandOutput::open(args.to.as_deref())?;
    let name = out.name().to_owned();
    let failed = |source: io::Error| PredictError::Write {
        path: name.clone(),
        source,
    };
    if matches!(args.format, EmbedFormat::Word2vec) {
        let rows = listed.shape.first().copied().unwrap_or(0);
        writeln!(out, "{rows} {}", neighbours::cols(&listed)).map_err(failed)?;
    }
    neighbours::each_row(&model, &listed, &mut |row, values| {
        let word = listed.rows.as_ref().and_then(|words| words.word(row));
        let line = match args.format {
            EmbedFormat::Jsonl => {
                let vector = serde_json::to_string(values).unwrap_or_default();
                let text = match word {
                    Some(word) => format!(",\"text\":{}", serde_json::json!(word)),
                    None => String::new(),
                };
                format!("{{\"id\":{row}{text},\"vector\":{vector}}}")
            }
            EmbedFormat::Word2vec => {
                let word = word.map_or_else(|| row.to_string(), str::to_owned);
                let values: Vec<String> = values.iter().map(ToString::to_string).collect();
                format!("{} {}", word.replace(' ', "_"), values.join(" "))
            }
        };
        writeln!(out, "{line}").map_err(failed)
    })?;
    out.close().map_err(failed)?;
    Ok(Exit::Success)
}
