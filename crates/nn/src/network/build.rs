//! Builds an executable network from a model description.

use std::collections::HashMap;
use std::sync::Arc;

use config::{LayerConfig, ModelConfig};

use super::fuse::{Fused, fused};
use super::graph::{Graph, GraphOutput, OutputWork};
use super::{InputSpec, Network, NetworkOptions};
use crate::domain::Joints;
use crate::error::BuildError;
use crate::evaluators;
use crate::layer::{Build, Edge, Layer, Reads};
use crate::layers;
use crate::layers::data::DataLayer;
use crate::layers::group;
use crate::layers::sequence_conv::SequenceConv;
use crate::layers::tail::Tail;
use crate::output::Output;
use crate::parameters::{ParameterIndex, ParameterSpec};
use words::random::mix;

impl Network {
    /// Builds the network that a model describes.
    pub fn new(model: &ModelConfig) -> Result<Self, BuildError> {
        Self::with_options(model, NetworkOptions::default())
    }

    /// As [`Network::new`], with options of how it computes.
    pub fn with_options(model: &ModelConfig, options: NetworkOptions) -> Result<Self, BuildError> {
        let specs: Arc<[ParameterSpec]> = ParameterSpec::all(model)?.into();
        let model = Arc::new(model.clone());
        let inner = group::inner_layers(&model);
        let mut builder = GraphBuilder::new(&model, &specs, options.share);
        let mut slots = vec![None; model.input_layer_names.len()];
        for part in fused(&model, options.fuse) {
            match part {
                Fused::Single(layer) if inner.contains(layer.name.as_str()) => {}
                Fused::Single(layer) if layer.r#type == "data" => {
                    // v1 files may define data layers that nothing reads; they have no slot and are skipped. A layer
                    // that a generator fills is known already.
                    let is_slot = |name: &String| *name == layer.name;
                    if let Some(slot) = model.input_layer_names.iter().position(is_slot) {
                        slots[slot] =
                            Some(builder.given(&layer.name, layer.size() as usize, false));
                    }
                }
                Fused::Single(layer) => {
                    builder.layer(layer)?;
                }
                Fused::Convolution {
                    window,
                    connected,
                    maximum,
                } => builder.convolution(window, connected, maximum)?,
            }
        }
        builder.network(slots)
    }
}

/// Builds a graph, layer by layer.
pub(crate) struct GraphBuilder<'a> {
    model: &'a Arc<ModelConfig>,
    specs: &'a Arc<[ParameterSpec]>,
    share: bool,
    nodes: Vec<GraphOutput>,
    sizes: Vec<usize>,
    wants_grad: Vec<bool>,
    /// Parameters that each node uses.
    used: Vec<Vec<ParameterIndex>>,
    /// The node of each layer.
    names: HashMap<String, usize>,
    /// The nodes of further outputs that are not layers, by layer and argument.
    arguments: HashMap<(String, String), usize>,
    /// Nodes that are costs.
    costs: Vec<usize>,
}

impl<'a> GraphBuilder<'a> {
    /// A builder of layers of a model.
    pub(crate) fn new(
        model: &'a Arc<ModelConfig>,
        specs: &'a Arc<[ParameterSpec]>,
        share: bool,
    ) -> Self {
        Self {
            model,
            specs,
            share,
            nodes: Vec::new(),
            sizes: Vec::new(),
            wants_grad: Vec::new(),
            used: Vec::new(),
            names: HashMap::new(),
            arguments: HashMap::new(),
            costs: Vec::new(),
        }
    }

