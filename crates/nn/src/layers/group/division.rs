//! Divides the layers of a recurrent group into those that must run step by step and those that can run for all steps at
//! once.
//!
//! A layer belongs *before* the steps if it depends on no memory: it is computed for all steps at once. It belongs
//! *after* them if no memory depends on it. What remains is the step itself. Terms of mixed and fully connected layers
//! of the step that depend on no memory are moved before it, too. A memory that remembers itself is [fixed]: it has
//! the value of its boot layer in every step (v1's `StaticInput`).
//!
//! [fixed]: Division::fixed

use std::collections::{HashMap, HashSet};

use config::{
    LayerConfig, LayerInputConfig, MemoryConfig, ModelConfig, ProjectionConfig, SubModelConfig,
};

use super::KIND;
use super::generate::Choice;
use crate::evaluators;
use crate::layer::Reads;
use crate::layers::attention;

/// The layers of a group, in execution order.
#[derive(Debug, Default)]
pub(super) struct Division {
    pub before: Vec<LayerConfig>,
    pub step: Vec<LayerConfig>,
    pub after: Vec<LayerConfig>,
    /// Names that stand for the boot layer of a fixed memory: (name, index of the memory).
    pub fixed: Vec<(String, usize)>,
}

/// The properties of a layer that decide where it runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Nature {
    pub reads: Reads,
    pub is_cost: bool,
}

/// Layers that are computed together, because one needs more than the outputs of another.
struct Item<'a> {
    layers: Vec<&'a LayerConfig>,
    reads: Vec<&'a str>,
    gives: Vec<&'a str>,
}

/// The layers that a group executes, without the agents that stand for values from outside or from other steps.
pub(super) fn own_layers<'a>(
    model: &'a ModelConfig,
    group: &'a SubModelConfig,
) -> Vec<&'a LayerConfig> {
    let by_name: HashMap<&str, &LayerConfig> = model
        .layers
        .iter()
        .map(|layer| (layer.name.as_str(), layer))
        .collect();
    let fixed: HashSet<&str> = fixed(model, group)
        .iter()
        .map(|&memory| group.memories[memory].layer_name.as_str())
        .collect();
    let choice = Choice::of(model, group);
    let chooses = |layer: &LayerConfig| {
        let layers = choice.as_ref().map(|choice| [choice.word, choice.end]);
        layers.is_some_and(|layers| layers.iter().any(|own| own.name == layer.name))
    };
    let is_own = |layer: &&LayerConfig| {
        let agent = matches!(
            layer.r#type.as_str(),
            "agent" | "sequence_agent" | "scatter_agent" | "sequence_scatter_agent"
        );
        !agent
            && !chooses(layer)
            && !super::is_output(layer)
            && !fixed.contains(layer.name.as_str())
            && evaluators::of_validation(layer).is_none()
    };
    let layers = group.layer_names.iter();
    layers
        .filter_map(|name| by_name.get(name.as_str()).copied())
        .filter(is_own)
        .collect()
}

