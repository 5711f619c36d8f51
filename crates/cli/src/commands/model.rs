//! `canoe model`: look into a pass directory, export it, compare two.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use trainer::model::{self, Difference, ModelParameter};
use trainer::saved_rows::SavedRows;

use crate::exit::Exit;
use crate::table::{Align, Table};

/// Arguments of `canoe model`.
#[derive(Debug, Args)]
pub struct ModelArgs {
    #[command(subcommand)]
    command: ModelCommand,
}

#[derive(Debug, Subcommand)]
enum ModelCommand {
    /// Show the parameters of a pass directory with statistics.
    Show {
        /// A pass directory, such as output/pass-00000.
        directory: PathBuf,
        /// How to print.
        #[arg(long, value_enum, default_value = "table")]
        output: Output,
    },
    /// Write the parameters to one safetensors or npz file.
    Export {
        /// A pass directory.
        directory: PathBuf,
        /// The file to write; its ending (.safetensors or .npz) says the format.
        file: PathBuf,
    },
    /// Compare two pass directories; ends with 1 if they differ.
    Diff {
        /// A pass directory.
        left: PathBuf,
        /// Another one.
        right: PathBuf,
        /// How to print.
        #[arg(long, value_enum, default_value = "table")]
        output: Output,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Output {
    Table,
    Json,
}

/// Runs the command.
pub fn run(args: ModelArgs) -> anyhow::Result<Exit> {
    match args.command {
        ModelCommand::Show { directory, output } => show(&directory, output),
        ModelCommand::Export { directory, file } => export(&directory, &file),
        ModelCommand::Diff {
            left,
            right,
            output,
        } => diff(&left, &right, output),
    }
}

fn show(directory: &Path, output: Output) -> anyhow::Result<Exit> {
    let model = model::read(directory)?;
    let rows = model.iter().map(|p| (p, model::statistics(&p.values)));
    match output {
        Output::Json => {
            let list: Vec<_> = rows
                .map(|(p, s)| serde_json::json!({"name": p.name, "dims": [p.dims.0, p.dims.1], "statistics": s}))
                .collect();
            println!("{}", serde_json::to_string_pretty(&list)?);
        }
        Output::Table => {
            let mut table = Table::new(&[
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

/// Says which tables lie in the files of servers; they may be larger than memory, and `--job=test` reads them.
fn tell_tables(directory: &Path, consequence: &str) -> anyhow::Result<()> {
    let saved = SavedRows::open(directory)?;
    for (name, rows, cols) in saved.iter().flat_map(SavedRows::tables) {
        eprintln!("{name}: {rows} rows of {cols}, saved by servers in pserver.NNNN{consequence}");
    }
    Ok(())
}

fn export(directory: &Path, file: &Path) -> anyhow::Result<Exit> {
    let model = model::read(directory)?;
    tell_tables(directory, ": not exported")?;
    let part = file.with_extension("part");
    let write = match file.extension().and_then(|e| e.to_str()) {
        Some("safetensors") => write_safetensors,
        Some("npz") => write_npz,
        _ => anyhow::bail!(
            "{}: the ending must be .safetensors or .npz",
            file.display()
        ),
    };
    write(&model, &part).with_context(|| format!("write {}", part.display()))?;
    std::fs::rename(&part, file).with_context(|| format!("write {}", file.display()))?;
    eprintln!(
        "{}: {} parameters, {} values",
        file.display(),
        model.len(),
        model.iter().map(|p| p.values.len()).sum::<usize>()
    );
    Ok(Exit::Success)
}

fn shape(parameter: &ModelParameter) -> [usize; 2] {
    let (rows, cols) = parameter.dims;
    [rows as usize, cols as usize]
}

fn bytes(parameter: &ModelParameter) -> Vec<u8> {
    parameter
        .values
        .iter()
        .flat_map(|v| v.to_le_bytes())
        .collect()
}

fn write_safetensors(model: &[ModelParameter], file: &Path) -> anyhow::Result<()> {
    let data: Vec<_> = model
        .iter()
        .map(|p| (p.name.as_str(), shape(p), bytes(p)))
        .collect();
    let views = data
        .iter()
        .map(|(name, shape, bytes)| {
            let dtype = safetensors::Dtype::F32;
            let view = safetensors::tensor::TensorView::new(dtype, shape.to_vec(), bytes)?;
            Ok((*name, view))
        })
        .collect::<Result<Vec<_>, safetensors::SafeTensorError>>()?;
    std::fs::write(file, safetensors::serialize(views, None)?)?;
    Ok(())
}

fn write_npz(model: &[ModelParameter], file: &Path) -> anyhow::Result<()> {
    let mut archive = zip::ZipWriter::new(BufWriter::new(File::create(file)?));
    let options = zip::write::SimpleFileOptions::default()
        .compression_method(zip::CompressionMethod::Stored)
        .large_file(true);
    for parameter in model {
        archive.start_file(format!("{}.npy", parameter.name), options)?;
        archive.write_all(&npy_header(shape(parameter)))?;
        archive.write_all(&bytes(parameter))?;
    }
    archive.finish()?.flush()?;
    Ok(())
}

/// The head of a version 1.0 npy file, padded with blanks to a multiple of 64 bytes.
fn npy_header([rows, cols]: [usize; 2]) -> Vec<u8> {
    let text = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {cols}), }}");
    let padded = (10 + text.len() + 1).next_multiple_of(64) - 10;
    let mut header = b"\x93NUMPY\x01\x00".to_vec();
    header.extend(u16::try_from(padded).unwrap_or(u16::MAX).to_le_bytes());
    header.extend(format!("{text:<width$}\n", width = padded - 1).bytes());
    header
}

fn diff(left: &Path, right: &Path, output: Output) -> anyhow::Result<Exit> {
    let told = model::diff(&model::read(left)?, &model::read(right)?);
    for directory in [left, right] {
        tell_tables(directory, ": not compared")?;
    }
    let equal = told.iter().all(|(_, d)| *d == Difference::Equal);
    match output {
        Output::Json => {
            let list: Vec<_> = told
                .iter()
                .map(|(name, d)| serde_json::json!({"name": name, "difference": d}))
                .collect();
            println!("{}", serde_json::to_string_pretty(&list)?);
        }
        Output::Table => {
            let mut table = Table::new(&[("parameter", Align::Left), ("difference", Align::Left)]);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_npy_header_is_aligned() {
        let header = npy_header([30001, 2]);
        assert_eq!(header.len() % 64, 0);
        assert_eq!(header.last(), Some(&b'\n'));
        assert_eq!(
            usize::from(u16::from_le_bytes([header[8], header[9]])) + 10,
            header.len()
        );
    }
}
