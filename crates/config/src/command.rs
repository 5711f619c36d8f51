//! The output of `canoe config check|dump|diagram FILE`, as text: the command line only prints it.

use std::fmt::Write;

use crate::data::DataConfig;
use crate::diagram::{DiagramFormat, diagram, grouped};
use crate::evaluate::{evaluate, evaluate_json};
use crate::model::{LayerConfig, ModelConfig};
use crate::python::{ConfigError, EvaluateOptions};
use crate::text::text;
use crate::training::TrainerConfig;

/// What `dump` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DumpPart {
    /// The network and its parameters.
    Model,
    /// Data sources and settings too (`--whole`).
    Whole,
}

/// The format of `dump`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DumpFormat {
    /// Text protobuf, as v1 did.
    Text,
    /// JSON with the same field names.
    Json,
}

/// Evaluates the file and returns the result, field by field.
pub fn dump(
    options: &EvaluateOptions,
    part: DumpPart,
    format: DumpFormat,
) -> Result<String, ConfigError> {
    let (config, written) = evaluate_json(options)?;
    let model = config.model_config.clone().unwrap_or_default();
    let json = match (part, format) {
        // v1 printed a blank line after the text.
        (DumpPart::Model, DumpFormat::Text) => {
            return Ok(text("ModelConfig", &written["model_config"]) + "\n");
        }
        (DumpPart::Whole, DumpFormat::Text) => return Ok(text("TrainerConfig", &written) + "\n"),
        (DumpPart::Model, DumpFormat::Json) => serde_json::to_string_pretty(&model),
        (DumpPart::Whole, DumpFormat::Json) => serde_json::to_string_pretty(&config),
    };
    json.map(|text| text + "\n")
        .map_err(|source| ConfigError::Result {
            file: options.file.clone(),
            source,
        })
}

/// Evaluates the file and returns a drawing of the network.
pub fn draw(options: &EvaluateOptions, format: DiagramFormat) -> Result<String, ConfigError> {
    let config = evaluate(options)?;
    Ok(diagram(&config.model_config.unwrap_or_default(), format))
}

/// Counts, inputs and outputs, settings, and a table of the layers.
pub fn summary(file: &str, config: &TrainerConfig) -> String {
    let empty = ModelConfig::default();
    let model = config.model_config.as_ref().unwrap_or(&empty);
    let settings = &config.opt_config;
    let values: u64 = model
        .parameters
        .iter()
        .map(|parameter| parameter.size)
        .sum();
    let mut out = format!(
        "{file}: {} layers, {} parameters with {} values ({} bytes)\n",
        model.layers.len(),
        model.parameters.len(),
        grouped(values),
        grouped(values.saturating_mul(4))
    );
    let _ = writeln!(out, "inputs:  {}", model.input_layer_names.join(", "));
    let _ = writeln!(out, "outputs: {}", model.output_layer_names.join(", "));
    let _ = writeln!(
        out,
        "method:  {}, learning rate {}, batch size {}, {}",
        settings.learning_method(),
        settings.learning_rate,
        settings.batch_size,
        settings.algorithm
    );
    for (what, data) in [
        ("train", &config.data_config),
        ("test", &config.test_data_config),
    ] {
        if let Some(data) = data {
            let named = [data.load_data_module(), data.load_data_object()];
            let named: Vec<&str> = named.into_iter().filter(|name| !name.is_empty()).collect();
            let _ = writeln!(
                out,
                "{:<8} {} ({} {})",
                format!("{what}:"),
                named_files(data),
                data.r#type,
                named.join(".")
            );
        }
    }
    out.push('\n');
    let rows: Vec<[String; 4]> = model.layers.iter().map(row).collect();
    out + &table(["layer", "type", "size", "inputs"], &rows)
}

/// The list file, or the files that the configuration names itself.
fn named_files(data: &DataConfig) -> String {
    const SHOWN: usize = 3;
    match data.own_files() {
        None => data.files().to_owned(),
        Some(files) if files.len() > SHOWN => {
            let more = files.len() - SHOWN;
            format!("{} and {more} more", files[..SHOWN].join(", "))
        }
        Some(files) => files.join(", "),
    }
}

fn row(layer: &LayerConfig) -> [String; 4] {
    let inputs: Vec<&str> = layer
        .inputs
        .iter()
        .map(|input| input.input_layer_name.as_str())
        .collect();
    [
        layer.name.clone(),
        layer.r#type.clone(),
        layer.size.map_or_else(String::new, |size| size.to_string()),
        inputs.join(", "),
    ]
}

fn table(head: [&str; 4], rows: &[[String; 4]]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([head[column].len()]).max().unwrap_or(0)
    };
    let widths = [width(0), width(1), width(2)];
    let line = |cells: [&str; 4]| {
        let text = format!(
            "{:<a$}  {:<b$}  {:>c$}  {}",
            cells[0],
            cells[1],
            cells[2],
            cells[3],
            a = widths[0],
            b = widths[1],
            c = widths[2]
        );
        text.trim_end().to_owned() + "\n"
    };
    let mut out = line(head);
    for row in rows {
        out += &line([&row[0], &row[1], &row[2], &row[3]]);
    }
    out
}
