//! Checks a configuration as far as it can be checked without training: sizes that are compared with each other fit,
//! data sources can be opened, and the network can compute their first samples.
//!
//! Finds what would otherwise stop a job after its start, on every node of it. Collects all problems, because a user
//! repairs them together.

use config::{LayerConfig, ModelConfig, OptimizationConfig, ParameterConfig, TrainerConfig};
use nn::{
    Batch, BatchUse, Evaluators, ExecuteError, Network, ParameterSpec, ParameterValues, Parameters,
};
use words::causes::chain;

use crate::data::DataSource;
use crate::error::TrainError;
use crate::job::{parts, terms};
use crate::loading;
use crate::rules;
use crate::settings::TrainerSettings;

/// Batches of each data source that are computed.
const BATCHES: u64 = 3;

/// The initial values of a model with more values than this are not drawn for a check.
const VALUES: usize = 200_000_000;

/// Fields of the configuration that a problem can be about.
const TRAINING: &str = "data_config";
const TEST: &str = "test_data_config";
const SETTINGS: &str = "opt_config";

/// The message about a network without a cost.
pub(crate) const NO_COST: &str = "none of the outputs is a cost, so nothing would be learned";

/// Prefix of a problem's subject if it is an evaluator.
const EVALUATOR: &str = "evaluator ";

/// Something that would stop a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobProblem {
    /// The layer, `evaluator NAME`, or the field of the configuration that it belongs to: `data_config`, `test_data_config` or
    /// `opt_config`.
    pub subject: Option<String>,
    /// What is wrong, and what to do.
    pub text: String,
}

/// The result of a check.
#[derive(Debug, Default)]
pub struct Findings {
    /// Everything that would stop a job.
    pub problems: Vec<JobProblem>,
    /// The parts that were computed without a problem, as sentences.
    pub tried: Vec<String>,
    /// Whether the network does not fit into this machine's memory, so that it cannot be tried.
    too_large: bool,
}

impl Findings {
    /// Adds a problem unless it was found before: training and test data often have the same one.
    fn problem(&mut self, subject: Option<&str>, text: impl Into<String>) {
        let (subject, text) = (subject.map(str::to_owned), text.into());
        let is_layer = subject
            .as_ref()
            .is_some_and(|name| ![TRAINING, TEST, SETTINGS].contains(&name.as_str()));
        let known = |old: &JobProblem| old.text == text || is_layer && old.subject == subject;
        if !self.problems.iter().any(known) {
            self.problems.push(JobProblem { subject, text });
        }
    }
}

/// Checks a configuration with its data. `memory`: bytes of main memory, if they are known.
pub fn check(config: &TrainerConfig, settings: &TrainerSettings, memory: Option<u64>) -> Findings {
    let mut findings = Findings::default();
    let Some(network) = described(config, memory, &mut findings) else {
        return findings;
    };
    let too_large = findings.too_large;
    let mut trial = Trial::new(config, network, settings);
    if config.data_config.is_none() {
        let text = "the configuration names no training data; add define_py_data_sources2(train_list=…, …)";
        findings.problem(None, text);
    } else if !too_large {
        let source = trial.training_data();
        trial.run(TRAINING, source, &mut findings);
    }
    if config.test_data_config.is_some() && !too_large {
        let source = trial.test_data();
        trial.run(TEST, source, &mut findings);
    }
    findings
}

/// Checks a configuration without its data.
pub fn check_described(config: &TrainerConfig, memory: Option<u64>) -> Findings {
    let mut findings = Findings::default();
    described(config, memory, &mut findings);
    findings
}

