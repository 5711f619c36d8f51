//! The description from which a recurrent group is built, and from which further steps are built when sequences are
//! longer.

use std::sync::Arc;

use config::{LayerConfig, ModelConfig, SubModelConfig};

use super::division::{self, Division, Nature};
use super::generate::Generator;
use super::memory::{Boot, Memory, RememberedLayer};
use crate::error::BuildError;
use crate::layer::{Build, MoreOutput};
use crate::network::{Graph, GraphBuilder};
use crate::parameters::{ParameterIndex, ParameterSpec};

/// A sequence that enters the group; its index is that of the group's input and of a node of the wide graph.
#[derive(Debug)]
pub(super) struct Link {
    name: String,
    /// Whether a step gets one of its sub-sequences.
    pub nested: bool,
}

/// A value that leaves the group.
#[derive(Debug)]
pub(super) struct Out {
    /// Node of the wide graph.
    pub node: usize,
    pub output: MoreOutput,
}

/// A node of the step that is filled from outside the step.
#[derive(Debug)]
pub(super) struct Given {
    name: String,
    size: usize,
    pub wants_grad: bool,
    pub origin: ValueOrigin,
}

/// Where a given node of the step gets its value from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueOrigin {
    /// This node of the wide graph.
    Wide(usize),
    Memory(usize),
}

/// The description of a group, ready to be executed.
#[derive(Debug)]
pub(super) struct Recipe {
    model: Arc<ModelConfig>,
    specs: Arc<[ParameterSpec]>,
    share: bool,
    layers: Vec<LayerConfig>,
    pub reversed: bool,
    /// The in-link whose lengths the outputs take.
    pub target: usize,
    pub links: Vec<Link>,
    /// Memories that change, in the order of their nodes.
    pub memories: Vec<Memory>,
    /// Number of boot layers.
    boots: usize,
    /// The nodes of a step that are filled, which are its first ones.
    pub givens: Vec<Given>,
    /// Nodes of the step that the wide graph reads: (node of the step, node of the wide graph).
    pub exports: Vec<(usize, usize)>,
    /// Number of nodes of the wide graph that come before the steps.
    pub before: usize,
    pub outs: Vec<Out>,
    pub generator: Option<Generator>,
}

/// A memory as it is described.
struct Described<'a> {
    index: usize,
    config: &'a config::MemoryConfig,
    size: usize,
    boot: Boot,
}

/// A group that was read from its description.
pub(super) struct BuiltGroup {
    pub(super) recipe: Recipe,
    /// The layers that run once for all steps.
    pub(super) wide: Graph,
    /// The graph of the first step.
    pub(super) frame: Graph,
    /// The parameters that the graphs use.
    pub(super) used: Vec<ParameterIndex>,
}

