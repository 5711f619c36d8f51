//! Small model descriptions for tests, with the parameters that their layers name.

use config::{
    LayerConfig, LayerInputConfig, ModelConfig, OperatorConfig, ParameterConfig, ProjectionConfig,
};

/// A model under construction.
#[derive(Clone)]
pub(crate) struct ModelBuilder(pub ModelConfig);

/// A layer under construction, with its parameters.
pub(crate) struct LayerBuilder {
    pub config: LayerConfig,
    parameters: Vec<(String, Vec<u64>)>,
}

impl LayerBuilder {
    /// A layer of a type.
    pub(crate) fn new(kind: &str, name: &str, size: u64) -> Self {
        let config = LayerConfig {
            name: name.to_owned(),
            r#type: kind.to_owned(),
            size: Some(size),
            ..LayerConfig::default()
        };
        Self {
            config,
            parameters: Vec::new(),
        }
    }

    /// An input without a parameter.
    pub(crate) fn input(mut self, layer: &str) -> Self {
        self.config.inputs.push(LayerInputConfig {
            input_layer_name: layer.to_owned(),
            ..LayerInputConfig::default()
        });
        self
    }

    /// An input with a parameter of these dims, named `_<layer>.w<n>`.
    pub(crate) fn weighted(mut self, layer: &str, dims: &[u64]) -> Self {
        let name = format!("_{}.w{}", self.config.name, self.config.inputs.len());
        self = self.input(layer);
        self.last_input().input_parameter_name = Some(name.clone());
        self.parameters.push((name, dims.to_vec()));
        self
    }

    /// An input with a projection, and its parameter if it has dims.
    pub(crate) fn projected(
        mut self,
        layer: &str,
        kind: &str,
        sizes: (u64, u64),
        dims: &[u64],
    ) -> Self {
        self = if dims.is_empty() {
            self.input(layer)
        } else {
            self.weighted(layer, dims)
        };
        self.last_input().proj_conf = Some(ProjectionConfig {
            r#type: kind.to_owned(),
            input_size: sizes.0,
            output_size: sizes.1,
            ..ProjectionConfig::default()
        });
        self
    }

    /// An input with a window over its neighbours; trainable padding if it has rows.
    pub(crate) fn window(
        mut self,
        layer: &str,
        dim: u64,
        start: i32,
        length: i32,
        padding: u64,
    ) -> Self {
        let dims = [padding, dim];
        self = self.projected(
            layer,
            "context",
            (dim, dim * length as u64),
            if padding > 0 { &dims } else { &[] },
        );
        let proj = self.last_input().proj_conf.as_mut().unwrap();
        proj.context_start = Some(start);
        proj.context_length = Some(length);
        proj.trainable_padding = Some(padding > 0);
        self
    }

    /// An operator on inputs that already exist.
    pub(crate) fn operator(mut self, kind: &str, inputs: &[i32], scale: f64) -> Self {
        self.config.operator_confs.push(OperatorConfig {
            r#type: kind.to_owned(),
            input_indices: inputs.to_vec(),
            output_size: self.config.size(),
            dotmul_scale: Some(scale),
            ..OperatorConfig::default()
        });
        self
    }

    fn last_input(&mut self) -> &mut LayerInputConfig {
        self.config.inputs.last_mut().unwrap()
    }

    /// A parameter that no input or bias names.
    pub(crate) fn owns(mut self, name: &str, dims: &[u64]) -> Self {
        self.parameters.push((name.to_owned(), dims.to_vec()));
        self
    }

    /// Names the parameters `_<name>.w<n>` and `_<name>.wbias`, whatever the layer's name.
    pub(crate) fn rename(&mut self, name: &str) {
        for (index, input) in self.config.inputs.iter_mut().enumerate() {
            if let Some(old) = &mut input.input_parameter_name {
                let new = format!("_{name}.w{index}");
                rename_in(&mut self.parameters, old, &new);
                *old = new;
            }
        }
        if let Some(old) = &mut self.config.bias_parameter_name {
            let new = format!("_{name}.wbias");
            rename_in(&mut self.parameters, old, &new);
            *old = new;
        }
    }

    /// A bias of the layer's size.
    pub(crate) fn bias(self) -> Self {
        let size = self.config.size();
        self.bias_of(size)
    }

    /// A bias of another size.
    pub(crate) fn bias_of(mut self, size: u64) -> Self {
        let name = format!("_{}.wbias", self.config.name);
        self.config.bias_parameter_name = Some(name.clone());
        self.parameters.push((name, vec![1, size]));
        self
    }

    /// An activation.
    pub(crate) fn act(mut self, name: &str) -> Self {
        self.config.active_type = Some(name.to_owned());
        self
    }

    /// Sets any other field.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut LayerConfig)) -> Self {
        change(&mut self.config);
        self
    }
}

fn rename_in(parameters: &mut [(String, Vec<u64>)], old: &str, new: &str) {
    let found = parameters.iter_mut().find(|(name, _)| name == old);
    if let Some((name, _)) = found {
        *name = new.to_owned();
    }
}

impl ModelBuilder {
    pub(crate) fn new() -> Self {
        Self(ModelConfig {
            r#type: "nn".to_owned(),
            ..ModelConfig::default()
        })
    }

    /// A data layer.
    pub(crate) fn data(mut self, name: &str, size: u64) -> Self {
        self.0.input_layer_names.push(name.to_owned());
        self.layer(LayerBuilder::new("data", name, size))
    }

    /// A layer with its parameters; a parameter that already exists is shared.
    pub(crate) fn layer(mut self, layer: LayerBuilder) -> Self {
        for (name, dims) in layer.parameters {
            if self
                .0
                .parameters
                .iter()
                .all(|parameter| parameter.name != name)
            {
                self.0.parameters.push(ParameterConfig {
                    name,
                    size: dims.iter().product(),
                    dims,
                    ..ParameterConfig::default()
                });
            }
        }
        self.0.layers.push(layer.config);
        self
    }

    /// A fully connected layer with a bias; widths of inputs are looked up.
    pub(crate) fn fc(self, name: &str, inputs: &[&str], size: u64, act: &str) -> Self {
        let mut layer = LayerBuilder::new("fc", name, size).bias().act(act);
        for input in inputs {
            let width = self.size_of(input);
            layer = layer.weighted(input, &[width, size]);
        }
        self.layer(layer)
    }

    pub(crate) fn embedding(self, name: &str, input: &str, size: u64) -> Self {
        let words = self.size_of(input);
        self.layer(LayerBuilder::new("mixed", name, size).projected(
            input,
            "table",
            (words, size),
            &[words, size],
        ))
    }

    /// A squared-error cost named `cost`.
    pub(crate) fn square_error(self, prediction: &str, label: &str) -> Self {
        self.layer(
            LayerBuilder::new("square_error", "cost", 1)
                .input(prediction)
                .input(label),
        )
    }

    pub(crate) fn size_of(&self, layer: &str) -> u64 {
        self.0
            .layers
            .iter()
            .find(|config| config.name == layer)
            .map_or(0, LayerConfig::size)
    }

    /// Changes a parameter that already exists.
    pub(crate) fn parameter(
        mut self,
        name: &str,
        change: impl FnOnce(&mut ParameterConfig),
    ) -> Self {
        change(
            self.0
                .parameters
                .iter_mut()
                .find(|parameter| parameter.name == name)
                .unwrap(),
        );
        self
    }
}
