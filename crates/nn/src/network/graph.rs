//! Layers in execution order with their outputs: what a network, and each part of a recurrent group, executes.
//!
//! A graph does not know where its inputs come from. Its owner fills the [given](OutputWork::Given) layers before forward
//! and reads their gradients after backward.

use std::sync::Arc;

use crate::domain::{Domain, Joints, Layout, SpreadLayout};
use crate::error::LayerError;
use crate::gradients::Gradients;
use crate::layer::{Backward, BatchUse, Edge, Forward, Inputs, Layer, Lookup, Reads};
use crate::noise::Noise;
use crate::output::{Output, scatter_add_rows};
use crate::parameters::{ParameterSpec, Parameters};
use crate::product::PackedWeights;

/// Layers and the buffers of the current batch.
pub(crate) struct Graph {
    /// In execution order.
    pub nodes: Vec<GraphOutput>,
    /// The output of each node.
    pub outputs: Vec<Output>,
    /// The domains of the current batch.
    pub joints: Joints,
    /// Whether rows that occur several times may be stored once.
    pub share: bool,
}

/// One output in the execution order, with the work that fills it.
pub(crate) struct GraphOutput {
    /// Name of the layer.
    pub name: String,
    /// Selects this layer's part of the noise; depends on its name only, not on how the network is executed.
    pub noise: u64,
    pub work: OutputWork,
    pub edges: Vec<Edge>,
}

/// How a node gets its output.
pub(crate) enum OutputWork {
    /// The owner of the graph fills it.
    Given,
    /// A layer computes it, and the outputs of the `more` nodes that follow.
    Layer {
        layer: Box<dyn Layer>,
        reads: Reads,
        more: usize,
    },
    /// A further output of the layer before it.
    More,
}

/// What all layers of a graph read: parameters, their shapes, and packed weights.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub parameters: &'a Parameters,
    pub specs: &'a [ParameterSpec],
    pub packed: Option<&'a PackedWeights>,
}

impl<'a> Context<'a> {
    /// For several steps with the same parameters: weights are packed once, here or where an outer group packs them.
    pub(crate) fn packing(self, packed: &'a PackedWeights) -> Self {
        Self {
            packed: self.packed.or(Some(packed)),
            ..self
        }
    }
}

impl Graph {
    /// Begins a batch of `units` units. Given nodes are filled afterwards.
    pub(crate) fn begin(&mut self, units: usize) {
        self.joints = Joints::new(units);
    }

    /// Computes one node. On failure the node's name is for the caller to add.
    pub(crate) fn forward(
        &mut self,
        node: usize,
        context: Context<'_>,
        pass: BatchUse,
    ) -> Result<(), LayerError> {
        let (before, rest) = self.outputs.split_at_mut(node);
        let GraphOutput {
            work, edges, noise, ..
        } = &mut self.nodes[node];
        let OutputWork::Layer { layer, reads, more } = work else {
            return Ok(());
        };
        let (out, rest) = match rest.split_first_mut() {
            Some((out, rest)) => (out, &mut rest[..*more]),
            None => return Ok(()),
        };
        out.clear_grad();
        out.layout = plan(&mut self.joints, before, edges, *reads, layer.gathers());
        for output in rest.iter_mut() {
            output.clear_grad();
            output.layout = out.layout.clone();
        }
        let seed = match pass {
            BatchUse::Train { noise } => noise,
            BatchUse::Test => 0,
        };
        layer.forward(&mut Forward {
            inputs: Inputs {
                outputs: before,
                edges,
            },
            out,
            more: rest,
            parameters: context.parameters,
            specs: context.specs,
            packed: context.packed,
            pass,
            noise: Noise::new(seed).part(*noise),
            share: self.share,
        })
    }

