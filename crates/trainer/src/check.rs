//! Checks a configuration as far as it can be checked without training: sizes that are compared with each other fit,
//! data sources can be opened, and the network can compute their first samples.
//!
//! Finds what would otherwise stop a job after its start, on every node of it. Collects all problems, because a user
//! repairs them together.

use config::{LayerConfig, ModelConfig, OptimizationConfig, TrainerConfig};
use nn::{BatchUse, Evaluators, ExecuteError, Network, Parameters};
use words::causes::chain;

use crate::data::DataSource;
use crate::error::TrainError;
use crate::job::parts;
use crate::loading;
use crate::rules;
use crate::settings::TrainerSettings;

/// Batches of each data source that are computed.
const BATCHES: u64 = 3;

/// A model with more values than this is not drawn just to be checked.
const VALUES: usize = 200_000_000;

/// Something that would stop a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobProblem {
    /// The layer, or `data_config` or `test_data_config`, if it belongs to one.
    pub subject: Option<String>,
    /// What is wrong, and what to do.
    pub text: String,
}

/// What a check found out.
#[derive(Debug, Default)]
pub struct Findings {
    /// What would stop a job.
    pub problems: Vec<JobProblem>,
    /// What was tried, as sentences.
    pub tried: Vec<String>,
}

impl Findings {
    /// Adds a problem, unless it is known: training and test data often share one.
    fn problem(&mut self, subject: Option<&str>, text: impl Into<String>) {
        let (subject, text) = (subject.map(str::to_owned), text.into());
        let is_layer = subject
            .as_ref()
            .is_some_and(|name| !name.ends_with("data_config"));
        let known = |old: &JobProblem| old.text == text || is_layer && old.subject == subject;
        if !self.problems.iter().any(known) {
            self.problems.push(JobProblem { subject, text });
        }
    }
}

/// Checks a configuration.
pub fn check(config: &TrainerConfig, settings: &TrainerSettings) -> Findings {
    let mut findings = Findings::default();
    let Some(model) = &config.model_config else {
        findings.problem(None, "the configuration describes no network");
        return findings;
    };
    sizes(model, &mut findings);
    if model.output_layer_names.is_empty() {
        let text = "outputs is not called, so nothing would be computed or learned; name the cost, for example outputs(classification_cost(input=…, label=…))";
        findings.problem(None, text);
        return findings;
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
        return findings;
    }
    let network = match Network::new(model) {
        Ok(network) => network,
        Err(error) => {
            findings.problem(built(&error), chain(&error));
            return findings;
        }
    };
    if config.data_config.is_some() && !network.has_cost() {
        let last = model.output_layer_names.last();
        let text = "none of the outputs is a cost, so nothing would be learned; name one, for example outputs(classification_cost(input=…, label=…))";
        findings.problem(last.map(String::as_str), text);
    }
    findings.problems.extend(batch_size(&config.opt_config));
    if let Err(unknown) = rules::is_asynchronous(&config.opt_config) {
        findings.problem(None, unknown.to_string());
    }
    let mut trial = Trial::new(config, network, settings);
    if config.data_config.is_none() {
        let text = "the configuration names no training data; add define_py_data_sources2(train_list=…, …)";
        findings.problem(None, text);
    } else {
        let source = trial.training_data();
        trial.run("data_config", source, &mut findings);
    }
    if config.test_data_config.is_some() {
        let source = trial.test_data();
        trial.run("test_data_config", source, &mut findings);
    }
    findings
}

/// A batch size with which nothing can be trained.
fn batch_size(settings: &OptimizationConfig) -> Option<JobProblem> {
    let text = match settings.batch_size {
        1.. => return None,
        // What v1's message has where nothing was set.
        0 if settings.algorithm == "async_sgd" && settings.learning_rate == 1.0 => "settings is not called, so there is neither a batch size nor a learning rate; add settings(batch_size=…, learning_rate=…)".to_owned(),
        size => format!("settings has batch_size={size}; a batch needs at least one sample"),
    };
    Some(JobProblem {
        subject: None,
        text,
    })
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
                    "layer '{}' has size {}, but data layer '{}', with which cost '{}' compares it, has {} classes: make both sizes equal",
                    output.name, size(output), label.name, cost.name, size(label)
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

/// A network that computes a few samples.
struct Trial<'a> {
    config: &'a TrainerConfig,
    settings: &'a TrainerSettings,
    network: Network,
    parameters: Option<Parameters>,
}

impl<'a> Trial<'a> {
    fn new(config: &'a TrainerConfig, network: Network, settings: &'a TrainerSettings) -> Self {
        let values: usize = network
            .parameters()
            .iter()
            .map(nn::ParameterSpec::size)
            .sum();
        let configs = config.model_config.as_ref();
        let configs = configs.map_or(&[][..], |model| &model.parameters);
        let draw = || loading::draw(configs, network.parameters(), settings.seed);
        let parameters = (values <= VALUES).then(draw);
        Trial {
            config,
            settings,
            network,
            parameters,
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
        let what = if field == "data_config" {
            "training"
        } else {
            "test"
        };
        let mut source = match source {
            Ok(Some(source)) => source,
            Ok(None) => return,
            Err(error) => return findings.problem(Some(field), chain(&error)),
        };
        source.start_pass(0, 0);
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
                let text = format!("{} (in the first {what} samples)", chain(&error));
                return findings.problem(executed(&error).or(Some(field)), text);
            }
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
fn executed(error: &ExecuteError) -> Option<&str> {
    match error {
        ExecuteError::Layer { layer, .. } | ExecuteError::NotFinite { layer } => Some(layer),
        _ => None,
    }
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
