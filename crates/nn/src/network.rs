//! The network: layers in execution order, and the two passes over them.

mod build;
mod fuse;
mod view;

use std::sync::Arc;

use crate::batch::{Batch, SlotData};
use crate::domain::{Domain, Joints, Layout};
use crate::error::{ExecuteError, LayerError};
use crate::gradients::Gradients;
use crate::layer::{Assigned, Backward, Edge, Forward, Inputs, Layer, Pass, Reads};
use crate::layers::data::DataLayer;
use crate::noise::Noise;
use crate::output::{Data, Output, scatter_add_rows};
use crate::parameters::{ParameterIndex, ParameterSpec, Parameters, Values};
use crate::rows::distinct_rows;

pub use view::LayerView;

/// A data layer that a batch must feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputSpec {
    /// Name of the data layer.
    pub name: String,
    /// Width of its rows, or number of its ids.
    pub size: usize,
}

/// Choices in how a network computes; results are the same up to rounding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Compute equal samples and rows once. Off: everything is computed for every position.
    pub share: bool,
    /// Join layers that are cheaper together.
    pub fuse: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            share: true,
            fuse: true,
        }
    }
}

/// A network with the buffers of the current batch.
pub struct Network {
    nodes: Vec<Node>,
    outputs: Vec<Output>,
    data: Vec<DataLayer>,
    inputs: Vec<InputSpec>,
    specs: Vec<ParameterSpec>,
    /// Node that ends with the output of each named layer.
    names: std::collections::HashMap<String, usize>,
    costs: Vec<usize>,
    samples: usize,
    joints: Joints,
    share: bool,
}

/// One layer in its place.
struct Node {
    name: String,
    /// Addresses this layer's part of the noise; depends on its name only, not on how the network is executed.
    noise: u64,
    work: Work,
    edges: Vec<Edge>,
    /// Parameters whose gradient is complete after this node's backward.
    completes: Vec<ParameterIndex>,
}

enum Work {
    /// Reads the slot of this number.
    Slot(usize),
    /// Computes.
    Layer { layer: Box<dyn Layer>, reads: Reads },
}

/// (slot, parameter) pairs: which data decides which rows are read.
fn lookups(nodes: &[Node]) -> impl Iterator<Item = (usize, ParameterIndex)> + '_ {
    nodes.iter().flat_map(move |node| {
        let found = match &node.work {
            Work::Slot(_) => Vec::new(),
            Work::Layer { layer, .. } => layer.lookups(),
        };
        found.into_iter().filter_map(move |(input, parameter)| {
            let source = node.edges[input].source;
            match nodes[source].work {
                Work::Slot(slot) => Some((slot, parameter)),
                Work::Layer { .. } => None,
            }
        })
    })
}

impl Network {
    /// The data layers, in the order of a batch's slots.
    pub fn inputs(&self) -> &[InputSpec] {
        &self.inputs
    }

    /// The parameters, in the model's order.
    pub fn parameters(&self) -> &[ParameterSpec] {
        &self.specs
    }

    /// The rows that a batch will read of by-row parameters, and of others that are only [looked
    /// up](ParameterSpec::looked_up) and `wanted`: ascending and distinct.
    pub fn rows_needed(
        &self,
        batch: &Batch,
        wanted: impl Fn(ParameterIndex) -> bool,
    ) -> Vec<(ParameterIndex, Vec<u32>)> {
        let mut needed: Vec<(ParameterIndex, Vec<u32>)> = Vec::new();
        for (slot, parameter) in lookups(&self.nodes) {
            let spec = &self.specs[parameter.0];
            let asked = spec.by_row || (spec.looked_up && wanted(parameter));
            let Some(slot) = batch.slots.get(slot).filter(|_| asked) else {
                continue;
            };
            let all: Vec<u32>;
            let rows = match &slot.data {
                SlotData::Dense { .. } if !spec.by_row => {
                    all = (0..spec.rows as u32).collect();
                    &all
                }
                data => crate::rows::looked_up(data),
            };
            match needed.iter_mut().find(|(p, _)| *p == parameter) {
                Some((_, all)) => all.extend_from_slice(rows),
                None => needed.push((parameter, rows.to_vec())),
            }
        }
        for (_, rows) in &mut needed {
            *rows = distinct_rows(rows);
        }
        needed.sort_by_key(|(parameter, _)| *parameter);
        needed
    }

    /// Computes all outputs of a batch and answers the cost summed over its samples.
    pub fn forward(
        &mut self,
        parameters: &Parameters,
        batch: &Batch,
        pass: Pass,
    ) -> Result<f64, ExecuteError> {
        if batch.slots.len() != self.inputs.len() {
            return Err(ExecuteError::SlotCount {
                got: batch.slots.len(),
                want: self.inputs.len(),
            });
        }
        self.samples = batch.samples;
        self.joints = Joints::new(batch.samples);
        for node in 0..self.nodes.len() {
            self.forward_node(node, parameters, batch, pass)
                .map_err(|source| ExecuteError::Layer {
                    layer: self.nodes[node].name.clone(),
                    source,
                })?;
        }
        let cost = self.cost();
        if cost.is_finite() {
            Ok(cost)
        } else {
            Err(self.not_finite())
        }
    }