/// The memories that have the value of their boot layer in every step.
pub(super) fn fixed(model: &ModelConfig, group: &SubModelConfig) -> Vec<usize> {
    let remembers_itself = |memory: &MemoryConfig| {
        let layer = model.layers.iter().find(|l| l.name == memory.layer_name);
        layer.is_some_and(|layer| match layer.inputs.as_slice() {
            [input] => {
                layer.r#type == "mixed"
                    && input.input_layer_name == memory.link_name
                    && input
                        .proj_conf
                        .as_ref()
                        .is_some_and(|proj| proj.r#type == "identity")
                    && layer.operator_confs.is_empty()
                    && layer.bias_parameter_name().is_empty()
                    && matches!(layer.active_type(), "" | "linear")
                    && layer.drop_rate() <= 0.0
                    && layer.error_clipping_threshold() <= 0.0
            }
            _ => false,
        })
    };
    let memories = group.memories.iter().enumerate();
    memories
        .filter(|(_, memory)| memory.boot_layer_name.is_some() && remembers_itself(memory))
        .map(|(index, _)| index)
        .collect()
}

/// Divides the layers of a group; `nature` describes each of them. `together`: layers that are cheaper as one are joined.
pub(super) fn divide(
    model: &ModelConfig,
    group: &SubModelConfig,
    nature: impl Fn(&str) -> Nature,
    together: bool,
) -> Division {
    let own = own_layers(model, group);
    let items = items(model, &own);
    let fixed = fixed(model, group);
    let moving = || {
        let memories = group.memories.iter().enumerate();
        memories.filter(|(index, _)| !fixed.contains(index))
    };
    let generates = group.generator.is_some();
    let mut varies: HashSet<&str> = group
        .in_links
        .iter()
        .map(|l| l.link_name.as_str())
        .collect();
    let mut in_step: HashSet<&str> = moving().map(|(_, m)| m.link_name.as_str()).collect();
    varies.extend(&in_step);
    let mut later = Vec::new();
    let mut division = Division::default();
    for item in &items {
        let item_varies = item.reads.iter().any(|name| varies.contains(name));
        let movable = item.layers.iter().all(|layer| {
            let nature = nature(&layer.name);
            // The noise of a layer is drawn for every step.
            (nature.reads != Reads::Batch || nature.is_cost)
                && (item_varies || layer.drop_rate() <= 0.0)
        });
        if item_varies {
            varies.extend(&item.gives);
        }
        if movable && !item.reads.iter().any(|name| in_step.contains(name)) {
            division.before.extend(item.layers.iter().copied().cloned());
        } else {
            in_step.extend(&item.gives);
            later.push((item, movable));
        }
    }
    let mut needed: HashSet<&str> = moving().map(|(_, m)| m.layer_name.as_str()).collect();
    for (item, movable) in later.into_iter().rev() {
        let is_needed = item.gives.iter().any(|name| needed.contains(name));
        let part = if is_needed || !movable || generates {
            needed.extend(&item.reads);
            &mut division.step
        } else {
            &mut division.after
        };
        part.extend(item.layers.iter().rev().copied().cloned());
    }
    division.step.reverse();
    division.after.reverse();
    for &memory in &fixed {
        let config = &group.memories[memory];
        division.fixed.push((config.link_name.clone(), memory));
        division.fixed.push((config.layer_name.clone(), memory));
    }
    let size = |name: &str| {
        let layer = model.layers.iter().find(|layer| layer.name == name);
        layer.map_or(0, LayerConfig::size)
    };
    hoist(&mut division, |name| in_step.contains(name), size);
    if together {
        let reads = reads(model, group, &division);
        attention::join(&mut division.step, &reads);
    }
    division
}

/// How often each layer is read, by layers of the group and otherwise.
fn reads(
    model: &ModelConfig,
    group: &SubModelConfig,
    division: &Division,
) -> HashMap<String, usize> {
    let layers = [&division.before, &division.step, &division.after];
    let mut names: Vec<&str> = layers
        .into_iter()
        .flatten()
        .flat_map(|layer| super::inputs_of(model, layer))
        .collect();
    names.extend(group.out_links.iter().map(|l| l.layer_name.as_str()));
    names.extend(group.memories.iter().map(|m| m.layer_name.as_str()));
    let evaluated = model.evaluators.iter().flat_map(|e| &e.input_layers);
    names.extend(evaluated.map(String::as_str));
    let mut reads = HashMap::new();
    for name in names {
        *reads.entry(name.to_owned()).or_default() += 1;
    }
    reads
}

fn items<'a>(model: &'a ModelConfig, own: &[&'a LayerConfig]) -> Vec<Item<'a>> {
    let mut items: Vec<Item<'_>> = Vec::new();
    for &layer in own {
        let inputs = || layer.inputs.iter().map(|i| i.input_layer_name.as_str());
        let argument = layer
            .inputs
            .first()
            .map_or("", |i| i.input_layer_argument());
        let owner = (layer.r#type == "get_output" && !argument.is_empty())
            .then(|| {
                let source = layer.inputs[0].input_layer_name.as_str();
                items.iter_mut().find(|item| item.gives.contains(&source))
            })
            .flatten();
        if let Some(owner) = owner {
            owner.layers.push(layer);
            owner.gives.push(&layer.name);
            continue;
        }
        let inner = (layer.r#type == KIND)
            .then(|| model.sub_models.iter().find(|part| part.name == layer.name))
            .flatten();
        items.push(match inner {
            Some(inner) => Item {
                layers: vec![layer],
                reads: super::source_names(inner),
                gives: inner
                    .out_links
                    .iter()
                    .map(|l| l.link_name.as_str())
                    .collect(),
            },
            None => Item {
                layers: vec![layer],
                reads: inputs().collect(),
                gives: vec![&layer.name],
            },
        });
    }
    items
}

/// Moves terms of layers of the step that depend on no memory before it.
fn hoist(division: &mut Division, in_step: impl Fn(&str) -> bool, size: impl Fn(&str) -> u64) {
    let mut before = Vec::new();
    for layer in &mut division.step {
        if let Some(terms) = split(layer, &in_step, &size) {
            before.push(terms);
        }
    }
    division.before.extend(before);
}

/// Splits the terms that do not depend on the step off a layer, if there are some that are worth it.
fn split(
    layer: &mut LayerConfig,
    in_step: impl Fn(&str) -> bool,
    size_of: impl Fn(&str) -> u64,
) -> Option<LayerConfig> {
    let connected = layer.r#type == "fc";
    if !connected && layer.r#type != "mixed" {
        return None;
    }
    let is_product = |input: &LayerInputConfig| match &input.proj_conf {
        Some(proj) => matches!(proj.r#type.as_str(), "fc" | "trans_fc" | "table"),
        None => connected,
    };
    let operated = |index: usize| {
        let operators = layer.operator_confs.iter();
        operators
            .flat_map(|operator| &operator.input_indices)
            .any(|&input| input == index as i32)
    };
    let moves: Vec<bool> = layer
        .inputs
        .iter()
        .enumerate()
        .map(|(index, input)| {
            is_product(input) && !operated(index) && !in_step(&input.input_layer_name)
        })
        .collect();
    let moved = moves.iter().filter(|moves| **moves).count();
    if moved == 0 || moved == moves.len() {
        return None;
    }
    let size = layer.size();
    let mut terms = LayerConfig {
        name: format!("{} without memories", layer.name),
        r#type: layer.r#type.clone(),
        size: Some(size),
        ..LayerConfig::default()
    };
    let sum = LayerInputConfig {
        input_layer_name: terms.name.clone(),
        proj_conf: Some(ProjectionConfig {
            r#type: "identity".to_owned(),
            input_size: size,
            output_size: size,
            ..ProjectionConfig::default()
        }),
        ..LayerInputConfig::default()
    };
    let mut places = Vec::new();
    let mut stay = vec![sum];
    for (mut input, moves) in std::mem::take(&mut layer.inputs).into_iter().zip(moves) {
        places.push(stay.len() as i32);
        if moves {
            terms.inputs.push(input);
            continue;
        }
        if connected {
            input.proj_conf = Some(ProjectionConfig {
                r#type: "fc".to_owned(),
                input_size: size_of(&input.input_layer_name),
                output_size: size,
                ..ProjectionConfig::default()
            });
        }
        stay.push(input);
    }
    layer.inputs = stay;
    layer.r#type = "mixed".to_owned();
    for operator in &mut layer.operator_confs {
        for input in &mut operator.input_indices {
            if let Some(place) = usize::try_from(*input).ok().and_then(|i| places.get(i)) {
                *input = *place;
            }
        }
    }
    Some(terms)
}
