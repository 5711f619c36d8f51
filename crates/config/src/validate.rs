//! Checks that a configuration is consistent: names exist and are unique, sizes agree.
//!
//! The Python side refuses most mistakes where the user made them. This second check sees the whole, and it is the only
//! one for configurations from elsewhere (a stored JSON, another program).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use crate::model::{LayerConfig, ModelConfig};
use crate::parameter::ParameterConfig;
use crate::training::TrainerConfig;

/// One inconsistency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inconsistency {
    /// The thing that is wrong: a layer, a parameter, an evaluator, the settings.
    pub subject: String,
    /// What is wrong with it.
    pub message: String,
}

impl fmt::Display for Inconsistency {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.subject, self.message)
    }
}

/// The problems as one text, one per line.
pub(crate) fn listed(problems: &[Inconsistency]) -> String {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    lines.join("\n  ")
}

/// All problems of a configuration; empty if it is valid.
pub fn problems(config: &TrainerConfig) -> Vec<Inconsistency> {
    let mut check = Check::default();
    match &config.model_config {
        Some(model) => check.model(model),
        None => check.report("configuration", "it describes no network"),
    }
    if config.opt_config.batch_size < 0 {
        check.report(
            "settings",
            format!("batch_size is {}", config.opt_config.batch_size),
        );
    }
    check.problems
}

/// Whether a parameter can have a file of its name beside those that every pass directory has. The rule is that of
/// `paddle.core.job`.
fn can_be_a_file(name: &str) -> bool {
    let no_file = ["", ".", ".."].contains(&name) || name.contains(['/', '\0']) || name.len() > 255;
    let taken = ["done", "path.txt"].contains(&name)
        || ["canoe.", "pserver."]
            .iter()
            .any(|start| name.starts_with(start));
    !no_file && !taken
}

/// A parameter whose file would be that of the configuration, which is copied into every pass directory.
pub(crate) fn shadowed(config: &TrainerConfig, file: &Path) -> Option<Inconsistency> {
    let copy = file.file_name()?;
    let mut parameters = config.model_config.iter().flat_map(|m| &m.parameters);
    let found = parameters.find(|parameter| copy == parameter.name.as_str())?;
    Some(Inconsistency {
        subject: format!("parameter '{}'", found.name),
        message: "its file and the copy of the configuration would have the same name; rename one of them".to_owned(),
    })
}

#[derive(Default)]
struct Check {
    problems: Vec<Inconsistency>,
}

impl Check {
    fn report(&mut self, subject: impl Into<String>, message: impl Into<String>) {
        self.problems.push(Inconsistency {
            subject: subject.into(),
            message: message.into(),
        });
    }

    fn model(&mut self, model: &ModelConfig) {
        let layers: BTreeMap<&str, &LayerConfig> = model
            .layers
            .iter()
            .map(|layer| (layer.name.as_str(), layer))
            .collect();
        let parameters: BTreeMap<&str, &ParameterConfig> = model
            .parameters
            .iter()
            .map(|parameter| (parameter.name.as_str(), parameter))
            .collect();
        self.unique(
            "layer",
            model.layers.iter().map(|layer| layer.name.as_str()),
        );
        self.unique(
            "parameter",
            model
                .parameters
                .iter()
                .map(|parameter| parameter.name.as_str()),
        );
        let mut before = BTreeSet::new();
        for layer in &model.layers {
            self.layer(layer, &before, &layers, &parameters);
            before.insert(layer.name.as_str());
        }
        for parameter in &model.parameters {
            self.parameter(parameter);
        }
        self.ends(model, &layers);
        for evaluator in &model.evaluators {
            for input in &evaluator.input_layers {
                if !layers.contains_key(input.as_str()) {
                    self.report(
                        format!("evaluator '{}'", evaluator.name),
                        format!("its input '{input}' is not a layer"),
                    );
                }
            }
        }
    }

