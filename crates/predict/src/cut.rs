//! Reduces a network to what some outputs need: layers, data layers and parameters; no cost, no label, no evaluator.

use std::collections::{HashMap, HashSet};

use config::{LayerConfig, ModelConfig};

use crate::error::PredictError;

/// Types of layers that compute a cost. Their prediction input, not the cost, is the output that users want.
const COSTS: [&str; 16] = [
    "crf",
    "ctc",
    "hsigmoid",
    "huber",
    "lambda_cost",
    "multi-class-cross-entropy",
    "multi_binary_label_cross_entropy",
    "multi_class_cross_entropy_with_selfnorm",
    "nce",
    "rank-cost",
    "smooth_l1",
    "soft_binary_class_cross_entropy",
    "square_error",
    "sum_cost",
    "warp_ctc",
    "cross-entropy-over-beam",
];

/// Cost layers whose inputs are features, not predictions.
const WITHOUT_PREDICTION: [&str; 2] = ["hsigmoid", "nce"];

fn is_cost(layer: &LayerConfig) -> bool {
    COSTS.contains(&layer.r#type.as_str())
}

fn names(model: &ModelConfig) -> String {
    let all = model.layers.iter().filter(|layer| layer.r#type != "data");
    let names: Vec<&str> = all.map(|layer| layer.name.as_str()).collect();
    names.join(", ")
}

fn layer<'a>(model: &'a ModelConfig, name: &str) -> Option<&'a LayerConfig> {
    model.layers.iter().find(|layer| layer.name == name)
}

fn is_data(model: &ModelConfig, name: &str) -> bool {
    layer(model, name).is_some_and(|layer| layer.r#type == "data")
}

/// The outputs: those that the user named, otherwise those of the configuration, with the prediction of a cost instead of
/// the cost.
pub(crate) fn outputs(model: &ModelConfig, asked: &[String]) -> Result<Vec<String>, PredictError> {
    if let Some(name) = asked.iter().find(|name| layer(model, name).is_none()) {
        return Err(PredictError::UnknownLayer {
            layer: name.clone(),
            known: names(model),
        });
    }
    if !asked.is_empty() {
        return Ok(asked.to_vec());
    }
    let mut found: Vec<String> = Vec::new();
    for name in &model.output_layer_names {
        let Some(output) = layer(model, name) else {
            continue;
        };
        if !is_cost(output) {
            found.push(name.clone());
            continue;
        }
        let inputs = output.inputs.iter().map(|input| &input.input_layer_name);
        let compared: Vec<String> = inputs
            .filter(|name| !is_data(model, name))
            .cloned()
            .collect();
        if compared.is_empty() || WITHOUT_PREDICTION.contains(&output.r#type.as_str()) {
            return Err(PredictError::NoOutput {
                layer: name.clone(),
                known: names(model),
            });
        }
        found.extend(compared);
    }
    let mut seen = HashSet::new();
    found.retain(|name| seen.insert(name.clone()));
    if found.is_empty() {
        return Err(PredictError::NoOutput {
            layer: model.output_layer_names.join(", "),
            known: names(model),
        });
    }
    Ok(found)
}

/// The data layer whose ids an output predicts: the label of the cost that reads it, or that reads what `maxid` reads.
pub(crate) fn label_of(model: &ModelConfig, output: &str) -> Option<String> {
    let own = layer(model, output)?;
    let scored = match own.r#type.as_str() {
        "maxid" | "crf_decoding" => own.inputs.first().map(|i| i.input_layer_name.as_str()),
        _ => None,
    };
    let reads = |cost: &&LayerConfig| {
        let mut inputs = cost.inputs.iter();
        is_cost(cost)
            && inputs.any(|input| {
                input.input_layer_name == output || Some(&*input.input_layer_name) == scored
            })
    };
    let cost = model.layers.iter().find(reads)?;
    let mut inputs = cost.inputs.iter().map(|input| &input.input_layer_name);
    inputs.find(|name| is_data(model, name)).cloned()
}