    /// Passes the gradient of a node on to its inputs and parameters.
    pub(crate) fn backward(
        &mut self,
        node: usize,
        context: Context<'_>,
        gradients: &mut Gradients,
    ) {
        let (before, rest) = self.outputs.split_at_mut(node);
        let GraphOutput { work, edges, .. } = &mut self.nodes[node];
        let OutputWork::Layer { layer, more, .. } = work else {
            return;
        };
        let Some((out, rest)) = rest.split_first_mut() else {
            return;
        };
        let rest = &mut rest[..*more];
        let arrived = out.has_grad() || rest.iter().any(Output::has_grad);
        if !out.wants_grad || !(arrived || layer.is_cost()) {
            return;
        }
        for edge in edges.iter_mut() {
            edge.staged.clear_grad();
        }
        layer.backward(&mut Backward {
            inputs: Inputs {
                outputs: before,
                edges,
            },
            out,
            more: rest,
            parameters: context.parameters,
            specs: context.specs,
            packed: context.packed,
            gradients,
        });
        for edge in edges
            .iter_mut()
            .filter(|edge| edge.copied && edge.staged.has_grad())
        {
            if let (Some(index), true) = (&edge.index, before[edge.source].wants_grad) {
                scatter_add_rows(
                    before[edge.source].grad_mut(),
                    edge.staged.grad().values(),
                    index,
                );
            }
        }
    }

    /// Parameters whose rows are looked up by what a given node holds.
    pub(crate) fn lookups(&self) -> impl Iterator<Item = Lookup> + '_ {
        self.nodes.iter().flat_map(move |node| {
            let found = match &node.work {
                OutputWork::Layer { layer, .. } => layer.lookups(),
                OutputWork::Given | OutputWork::More => Vec::new(),
            };
            found.into_iter().filter_map(move |lookup| {
                let source = node.edges[lookup.source].source;
                matches!(self.nodes[source].work, OutputWork::Given)
                    .then_some(Lookup { source, ..lookup })
            })
        })
    }

    /// The layers, in execution order.
    pub(crate) fn layers(&self) -> impl Iterator<Item = &dyn Layer> {
        self.nodes.iter().filter_map(|node| match &node.work {
            OutputWork::Layer { layer, .. } => Some(&**layer),
            OutputWork::Given | OutputWork::More => None,
        })
    }
}

/// Prepares the inputs of a layer: decides on which rows it works and fills its edges.
fn plan(
    joints: &mut Joints,
    outputs: &[Output],
    edges: &mut [Edge],
    reads: Reads,
    gathers: bool,
) -> Layout {
    let Some(first) = edges
        .first()
        .map(|edge| outputs[edge.source].layout.clone())
    else {
        return Layout::units(joints.whole().clone());
    };
    if reads == Reads::Rows
        && edges
            .iter()
            .all(|edge| outputs[edge.source].layout.same_rows(&first))
    {
        for edge in edges.iter_mut() {
            edge.index = None;
            edge.copied = false;
        }
        return first;
    }
    let (domain, unit_of) = if reads == Reads::Batch {
        let whole = joints.whole().clone();
        let maps = edges
            .iter()
            .map(|edge| joints.unit_of(&whole, &outputs[edge.source].layout.domain))
            .collect();
        (whole, maps)
    } else {
        let domains: Vec<Arc<Domain>> = edges
            .iter()
            .map(|edge| outputs[edge.source].layout.domain.clone())
            .collect();
        let joint = joints.join(&domains);
        (joint.domain, joint.unit_of)
    };
    let mut layout = None;
    for (edge, unit_of) in edges.iter_mut().zip(&unit_of) {
        let source = &outputs[edge.source];
        let SpreadLayout {
            layout: spread,
            index,
        } = source.layout.spread(&domain, unit_of.as_ref());
        edge.copied = !gathers && index.is_some();
        if let (Some(index), true) = (&index, edge.copied) {
            edge.staged.gather(source, index);
            edge.staged.layout = spread.clone();
        }
        edge.index = index;
        edge.layout = spread.clone();
        layout.get_or_insert(spread);
    }
    layout.unwrap_or(first)
}
