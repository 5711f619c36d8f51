//! From a model description to a network that runs.

use std::collections::HashMap;

use config::{LayerConfig, ModelConfig};

use super::fuse::{Group, groups};
use super::{InputSpec, Network, Node, Options, Work};
use crate::domain::Joints;
use crate::error::BuildError;
use crate::evaluators;
use crate::layer::{Build, Edge, Layer, Reads};
use crate::layers;
use crate::layers::data::DataLayer;
use crate::layers::sequence_conv::SequenceConv;
use crate::layers::tail::Tail;
use crate::noise::mix;
use crate::output::Output;
use crate::parameters::{ParameterIndex, ParameterSpec};

impl Network {
    /// Builds the network that a model describes.
    pub fn new(model: &ModelConfig) -> Result<Self, BuildError> {
        Self::with_options(model, Options::default())
    }

    /// As [`Network::new`], with choices in how it computes.
    pub fn with_options(model: &ModelConfig, options: Options) -> Result<Self, BuildError> {
        let specs = ParameterSpec::all(model)?;
        let mut builder = Builder {
            specs: &specs,
            options,
            model,
            nodes: Vec::new(),
            sizes: Vec::new(),
            wants_grad: Vec::new(),
            used: Vec::new(),
            names: HashMap::new(),
            costs: Vec::new(),
        };
        for group in groups(model, options.fuse) {
            match group {
                Group::Single(layer) => builder.layer(layer)?,
                Group::Convolution {
                    window,
                    connected,
                    maximum,
                } => builder.convolution(window, connected, maximum)?,
            }
        }
        builder.finish()
    }
}

struct Builder<'a> {
    specs: &'a [ParameterSpec],
    options: Options,
    model: &'a ModelConfig,
    nodes: Vec<Node>,
    sizes: Vec<usize>,
    wants_grad: Vec<bool>,
    /// Parameters that each node uses.
    used: Vec<Vec<ParameterIndex>>,
    names: HashMap<String, usize>,
    costs: Vec<usize>,
}

