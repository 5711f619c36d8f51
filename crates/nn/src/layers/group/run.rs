//! Runs a recurrent group on one batch, forward and backward.

use std::ops::Range;
use std::sync::Arc;

use super::Group;
use super::crossing::{Crossing, link_layout, units_of};
use super::memory::{Boot, RememberedLayer};
use super::recipe::{Recipe, ValueOrigin};
use crate::domain::{Domain, Layout};
use crate::error::LayerError;
use crate::gradients::Gradients;
use crate::layer::{BatchUse, Forward, Inputs};
use crate::layers::recurrent::TimeMajor;
use crate::network::{Context, Graph};
use crate::noise::Noise;
use crate::output::{Output, OutputValues};
use crate::product::PackedWeights;

/// The state of the last forward, for backward.
#[derive(Debug, Default)]
pub(super) struct GroupRun {
    /// Whether each input is a copy, because an earlier one is the same layer.
    pub copied: Vec<bool>,
    /// The units: steps of sequences, or sub-sequences.
    pub time: TimeMajor,
    /// Rows of each given node of the step; for a memory those of its boot layer.
    crossings: Vec<Option<Crossing>>,
    /// Rows of each memory that remembers a layer of the wide graph.
    remembered: Vec<Option<Crossing>>,
    /// Stored row of the wide graph for each row of each output.
    outs: Vec<Vec<u32>>,
    /// The step that holds the values that are the same in all of them.
    holder: usize,
}

/// The part of the noise that belongs to a step, or to the wide graph.
fn part_of(pass: BatchUse, noise: Noise, part: usize) -> BatchUse {
    match pass {
        BatchUse::Train { .. } => BatchUse::Train {
            noise: noise.bits(part as u64),
        },
        BatchUse::Test => BatchUse::Test,
    }
}

/// Computes some nodes of a graph; a failure names the layer.
pub(super) fn forward_nodes(
    graph: &mut Graph,
    nodes: Range<usize>,
    context: Context<'_>,
    pass: BatchUse,
) -> Result<(), LayerError> {
    for node in nodes {
        graph
            .forward(node, context, pass)
            .map_err(|source| LayerError::Inner {
                layer: graph.nodes[node].name.clone(),
                source: Box::new(source),
            })?;
    }
    Ok(())
}

impl Group {
    /// Computes all steps. The values of the inputs are in the wide graph.
    pub(super) fn forward_all(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let context = Context {
            parameters: pass.parameters,
            specs: pass.specs,
            packed: pass.packed,
        };
        let counts = self.arrange(&pass.inputs)?;
        let units = self.run.time.rows();
        self.wide.begin(units);
        let sequences = self.sequence_domain(counts.len() - 1);
        self.place_inputs(&pass.inputs, &sequences);
        let all = part_of(pass.pass, pass.noise, 0);
        let before = self.recipe.before;
        forward_nodes(&mut self.wide, 0..before, context, all)?;
        self.cross(&sequences)?;
        let packed = PackedWeights::default();
        let steps = context.packing(&packed);
        for step in 0..self.run.time.steps() {
            let pass = part_of(pass.pass, pass.noise, step + 1);
            self.forward_step(step, steps, pass)?;
        }
        self.finish_exports();
        let nodes = before..self.wide.nodes.len();
        forward_nodes(&mut self.wide, nodes, context, all)?;
        let domain = pass.out.layout.domain.clone();
        pass.out.value_mut().resize(0, 1);
        self.write_outs(pass.more, &counts, &domain);
        Ok(())
    }

    /// Orders the units, and checks that all in-links have the same.
    fn arrange(&mut self, inputs: &Inputs<'_>) -> Result<Arc<[u32]>, LayerError> {
        let Recipe { links, target, .. } = &*self.recipe;
        let counts = units_of(inputs.layout(*target), *target, links[*target].nested)?;
        for (input, link) in links.iter().enumerate() {
            let layout = inputs.layout(input);
            let own = units_of(layout, input, link.nested)?;
            if own != counts {
                return Err(LayerError::Rows {
                    input,
                    got: own.last().map_or(0, |&end| end as usize),
                    want: counts.last().map_or(0, |&end| end as usize),
                });
            }
        }
        // As in v1, sub-sequences are always visited from the first to the last.
        let reversed = self.recipe.reversed && !links[*target].nested;
        self.run.time.arrange(&counts, reversed);
        Ok(counts)
    }

