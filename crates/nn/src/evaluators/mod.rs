//! Measures predictions: error rates, areas, precisions, with v1's names and text.
//!
//! An evaluator sums values over batches. These sums are its whole state: they can be read, sent, and
//! added to another evaluator's, so a pass on several machines is measured as one.

mod auc;
mod chunk;
mod classification_error;
mod edit_distance;
mod pnpair;
mod precision_recall;
mod printers;
mod rank_auc;
mod sum;

use config::{EvaluatorConfig, LayerConfig, ModelConfig};

use crate::error::{BuildError, ExecuteError, LayerError};
use crate::network::{LayerView, Network};

pub use printers::Message;

/// A measure of predictions, summed over batches.
pub trait Evaluator: Send {
    /// Adds a batch, given the outputs that it reads.
    fn add(&mut self, inputs: &[LayerView<'_>]) -> Result<(), LayerError>;
    /// The text of a log line, without surrounding blanks.
    fn text(&self) -> String;
    /// Its values by name.
    fn values(&self) -> Vec<(String, f64)>;
    /// The sums over all batches so far.
    fn state(&self) -> Vec<f64>;
    /// Adds the state of another evaluator of the same kind; anything else is ignored.
    fn absorb(&mut self, state: &[f64]);
    /// Sets all sums to zero.
    fn reset(&mut self);

    /// Messages about the batches added since the last call.
    fn take_messages(&mut self) -> Vec<Message> {
        Vec::new()
    }

    /// A file with one word per line that it needs to show words instead of ids.
    fn dictionary_file(&self) -> Option<&str> {
        None
    }

    /// Sets the words of its dictionary file.
    fn set_dictionary(&mut self, _words: &[String]) {}

    /// Requests that predictions are kept, for [`Evaluator::predictions`].
    fn keep_predictions(&mut self) {}

    /// One line per row since the last reset: prediction, label and what else distinguishes rows.
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

/// An evaluator reads a layer that is not computed.
fn unreached(layer: &str) -> LayerError {
    LayerError::Value(format!(
        "it reads layer '{layer}', which is not computed, because no output depends on it: name it in outputs(…), after the cost"
    ))
}

impl Evaluators {
    /// Builds the evaluators that a model describes.
    pub fn new(model: &ModelConfig) -> Result<Self, BuildError> {
        let validations: Vec<_> = model.layers.iter().filter_map(of_validation).collect();
        // What is computed inside a step of a recurrent group has no output that an evaluator could read.
        let inner: Vec<&String> = model
            .sub_models
            .iter()
            .filter(|part| part.is_recurrent_layer_group())
            .flat_map(|group| &group.evaluator_names)
            .collect();
        let entries = model
            .evaluators
            .iter()
            .filter(|config| !inner.contains(&&config.name))
            .chain(&validations)
            .map(|config| Entry::new(config, model))
            .collect::<Result<_, _>>()?;
        Ok(Self { entries })
    }

    /// Whether the model has no evaluators.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds the batch of the last forward.
    pub fn accumulate(&mut self, network: &Network) -> Result<(), ExecuteError> {
        for entry in &mut self.entries {
            let views: Result<Vec<LayerView<'_>>, LayerError> = entry
                .inputs
                .iter()
                .map(|name| network.output(name).ok_or_else(|| unreached(name)))
                .collect();
            views
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

    /// Resets all evaluators.
    pub fn reset(&mut self) {
        self.entries
            .iter_mut()
            .for_each(|entry| entry.evaluator.reset());
    }

    /// Messages of printers about the batches added since the last call, in order.
    pub fn take_messages(&mut self) -> Vec<Message> {
        self.entries
            .iter_mut()
            .flat_map(|entry| entry.evaluator.take_messages())
            .collect()
    }

    /// The dictionary files that printers need; the caller reads them.
    pub fn dictionary_files(&self) -> Vec<String> {
        let files = self
            .entries
            .iter()
            .filter_map(|entry| entry.evaluator.dictionary_file());
        files.map(str::to_owned).collect()
    }

    /// Sets the words of a dictionary file.
    pub fn set_dictionary(&mut self, file: &str, words: &[String]) {
        for entry in &mut self.entries {
            if entry.evaluator.dictionary_file() == Some(file) {
                entry.evaluator.set_dictionary(words);
            }
        }
    }

    /// From now on the evaluators that can (areas under the curve, orders of pairs) keep their predictions.
    pub fn keep_predictions(&mut self) {
        for entry in &mut self.entries {
            entry.evaluator.keep_predictions();
        }
    }

    /// The predictions since the last reset, one line each, one evaluator after another.
    pub fn predictions(&self) -> Vec<String> {
        let entries = self.entries.iter();
        entries.flat_map(|e| e.evaluator.predictions()).collect()
    }

    /// The sums of all evaluators, one list per evaluator.
    pub fn state(&self) -> Vec<Vec<f64>> {
        self.entries
            .iter()
            .map(|entry| entry.evaluator.state())
            .collect()
    }

    /// Adds the sums of other evaluators of the same model.
    pub fn absorb(&mut self, state: &[Vec<f64>]) {
        for (entry, state) in self.entries.iter_mut().zip(state) {
            entry.evaluator.absorb(state);
        }
    }

    /// Adds the sums of `other`, which belongs to the same model.
    pub fn merge(&mut self, other: &Evaluators) {
        self.absorb(&other.state());
    }
}

/// The evaluator that is equivalent to a validation layer: v1 had both forms.
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
            "rankauc" => Box::new(rank_auc::RankAuc::new(config)),
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

/// Checks the number of inputs, and that all have as many rows as the first.
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

/// A dense row of an input.
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

/// An id of an input, or the one that it has besides its values.
fn id(inputs: &[LayerView<'_>], input: usize, row: usize) -> Result<u32, LayerError> {
    inputs[input].label(row).ok_or(LayerError::Kind {
        input,
        got: "numbers",
        want: "ids",
    })
}

/// The weight of a row: the value in input `input`, or 1 if there is no such input.
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