/// Checks the model and the settings; returns the network, if it can be built.
fn described(
    config: &TrainerConfig,
    memory: Option<u64>,
    findings: &mut Findings,
) -> Option<Network> {
    let Some(model) = &config.model_config else {
        findings.problem(None, "the configuration describes no network");
        return None;
    };
    sizes(model, findings);
    if model.output_layer_names.is_empty() {
        let text = "outputs is not called, so nothing would be computed or learned; name the cost, for example outputs(classification_cost(input=…, label=…))";
        findings.problem(None, text);
        return None;
    }
    let mut empty = model
        .layers
        .iter()
        .filter(|layer| layer.r#type.starts_with("data") && layer.size.unwrap_or(0) == 0);
    if let Some(LayerConfig { name, .. }) = empty.next() {
        let text = format!(
            "data layer '{name}' has size 0; it needs the width of its vector, or the number of its ids"
        );
        findings.problem(Some(name), &text);
        return None;
    }
    let network = trained(config, model, findings)?;
    // Training only warns: as with v1, it can be used to draw and save initial values.
    if config.data_config.is_some() && !network.has_cost() {
        let last = model.output_layer_names.last();
        let text = format!(
            "{NO_COST}; name one, for example outputs(classification_cost(input=…, label=…))"
        );
        findings.problem(last.map(String::as_str), text);
    }
    let needed = least_memory(config, model, &network);
    if let Some(memory) = memory.filter(|memory| needed > *memory) {
        findings.too_large = true;
        let largest = model
            .layers
            .iter()
            .max_by_key(|layer| layer.size.unwrap_or(0));
        findings.problem(
            largest.map(|layer| layer.name.as_str()),
            format!(
                "the values and gradients of the network take {} GB or more with batch_size={}, and this machine has {} GB; its largest layer is '{}' with size {}",
                gigabytes(needed),
                config.opt_config.batch_size,
                gigabytes(memory),
                largest.map_or("", |layer| &layer.name),
                largest.map_or(0, |layer| layer.size.unwrap_or(0)),
            ),
        );
    }
    Some(network)
}

/// The problems for which every trainer refuses a configuration before it opens its data, found by the same functions.
pub fn refused(config: &TrainerConfig) -> Vec<JobProblem> {
    let mut findings = Findings::default();
    match &config.model_config {
        Some(model) => _ = trained(config, model, &mut findings),
        None => findings.problem(None, "the configuration describes no network"),
    }
    findings.problems
}

fn trained(
    config: &TrainerConfig,
    model: &ModelConfig,
    findings: &mut Findings,
) -> Option<Network> {
    let network = match Network::new(model) {
        Ok(network) => network,
        Err(error) => {
            findings.problem(built(&error), chain(&error));
            return None;
        }
    };
    if let Err(error) = trainable(&config.opt_config) {
        findings.problem(Some(SETTINGS), chain(&error));
    }
    if let Err(unknown) = rules::is_asynchronous(&config.opt_config) {
        findings.problem(Some(SETTINGS), unknown.to_string());
    }
    if let Err(error) = Evaluators::new(model) {
        let subject = match &error {
            nn::BuildError::Evaluator { evaluator, .. } => Some(format!("{EVALUATOR}{evaluator}")),
            _ => None,
        };
        findings.problem(subject.as_deref(), chain(&error));
    }
    learning(config, model, findings);
    if let Err(error) = terms(&config.opt_config, &network, 1) {
        findings.problem(Some(SETTINGS), chain(&error));
    }
    Some(network)
}

/// With one decimal.
fn gigabytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1e9)
}

/// Refuses settings with which no data could be trained; training calls it too.
pub(crate) fn trainable(settings: &OptimizationConfig) -> Result<(), TrainError> {
    match settings.batch_size {
        1.. => Ok(()),
        // The default of v1's message, for configurations that do not call settings.
        0 if settings.algorithm == "async_sgd" && settings.learning_rate == 1.0 => {
            Err(TrainError::NoSettings)
        }
        size => Err(TrainError::BatchSize { size }),
    }
}

/// Adds the parameters whose learning settings give no valid rule, each with its layer, or `opt_config` for settings of
/// all.
fn learning(config: &TrainerConfig, model: &ModelConfig, findings: &mut Findings) {
    let refused = rules::refused(&config.opt_config, &model.parameters);
    let Some(first) = refused.first() else {
        return;
    };
    if refused.len() == model.parameters.len() && refused.iter().all(|e| e.source == first.source) {
        return findings.problem(Some(SETTINGS), format!("settings: {}", first.source));
    }
    for error in &refused {
        let has = |layer: &&LayerConfig| {
            let mut inputs = layer.inputs.iter();
            layer.bias_parameter_name.as_ref() == Some(&error.parameter)
                || inputs.any(|input| input.input_parameter_name.as_ref() == Some(&error.parameter))
        };
        let layer = model.layers.iter().find(has);
        findings.problem(layer.map(|layer| layer.name.as_str()), chain(error));
    }
}