    /// The domain of values that are the same in all steps of a sequence.
    fn sequence_domain(&self, sequences: usize) -> Arc<Domain> {
        let time = &self.run.time;
        let of_unit = (0..time.steps()).flat_map(|step| &time.order()[..time.step(step).len()]);
        Arc::new(Domain {
            units: sequences,
            of_sample: Some(of_unit.copied().collect()),
        })
    }

    fn place_inputs(&mut self, inputs: &Inputs<'_>, sequences: &Arc<Domain>) {
        let units = self.wide.joints.whole().clone();
        let links = &self.recipe.links;
        for input in 0..self.recipe.inputs() {
            let (layout, index) = (inputs.layout(input), inputs.index(input));
            self.wide.outputs[input].layout = match links.get(input) {
                Some(link) => link_layout(layout, index, link.nested, &self.run.time, &units),
                None => Layout {
                    domain: sequences.clone(),
                    sequences: layout.sequences.clone(),
                    subsequences: layout.subsequences.clone(),
                    rows: index.map(Into::into),
                },
            };
        }
    }

    /// Finds the rows that cross from the wide graph to the steps.
    fn cross(&mut self, sequences: &Arc<Domain>) -> Result<(), LayerError> {
        let Self {
            recipe, wide, run, ..
        } = self;
        let units = wide.joints.whole().clone();
        let crossing = |node: usize| {
            let layout = &wide.outputs[node].layout;
            Crossing::new(layout, &units, sequences, run.time.order())
        };
        let memory = |memory: usize| {
            let memory = &recipe.memories[memory];
            match memory.boot {
                Boot::Layer(node) => {
                    memory.check(&wide.outputs[node].layout)?;
                    Ok(Some(crossing(node)))
                }
                _ => Ok(None),
            }
        };
        let crossings = recipe
            .givens
            .iter()
            .map(|given| match given.origin {
                ValueOrigin::Wide(node) => Ok(Some(crossing(node))),
                ValueOrigin::Memory(index) => memory(index),
            })
            .collect::<Result<_, LayerError>>()?;
        let remembered = recipe
            .memories
            .iter()
            .map(|memory| match memory.target {
                RememberedLayer::Wide(node) => {
                    let varying = Crossing::new(
                        &wide.outputs[node].layout,
                        &units,
                        &Domain::whole(0),
                        run.time.order(),
                    );
                    Some(varying)
                }
                RememberedLayer::Step(_) | RememberedLayer::Word => None,
            })
            .collect();
        run.crossings = crossings;
        run.remembered = remembered;
        Ok(())
    }

    fn forward_step(
        &mut self,
        step: usize,
        context: Context<'_>,
        pass: BatchUse,
    ) -> Result<(), LayerError> {
        if self.frames.len() == step {
            let frame = self.recipe.frame();
            let frame = frame.map_err(|error| LayerError::Value(error.to_string()))?;
            self.frames.push(frame);
        }
        if step == 0 {
            self.return_fixed();
        }
        let units = self.run.time.step(step).len();
        self.frames[step].begin(units);
        for given in 0..self.recipe.givens.len() {
            self.fill(given, step, context)?;
        }
        let frame = &mut self.frames[step];
        let nodes = self.recipe.givens.len()..frame.nodes.len();
        forward_nodes(frame, nodes, context, pass)?;
        for &(node, export) in &self.recipe.exports {
            let from = &frame.outputs[node];
            let to = &mut self.wide.outputs[export];
            if step == 0 {
                to.clear_rows(from);
                let sequences = from.layout.sequences.as_ref().map(|_| vec![0].into());
                to.layout.sequences = sequences;
            }
            to.append(from, from.layout.positions(), from.layout.rows.as_deref());
            if let (Some(all), Some(own)) = (&mut to.layout.sequences, &from.layout.sequences) {
                let end = all.last().copied().unwrap_or(0);
                let more = own.iter().skip(1).map(|offset| offset + end);
                *all = all.iter().copied().chain(more).collect();
            }
        }
        Ok(())
    }

    /// Moves the values that all steps share back to the first one, where they are filled.
    fn return_fixed(&mut self) {
        let holder = std::mem::take(&mut self.run.holder);
        if holder == 0 {
            return;
        }
        let (first, rest) = self.frames.split_at_mut(1);
        for (given, _) in self.recipe.givens.iter().enumerate() {
            if matches!(&self.run.crossings[given], Some(crossing) if crossing.fixed) {
                first[0].outputs[given].exchange(&mut rest[holder - 1].outputs[given]);
            }
        }
    }