impl Recipe {
    /// Reads the description of a group.
    pub(super) fn build(
        build: &mut Build<'_>,
        group: &SubModelConfig,
    ) -> Result<BuiltGroup, BuildError> {
        let (model, specs) = (build.model.clone(), build.specs.clone());
        build.expect(
            !group.in_links.is_empty() || group.generator.is_some(),
            || "it has no sequence as an input".to_owned(),
        )?;
        let memories = describe(build, group)?;
        let (described, boots) = (memories.described, memories.boots);
        let fixed = division::fixed(&model, group);
        let division = divide(build, group, &described, &fixed)?;
        let moving: Vec<&Described<'_>> = described
            .iter()
            .filter(|memory| !fixed.contains(&memory.index))
            .collect();

        let mut wide = GraphBuilder::new(&model, &specs, build.share);
        let links: Vec<Link> = group
            .in_links
            .iter()
            .map(|link| Link {
                name: link.link_name.clone(),
                nested: link.has_subseq(),
            })
            .collect();
        for (input, &size) in build.input_sizes.iter().enumerate() {
            let name = match links.get(input) {
                Some(link) => link.name.clone(),
                None => format!("boot layer {}", input - links.len()),
            };
            wide.given(&name, size, build.wants_grad[input]);
        }
        for (name, memory) in &division.fixed {
            if let Boot::Layer(node) = described[*memory].boot {
                wide.alias(name, node);
            }
        }
        for layer in &division.before {
            wide.layer(layer)?;
        }

        let mut recipe = Self {
            reversed: group.reversed(),
            target: usize::try_from(group.target_inlinkid()).unwrap_or(0),
            share: build.share,
            boots,
            before: wide.len(),
            links,
            memories: Vec::new(),
            givens: givens(&wide, &moving, &division.step),
            exports: Vec::new(),
            outs: Vec::new(),
            generator: None,
            layers: division.step,
            model: model.clone(),
            specs: specs.clone(),
        };
        build.expect(
            recipe.links.is_empty() || recipe.target < recipe.links.len(),
            || {
                format!(
                    "its target is in-link {}, which does not exist",
                    recipe.target
                )
            },
        )?;
        settle_gradients(&mut recipe, &wide, &moving)?;
        let step = step(&model, &specs, &recipe)?;
        for memory in &moving {
            let name = memory.config.layer_name.as_str();
            let is_word = group.generator.is_some()
                && group
                    .out_links
                    .first()
                    .is_some_and(|l| l.layer_name == name);
            let target = match (step.node(name), wide.node(name)) {
                _ if is_word => RememberedLayer::Word,
                (Some(node), _) => RememberedLayer::Step(node),
                (None, Some(node)) => RememberedLayer::Wide(node),
                (None, None) => {
                    return Err(build.error(format!(
                        "memory '{}' remembers layer '{name}', which the group does not have",
                        memory.config.link_name
                    )));
                }
            };
            recipe.memories.push(Memory {
                target,
                boot: memory.boot.clone(),
                is_sequence: memory.config.is_sequence(),
                size: memory.size,
            });
        }
        recipe.generator = Generator::new(build, group, |name| step.node(name))?;
        let out_links = match recipe.generator {
            Some(_) => &[],
            None => group.out_links.as_slice(),
        };
        let after = division.after.iter();
        let read_after = after.flat_map(|layer| super::inputs_of(&model, layer));
        let out_names = out_links.iter().map(|link| link.layer_name.as_str());
        for name in read_after.chain(out_names) {
            if wide.node(name).is_some() {
                continue;
            }
            if let Some(node) = step.node(name) {
                let wants_grad = step.wants_grad(node);
                let export = wide.given(name, step.size(node), wants_grad);
                recipe.exports.push((node, export));
            }
        }
        for layer in &division.after {
            wide.layer(layer)?;
        }
        for link in out_links {
            let node = wide.node(&link.layer_name).ok_or_else(|| {
                build.error(format!(
                    "it has no layer '{}' that leaves it",
                    link.layer_name
                ))
            })?;
            let in_step = step.node(&link.layer_name);
            recipe.outs.push(Out {
                node,
                output: MoreOutput {
                    name: link.link_name.clone(),
                    is_layer: true,
                    size: wide.size(node),
                    wants_grad: wide.wants_grad(node),
                    is_cost: wide.is_cost(node) || in_step.is_some_and(|node| step.is_cost(node)),
                },
            });
        }
        let mut used = [wide.used(), step.used()].concat();
        used.extend(moving.iter().filter_map(|memory| match memory.boot {
            Boot::Bias { parameter, .. } => Some(parameter),
            _ => None,
        }));
        Ok(BuiltGroup {
            recipe,
            wide: wide.graph(),
            frame: step.graph(),
            used,
        })
    }

    /// Number of inputs of the group.
    pub(super) fn inputs(&self) -> usize {
        self.links.len() + self.boots
    }

    /// The node of the wide graph that fills a node of the step.
    pub(super) fn origin(&self, node: usize) -> Option<usize> {
        match self.givens.get(node)?.origin {
            ValueOrigin::Wide(wide) => Some(wide),
            ValueOrigin::Memory(_) => None,
        }
    }

    /// The graph of one more step.
    pub(super) fn frame(&self) -> Result<Graph, BuildError> {
        step(&self.model, &self.specs, self).map(GraphBuilder::graph)
    }
}

/// The layers of a step.
fn step<'a>(
    model: &'a Arc<ModelConfig>,
    specs: &'a Arc<[ParameterSpec]>,
    recipe: &Recipe,
) -> Result<GraphBuilder<'a>, BuildError> {
    let mut step = GraphBuilder::new(model, specs, recipe.share);
    for given in &recipe.givens {
        step.given(&given.name, given.size, given.wants_grad);
    }
    for layer in &recipe.layers {
        step.layer(layer)?;
    }
    Ok(step)
}