/// Bytes that the values and gradients of parameters and layers take at least, for a batch with samples of one step.
fn least_memory(config: &TrainerConfig, model: &ModelConfig, network: &Network) -> u64 {
    let held = network.parameters().iter().filter(|spec| !spec.by_row);
    let parameters: u64 = held.map(|spec| spec.size() as u64).sum();
    let computed = model
        .layers
        .iter()
        .filter(|layer| !layer.r#type.starts_with("data"));
    let layers: u64 = computed.map(|layer| layer.size.unwrap_or(0)).sum();
    let samples = u64::try_from(config.opt_config.batch_size).unwrap_or(0);
    let values = layers.saturating_mul(samples).saturating_add(parameters);
    values.saturating_mul(2 * size_of::<f32>() as u64)
}

/// The layer that an error of building names.
fn built(error: &nn::BuildError) -> Option<&str> {
    use nn::BuildError::{Layer, UnfedInput, UnknownInput, UnknownParameter, UnknownType};
    match error {
        UnknownType { layer, .. }
        | UnknownInput { layer, .. }
        | UnfedInput { layer, .. }
        | UnknownParameter { layer, .. }
        | Layer { layer, .. } => Some(layer),
        _ => None,
    }
}

/// Compares the number of classes that a layer predicts with the number of labels.
fn sizes(model: &ModelConfig, findings: &mut Findings) {
    let layer = |name: &str| model.layers.iter().find(|layer| layer.name == name);
    let size = |layer: &LayerConfig| layer.size.unwrap_or(0);
    for cost in &model.layers {
        let classes = [
            "multi-class-cross-entropy",
            "multi_class_cross_entropy_with_selfnorm",
        ];
        let same = [
            "multi_binary_label_cross_entropy",
            "square_error",
            "soft_binary_class_cross_entropy",
        ];
        let (classes, same) = (
            classes.contains(&cost.r#type.as_str()),
            same.contains(&cost.r#type.as_str()),
        );
        let mut inputs = cost
            .inputs
            .iter()
            .map(|input| layer(&input.input_layer_name));
        let (Some(Some(output)), Some(Some(label))) = (inputs.next(), inputs.next()) else {
            continue;
        };
        let is_data = label.r#type == "data";
        if classes && is_data && size(label) > size(output) {
            findings.problem(
                Some(&output.name),
                format!(
                    "cost '{}' compares layer '{}' of size {} with data layer '{}', which has {} classes: make both sizes equal",
                    cost.name, output.name, size(output), label.name, size(label)
                ),
            );
        }
        if same && size(label) != size(output) && size(label) > 0 && size(output) > 0 {
            findings.problem(
                Some(&cost.name),
                format!(
                    "cost '{}' compares layer '{}' of size {} with '{}' of size {}: make both sizes equal",
                    cost.name, output.name, size(output), label.name, size(label)
                ),
            );
        }
    }
}

fn configs(config: &TrainerConfig) -> &[ParameterConfig] {
    let model = config.model_config.as_ref();
    model.map_or(&[][..], |model| &model.parameters)
}

/// A network that computes a few samples.
struct Trial<'a> {
    config: &'a TrainerConfig,
    settings: &'a TrainerSettings,
    network: Network,
    parameters: Option<Parameters>,
}

impl<'a> Trial<'a> {
    fn new(config: &'a TrainerConfig, network: Network, settings: &'a TrainerSettings) -> Self {
        // As with servers, a table that is updated by row is never held as a whole.
        let held = |spec: &ParameterSpec| !spec.by_row || spec.is_static;
        let specs = network.parameters();
        let values: usize = specs
            .iter()
            .filter(|spec| held(spec))
            .map(ParameterSpec::size)
            .sum();
        let draw = || loading::draw_those(configs(config), specs, settings.seed, held);
        let parameters = (values <= VALUES).then(draw);
        Trial {
            config,
            settings,
            network,
            parameters,
        }
    }

    /// Draws the rows that a batch reads of parameters that are not held as a whole.
    fn fetch_rows(&mut self, batch: &Batch) {
        let Some(parameters) = &mut self.parameters else {
            return;
        };
        for (index, ids) in self.network.rows_needed(batch, |_| false) {
            let values = &mut parameters.0[index.0];
            if let ParameterValues::Rows { .. } = values {
                let config = &configs(self.config)[index.0];
                let spec = &self.network.parameters()[index.0];
                *values = loading::draw_rows(config, spec, self.settings.seed, ids);
            }
        }
    }

    fn training_data(&self) -> Result<Option<DataSource>, TrainError> {
        let sources = parts::train_sources(self.config, self.network.inputs(), self.settings)?;
        Ok(sources.into_iter().next())
    }

    fn test_data(&self) -> Result<Option<DataSource>, TrainError> {
        parts::test_source(self.config, self.network.inputs(), self.settings)
    }

    /// Reads and computes the first batches of a data source.
    fn run(
        &mut self,
        field: &str,
        source: Result<Option<DataSource>, TrainError>,
        findings: &mut Findings,
    ) {
        let what = if field == TRAINING {
            "training"
        } else {
            "test"
        };
        let mut source = match source {
            Ok(Some(source)) => source,
            Ok(None) => return,
            Err(error) => return findings.problem(Some(field), chain(&error)),
        };
        source.start_in_order();
        let mut evaluators = self
            .config
            .model_config
            .as_ref()
            .and_then(|model| Evaluators::new(model).ok());
        let mut samples = 0;
        for _ in 0..BATCHES {
            let batch = match source.next_batch() {
                Ok(Some(batch)) => batch,
                Ok(None) => break,
                Err(error) => return findings.problem(Some(field), chain(&error)),
            };
            samples += batch.samples;
            self.fetch_rows(&batch);
            let Some(parameters) = &self.parameters else {
                continue;
            };
            let pass = BatchUse::Train { noise: 1 };
            let computed = self.network.forward(parameters, &batch, pass);
            let computed = computed.and_then(|_| match &mut evaluators {
                Some(evaluators) => evaluators.accumulate(&self.network),
                None => Ok(()),
            });
            if let Err(error) = computed {
                let inputs = self.config.model_config.as_ref();
                let inputs = inputs.map_or_else(String::new, |model| measured(&error, model));
                let text = format!("{}{inputs} (in the first {what} samples)", chain(&error));
                let subject = executed(&error);
                return findings.problem(subject.as_deref().or(Some(field)), text);
            }
        }
        if samples == 0 && field == TEST {
            let text = "the test data have no samples, so no pass is tested and none is the best";
            return findings.tried.push(text.to_owned());
        }
        if samples == 0 {
            let text = format!("the {what} data have no samples");
            return findings.problem(Some(field), text);
        }
        findings.tried.push(match self.parameters {
            Some(_) => format!("the network computes the first {samples} {what} samples"),
            None => format!(
                "the first {samples} {what} samples can be read; the network is too large to be computed here"
            ),
        });
    }
}

/// The layer that an error of a batch names.
fn executed(error: &ExecuteError) -> Option<String> {
    match error {
        ExecuteError::Layer { layer, .. } | ExecuteError::NotFinite { layer } => {
            Some(layer.clone())
        }
        ExecuteError::Evaluator { evaluator, .. } => Some(format!("{EVALUATOR}{evaluator}")),
        _ => None,
    }
}

/// What an error of a batch is about, in addition to what it names itself.
fn measured(error: &ExecuteError, model: &ModelConfig) -> String {
    let ExecuteError::Evaluator { evaluator, .. } = error else {
        return String::new();
    };
    let mut evaluators = model.evaluators.iter();
    let found = evaluators.find(|found| found.name == *evaluator);
    found.map_or_else(String::new, |found| {
        format!(" of '{}'", found.input_layers.join("' and '"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::LayerInputConfig;

    fn layer(name: &str, kind: &str, size: u64, inputs: &[&str]) -> LayerConfig {
        LayerConfig {
            name: name.to_owned(),
            r#type: kind.to_owned(),
            size: Some(size),
            inputs: inputs
                .iter()
                .map(|input| LayerInputConfig {
                    input_layer_name: (*input).to_owned(),
                    ..LayerInputConfig::default()
                })
                .collect(),
            ..LayerConfig::default()
        }
    }

    fn found(output: u64, label: u64, cost: &str) -> Vec<JobProblem> {
        let model = ModelConfig {
            layers: vec![
                layer("x", "data", 4, &[]),
                layer("label", "data", label, &[]),
                layer("out", "fc", output, &["x"]),
                layer("cost", cost, 1, &["out", "label"]),
            ],
            ..ModelConfig::default()
        };
        let mut findings = Findings::default();
        sizes(&model, &mut findings);
        findings.problems
    }

    #[test]
    fn labels_that_the_network_cannot_predict_are_named() {
        let problems = found(2, 3, "multi-class-cross-entropy");
        assert_eq!(problems[0].subject.as_deref(), Some("out"));
        assert!(problems[0].text.contains("size 2") && problems[0].text.contains("3 classes"));
        assert_eq!(found(3, 3, "multi-class-cross-entropy"), []);
        assert_eq!(
            found(5, 3, "multi-class-cross-entropy"),
            [],
            "unused classes are harmless"
        );
        assert_eq!(found(2, 3, "square_error").len(), 1);
        assert_eq!(found(2, 3, "lambda_cost"), []);
    }

    #[test]
    fn what_training_and_test_data_share_is_said_once() {
        let mut findings = Findings::default();
        findings.problem(Some("data_config"), "no such module");
        findings.problem(Some("test_data_config"), "no such module");
        findings.problem(Some("out"), "wrong (in the first training samples)");
        findings.problem(Some("out"), "wrong (in the first test samples)");
        findings.problem(Some("test_data_config"), "no samples");
        assert_eq!(findings.problems.len(), 3);
    }
}