    /// Fills a given node of a step.
    fn fill(&mut self, given: usize, step: usize, context: Context<'_>) -> Result<(), LayerError> {
        let Self {
            recipe,
            wide,
            frames,
            run,
            ..
        } = self;
        let (done, rest) = frames.split_at_mut(step);
        let frame = &mut rest[0];
        let domain = frame.joints.whole().clone();
        let out = &mut frame.outputs[given];
        let units = run.time.step(step);
        let count = units.len();
        out.layout = Layout::units(domain.clone());
        match (recipe.givens[given].origin, &run.crossings[given]) {
            (ValueOrigin::Wide(node), Some(crossing)) if crossing.fixed => {
                out.layout = crossing.layout(0..count, &domain);
                let source = &wide.outputs[node];
                if step > 0 && matches!(source.data, OutputValues::Dense(_)) {
                    out.exchange(&mut done[step - 1].outputs[given]);
                    out.limit(crossing.count(0..count));
                    run.holder = step;
                } else {
                    out.gather(source, crossing.rows(0..count));
                }
            }
            (ValueOrigin::Wide(node), Some(crossing)) => {
                out.layout = crossing.layout(units.clone(), &domain);
                out.gather(&wide.outputs[node], crossing.rows(units));
            }
            (ValueOrigin::Memory(memory), crossing) => {
                let memory_of = &recipe.memories[memory];
                match (step, memory_of.target, &memory_of.boot, crossing) {
                    (0, _, Boot::Layer(node), Some(crossing)) => {
                        out.layout = crossing.layout(0..count, &domain);
                        out.gather(&wide.outputs[*node], crossing.rows(0..count));
                    }
                    (0, ..) => memory_of.boot(out, count, context)?,
                    (_, RememberedLayer::Step(node), ..) => {
                        memory_of.carry(&done[step - 1], node, count, out)?;
                        let layout = &done[step - 1].outputs[node].layout;
                        let sequences = layout.sequences.as_ref();
                        out.layout.sequences = sequences.map(|all| all[..=count].into());
                    }
                    (_, RememberedLayer::Wide(node), ..) => {
                        let start = run.time.step(step - 1).start;
                        if let Some(crossing) = &run.remembered[memory] {
                            out.layout = crossing.layout(start..start + count, &domain);
                            memory_of.check(&out.layout)?;
                            let rows = crossing.rows(start..start + count);
                            out.gather(&wide.outputs[node], rows);
                        }
                    }
                    (_, RememberedLayer::Word, ..) => unreachable!("only generation chooses words"),
                }
            }
            (ValueOrigin::Wide(_), None) => unreachable!("every node of the wide graph crosses"),
        }
        out.wants_grad = recipe.givens[given].wants_grad;
        out.clear_grad();
        Ok(())
    }

    fn finish_exports(&mut self) {
        let steps = self.run.time.steps();
        for &(node, export) in &self.recipe.exports {
            let to = &mut self.wide.outputs[export];
            if steps == 0 {
                // No sequence has a step: nothing was computed, and nothing is read.
                to.clear_rows(&self.frames[0].outputs[node]);
                to.value_mut();
                to.layout.sequences = None;
            }
            to.layout = Layout {
                domain: self.wide.joints.whole().clone(),
                subsequences: None,
                rows: None,
                sequences: to.layout.sequences.clone(),
            };
        }
    }

    fn write_outs(&mut self, more: &mut [Output], counts: &Arc<[u32]>, domain: &Arc<Domain>) {
        let Self {
            recipe, wide, run, ..
        } = self;
        let units = wide.joints.whole();
        let mut unit_at = vec![0; run.time.rows()];
        for (unit, &position) in run.time.positions.iter().enumerate() {
            unit_at[position as usize] = unit;
        }
        run.outs.resize_with(recipe.outs.len(), Vec::new);
        for ((out, to), rows) in recipe.outs.iter().zip(more).zip(&mut run.outs) {
            let from = &wide.outputs[out.node];
            let crossing = Crossing::new(&from.layout, units, &Domain::whole(0), &[]);
            let (index, offsets) = crossing.parts();
            rows.clear();
            to.layout = Layout {
                sequences: Some(counts.clone()),
                ..Layout::units(domain.clone())
            };
            match offsets {
                None => rows.extend(unit_at.iter().map(|&unit| index[unit])),
                Some(offsets) => {
                    let mut inner = vec![0];
                    for &unit in &unit_at {
                        let range = offsets[unit] as usize..offsets[unit + 1] as usize;
                        rows.extend_from_slice(&index[range]);
                        inner.push(rows.len() as u32);
                    }
                    let outer = counts.iter().map(|&unit| inner[unit as usize]);
                    to.layout.sequences = Some(outer.collect());
                    to.layout.subsequences = Some(inner.into());
                }
            }
            let wants_grad = to.wants_grad;
            to.gather(from, rows);
            to.wants_grad = wants_grad;
        }
    }

