//! The networks that are timed, as their `trainer_config.py` would describe them.

use config::{LayerConfig, LayerInputConfig, ModelConfig, ParameterConfig, ProjectionConfig};

struct Model(ModelConfig);

impl Model {
    fn new() -> Self {
        Self(ModelConfig::default())
    }

    fn size_of(&self, name: &str) -> u64 {
        self.0
            .layers
            .iter()
            .find(|layer| layer.name == name)
            .map_or(0, LayerConfig::size)
    }

    fn parameter(&mut self, name: &str, dims: &[u64]) -> Option<String> {
        self.0.parameters.push(ParameterConfig {
            name: name.to_owned(),
            size: dims.iter().product(),
            dims: dims.to_vec(),
            ..ParameterConfig::default()
        });
        Some(name.to_owned())
    }

    fn data(&mut self, name: &str, size: u64) {
        self.0.input_layer_names.push(name.to_owned());
        self.layer("data", name, size, "", Vec::new(), None);
    }

    fn layer(
        &mut self,
        kind: &str,
        name: &str,
        size: u64,
        act: &str,
        inputs: Vec<LayerInputConfig>,
        bias: Option<String>,
    ) {
        self.0.layers.push(LayerConfig {
            name: name.to_owned(),
            r#type: kind.to_owned(),
            size: Some(size),
            active_type: Some(act.to_owned()),
            inputs,
            bias_parameter_name: bias,
            ..LayerConfig::default()
        });
    }

    fn plain(&mut self, kind: &str, name: &str, size: u64, inputs: &[&str]) {
        let inputs = inputs.iter().map(|input| edge(input)).collect();
        self.layer(kind, name, size, "", inputs, None);
    }

    fn fc(&mut self, name: &str, inputs: &[&str], size: u64, act: &str) {
        let mut edges = Vec::new();
        for (index, input) in inputs.iter().enumerate() {
            let dims = [self.size_of(input), size];
            let mut edge = edge(input);
            edge.input_parameter_name = self.parameter(&format!("_{name}.w{index}"), &dims);
            edges.push(edge);
        }
        let bias = self.parameter(&format!("_{name}.wbias"), &[1, size]);
        self.layer("fc", name, size, act, edges, bias);
    }

    fn projected(&mut self, name: &str, input: &str, kind: &str, size: u64) {
        let from = self.size_of(input);
        let mut edge = edge(input);
        edge.input_parameter_name = self.parameter(&format!("_{name}.w0"), &[from, size]);
        edge.proj_conf = Some(ProjectionConfig {
            r#type: kind.to_owned(),
            input_size: from,
            output_size: size,
            ..ProjectionConfig::default()
        });
        self.layer("mixed", name, size, "", vec![edge], None);
    }

    fn window(&mut self, name: &str, input: &str, length: u64) {
        let from = self.size_of(input);
        let mut edge = edge(input);
        edge.proj_conf = Some(ProjectionConfig {
            r#type: "context".to_owned(),
            input_size: from,
            output_size: from * length,
            context_start: Some(-((length as i32 - 1) / 2)),
            context_length: Some(length as i32),
            ..ProjectionConfig::default()
        });
        self.layer("mixed", name, from * length, "", vec![edge], None);
    }

    fn classify(mut self, input: &str) -> ModelConfig {
        self.data("label", 2);
        self.fc("output", &[input], 2, "softmax");
        self.plain("multi-class-cross-entropy", "cost", 1, &["output", "label"]);
        self.0
    }
}

fn edge(input: &str) -> LayerInputConfig {
    LayerInputConfig {
        input_layer_name: input.to_owned(),
        ..LayerInputConfig::default()
    }
}

/// Four layers of 256, tanh, squared error.
pub(crate) fn mlp() -> ModelConfig {
    let mut model = Model::new();
    model.data("x", 256);
    model.data("t", 256);
    for (index, input) in ["x", "h0", "h1", "h2"].iter().enumerate() {
        model.fc(&format!("h{index}"), &[input], 256, "tanh");
    }
    model.plain("square_error", "cost", 1, &["h3", "t"]);
    model.0
}

/// The recommendation demo.
pub(crate) fn recommendation() -> ModelConfig {
    let mut model = Model::new();
    let slots = [
        ("movie", 3952),
        ("title", 5000),
        ("genres", 18),
        ("gender", 2),
        ("age", 7),
        ("job", 21),
        ("user", 6040),
        ("rating", 1),
    ];
    for (name, size) in slots {
        model.data(name, size);
    }
    for name in ["movie", "gender", "age", "job", "user"] {
        model.projected(&format!("{name}_emb"), name, "table", 256);
        model.fc(
            &format!("{name}_fc"),
            &[&format!("{name}_emb")],
            256,
            "tanh",
        );
    }
    model.projected("title_emb", "title", "table", 256);
    model.window("title_window", "title_emb", 5);
    model.fc("title_conv", &["title_window"], 256, "tanh");
    model.plain("max", "title_pool", 256, &["title_conv"]);
    model.fc("genres_fc", &["genres"], 256, "tanh");
    model.fc(
        "movie_fusion",
        &["movie_fc", "title_pool", "genres_fc"],
        256,
        "tanh",
    );
    model.fc(
        "user_fusion",
        &["user_fc", "gender_fc", "age_fc", "job_fc"],
        256,
        "tanh",
    );
    model.plain("cos", "similarity", 1, &["movie_fusion", "user_fusion"]);
    model.plain("square_error", "cost", 1, &["similarity", "rating"]);
    model.0
}

/// quick_start's convolution over words.
pub(crate) fn cnn() -> ModelConfig {
    let mut model = Model::new();
    model.data("word", 30_000);
    model.projected("emb", "word", "table", 128);
    model.window("window", "emb", 3);
    model.fc("conv", &["window"], 512, "tanh");
    model.plain("max", "pool", 512, &["conv"]);
    model.classify("pool")
}

/// quick_start's LSTM.
pub(crate) fn lstm() -> ModelConfig {
    let mut model = Model::new();
    model.data("word", 30_000);
    model.projected("emb", "word", "table", 128);
    model.projected("gates", "emb", "fc", 512);
    let mut edge = edge("gates");
    edge.input_parameter_name = model.parameter("_lstm.w0", &[128, 128, 4]);
    let bias = model.parameter("_lstm.wbias", &[1, 896]);
    model.layer("lstmemory", "lstm", 128, "tanh", vec![edge], bias);
    if let Some(layer) = model.0.layers.last_mut() {
        layer.active_gate_type = Some("sigmoid".to_owned());
        layer.active_state_type = Some("tanh".to_owned());
        layer.drop_rate = Some(0.25);
    }
    model.plain("max", "pool", 128, &["lstm"]);
    model.classify("pool")
}

/// quick_start's logistic regression.
pub(crate) fn lr() -> ModelConfig {
    let mut model = Model::new();
    model.data("word", 30_000);
    model.classify("word")
}