    fn forward_node(
        &mut self,
        node: usize,
        parameters: &Parameters,
        batch: &Batch,
        pass: Pass,
    ) -> Result<(), LayerError> {
        let (before, rest) = self.outputs.split_at_mut(node);
        let out = &mut rest[0];
        out.clear_grad();
        let Node {
            work, edges, noise, ..
        } = &mut self.nodes[node];
        match work {
            Work::Slot(slot) => {
                self.data[*slot].read(&batch.slots[*slot], batch.samples, &self.joints, out)
            }
            Work::Layer { layer, reads } => {
                out.layout = plan(&mut self.joints, before, edges, *reads, layer.gathers());
                let seed = match pass {
                    Pass::Train { noise } => noise,
                    Pass::Test => 0,
                };
                layer.forward(&mut Forward {
                    inputs: Inputs {
                        outputs: before,
                        edges,
                    },
                    out,
                    parameters,
                    specs: &self.specs,
                    pass,
                    noise: Noise::new(seed).part(*noise),
                    share: self.share,
                })
            }
        }
    }

    fn cost(&self) -> f64 {
        self.costs
            .iter()
            .map(|&node| {
                self.outputs[node]
                    .value()
                    .values()
                    .iter()
                    .map(|&x| f64::from(x))
                    .sum::<f64>()
            })
            .sum()
    }

    fn not_finite(&self) -> ExecuteError {
        let bad = |output: &Output| match &output.data {
            Data::Dense(matrix) => matrix.values().iter().any(|x| !x.is_finite()),
            Data::Sparse(rows) => rows.values.iter().any(|x| !x.is_finite()),
            Data::Ids(_) => false,
        };
        let first = self
            .outputs
            .iter()
            .position(bad)
            .or(self.costs.first().copied())
            .unwrap_or(0);
        ExecuteError::NotFinite {
            layer: self.nodes[first].name.clone(),
        }
    }

    /// Computes the gradients of the batch that went forward last. `complete` is called for each parameter that
    /// learns as soon as no layer will add to it, in the order in which that happens.
    pub fn backward(
        &mut self,
        parameters: &Parameters,
        gradients: &mut Gradients,
        complete: &mut dyn FnMut(ParameterIndex, &Gradients),
    ) {
        gradients.begin();
        for node in (0..self.nodes.len()).rev() {
            self.backward_node(node, parameters, gradients);
            for &parameter in &self.nodes[node].completes {
                gradients.complete(parameter);
                complete(parameter, gradients);
            }
        }
    }

    fn backward_node(&mut self, node: usize, parameters: &Parameters, gradients: &mut Gradients) {
        let (before, rest) = self.outputs.split_at_mut(node);
        let out = &mut rest[0];
        let Node { work, edges, .. } = &mut self.nodes[node];
        let Work::Layer { layer, .. } = work else {
            return;
        };
        if !out.wants_grad || !(out.has_grad() || layer.is_cost()) {
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
            parameters,
            specs: &self.specs,
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

    /// The output of a layer in the batch that went forward last; `None` if there is no such layer.
    pub fn output(&self, layer: &str) -> Option<LayerView<'_>> {
        let node = *self.names.get(layer)?;
        Some(LayerView::new(&self.outputs[node], self.samples))
    }

    /// The outputs of all layers in the batch that went forward last, in execution order. A layer that is computed
    /// together with the one above it has none.
    pub fn outputs(&self) -> impl Iterator<Item = (&str, LayerView<'_>)> {
        let nodes = self.nodes.iter().enumerate();
        nodes
            .filter(|(index, node)| self.names.get(&node.name) == Some(index))
            .map(|(index, node)| {
                let view = LayerView::new(&self.outputs[index], self.samples);
                (node.name.as_str(), view)
            })
    }

    /// What layers do to the parameters that they keep themselves (moving averages of batch normalisation), in
    /// execution order, according to the batch that went forward last.
    pub fn assigned(&self) -> Vec<Assigned<'_>> {
        let layers = self.nodes.iter().filter_map(|node| match &node.work {
            Work::Layer { layer, .. } => Some(layer),
            Work::Slot(_) => None,
        });
        layers.flat_map(|layer| layer.assigned()).collect()
    }

    /// Applies [`Network::assigned`] to the parameters. Call it once after each batch that was used to learn.
    pub fn assign(&self, parameters: &mut Parameters) {
        for assigned in self.assigned() {
            if let Values::Full(values) = &mut parameters.0[assigned.parameter.0] {
                assigned.apply(values);
            }
        }
    }

    /// Samples in the batch that went forward last.
    pub fn samples(&self) -> usize {
        self.samples
    }
}

/// Brings the inputs of a layer together: decides the rows it works on and fills its edges.
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
        let (spread, index) = source.layout.spread(&domain, unit_of.as_ref());
        edge.copied = !gathers && index.is_some();
        if let (Some(index), true) = (&index, edge.copied) {
            edge.staged.gather(source, index);
            edge.staged.layout = spread.clone();
        }
        edge.index = index;
        layout.get_or_insert(spread);
    }
    layout.unwrap_or(first)
}