    /// Passes the gradients of the outputs on. Those of the inputs are in the wide graph afterwards.
    pub(super) fn backward_all(
        &mut self,
        more: &mut [Output],
        context: Context<'_>,
        gradients: &mut Gradients,
    ) {
        for ((out, from), rows) in self.recipe.outs.iter().zip(more).zip(&self.run.outs) {
            let to = &mut self.wide.outputs[out.node];
            if from.has_grad() && to.wants_grad {
                to.add_grad(from.grad().values(), Some(rows));
            }
        }
        let before = self.recipe.before;
        for node in (before..self.wide.nodes.len()).rev() {
            self.wide.backward(node, context, gradients);
        }
        gradients.postpone();
        let packed = PackedWeights::default();
        let steps = context.packing(&packed);
        for step in (0..self.run.time.steps()).rev() {
            self.backward_step(step, steps, gradients);
        }
        gradients.settle();
        for node in (0..before).rev() {
            self.wide.backward(node, context, gradients);
        }
    }

    fn backward_step(&mut self, step: usize, context: Context<'_>, gradients: &mut Gradients) {
        let units = self.run.time.step(step);
        let frame = &mut self.frames[step];
        for &(node, export) in &self.recipe.exports {
            let (from, to) = (&self.wide.outputs[export], &mut frame.outputs[node]);
            if !from.has_grad() || !to.wants_grad {
                continue;
            }
            let range = match &from.layout.sequences {
                Some(all) => all[units.start] as usize..all[units.end] as usize,
                None => units.clone(),
            };
            let cols = from.grad().cols();
            let rows = &from.grad().values()[range.start * cols..range.end * cols];
            let index = to.layout.rows.clone();
            to.add_grad(rows, index.as_deref());
        }
        for node in (self.recipe.givens.len()..frame.nodes.len()).rev() {
            frame.backward(node, context, gradients);
        }
        for given in 0..self.recipe.givens.len() {
            self.give_back(given, step, context, gradients);
        }
    }

    /// Passes the gradient of a given node of a step on to where its value came from.
    fn give_back(
        &mut self,
        given: usize,
        step: usize,
        context: Context<'_>,
        gradients: &mut Gradients,
    ) {
        let Self {
            recipe,
            wide,
            frames,
            run,
            ..
        } = self;
        let (done, rest) = frames.split_at_mut(step);
        let out = &mut rest[0].outputs[given];
        let units = run.time.step(step);
        let count = units.len();
        let mut to_wide = |node: usize, rows: &[u32], out: &Output| {
            if wide.outputs[node].wants_grad && out.has_grad() {
                wide.outputs[node].add_grad(out.grad().values(), Some(rows));
            }
        };
        match (recipe.givens[given].origin, &run.crossings[given]) {
            (ValueOrigin::Wide(node), Some(crossing)) if crossing.fixed => {
                if step > 0 && matches!(out.data, OutputValues::Dense(_)) {
                    let before = &mut done[step - 1].outputs[given];
                    before.exchange(out);
                    let count = run.time.step(step - 1).len();
                    before.limit(crossing.count(0..count));
                    run.holder = step - 1;
                } else {
                    to_wide(node, crossing.rows(0..count), out);
                }
            }
            (ValueOrigin::Wide(node), Some(crossing)) => to_wide(node, crossing.rows(units), out),
            (ValueOrigin::Memory(_), _) if !out.has_grad() => {}
            (ValueOrigin::Memory(memory), crossing) => {
                let memory_of = &recipe.memories[memory];
                match (step, memory_of.target, &memory_of.boot, crossing) {
                    (0, _, Boot::Layer(node), Some(crossing)) => {
                        to_wide(*node, crossing.rows(0..count), out);
                    }
                    (0, ..) => memory_of.boot_backward(out, context, gradients),
                    (_, RememberedLayer::Step(node), ..) => {
                        memory_of.carry_back(&mut done[step - 1], node, count, out);
                    }
                    (_, RememberedLayer::Wide(node), ..) => {
                        let start = run.time.step(step - 1).start;
                        if let Some(crossing) = &run.remembered[memory] {
                            to_wide(node, crossing.rows(start..start + count), out);
                        }
                    }
                    (_, RememberedLayer::Word, ..) => {}
                }
            }
            (ValueOrigin::Wide(_), None) => unreachable!("every node of the wide graph crosses"),
        }
    }
}
