//! Draws a network: Graphviz text, or an SVG that needs no other program.
//!
//! `Graph` is the network as boxes and arrows, sub-models and memories included; `dot` writes it for Graphviz,
//! `layout` arranges it in rows, `svg` draws them.

mod dot;
mod layout;
mod svg;

use std::collections::BTreeMap;

use crate::model::{LayerConfig, ModelConfig};

/// The file format of a diagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiagramFormat {
    /// A self-contained picture.
    Svg,
    /// Text for Graphviz.
    Dot,
}

/// Draws the network of a configuration.
pub fn diagram(model: &ModelConfig, format: DiagramFormat) -> String {
    let graph = Graph::new(model);
    match format {
        DiagramFormat::Dot => dot::write(&graph),
        DiagramFormat::Svg => svg::write(&graph, &layout::place(&graph)),
    }
}

/// The network as boxes and arrows, in execution order.
struct Graph {
    nodes: Vec<Node>,
    edges: Vec<Edge>,
}

/// One layer.
struct Node {
    name: String,
    /// Type and size, such as `fc 128 tanh`.
    detail: String,
    /// Values in the parameters that the layer owns or shares.
    values: u64,
    family: Family,
    /// The recurrent group that the layer belongs to, if any.
    group: Option<String>,
}

/// The family of a layer, which decides its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Family {
    Data,
    Trained,
    Plain,
    StandIn,
    Output,
}

/// One arrow.
#[derive(Debug, PartialEq, Eq)]
struct Edge {
    from: usize,
    to: usize,
    /// Name of the parameter on the edge; empty if there is none.
    label: String,
    /// Carries a value to the next step of a recurrent group.
    delayed: bool,
}

impl Graph {
    fn new(model: &ModelConfig) -> Self {
        let groups = group_of_layers(model);
        let sizes: BTreeMap<&str, u64> = model
            .parameters
            .iter()
            .map(|parameter| (parameter.name.as_str(), parameter.size))
            .collect();
        let drawn: Vec<&LayerConfig> = model
            .layers
            .iter()
            .filter(|layer| layer.r#type != "recurrent_layer_group")
            .collect();
        let nodes = drawn
            .iter()
            .map(|layer| node(layer, model, &sizes, &groups))
            .collect();
        let places: BTreeMap<&str, usize> = drawn
            .iter()
            .enumerate()
            .map(|(place, layer)| (layer.name.as_str(), place))
            .collect();
        Self {
            nodes,
            edges: edges(&drawn, model, &places),
        }
    }
}

/// The recurrent group of each layer that is in one.
fn group_of_layers(model: &ModelConfig) -> BTreeMap<&str, &str> {
    model
        .sub_models
        .iter()
        .filter(|group| group.is_recurrent_layer_group())
        .flat_map(|group| {
            group
                .layer_names
                .iter()
                .map(|layer| (layer.as_str(), group.name.as_str()))
        })
        .collect()
}

fn node(
    layer: &LayerConfig,
    model: &ModelConfig,
    sizes: &BTreeMap<&str, u64>,
    groups: &BTreeMap<&str, &str>,
) -> Node {
    let weights = layer
        .inputs
        .iter()
        .filter_map(|input| input.input_parameter_name.as_deref());
    let values = weights
        .chain(layer.bias_parameter_name.as_deref())
        .filter_map(|name| sizes.get(name))
        .sum();
    let family = if layer.r#type == "data" {
        Family::Data
    } else if model.output_layer_names.contains(&layer.name) {
        Family::Output
    } else if layer.r#type.ends_with("agent") {
        Family::StandIn
    } else if values > 0 {
        Family::Trained
    } else {
        Family::Plain
    };
    Node {
        name: layer.name.clone(),
        detail: detail(layer),
        values,
        family,
        group: groups
            .get(layer.name.as_str())
            .map(|group| (*group).to_owned()),
    }
}

fn detail(layer: &LayerConfig) -> String {
    let mut detail = layer.r#type.clone();
    if let Some(size) = layer.size {
        detail.push_str(&format!(" {size}"));
    }
    if let (Some(height), Some(width)) = (layer.height, layer.width) {
        detail.push_str(&format!(" ({height} x {width})"));
    }
    if !matches!(layer.active_type(), "" | "linear") {
        detail.push_str(&format!(" {}", layer.active_type()));
    }
    if layer.drop_rate() > 0.0 {
        detail.push_str(&format!(" drop {}", layer.drop_rate()));
    }
    detail
}