    /// The model that layers are described in.
    pub(crate) fn model(&self) -> &'a Arc<ModelConfig> {
        self.model
    }

    /// The node of a layer that was added.
    pub(crate) fn node(&self, name: &str) -> Option<usize> {
        self.names.get(name).copied()
    }

    /// Adds another name for a layer.
    pub(crate) fn alias(&mut self, name: &str, node: usize) {
        self.names.insert(name.to_owned(), node);
    }

    /// Number of nodes so far.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Width of a node's rows.
    pub(crate) fn size(&self, node: usize) -> usize {
        self.sizes[node]
    }

    /// Whether the gradient of a node is needed.
    pub(crate) fn wants_grad(&self, node: usize) -> bool {
        self.wants_grad[node]
    }

    /// Whether a node is a cost.
    pub(crate) fn is_cost(&self, node: usize) -> bool {
        self.costs.contains(&node)
    }

    /// What the rows of a node's layer depend on.
    pub(crate) fn reads(&self, node: usize) -> Reads {
        match &self.nodes[node].work {
            OutputWork::Layer { layer, .. } => layer.reads(),
            OutputWork::Given | OutputWork::More => Reads::Rows,
        }
    }

    /// All parameters that are used, as often as they are.
    pub(crate) fn used(&self) -> Vec<ParameterIndex> {
        self.used.concat()
    }

    /// Adds a node that the owner of the graph fills.
    pub(crate) fn given(&mut self, name: &str, size: usize, wants_grad: bool) -> usize {
        let node = self.add(name, OutputWork::Given, &[], Vec::new(), size, wants_grad);
        self.names.insert(name.to_owned(), node);
        node
    }

    /// Adds a layer and what follows it under the same name, and returns the node of the layer itself; `None` if it
    /// only measures or is an output of a layer that was added before.
    pub(crate) fn layer(&mut self, config: &LayerConfig) -> Result<Option<usize>, BuildError> {
        if evaluators::of_validation(config).is_some() {
            // A validation layer only measures; it is not executed.
            return Ok(None);
        }
        if group::is_output(config) && self.names.contains_key(&config.name) {
            return Ok(None);
        }
        let sources = self.sources(config)?;
        let factory = layers::factory(&config.r#type).ok_or_else(|| BuildError::UnknownType {
            layer: config.name.clone(),
            kind: config.r#type.clone(),
        })?;
        let mut build = self.build(config, &sources);
        let layer = factory(&mut build)?;
        let used = build.used;
        let is_cost = layer.is_cost();
        let node = self.push(config, layer, &sources, used);
        if is_cost {
            self.costs.push(node);
        }
        if let Some(tail) = Tail::of(config) {
            self.push(config, Box::new(tail), &[node], Vec::new());
        }
        Ok(Some(node))
    }

    fn convolution(
        &mut self,
        window: &LayerConfig,
        connected: &LayerConfig,
        maximum: Option<&LayerConfig>,
    ) -> Result<(), BuildError> {
        let sources = self.sources(window)?;
        let (mut lower, mut upper) = (self.build(window, &sources), self.build(connected, &[]));
        let layer = SequenceConv::new(&mut lower, &mut upper, maximum.is_some())?;
        let used = [lower.used, upper.used].concat();
        self.push(
            maximum.unwrap_or(connected),
            Box::new(layer),
            &sources,
            used,
        );
        Ok(())
    }

    /// The nodes that a layer reads.
    fn sources(&self, config: &LayerConfig) -> Result<Vec<usize>, BuildError> {
        let known = |name: &str| self.names.get(name).copied();
        if let Some(names) = group::sources(self.model, config) {
            return names
                .iter()
                .map(|name| known(name).ok_or_else(|| self.unknown_input(config, name)))
                .collect();
        }
        config
            .inputs
            .iter()
            .map(|input| {
                let name = &input.input_layer_name;
                let argument = (name.clone(), input.input_layer_argument().to_owned());
                let node = self.arguments.get(&argument).copied();
                node.or_else(|| known(name))
                    .ok_or_else(|| self.unknown_input(config, name))
            })
            .collect()
    }

    fn unknown_input(&self, config: &LayerConfig, input: &str) -> BuildError {
        let (layer, input) = (config.name.clone(), input.to_owned());
        let is_data = |l: &LayerConfig| l.name == input && l.r#type == "data";
        if self.model.layers.iter().any(is_data) {
            BuildError::UnfedInput { layer, input }
        } else {
            BuildError::UnknownInput { layer, input }
        }
    }

    fn build<'b>(&'b self, config: &'b LayerConfig, sources: &[usize]) -> Build<'b> {
        Build {
            config,
            input_sizes: sources.iter().map(|&source| self.sizes[source]).collect(),
            wants_grad: sources
                .iter()
                .map(|&source| self.wants_grad[source])
                .collect(),
            model: self.model,
            specs: self.specs,
            share: self.share,
            used: Vec::new(),
        }
    }

    fn push(
        &mut self,
        config: &LayerConfig,
        layer: Box<dyn Layer>,
        sources: &[usize],
        used: Vec<ParameterIndex>,
    ) -> usize {
        let learns = used
            .iter()
            .any(|parameter| !self.specs[parameter.0].is_static);
        let wants_grad = layer.is_differentiable()
            && (learns || sources.iter().any(|&source| self.wants_grad[source]));
        let reads = if self.share {
            layer.reads()
        } else {
            Reads::Batch
        };
        let more = layer.more_outputs();
        let work = OutputWork::Layer {
            layer,
            reads,
            more: more.len(),
        };
        let size = config.size().max(1) as usize;
        let node = self.add(&config.name, work, sources, used, size, wants_grad);
        if config.r#type != group::KIND {
            self.names.insert(config.name.clone(), node);
        }
        for output in more {
            let name = if output.is_layer {
                &output.name
            } else {
                &config.name
            };
            let wants = wants_grad && output.wants_grad;
            let further = self.add(name, OutputWork::More, &[], Vec::new(), output.size, wants);
            if output.is_cost {
                self.costs.push(further);
            }
            if output.is_layer {
                self.names.insert(output.name, further);
            } else {
                let argument = (config.name.clone(), output.name);
                self.arguments.insert(argument, further);
            }
        }
        node
    }

    fn add(
        &mut self,
        name: &str,
        work: OutputWork,
        sources: &[usize],
        used: Vec<ParameterIndex>,
        size: usize,
        wants_grad: bool,
    ) -> usize {
        self.nodes.push(GraphOutput {
            name: name.to_owned(),
            noise: self.noise_of(name),
            work,
            edges: sources.iter().map(|&source| Edge::new(source)).collect(),
        });
        self.sizes.push(size);
        self.wants_grad.push(wants_grad);
        self.used.push(used);
        self.nodes.len() - 1
    }

    /// A number derived from a layer's name and from whether the name is already used (by the layer before its tail).
    fn noise_of(&self, name: &str) -> u64 {
        let start = u64::from(self.names.contains_key(name));
        name.bytes()
            .fold(start, |hash, byte| mix(hash ^ u64::from(byte)))
    }

    /// The graph of all that was added.
    pub(crate) fn graph(self) -> Graph {
        Graph {
            outputs: self
                .wants_grad
                .iter()
                .map(|&wants| Output::new(wants))
                .collect(),
            nodes: self.nodes,
            joints: Joints::new(0),
            share: self.share,
        }
    }

    /// The network of all that was added; `slots` has the node of each slot.
    fn network(mut self, slots: Vec<Option<usize>>) -> Result<Network, BuildError> {
        let mut inputs = Vec::new();
        let mut nodes = Vec::new();
        for (name, node) in self.model.input_layer_names.iter().zip(slots) {
            let node = node.ok_or_else(|| BuildError::UnknownInput {
                layer: "network".to_owned(),
                input: name.clone(),
            })?;
            nodes.push(node);
            inputs.push(InputSpec {
                name: name.clone(),
                size: self.sizes[node],
            });
        }
        let data = inputs
            .iter()
            .zip(&nodes)
            .map(|(input, &node)| DataLayer::new(input.size, self.share && self.shareable(node)))
            .collect();
        let completes = self.completions();
        let costs = self.counted_costs();
        let (used, names) = (self.used(), std::mem::take(&mut self.names));
        let specs = self.specs.to_vec();
        let graph = self.graph();
        Ok(Network {
            specs: maintained(looked_up(specs, &used, &graph), &graph).into(),
            graph,
            data,
            slots: nodes,
            inputs,
            names,
            costs,
            completes,
            samples: 0,
        })
    }

    /// The costs that are part of the network's cost: those that are outputs, or all if the model names no outputs.
    fn counted_costs(&self) -> Vec<usize> {
        let outputs = &self.model.output_layer_names;
        let counts = |node: &usize| {
            let name = &self.nodes[*node].name;
            outputs.is_empty() || outputs.contains(name)
        };
        self.costs.iter().copied().filter(counts).collect()
    }

    /// Whether some layer that reads a node computes equal samples once.
    fn shareable(&self, source: usize) -> bool {
        self.nodes.iter().any(|node| {
            matches!(&node.work, OutputWork::Layer { reads, .. } if *reads != Reads::Batch)
                && node.edges.iter().any(|edge| edge.source == source)
        })
    }

    /// A gradient is complete after the first node that uses its parameter, because backward visits that one last.
    fn completions(&self) -> Vec<Vec<ParameterIndex>> {
        let mut completes = vec![Vec::new(); self.nodes.len()];
        for (index, spec) in self.specs.iter().enumerate() {
            let first = self
                .used
                .iter()
                .position(|used| used.contains(&ParameterIndex(index)));
            if let (Some(node), false) = (first, spec.is_static) {
                completes[node].push(ParameterIndex(index));
            }
        }
        completes
    }
}

/// The parameters, with those marked that are only read by row: all their uses are lookups with data.
fn looked_up(
    mut specs: Vec<ParameterSpec>,
    used: &[ParameterIndex],
    graph: &Graph,
) -> Vec<ParameterSpec> {
    for (index, spec) in specs.iter_mut().enumerate() {
        let parameter = ParameterIndex(index);
        let uses = used.iter().filter(|used| **used == parameter).count();
        let lookups = graph
            .lookups()
            .filter(|lookup| lookup.parameter == parameter);
        spec.looked_up = uses > 0 && lookups.count() == uses;
    }
    specs
}

/// The parameters, with those marked that layers maintain.
fn maintained(mut specs: Vec<ParameterSpec>, graph: &Graph) -> Vec<ParameterSpec> {
    for parameter in graph.layers().flat_map(|layer| layer.maintains()) {
        let spec = &mut specs[parameter.0];
        spec.maintained = spec.is_static;
    }
    specs
}