    fn unique<'a>(&mut self, what: &str, names: impl Iterator<Item = &'a str>) {
        let mut seen = BTreeSet::new();
        for name in names {
            if !seen.insert(name) {
                self.report(format!("{what} '{name}'"), "the name is used twice");
            }
        }
    }

    fn layer(
        &mut self,
        layer: &LayerConfig,
        before: &BTreeSet<&str>,
        layers: &BTreeMap<&str, &LayerConfig>,
        parameters: &BTreeMap<&str, &ParameterConfig>,
    ) {
        let subject = || format!("layer '{}'", layer.name);
        for input in &layer.inputs {
            let name = input.input_layer_name.as_str();
            if !layers.contains_key(name) {
                self.report(subject(), format!("its input '{name}' is not a layer"));
            } else if !before.contains(name) {
                self.report(subject(), format!("its input '{name}' comes after it"));
            }
            if let Some(parameter) = &input.input_parameter_name {
                self.weight(layer, name, parameter, layers, parameters);
            }
        }
        if let Some(bias) = &layer.bias_parameter_name
            && !parameters.contains_key(bias.as_str())
        {
            self.report(subject(), format!("its bias '{bias}' is not a parameter"));
        }
    }

    fn weight(
        &mut self,
        layer: &LayerConfig,
        input: &str,
        name: &str,
        layers: &BTreeMap<&str, &LayerConfig>,
        parameters: &BTreeMap<&str, &ParameterConfig>,
    ) {
        let Some(parameter) = parameters.get(name) else {
            self.report(
                format!("layer '{}'", layer.name),
                format!("its parameter '{name}' does not exist"),
            );
            return;
        };
        let Some(source) = layers.get(input) else {
            return;
        };
        if layer.r#type == "fc"
            && !parameter.is_sparse()
            && parameter.size != source.size() * layer.size()
        {
            self.report(
                format!("layer '{}'", layer.name),
                format!(
                    "parameter '{name}' has {} values, but {} x {} are needed",
                    parameter.size,
                    source.size(),
                    layer.size()
                ),
            );
        }
    }

    fn parameter(&mut self, parameter: &ParameterConfig) {
        let subject = format!("parameter '{}'", parameter.name);
        if !can_be_a_file(&parameter.name) {
            let text = "a pass directory cannot have a file of this name for it";
            self.report(subject.as_str(), text);
        }
        if parameter.size == 0 {
            self.report(subject.as_str(), "it has no values");
        }
        let product = parameter
            .dims
            .iter()
            .try_fold(1u64, |product, dim| product.checked_mul(*dim));
        let dense = !parameter.dims.is_empty() && !parameter.is_sparse();
        if dense && product != Some(parameter.size) {
            self.report(
                subject,
                format!(
                    "it has {} values, but dimensions {:?}",
                    parameter.size, parameter.dims
                ),
            );
        }
    }

    fn ends(&mut self, model: &ModelConfig, layers: &BTreeMap<&str, &LayerConfig>) {
        for name in &model.input_layer_names {
            match layers.get(name.as_str()) {
                None => self.report(format!("input '{name}'"), "it is not a layer"),
                Some(layer) if !layer.r#type.starts_with("data") => {
                    self.report(format!("input '{name}'"), "it is not a data layer");
                }
                Some(_) => {}
            }
        }
        for name in &model.output_layer_names {
            if !layers.contains_key(name.as_str()) {
                self.report(format!("output '{name}'"), "it is not a layer");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sound() -> TrainerConfig {
        serde_json::from_value(serde_json::json!({
            "model_config": {
                "type": "nn",
                "layers": [
                    {"name": "word", "type": "data", "size": 3},
                    {"name": "hidden", "type": "fc", "size": 2, "bias_parameter_name": "b",
                     "inputs": [{"input_layer_name": "word", "input_parameter_name": "w"}]}
                ],
                "parameters": [{"name": "w", "size": 6, "dims": [3, 2]}, {"name": "b", "size": 2, "dims": [1, 2]}],
                "input_layer_names": ["word"],
                "output_layer_names": ["hidden"],
                "evaluators": [{"name": "e", "type": "sum", "input_layers": ["hidden"]}]
            },
            "opt_config": {"batch_size": 1, "algorithm": "sgd", "learning_rate": 1.0}
        }))
        .unwrap()
    }

    fn complaint(spoil: impl FnOnce(&mut ModelConfig)) -> String {
        let mut config = sound();
        spoil(config.model_config.as_mut().unwrap());
        listed(&problems(&config))
    }

    #[test]
    fn a_sound_description_passes() {
        assert_eq!(problems(&sound()), []);
    }

    #[test]
    fn every_mistake_is_named() {
        type Spoil = fn(&mut ModelConfig);
        let cases: [(Spoil, &str); 12] = [
            (
                |m| m.parameters[1].name = "../evil".into(),
                "parameter '../evil': a pass directory cannot have a file of this name",
            ),
            (
                |m| m.parameters[1].name = "canoe.state".into(),
                "parameter 'canoe.state': a pass directory cannot have",
            ),
            (
                |m| m.layers[1].name = "word".into(),
                "layer 'word': the name is used twice",
            ),
            (
                |m| m.parameters[1].name = "w".into(),
                "parameter 'w': the name is used twice",
            ),
            (
                |m| m.layers[1].inputs[0].input_layer_name = "wort".into(),
                "layer 'hidden': its input 'wort' is not a layer",
            ),
            (
                |m| m.layers.swap(0, 1),
                "layer 'hidden': its input 'word' comes after it",
            ),
            (
                |m| m.layers[1].inputs[0].input_parameter_name = Some("x".into()),
                "layer 'hidden': its parameter 'x' does not exist",
            ),
            (
                |m| m.layers[1].size = Some(4),
                "parameter 'w' has 6 values, but 3 x 4 are needed",
            ),
            (
                |m| m.parameters[0].dims[0] = 4,
                "parameter 'w': it has 6 values, but dimensions [4, 2]",
            ),
            (
                |m| m.input_layer_names[0] = "hidden".into(),
                "input 'hidden': it is not a data layer",
            ),
            (
                |m| m.output_layer_names[0] = "gone".into(),
                "output 'gone': it is not a layer",
            ),
            (
                |m| m.evaluators[0].input_layers[0] = "gone".into(),
                "evaluator 'e': its input 'gone' is not a layer",
            ),
        ];
        for (spoil, message) in cases {
            let found = complaint(spoil);
            assert!(found.contains(message), "expected {message}, found {found}");
        }
    }

    #[test]
    fn a_configuration_without_network_is_refused() {
        let mut config = sound();
        config.model_config = None;
        assert_eq!(
            listed(&problems(&config)),
            "configuration: it describes no network"
        );
    }
}