fn edges(
    layers: &[&LayerConfig],
    model: &ModelConfig,
    places: &BTreeMap<&str, usize>,
) -> Vec<Edge> {
    let mut edges = Vec::new();
    let mut add = |from: &str, to: &str, label: &str, delayed: bool| {
        if let (Some(&from), Some(&to)) = (places.get(from), places.get(to)) {
            edges.push(Edge {
                from,
                to,
                label: label.to_owned(),
                delayed,
            });
        }
    };
    for layer in layers {
        for input in &layer.inputs {
            add(
                &input.input_layer_name,
                &layer.name,
                input.input_parameter_name(),
                false,
            );
        }
    }
    for group in &model.sub_models {
        for link in group.in_links.iter().chain(&group.out_links) {
            add(&link.layer_name, &link.link_name, "", false);
        }
        for memory in &group.memories {
            add(&memory.layer_name, &memory.link_name, "", true);
            add(memory.boot_layer_name(), &memory.link_name, "", false);
        }
    }
    edges
}

/// A number with separators between thousands.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// word -> embedding -> cost, label -> cost, and a group with a memory.
    pub(super) fn model() -> ModelConfig {
        serde_json::from_value(serde_json::json!({
            "type": "recurrent_nn",
            "layers": [
                {"name": "word", "type": "data", "size": 10},
                {"name": "label", "type": "data", "size": 2},
                {"name": "emb<1>", "type": "mixed", "size": 4, "active_type": "tanh", "drop_rate": 0.5,
                 "inputs": [{"input_layer_name": "word", "input_parameter_name": "table"}]},
                {"name": "group", "type": "recurrent_layer_group"},
                {"name": "emb<1>@group", "type": "scatter_agent", "size": 4},
                {"name": "h+delay1@group", "type": "agent", "size": 4},
                {"name": "h@group", "type": "addto", "size": 4,
                 "inputs": [{"input_layer_name": "emb<1>@group"}, {"input_layer_name": "h+delay1@group"}]},
                {"name": "h", "type": "gather_agent", "size": 4},
                {"name": "cost", "type": "square_error", "size": 1,
                 "inputs": [{"input_layer_name": "h"}, {"input_layer_name": "label"}]}
            ],
            "parameters": [{"name": "table", "size": 40, "dims": [10, 4]}],
            "input_layer_names": ["word", "label"],
            "output_layer_names": ["cost"],
            "sub_models": [
                {"name": "group", "is_recurrent_layer_group": true,
                 "layer_names": ["emb<1>@group", "h+delay1@group", "h@group"],
                 "memories": [{"layer_name": "h@group", "link_name": "h+delay1@group", "boot_layer_name": "emb<1>"}],
                 "in_links": [{"layer_name": "emb<1>", "link_name": "emb<1>@group"}],
                 "out_links": [{"layer_name": "h@group", "link_name": "h"}]}
            ]
        }))
        .unwrap()
    }

    #[test]
    fn links_and_memories_are_arrows() {
        let graph = Graph::new(&model());
        let names: Vec<&str> = graph.nodes.iter().map(|node| node.name.as_str()).collect();
        assert!(!names.contains(&"group"));
        let arrows: Vec<(&str, &str, bool)> = graph
            .edges
            .iter()
            .map(|edge| (names[edge.from], names[edge.to], edge.delayed))
            .collect();
        assert_eq!(
            arrows,
            [
                ("word", "emb<1>", false),
                ("emb<1>@group", "h@group", false),
                ("h+delay1@group", "h@group", false),
                ("h", "cost", false),
                ("label", "cost", false),
                ("emb<1>", "emb<1>@group", false),
                ("h@group", "h", false),
                ("h@group", "h+delay1@group", true),
                ("emb<1>", "h+delay1@group", false),
            ]
        );
        assert_eq!(graph.nodes[2].detail, "mixed 4 tanh drop 0.5");
        assert_eq!(graph.nodes[2].values, 40);
        assert_eq!(graph.nodes[3].group.as_deref(), Some("group"));
    }

    #[test]
    fn thousands_are_apart() {
        assert_eq!(grouped(7), "7");
        assert_eq!(grouped(1234567), "1,234,567");
    }
}
