//! How long is a training step of a small image network, compared with its convolutions alone?
//!
//! 64 images of 3 × 32 × 32; three blocks of convolution (3 × 3; 32, 64, 128 filters), batch normalisation with relu,
//! and max pooling (2 × 2); a softmax of 10 classes. Forward and backward, best of five, on rayon's default pool.
//! Run with `cargo bench -p canoe-nn --bench image_network`.
//!
//! 2026-11-15, 2 shared cores: convolutions 633 ms per step, with batch normalisation 743, with pooling (which makes
//! the images smaller) 64, with both 86 (750 images per second).

#![expect(clippy::print_stdout, reason = "a benchmark prints its numbers")]

use std::time::Instant;

use config::model::{ConvConfig, ImageConfig, PoolConfig};
use config::{LayerConfig, LayerInputConfig, ModelConfig, ParameterConfig};
use nn::{Batch, BatchUse, Gradients, Network, ParameterValues, Parameters, Slot, SlotData};

const SAMPLES: usize = 64;

/// What a block has besides its convolution.
#[derive(Clone, Copy)]
struct Parts {
    norm: bool,
    pool: bool,
}

fn main() {
    println!("network                        ms/step  images/s");
    for (name, norm, pool) in [
        ("convolutions", false, false),
        ("with batch normalisation", true, false),
        ("with pooling", false, true),
        ("with both", true, true),
    ] {
        let seconds = step(&model(Parts { norm, pool }));
        println!(
            "{name:<30} {:7.1} {:9.0}",
            seconds * 1e3,
            SAMPLES as f64 / seconds
        );
    }
}

fn step(model: &ModelConfig) -> f64 {
    let mut network = Network::new(model).expect("the model is complete");
    let values = |size: usize| {
        (0..size)
            .map(|i| ((i * 7919) % 1000) as f32 * 1e-4 - 0.05)
            .collect()
    };
    let specs = network.parameters();
    let parameters = Parameters(
        specs
            .iter()
            .map(|spec| ParameterValues::Full(values(spec.size())))
            .collect(),
    );
    let mut gradients = Gradients::new(network.parameters());
    let dim = 3 * 32 * 32;
    let batch = Batch {
        samples: SAMPLES,
        slots: vec![
            Slot::plain(SlotData::Dense {
                dim,
                values: values(SAMPLES * dim),
            }),
            Slot::plain(SlotData::Ids((0..SAMPLES as u32).map(|i| i % 10).collect())),
        ],
    };
    (0..6)
        .map(|_| {
            let start = Instant::now();
            network
                .forward(&parameters, &batch, BatchUse::Train { noise: 1 })
                .expect("the batch fits");
            network.backward(&parameters, &mut gradients, &mut |_, _| {});
            start.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min)
}

fn model(parts: Parts) -> ModelConfig {
    let mut model = ModelConfig {
        r#type: "nn".into(),
        input_layer_names: vec!["image".into(), "label".into()],
        ..ModelConfig::default()
    };
    model.layers.push(layer("data", "image", 3 * 32 * 32));
    model.layers.push(layer("data", "label", 10));
    let (mut below, mut channels, mut side) = ("image".to_owned(), 3, 32);
    for (block, filters) in [32, 64, 128].into_iter().enumerate() {
        below = convolution(&mut model, &below, (channels, side, filters), !parts.norm);
        if parts.norm {
            below = norm(&mut model, &below, (filters, side));
        }
        if parts.pool {
            below = pool(&mut model, &below, block, (filters, side));
            side /= 2;
        }
        channels = filters;
    }
    let mut top = layer("fc", "top", 10);
    top.active_type = Some("softmax".into());
    connect(
        &mut model,
        &mut top,
        &below,
        Some(u64::from(channels * side * side * 10)),
    );
    model.layers.push(top);
    let mut cost = layer("multi-class-cross-entropy", "cost", 1);
    connect(&mut model, &mut cost, "top", None);
    connect(&mut model, &mut cost, "label", None);
    model.layers.push(cost);
    model
}

fn layer(kind: &str, name: &str, size: u32) -> LayerConfig {
    LayerConfig {
        name: name.into(),
        r#type: kind.into(),
        size: Some(u64::from(size)),
        ..LayerConfig::default()
    }
}

fn connect(model: &mut ModelConfig, layer: &mut LayerConfig, below: &str, weight: Option<u64>) {
    let name = format!("_{}.w{}", layer.name, layer.inputs.len());
    layer.inputs.push(LayerInputConfig {
        input_layer_name: below.into(),
        input_parameter_name: weight.map(|_| name.clone()),
        ..LayerInputConfig::default()
    });
    if let Some(size) = weight {
        let dims = vec![1, size];
        model.parameters.push(ParameterConfig {
            name,
            size,
            dims,
            ..ParameterConfig::default()
        });
    }
}

fn convolution(model: &mut ModelConfig, below: &str, shape: (u32, u32, u32), relu: bool) -> String {
    let (channels, side, filters) = shape;
    let name = format!("conv{filters}");
    let mut conv = layer("exconv", &name, filters * side * side);
    conv.num_filters = Some(filters);
    conv.active_type = relu.then(|| "relu".into());
    connect(
        model,
        &mut conv,
        below,
        Some(u64::from(filters * channels * 9)),
    );
    conv.inputs[0].conv_conf = Some(ConvConfig {
        filter_size: 3,
        filter_size_y: 3,
        channels,
        stride: 1,
        stride_y: 1,
        padding: 1,
        padding_y: 1,
        groups: 1,
        filter_channels: channels,
        output_x: side,
        img_size: side,
        ..ConvConfig::default()
    });
    model.layers.push(conv);
    name
}

fn norm(model: &mut ModelConfig, below: &str, shape: (u32, u32)) -> String {
    let (channels, img_size) = shape;
    let name = format!("norm{channels}");
    let mut norm = layer("batch_norm", &name, channels * img_size * img_size);
    norm.active_type = Some("relu".into());
    for _ in 0..3 {
        connect(model, &mut norm, below, Some(u64::from(channels)));
    }
    for parameter in model.parameters.iter_mut().rev().take(2) {
        parameter.is_static = Some(true);
    }
    norm.inputs[0].image_conf = Some(ImageConfig {
        channels,
        img_size,
        img_size_y: None,
    });
    model.layers.push(norm);
    name
}

fn pool(model: &mut ModelConfig, below: &str, block: usize, shape: (u32, u32)) -> String {
    let (channels, img_size) = shape;
    let name = format!("pool{block}");
    let mut pool = layer("pool", &name, channels * img_size * img_size / 4);
    connect(model, &mut pool, below, None);
    pool.inputs[0].pool_conf = Some(PoolConfig {
        pool_type: "max-projection".into(),
        channels,
        size_x: 2,
        stride: 2,
        output_x: img_size / 2,
        img_size,
        ..PoolConfig::default()
    });
    model.layers.push(pool);
    name
}
