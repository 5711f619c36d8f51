//! A recurrent group: layers that are executed step after step along sequences, with memories of the previous step.
//!
//! Sequences are ordered by length, the longest first, so those that still run are always the first ones and nothing is
//! padded. Only what depends on a memory and is needed by one runs step by step, in one [`Graph`] per step; all other
//! layers run once, for all steps together, in the *wide* graph ([`division`]). There, a unit is one step of one
//! sequence, in the order of steps, and what is the same in all steps of a sequence has the sequences as its domain,
//! so it is computed once per sequence. In a group over sub-sequences a unit has a sequence itself.
//!
//! Gradients of weights that are used in every step are one product over the rows of all steps
//! ([`crate::Gradients::postpone`]).
//!
//! The inputs of a group are its in-links and, after them, the boot layers of its memories. Values of inputs are not
//! copied: the group exchanges them with the outputs of its wide graph while it runs.

mod crossing;
mod division;
mod generate;
mod memory;
mod recipe;
mod run;

use std::collections::HashSet;
use std::sync::Arc;

use config::{LayerConfig, ModelConfig, SubModelConfig};

use crate::error::{BuildError, LayerError};
use crate::layer::{Assigned, Backward, Build, Forward, Inputs, Layer, Lookup, MoreOutput, Reads};
use crate::network::{Context, Graph};
use crate::parameters::ParameterIndex;
use crate::simd;

use recipe::{BuiltGroup, Recipe};
use run::GroupRun;

/// The type of a layer that is a recurrent group.
pub(crate) const KIND: &str = "recurrent_layer_group";

/// Whether a layer can be one through which values leave a group.
pub(crate) fn is_output(config: &LayerConfig) -> bool {
    matches!(
        config.r#type.as_str(),
        "gather_agent" | "sequence_gather_agent" | "data"
    )
}

/// The layers that belong to some group.
pub(crate) fn inner_layers(model: &ModelConfig) -> HashSet<&str> {
    let groups = model
        .sub_models
        .iter()
        .filter(|part| part.is_recurrent_layer_group());
    groups
        .flat_map(|group| &group.layer_names)
        .map(String::as_str)
        .collect()
}

/// The layers that a group reads, if the layer is one.
pub(crate) fn sources<'a>(model: &'a ModelConfig, config: &LayerConfig) -> Option<Vec<&'a str>> {
    if config.r#type != KIND {
        return None;
    }
    let group = model
        .sub_models
        .iter()
        .find(|part| part.name == config.name);
    Some(group.map(source_names).unwrap_or_default())
}

/// The layers that a layer of a group reads.
fn inputs_of<'a>(model: &'a ModelConfig, layer: &'a LayerConfig) -> Vec<&'a str> {
    sources(model, layer).unwrap_or_else(|| {
        let inputs = layer.inputs.iter();
        inputs
            .map(|input| input.input_layer_name.as_str())
            .collect()
    })
}

/// In-links, then boot layers of memories.
fn source_names(group: &SubModelConfig) -> Vec<&str> {
    let links = group.in_links.iter().map(|link| link.layer_name.as_str());
    let boots = group
        .memories
        .iter()
        .filter_map(|memory| memory.boot_layer_name.as_deref());
    links.chain(boots).collect()
}

/// A recurrent group.
pub(crate) struct Group {
    recipe: Arc<Recipe>,
    /// Everything that needs no steps.
    wide: Graph,
    /// One graph per step, as many as the longest sequence so far had.
    frames: Vec<Graph>,
    run: GroupRun,
    reads: Reads,
}

/// Builds a `recurrent_layer_group` layer.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    let name = build.config.name.as_str();
    let group = build.model.sub_models.iter().find(|part| part.name == name);
    let group = group.ok_or_else(|| build.error("the model has no part of this name"))?;
    let BuiltGroup {
        recipe,
        wide,
        frame,
        used,
    } = Recipe::build(build, group)?;
    build.used.extend(used);
    let layers = || wide.layers().chain(frame.layers());
    let reads = if recipe.generator.is_some() || layers().any(|layer| layer.reads() == Reads::Batch)
    {
        Reads::Batch
    } else {
        Reads::Samples
    };
    Ok(Box::new(Group {
        recipe: Arc::new(recipe),
        reads,
        wide,
        frames: vec![frame],
        run: GroupRun::default(),
    }))
}

