//! Recurrent groups for test models: names inside a group end in `@` and the group's name, as v1 has them.

use config::{LinkConfig, MemoryConfig, SubModelConfig};

use super::model::{LayerBuilder, ModelBuilder};

/// A recurrent group under construction.
pub(crate) struct GroupBuilder {
    config: SubModelConfig,
    parts: Vec<Part>,
}

enum Part {
    Layer(Box<LayerBuilder>),
    Group(Box<GroupBuilder>),
}

impl GroupBuilder {
    /// A group of this name.
    pub(crate) fn new(name: &str) -> Self {
        let config = SubModelConfig {
            name: name.to_owned(),
            is_recurrent_layer_group: Some(true),
            target_inlinkid: Some(-1),
            ..SubModelConfig::default()
        };
        Self {
            config,
            parts: Vec::new(),
        }
    }

    fn inner(&self, name: &str) -> String {
        format!("{name}@{}", self.config.name)
    }

    /// Reads a layer outside, which is `name@group` inside.
    pub(crate) fn link(self, name: &str, size: u64) -> Self {
        self.add_link(name, size, false)
    }

    /// Reads the sub-sequences of a layer outside.
    pub(crate) fn nested_link(self, name: &str, size: u64) -> Self {
        self.add_link(name, size, true)
    }

    fn add_link(mut self, name: &str, size: u64, nested: bool) -> Self {
        let base = name.split('@').next().unwrap();
        let inner = self.inner(base);
        self.config.in_links.push(LinkConfig {
            layer_name: name.to_owned(),
            link_name: inner.clone(),
            has_subseq: Some(nested),
        });
        self.layer(LayerBuilder::new("scatter_agent", &inner, size))
    }

    /// The value of layer `name@group` in the step before, as `name+delay1@group`.
    pub(crate) fn memory(
        mut self,
        name: &str,
        size: u64,
        change: impl FnOnce(&mut MemoryConfig),
    ) -> Self {
        let link = self.inner(&format!("{name}+delay1"));
        let mut memory = MemoryConfig {
            layer_name: self.inner(name),
            link_name: link.clone(),
            ..MemoryConfig::default()
        };
        change(&mut memory);
        let mut agent = LayerBuilder::new("agent", &link, size);
        if let Some(parameter) = &memory.boot_bias_parameter_name {
            agent = agent.owns(parameter, &[1, size]);
        }
        self.config.memories.push(memory);
        self.layer(agent)
    }

    /// A layer outside that is the same in every step, as `name_fixed@group`.
    pub(crate) fn fixed(self, name: &str, size: u64, is_sequence: bool) -> Self {
        let link = self.inner(&format!("{name}_fixed"));
        let own = format!("__{name}_memory__");
        let layer = self.inner(&own);
        let mut group = self.memory(&own, size, |memory| {
            memory.boot_layer_name = Some(name.to_owned());
            memory.is_sequence = Some(is_sequence);
            memory.link_name = link.clone();
        });
        let Some(Part::Layer(agent)) = group.parts.last_mut() else {
            unreachable!("the memory's agent")
        };
        agent.config.name = link.clone();
        *group.config.layer_names.last_mut().unwrap() = link.clone();
        group.layer(LayerBuilder::new("mixed", &layer, size).projected(
            &link,
            "identity",
            (size, size),
            &[],
        ))
    }

    /// A layer; its name and those of its inputs are complete.
    pub(crate) fn layer(mut self, layer: LayerBuilder) -> Self {
        self.config.layer_names.push(layer.config.name.clone());
        self.parts.push(Part::Layer(Box::new(layer)));
        self
    }

    /// A group inside this one; what leaves it is `name@group`.
    pub(crate) fn group(mut self, group: GroupBuilder) -> Self {
        self.config.layer_names.push(group.config.name.clone());
        let outs = group.config.out_links.iter();
        self.config
            .layer_names
            .extend(outs.map(|link| link.link_name.clone()));
        self.parts.push(Part::Group(Box::new(group)));
        self
    }

    /// Layer `name@group` leaves the group as `outside`.
    pub(crate) fn out(mut self, name: &str, outside: &str) -> Self {
        self.config.out_links.push(LinkConfig {
            layer_name: self.inner(name),
            link_name: outside.to_owned(),
            has_subseq: None,
        });
        self
    }

    /// Sets any other field.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut SubModelConfig)) -> Self {
        change(&mut self.config);
        self
    }
}

impl ModelBuilder {
    /// A recurrent group.
    pub(crate) fn group(self, group: GroupBuilder) -> Self {
        let name = group.config.name.clone();
        let mut model = self.layer(LayerBuilder::new("recurrent_layer_group", &name, 0));
        let place = model.0.sub_models.len();
        model.0.sub_models.push(group.config.clone());
        for part in group.parts {
            model = match part {
                Part::Layer(layer) => model.layer(*layer),
                Part::Group(inner) => model.group(*inner),
            };
        }
        for link in &group.config.out_links {
            let size = model.size_of(&link.layer_name);
            model = model.layer(LayerBuilder::new("gather_agent", &link.link_name, size));
        }
        assert_eq!(model.0.sub_models[place].name, name);
        model
    }
}