impl Builder<'_> {
    fn layer(&mut self, config: &LayerConfig) -> Result<(), BuildError> {
        if config.r#type == "data" {
            return self.data(config);
        }
        if evaluators::of_validation(config).is_some() {
            // It only measures.
            return Ok(());
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
        if is_cost && self.counts(&config.name) {
            self.costs.push(node);
        }
        if let Some(tail) = Tail::of(config) {
            self.push(config, Box::new(tail), &[node], Vec::new());
        }
        Ok(())
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
        let source = |name: &String| {
            let known = self.names.get(name).copied();
            known.ok_or_else(|| self.unknown_input(config, name))
        };
        config
            .inputs
            .iter()
            .map(|input| source(&input.input_layer_name))
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

    fn build<'a>(&'a self, config: &'a LayerConfig, sources: &[usize]) -> Build<'a> {
        Build {
            config,
            input_sizes: sources.iter().map(|&source| self.sizes[source]).collect(),
            model: self.model,
            specs: self.specs,
            used: Vec::new(),
        }
    }

    /// Whether a cost layer counts for the network's cost: if it is an output, or no cost layer is.
    fn counts(&self, name: &str) -> bool {
        self.model.output_layer_names.is_empty()
            || self
                .model
                .output_layer_names
                .iter()
                .any(|output| output == name)
    }

    fn data(&mut self, config: &LayerConfig) -> Result<(), BuildError> {
        let slot = self
            .model
            .input_layer_names
            .iter()
            .position(|name| *name == config.name);
        let Some(slot) = slot else {
            // v1 files may define data layers that nothing reads; they have no slot and no place here.
            return Ok(());
        };
        self.names.insert(config.name.clone(), self.nodes.len());
        self.nodes.push(Node {
            name: config.name.clone(),
            noise: 0,
            work: Work::Slot(slot),
            edges: Vec::new(),
            completes: Vec::new(),
        });
        self.sizes.push(config.size() as usize);
        self.wants_grad.push(false);
        self.used.push(Vec::new());
        Ok(())
    }

    fn push(
        &mut self,
        config: &LayerConfig,
        layer: Box<dyn Layer>,
        sources: &[usize],
        used: Vec<ParameterIndex>,
    ) -> usize {
        let node = self.nodes.len();
        let learns = used
            .iter()
            .any(|parameter| !self.specs[parameter.0].is_static);
        let wants_grad = layer.is_differentiable()
            && (learns || sources.iter().any(|&source| self.wants_grad[source]));
        let reads = if self.options.share {
            layer.reads()
        } else {
            Reads::Batch
        };
        self.nodes.push(Node {
            name: config.name.clone(),
            noise: self.noise_of(&config.name),
            work: Work::Layer { layer, reads },
            edges: sources
                .iter()
                .map(|&source| Edge {
                    source,
                    index: None,
                    copied: false,
                    staged: Output::new(false),
                })
                .collect(),
            completes: Vec::new(),
        });
        self.names.insert(config.name.clone(), node);
        self.sizes.push(config.size().max(1) as usize);
        self.wants_grad.push(wants_grad);
        self.used.push(used);
        node
    }

    /// A number from a layer's name, and whether the name is taken already (by the layer before its tail).
    fn noise_of(&self, name: &str) -> u64 {
        let start = u64::from(self.names.contains_key(name));
        name.bytes()
            .fold(start, |hash, byte| mix(hash ^ u64::from(byte)))
    }

    fn finish(mut self) -> Result<Network, BuildError> {
        self.mark_completions();
        let inputs = self
            .model
            .input_layer_names
            .iter()
            .map(|name| {
                let size = self
                    .names
                    .get(name)
                    .map(|&node| self.sizes[node])
                    .ok_or_else(|| BuildError::UnknownInput {
                        layer: "network".to_owned(),
                        input: name.clone(),
                    })?;
                Ok(InputSpec {
                    name: name.clone(),
                    size,
                })
            })
            .collect::<Result<Vec<_>, BuildError>>()?;
        let data = (0..inputs.len())
            .map(|slot| {
                DataLayer::new(
                    inputs[slot].size,
                    self.options.share && self.shareable(slot),
                )
            })
            .collect();
        let specs = self.looked_up();
        Ok(Network {
            outputs: self
                .wants_grad
                .iter()
                .map(|&wants| Output::new(wants))
                .collect(),
            nodes: self.nodes,
            data,
            inputs,
            specs,
            names: self.names,
            costs: self.costs,
            samples: 0,
            joints: Joints::new(0),
            share: self.options.share,
        })
    }

    /// Whether some layer that reads a slot computes equal samples once.
    fn shareable(&self, slot: usize) -> bool {
        let Some(source) = self
            .nodes
            .iter()
            .position(|node| matches!(node.work, Work::Slot(s) if s == slot))
        else {
            return false;
        };
        self.nodes.iter().any(|node| {
            matches!(&node.work, Work::Layer { reads, .. } if *reads != Reads::Batch)
                && node.edges.iter().any(|edge| edge.source == source)
        })
    }

    /// The parameters, with those marked that are only read by row: all their uses are lookups with data.
    fn looked_up(&self) -> Vec<ParameterSpec> {
        let mut specs = self.specs.to_vec();
        for (index, spec) in specs.iter_mut().enumerate() {
            let parameter = ParameterIndex(index);
            let used = self.used.iter().flatten();
            let uses = used.filter(|used| **used == parameter).count();
            let lookups = super::lookups(&self.nodes).filter(|(_, p)| *p == parameter);
            spec.looked_up = uses > 0 && lookups.count() == uses;
        }
        specs
    }

    /// A gradient is complete after the first node that uses its parameter, because backward visits that one last.
    fn mark_completions(&mut self) {
        for (index, spec) in self.specs.iter().enumerate() {
            let first = self
                .used
                .iter()
                .position(|used| used.contains(&ParameterIndex(index)));
            if let (Some(node), false) = (first, spec.is_static) {
                self.nodes[node].completes.push(ParameterIndex(index));
            }
        }
    }
}