/// Finds out which memories need gradients: those whose layer or boot does. Each is assumed to at first.
fn settle_gradients(
    recipe: &mut Recipe,
    wide: &GraphBuilder<'_>,
    moving: &[&Described<'_>],
) -> Result<(), BuildError> {
    loop {
        let (model, specs) = (recipe.model.clone(), recipe.specs.clone());
        let step = step(&model, &specs, recipe)?;
        let needless = recipe.givens.iter().position(|given| {
            let ValueOrigin::Memory(memory) = given.origin else {
                return false;
            };
            let name = moving[memory].config.layer_name.as_str();
            let wanted = match (step.node(name), wide.node(name)) {
                (Some(node), _) => step.wants_grad(node),
                (None, Some(node)) => wide.wants_grad(node),
                (None, None) => false,
            };
            let booted = match moving[memory].boot {
                Boot::Layer(node) => wide.wants_grad(node),
                Boot::Bias { .. } => true,
                Boot::Zero | Boot::Id(_) => false,
            };
            given.wants_grad && !wanted && !booted
        });
        let Some(needless) = needless else {
            return Ok(());
        };
        recipe.givens[needless].wants_grad = false;
    }
}

/// The memories of a group.
struct GroupMemories<'a> {
    described: Vec<Described<'a>>,
    /// How many of them begin with the value of a layer.
    boots: usize,
}

fn describe<'a>(
    build: &mut Build<'_>,
    group: &'a SubModelConfig,
) -> Result<GroupMemories<'a>, BuildError> {
    let mut described = Vec::new();
    let mut boots = 0;
    for (index, config) in group.memories.iter().enumerate() {
        let agent = build
            .model
            .layers
            .iter()
            .find(|l| l.name == config.link_name);
        let size = agent.map_or(0, LayerConfig::size) as usize;
        let boot = if config.boot_layer_name.is_some() {
            boots += 1;
            Boot::Layer(group.in_links.len() + boots - 1)
        } else if let Some(name) = config.boot_bias_parameter_name.as_deref() {
            Boot::Bias {
                parameter: build.parameter(name, size)?,
                activation: build.activation(config.boot_bias_active_type())?,
            }
        } else if let Some(id) = config.boot_with_const_id {
            Boot::Id(id)
        } else {
            Boot::Zero
        };
        described.push(Described {
            index,
            config,
            size,
            boot,
        });
    }
    build.used.clear();
    Ok(GroupMemories { described, boots })
}

/// Divides the layers, after building all of them once to see what they are.
fn divide(
    build: &Build<'_>,
    group: &SubModelConfig,
    described: &[Described<'_>],
    fixed: &[usize],
) -> Result<Division, BuildError> {
    let mut probe = GraphBuilder::new(build.model, build.specs, build.share);
    for (input, link) in group.in_links.iter().enumerate() {
        probe.given(&link.link_name, build.input_sizes[input], true);
    }
    for memory in described {
        let node = probe.given(&memory.config.link_name, memory.size, true);
        if fixed.contains(&memory.index) {
            probe.alias(&memory.config.layer_name, node);
        }
    }
    let mut natures = std::collections::HashMap::new();
    for layer in division::own_layers(build.model, group) {
        if let Some(node) = probe.layer(layer)? {
            natures.insert(
                layer.name.clone(),
                Nature {
                    reads: probe.reads(node),
                    is_cost: probe.is_cost(node),
                },
            );
        }
    }
    let nature = |name: &str| {
        natures.get(name).copied().unwrap_or(Nature {
            reads: crate::layer::Reads::Batch,
            is_cost: false,
        })
    };
    Ok(division::divide(build.model, group, nature, build.share))
}

/// The nodes of a step that are filled: memories, then all that its layers read from the wide graph.
fn givens(
    wide: &GraphBuilder<'_>,
    moving: &[&Described<'_>],
    layers: &[LayerConfig],
) -> Vec<Given> {
    let mut givens: Vec<Given> = moving
        .iter()
        .enumerate()
        .map(|(memory, described)| Given {
            name: described.config.link_name.clone(),
            size: described.size,
            wants_grad: true,
            origin: ValueOrigin::Memory(memory),
        })
        .collect();
    let model = wide.model();
    for layer in layers {
        for name in super::inputs_of(model, layer) {
            let known = givens.iter().any(|given| given.name == name);
            if let (Some(node), false) = (wide.node(name), known) {
                givens.push(Given {
                    name: name.to_owned(),
                    size: wide.size(node),
                    wants_grad: wide.wants_grad(node),
                    origin: ValueOrigin::Wide(node),
                });
            }
        }
    }
    givens
}