/// The model with only what the outputs need.
pub(crate) fn cut(model: &ModelConfig, outputs: &[String]) -> ModelConfig {
    let needed = needed(model, outputs);
    let keeps = |name: &String| needed.contains(name.as_str());
    let mut cut = model.clone();
    cut.layers.retain(|layer| keeps(&layer.name));
    cut.input_layer_names.retain(keeps);
    cut.output_layer_names = outputs.to_vec();
    cut.evaluators.clear();
    for sub in &mut cut.sub_models {
        sub.layer_names.retain(keeps);
        sub.evaluator_names.clear();
        if !sub.is_recurrent_layer_group() {
            sub.input_layer_names.retain(keeps);
            sub.output_layer_names = outputs.to_vec();
        }
    }
    cut.sub_models
        .retain(|sub| !sub.is_recurrent_layer_group() || !sub.layer_names.is_empty());
    let mut used: HashSet<&str> = HashSet::new();
    for layer in &cut.layers {
        let inputs = layer.inputs.iter();
        used.extend(inputs.filter_map(|input| input.input_parameter_name.as_deref()));
        used.extend(layer.bias_parameter_name.as_deref());
    }
    for memory in cut.sub_models.iter().flat_map(|sub| &sub.memories) {
        used.extend(memory.boot_bias_parameter_name.as_deref());
    }
    let used: HashSet<String> = used.into_iter().map(str::to_owned).collect();
    cut.parameters
        .retain(|parameter| used.contains(&parameter.name));
    cut
}

/// Names of all layers that the outputs depend on. A recurrent group is needed as a whole.
fn needed(model: &ModelConfig, outputs: &[String]) -> HashSet<String> {
    let by_name: HashMap<&str, &LayerConfig> = model
        .layers
        .iter()
        .map(|layer| (layer.name.as_str(), layer))
        .collect();
    let groups = || {
        model
            .sub_models
            .iter()
            .filter(|s| s.is_recurrent_layer_group())
    };
    let mut needed: HashSet<String> = HashSet::new();
    let mut open: Vec<String> = outputs.to_vec();
    while let Some(name) = open.pop() {
        if !needed.insert(name.clone()) {
            continue;
        }
        if let Some(layer) = by_name.get(name.as_str()) {
            open.extend(layer.inputs.iter().map(|i| i.input_layer_name.clone()));
        }
        let part = |group: &&config::model::SubModelConfig| {
            group.layer_names.contains(&name)
                || group.out_links.iter().any(|link| link.link_name == name)
        };
        for group in groups().filter(part) {
            open.extend(group.layer_names.iter().cloned());
            let links = group.in_links.iter().chain(&group.out_links);
            open.extend(links.flat_map(|l| [l.layer_name.clone(), l.link_name.clone()]));
            let boots = group.memories.iter();
            open.extend(boots.filter_map(|memory| memory.boot_layer_name.clone()));
        }
    }
    needed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> ModelConfig {
        let layer = |name: &str, kind: &str, inputs: &[&str]| {
            let inputs: Vec<_> = inputs
                .iter()
                .map(|i| serde_json::json!({"input_layer_name": i, "input_parameter_name": format!("{name}.{i}")}))
                .collect();
            serde_json::json!({"name": name, "type": kind, "size": 2, "inputs": inputs})
        };
        let parameter = |name: &str| serde_json::json!({"name": name, "size": 4});
        serde_json::from_value(serde_json::json!({
            "type": "nn",
            "layers": [
                layer("word", "data", &[]),
                layer("label", "data", &[]),
                layer("hidden", "fc", &["word"]),
                layer("unused", "fc", &["hidden"]),
                layer("score", "fc", &["hidden"]),
                layer("cost", "multi-class-cross-entropy", &["score", "label"]),
            ],
            "parameters": [parameter("hidden.word"), parameter("unused.hidden"), parameter("score.hidden")],
            "input_layer_names": ["word", "label"],
            "output_layer_names": ["cost"],
            "evaluators": [{"name": "e", "type": "classification_error", "input_layers": ["score", "label"]}],
        }))
        .unwrap()
    }

    #[test]
    fn a_cost_is_replaced_by_what_it_compares() {
        assert_eq!(outputs(&model(), &[]).unwrap(), ["score"]);
        assert_eq!(label_of(&model(), "score").as_deref(), Some("label"));
        assert_eq!(label_of(&model(), "hidden"), None);
    }

    #[test]
    fn only_what_the_outputs_need_is_left() {
        let cut = cut(&model(), &["score".to_owned()]);
        let layers: Vec<_> = cut.layers.iter().map(|l| l.name.as_str()).collect();
        assert_eq!(layers, ["word", "hidden", "score"]);
        assert_eq!(cut.input_layer_names, ["word"]);
        let parameters: Vec<_> = cut.parameters.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(parameters, ["hidden.word", "score.hidden"]);
        assert!(cut.evaluators.is_empty());
    }

    #[test]
    fn a_layer_that_does_not_exist_is_named() {
        let error = outputs(&model(), &["scores".to_owned()]).unwrap_err();
        assert!(error.to_string().contains("'scores'"), "{error}");
        assert!(
            error.to_string().contains("hidden, unused, score"),
            "{error}"
        );
    }
}
