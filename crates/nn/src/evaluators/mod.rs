//! What is measured about predictions: error rates, areas, precisions, with v1's names and text.
//!
//! An evaluator adds up numbers over batches. Those numbers are its whole state: they can be read out, sent, and
//! added to another evaluator's, so a pass on several machines is measured as one.

mod auc;
mod chunk;
mod classification_error;
mod edit_distance;
mod pnpair;
mod precision_recall;
mod printers;
mod sum;

use config::{EvaluatorConfig, LayerConfig, ModelConfig};

use crate::error::{BuildError, ExecuteError, LayerError};
use crate::network::{LayerView, Network};

pub use printers::Message;

/// One measure.
pub trait Evaluator: Send {
    /// Adds a batch, given the outputs it reads.
    fn add(&mut self, inputs: &[LayerView<'_>]) -> Result<(), LayerError>;
    /// The text of a log line, without a blank around it.
    fn text(&self) -> String;
    /// Its values by name.
    fn values(&self) -> Vec<(String, f64)>;
    /// All numbers it has added up.
    fn state(&self) -> Vec<f64>;
    /// Adds the state of another evaluator of the same kind; anything else is ignored.
    fn absorb(&mut self, state: &[f64]);
    /// Starts again.
    fn reset(&mut self);

    /// What it has to show about the batches added since it was last asked.
    fn take_messages(&mut self) -> Vec<Message> {
        Vec::new()
    }

    /// A file with one word a line that it needs to show words instead of ids.
    fn dictionary_file(&self) -> Option<&str> {
        None
    }

    /// The words of its dictionary file.
    fn set_dictionary(&mut self, _words: &[String]) {}

    /// From now on remembers what [`Evaluator::predictions`] answers.
    fn keep_predictions(&mut self) {}

    /// A line for each row since it was reset: prediction, label and what else tells rows apart.
    fn predictions(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The evaluators of a model.
pub struct Evaluators {
    entries: Vec<Entry>,
}

struct Entry {
    name: String,
    inputs: Vec<String>,
    evaluator: Box<dyn Evaluator>,
}

impl Evaluators {
    /// Builds the evaluators that a model describes.
    pub fn new(model: &ModelConfig) -> Result<Self, BuildError> {
        let validations: Vec<_> = model.layers.iter().filter_map(of_validation).collect();
        let entries = model
            .evaluators
            .iter()
            .chain(&validations)
            .map(|config| Entry::new(config, model))
            .collect::<Result<_, _>>()?;
        Ok(Self { entries })
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds the batch that went forward last.
    pub fn accumulate(&mut self, network: &Network) -> Result<(), ExecuteError> {
        for entry in &mut self.entries {
            let views: Option<Vec<LayerView<'_>>> = entry
                .inputs
                .iter()
                .map(|name| network.output(name))
                .collect();
            let missing =
                || LayerError::Value("a layer that it reads is not part of the network".to_owned());
            views
                .ok_or_else(missing)
                .and_then(|views| entry.evaluator.add(&views))
                .map_err(|source| ExecuteError::Evaluator {
                    evaluator: entry.name.clone(),
                    source,
                })?;
        }
        Ok(())
    }

    /// The texts of all evaluators as v1 prints them, each followed by a blank.
    pub fn line(&self) -> String {
        self.entries
            .iter()
            .map(|entry| entry.evaluator.text() + " ")
            .collect()
    }

    /// All values by name.
    pub fn values(&self) -> Vec<(String, f64)> {
        self.entries
            .iter()
            .flat_map(|entry| entry.evaluator.values())
            .collect()
    }

    /// Starts again.
    pub fn reset(&mut self) {
        self.entries
            .iter_mut()
            .for_each(|entry| entry.evaluator.reset());
    }

    /// What printers have to show about the batches added since this was last asked, in order.
    pub fn take_messages(&mut self) -> Vec<Message> {
        self.entries
            .iter_mut()
            .flat_map(|entry| entry.evaluator.take_messages())
            .collect()
    }

    /// The dictionary files that printers need, for whoever can read them.
    pub fn dictionary_files(&self) -> Vec<String> {
        let files = self
            .entries
            .iter()
            .filter_map(|entry| entry.evaluator.dictionary_file());
        files.map(str::to_owned).collect()
    }

    /// The words of a dictionary file, one a line.
    pub fn set_dictionary(&mut self, file: &str, words: &[String]) {
        for entry in &mut self.entries {
            if entry.evaluator.dictionary_file() == Some(file) {
                entry.evaluator.set_dictionary(words);
            }
        }
    }

    /// From now on the evaluators that can (areas under the curve, orders of pairs) remember their predictions.
    pub fn keep_predictions(&mut self) {
        for entry in &mut self.entries {
            entry.evaluator.keep_predictions();
        }
    }

    /// The predictions since the last reset, a line each, one evaluator after another.
    pub fn predictions(&self) -> Vec<String> {
        let entries = self.entries.iter();
        entries.flat_map(|e| e.evaluator.predictions()).collect()
    }

    /// All that was added up, one list for each evaluator.
    pub fn state(&self) -> Vec<Vec<f64>> {
        self.entries
            .iter()
            .map(|entry| entry.evaluator.state())
            .collect()
    }

    /// Adds what other evaluators of the same model added up.
    pub fn absorb(&mut self, state: &[Vec<f64>]) {
        for (entry, state) in self.entries.iter_mut().zip(state) {
            entry.evaluator.absorb(state);
        }
    }

    /// Adds what `other`, of the same model, added up.
    pub fn merge(&mut self, other: &Evaluators) {
        self.absorb(&other.state());
    }
}

/// The evaluator that a validation layer stands for: v1 had both ways to say the same.
pub fn of_validation(layer: &LayerConfig) -> Option<EvaluatorConfig> {
    let kind = match layer.r#type.as_str() {
        "auc-validation" => "last-column-auc",
        "pnpair-validation" => "pnpair",
        _ => return None,
    };
    let inputs = layer.inputs.iter();
    Some(EvaluatorConfig {
        name: layer.name.clone(),
        r#type: kind.to_owned(),
        input_layers: inputs.map(|i| i.input_layer_name.clone()).collect(),
        ..EvaluatorConfig::default()
    })
}

impl Entry {
    fn new(config: &EvaluatorConfig, model: &ModelConfig) -> Result<Self, BuildError> {
        let error = |reason: String| BuildError::Evaluator {
            evaluator: config.name.clone(),
            reason,
        };
        for input in &config.input_layers {
            if model.layers.iter().all(|layer| layer.name != *input) {
                return Err(error(format!(
                    "it reads layer '{input}', which the model does not define"
                )));
            }
        }
        let evaluator: Box<dyn Evaluator> = match config.r#type.as_str() {
            "classification_error" => Box::new(classification_error::ClassificationError::new(
                config, false,
            )),
            "seq_classification_error" => {
                Box::new(classification_error::ClassificationError::new(config, true))
            }
            "sum" => Box::new(sum::Sum::new(config, sum::Columns::All)),
            "last-column-sum" => Box::new(sum::Sum::new(config, sum::Columns::Last)),
            "last-column-auc" => Box::new(auc::Auc::new(config)),
            "precision_recall" => Box::new(precision_recall::PrecisionRecall::new(config)),
            "pnpair" => Box::new(pnpair::PairOrder::new(config)),
            "chunk" => Box::new(chunk::Chunks::new(config).map_err(error)?),
            "ctc_edit_distance" => Box::new(edit_distance::EditDistance::new(config)),
            other => match printers::Printer::of_type(config) {
                Some(printer) => Box::new(printer),
                None => {
                    let reason = format!("evaluators of type '{other}' cannot be executed yet");
                    return Err(error(reason));
                }
            },
        };
        Ok(Self {
            name: config.name.clone(),
            inputs: config.input_layers.clone(),
            evaluator,
        })
    }
}

/// Checks that there are so many inputs and that all have as many rows as the first.
fn check_inputs(
    inputs: &[LayerView<'_>],
    counts: std::ops::RangeInclusive<usize>,
) -> Result<(), LayerError> {
    if !counts.contains(&inputs.len()) {
        return Err(LayerError::Value(format!(
            "it reads {} layers, but needs {} to {}",
            inputs.len(),
            counts.start(),
            counts.end()
        )));
    }
    for (input, view) in inputs.iter().enumerate() {
        if view.rows() != inputs[0].rows() {
            return Err(LayerError::Rows {
                input,
                got: view.rows(),
                want: inputs[0].rows(),
            });
        }
    }
    Ok(())
}

/// A row of numbers of an input.
fn numbers<'a>(
    inputs: &[LayerView<'a>],
    input: usize,
    row: usize,
) -> Result<&'a [f32], LayerError> {
    inputs[input].row(row).ok_or(LayerError::Kind {
        input,
        got: "ids or sparse rows",
        want: "dense rows",
    })
}

/// An id of an input.
fn id(inputs: &[LayerView<'_>], input: usize, row: usize) -> Result<u32, LayerError> {
    inputs[input].id(row).ok_or(LayerError::Kind {
        input,
        got: "numbers",
        want: "ids",
    })
}

/// The weight of a row: the number in input `input`, or 1 if there is no such input.
fn weight(inputs: &[LayerView<'_>], input: usize, row: usize) -> Result<f64, LayerError> {
    if input >= inputs.len() {
        return Ok(1.0);
    }
    Ok(numbers(inputs, input, row)?
        .first()
        .map_or(1.0, |&weight| f64::from(weight)))
}

/// A ratio that is 0 when nothing was counted.
fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

#[cfg(test)]
mod tests;
