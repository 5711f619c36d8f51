//! The network: layers in execution order, with forward and backward over them.

mod build;
mod fuse;
mod graph;
mod view;

use std::sync::Arc;

use crate::batch::{Batch, SlotData};
use crate::error::{ExecuteError, LayerError};
use crate::gradients::Gradients;
use crate::layer::{Assigned, BatchUse, Lookup};
use crate::layers::data::DataLayer;
use crate::output::{Output, OutputValues};
use crate::parameters::{ParameterIndex, ParameterSpec, ParameterValues, Parameters};
use crate::rows::distinct_rows;

pub(crate) use build::GraphBuilder;
pub(crate) use graph::{Context, Graph};
pub use view::LayerView;

/// A data layer that a batch must feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputSpec {
    /// Name of the data layer.
    pub name: String,
    /// Width of its rows, or number of ids.
    pub size: usize,
}

/// Options of how a network computes; results are the same up to rounding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkOptions {
    /// Compute equal samples and rows once. Off: everything is computed for every position.
    pub share: bool,
    /// Fuse layers that are cheaper together.
    pub fuse: bool,
}

impl Default for NetworkOptions {
    fn default() -> Self {
        Self {
            share: true,
            fuse: true,
        }
    }
}

/// A network with the buffers of the current batch.
pub struct Network {
    graph: Graph,
    data: Vec<DataLayer>,
    /// The node that each slot fills.
    slots: Vec<usize>,
    inputs: Vec<InputSpec>,
    specs: Arc<[ParameterSpec]>,
    /// Index of the node whose output is that of each named layer.
    names: std::collections::HashMap<String, usize>,
    costs: Vec<usize>,
    /// Parameters whose gradient is complete after each node's backward.
    completes: Vec<Vec<ParameterIndex>>,
    samples: usize,
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
        let mut lists: Vec<(ParameterIndex, Vec<&[u32]>)> = Vec::new();
        let mut whole: Vec<ParameterIndex> = Vec::new();
        for Lookup { source, parameter } in self.graph.lookups() {
            let Some(slot) = self.slots.iter().position(|slot| *slot == source) else {
                continue;
            };
            let spec = &self.specs[parameter.0];
            let asked = spec.by_row || (spec.looked_up && wanted(parameter));
            let Some(slot) = batch.slots.get(slot).filter(|_| asked) else {
                continue;
            };
            if matches!(slot.data, SlotData::Dense { .. }) && !spec.by_row {
                whole.push(parameter);
            }
            let rows = crate::rows::looked_up(&slot.data);
            match lists.iter_mut().find(|(p, _)| *p == parameter) {
                Some((_, all)) => all.push(rows),
                None => lists.push((parameter, vec![rows])),
            }
        }
        lists.sort_by_key(|(parameter, _)| *parameter);
        let needed = lists.into_iter().map(|(parameter, lists)| {
            let rows = self.specs[parameter.0].rows;
            // The layer that uses the ids checks them later, so rows that do not exist are left out here.
            let ids = match whole.contains(&parameter) {
                true => (0..rows as u32).collect(),
                false => distinct_rows(&lists, rows),
            };
            (parameter, ids)
        });
        needed.collect()
    }

    /// Computes all outputs of a batch and returns the cost, summed over its samples.
    pub fn forward(
        &mut self,
        parameters: &Parameters,
        batch: &Batch,
        pass: BatchUse,
    ) -> Result<f64, ExecuteError> {
        if batch.slots.len() != self.inputs.len() {
            return Err(ExecuteError::SlotCount {
                got: batch.slots.len(),
                want: self.inputs.len(),
            });
        }
        self.samples = batch.samples;
        self.graph.begin(batch.samples);
        let context = Context {
            parameters,
            specs: &self.specs,
            packed: None,
        };
        for (slot, &node) in self.slots.iter().enumerate() {
            let out = &mut self.graph.outputs[node];
            out.clear_grad();
            self.data[slot]
                .read(&batch.slots[slot], batch.samples, &self.graph.joints, out)
                .map_err(|source| self.named(node, source))?;
        }
        for node in 0..self.graph.nodes.len() {
            self.graph
                .forward(node, context, pass)
                .map_err(|source| self.named(node, source))?;
        }
        let cost = self.cost();
        if cost.is_finite() {
            Ok(cost)
        } else {
            Err(self.not_finite())
        }
    }

    fn named(&self, node: usize, source: LayerError) -> ExecuteError {
        ExecuteError::Layer {
            layer: self.graph.nodes[node].name.clone(),
            source,
        }
    }

    fn cost(&self) -> f64 {
        self.costs
            .iter()
            .map(|&node| {
                self.graph.outputs[node]
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
            OutputValues::Dense(matrix) => matrix.values().iter().any(|x| !x.is_finite()),
            OutputValues::Sparse(rows) => rows.values.iter().any(|x| !x.is_finite()),
            OutputValues::Ids(_) => false,
        };
        let first = self
            .graph
            .outputs
            .iter()
            .position(bad)
            .or(self.costs.first().copied())
            .unwrap_or(0);
        ExecuteError::NotFinite {
            layer: self.graph.nodes[first].name.clone(),
        }
    }

    /// Computes the gradients of the batch of the last forward. `complete` is called for each parameter that
    /// learns as soon as no layer will add to it, in the order in which that happens.
    pub fn backward(
        &mut self,
        parameters: &Parameters,
        gradients: &mut Gradients,
        complete: &mut dyn FnMut(ParameterIndex, &Gradients),
    ) {
        gradients.begin();
        let context = Context {
            parameters,
            specs: &self.specs,
            packed: None,
        };
        for node in (0..self.graph.nodes.len()).rev() {
            self.graph.backward(node, context, gradients);
            for &parameter in &self.completes[node] {
                gradients.complete(parameter);
                complete(parameter, gradients);
            }
        }
    }

    /// The output of a layer in the last forward; `None` if there is no such layer.
    pub fn output(&self, layer: &str) -> Option<LayerView<'_>> {
        let node = *self.names.get(layer)?;
        Some(LayerView::new(&self.graph.outputs[node], self.samples))
    }

    /// The outputs of all layers in the last forward, in execution order. A layer that is computed
    /// together with the one above it has none.
    pub fn outputs(&self) -> impl Iterator<Item = (&str, LayerView<'_>)> {
        let nodes = self.graph.nodes.iter().enumerate();
        nodes
            .filter(|(index, node)| self.names.get(&node.name) == Some(index))
            .map(|(index, node)| {
                let view = LayerView::new(&self.graph.outputs[index], self.samples);
                (node.name.as_str(), view)
            })
    }

    /// Changes to the parameters that layers maintain themselves (moving averages of batch normalisation), in execution
    /// order, after the last forward.
    pub fn assigned(&self) -> Vec<Assigned<'_>> {
        let layers = self.graph.layers();
        layers.flat_map(|layer| layer.assigned()).collect()
    }

    /// Applies [`Network::assigned`] to the parameters. Call it once after each batch that was used to learn.
    pub fn assign(&self, parameters: &mut Parameters) {
        for assigned in self.assigned() {
            if let ParameterValues::Full(values) = &mut parameters.0[assigned.parameter.0] {
                assigned.apply(values);
            }
        }
    }

    /// Whether there is a cost to minimize.
    pub fn has_cost(&self) -> bool {
        !self.costs.is_empty()
    }

    /// Number of samples in the last forward.
    pub fn samples(&self) -> usize {
        self.samples
    }
}
