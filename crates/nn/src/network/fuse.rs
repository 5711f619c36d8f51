//! Finds layers that are cheaper when they are fused: a window over neighbours, the fully connected layer above it and,
//! maybe, the maximum over the sequence above that (`sequence_conv_pool` of v1's networks).
//!
//! They are fused only if no other layer, evaluator or output reads the values between them.

use std::collections::HashMap;

use config::{LayerConfig, ModelConfig};

use crate::activation::Activation;
use crate::layers::group::inner_layers;

/// One or several layers of a model that are executed as one.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fused<'a> {
    /// A layer that is executed alone.
    Single(&'a LayerConfig),
    /// A window, a fully connected layer and, maybe, a maximum.
    Convolution {
        window: &'a LayerConfig,
        connected: &'a LayerConfig,
        maximum: Option<&'a LayerConfig>,
    },
}

/// The layers of a model in order, fused where it is cheaper (if `fuse`).
pub(super) fn fused(model: &ModelConfig, fuse: bool) -> Vec<Fused<'_>> {
    let readers = readers(model);
    let inner = inner_layers(model);
    let by_name: HashMap<&str, &LayerConfig> = model
        .layers
        .iter()
        .map(|layer| (layer.name.as_str(), layer))
        .collect();
    let only_reader =
        |layer: &LayerConfig| match readers.get(layer.name.as_str()).map(Vec::as_slice) {
            Some([reader]) => by_name.get(reader).copied(),
            _ => None,
        };
    let mut parts = Vec::new();
    let mut joined: Vec<&str> = Vec::new();
    for layer in &model.layers {
        if joined.contains(&layer.name.as_str()) {
            continue;
        }
        let connected = only_reader(layer)
            .filter(|_| fuse && !inner.contains(layer.name.as_str()))
            .filter(|connected| is_window(layer) && is_connected(connected));
        let Some(connected) = connected else {
            parts.push(Fused::Single(layer));
            continue;
        };
        let maximum =
            only_reader(connected).filter(|maximum| is_monotone(connected) && is_maximum(maximum));
        joined.push(&connected.name);
        joined.extend(maximum.map(|maximum| maximum.name.as_str()));
        parts.push(Fused::Convolution {
            window: layer,
            connected,
            maximum,
        });
    }
    parts
}

/// The readers of each layer: names of layers, and an empty name for readers outside the network.
fn readers(model: &ModelConfig) -> HashMap<&str, Vec<&str>> {
    let mut readers: HashMap<&str, Vec<&str>> = HashMap::new();
    for layer in &model.layers {
        for input in &layer.inputs {
            readers
                .entry(&input.input_layer_name)
                .or_default()
                .push(&layer.name);
        }
    }
    let outside = model
        .evaluators
        .iter()
        .flat_map(|evaluator| &evaluator.input_layers)
        .chain(&model.output_layer_names)
        .chain(links(model));
    for name in outside {
        readers.entry(name).or_default().push("");
    }
    readers
}

/// The layers that recurrent groups read from outside.
fn links(model: &ModelConfig) -> impl Iterator<Item = &String> {
    model.sub_models.iter().flat_map(|group| {
        let boots = group
            .memories
            .iter()
            .filter_map(|m| m.boot_layer_name.as_ref());
        group
            .in_links
            .iter()
            .map(|link| &link.layer_name)
            .chain(boots)
    })
}

fn has_tail(layer: &LayerConfig) -> bool {
    layer.drop_rate() > 0.0 || layer.error_clipping_threshold() > 0.0
}

fn activation(layer: &LayerConfig) -> Option<Activation> {
    Activation::of_name(layer.active_type())
}

fn is_window(layer: &LayerConfig) -> bool {
    let is_context = |[input]: &[config::LayerInputConfig; 1]| {
        input
            .proj_conf
            .as_ref()
            .is_some_and(|proj| proj.r#type == "context")
    };
    layer.r#type == "mixed"
        && layer.operator_confs.is_empty()
        && layer.bias_parameter_name().is_empty()
        && activation(layer) == Some(Activation::Linear)
        && !has_tail(layer)
        && <&[_; 1]>::try_from(layer.inputs.as_slice()).is_ok_and(is_context)
}

fn is_connected(layer: &LayerConfig) -> bool {
    let is_full = |input: &config::LayerInputConfig| {
        input
            .proj_conf
            .as_ref()
            .is_some_and(|proj| proj.r#type == "fc")
    };
    let by_row =
        activation(layer).is_some_and(|activation| activation != Activation::SequenceSoftmax);
    let [input] = layer.inputs.as_slice() else {
        return false;
    };
    by_row
        && !has_tail(layer)
        && (layer.r#type == "fc"
            || (layer.r#type == "mixed" && is_full(input) && layer.operator_confs.is_empty()))
}

/// Whether the maximum can be taken before the activation.
fn is_monotone(layer: &LayerConfig) -> bool {
    activation(layer).is_some_and(Activation::is_monotone)
}

fn is_maximum(layer: &LayerConfig) -> bool {
    layer.r#type == "max"
        && layer.trans_type() == "non-seq"
        && layer.seq_pool_stride() <= 0
        && !layer.output_max_index()
        && layer.bias_parameter_name().is_empty()
        && activation(layer) == Some(Activation::Linear)
        && !has_tail(layer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gradient_check::{LayerBuilder, ModelBuilder};

    fn shape(model: &ModelConfig) -> Vec<usize> {
        let layers = |part: &Fused<'_>| match part {
            Fused::Single(_) => 1,
            Fused::Convolution { maximum, .. } => 2 + usize::from(maximum.is_some()),
        };
        fused(model, true).iter().map(layers).collect()
    }

    #[test]
    fn only_what_nobody_else_reads_is_joined() {
        let base = |act: &str| {
            ModelBuilder::new()
                .data("w", 5)
                .embedding("e", "w", 2)
                .layer(LayerBuilder::new("mixed", "c", 6).window("e", 2, -1, 3, 0))
                .fc("h", &["c"], 4, act)
                .layer(LayerBuilder::new("max", "p", 4).input("h"))
        };
        assert_eq!(shape(&base("tanh").0), [1, 1, 3]);
        assert_eq!(
            shape(&base("square").0),
            [1, 1, 2, 1],
            "the maximum of squares is not the square of the maximum"
        );
        assert_eq!(
            shape(
                &base("tanh")
                    .layer(LayerBuilder::new("seqlastins", "l", 4).input("h"))
                    .0
            ),
            [1, 1, 2, 1, 1]
        );
        let mut watched = base("tanh").0;
        watched.output_layer_names.push("c".to_owned());
        assert_eq!(shape(&watched), [1, 1, 1, 1, 1]);
        assert!(
            fused(&base("tanh").0, false)
                .iter()
                .all(|group| matches!(group, Fused::Single(_)))
        );
    }
}