impl Layer for Group {
    fn reads(&self) -> Reads {
        self.reads
    }

    fn gathers(&self) -> bool {
        true
    }

    fn is_cost(&self) -> bool {
        let layers = self.wide.layers().chain(self.frames[0].layers());
        layers.into_iter().any(Layer::is_cost)
    }

    fn is_differentiable(&self) -> bool {
        self.recipe.generator.is_none()
    }

    fn more_outputs(&self) -> Vec<MoreOutput> {
        if let Some(generator) = &self.recipe.generator {
            let (name, size) = generator.output.clone();
            return vec![MoreOutput {
                name,
                size,
                is_layer: true,
                wants_grad: false,
                is_cost: false,
            }];
        }
        let outs = self.recipe.outs.iter();
        outs.map(|out| out.output.clone()).collect()
    }

    fn lookups(&self) -> Vec<Lookup> {
        let inputs = self.recipe.inputs();
        let wide = self.wide.lookups();
        let step = self.frames[0].lookups().filter_map(|lookup| {
            Some(Lookup {
                source: self.recipe.origin(lookup.source)?,
                ..lookup
            })
        });
        wide.chain(step)
            .filter(|lookup| lookup.source < inputs)
            .collect()
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        self.take_inputs(&mut pass.inputs);
        let recipe = self.recipe.clone();
        let result = match &recipe.generator {
            Some(generator) => self.generate(generator, pass),
            None => self.forward_all(pass),
        };
        self.exchange_inputs(&mut pass.inputs);
        result
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        self.exchange_inputs(&mut pass.inputs);
        let context = Context {
            parameters: pass.parameters,
            specs: pass.specs,
            packed: pass.packed,
        };
        self.backward_all(pass.more, context, pass.gradients);
        self.exchange_inputs(&mut pass.inputs);
        for input in (0..self.recipe.inputs()).filter(|&input| self.run.copied[input]) {
            let own = &self.wide.outputs[input];
            if own.has_grad() && pass.inputs.wants_grad(input) {
                let grad = pass.inputs.get_mut(input).grad_mut();
                simd::add(grad.values_mut(), own.grad().values());
            }
        }
    }

    fn maintains(&self) -> Vec<ParameterIndex> {
        let layers = self.wide.layers().chain(self.frames[0].layers());
        layers.flat_map(|layer| layer.maintains()).collect()
    }

    fn assigned(&self) -> Vec<Assigned<'_>> {
        let frames = self.frames[..self.run.time.steps()].iter();
        let step = frames.flat_map(Graph::layers);
        let layers = self.wide.layers().chain(step);
        layers.flat_map(|layer| layer.assigned()).collect()
    }
}

impl Group {
    /// Takes the values of the inputs; a layer that is two inputs is copied for the second one.
    fn take_inputs(&mut self, inputs: &mut Inputs<'_>) {
        self.run.copied.clear();
        for input in 0..self.recipe.inputs() {
            let twin = (0..input).find(|&earlier| inputs.same(earlier, input));
            self.run.copied.push(twin.is_some());
            if let Some(twin) = twin {
                let (before, own) = self.wide.outputs.split_at_mut(input);
                own[0].copy_data(&before[twin]);
            } else {
                inputs.exchange(input, &mut self.wide.outputs[input]);
            }
        }
    }

    /// Exchanges values and gradients of the inputs with those of the wide graph.
    fn exchange_inputs(&mut self, inputs: &mut Inputs<'_>) {
        for input in (0..self.recipe.inputs()).filter(|&input| !self.run.copied[input]) {
            inputs.exchange(input, &mut self.wide.outputs[input]);
        }
    }
}
