//! Layers that treat rows as images.

use config::model::{
    BilinearInterpConfig, BlockExpandConfig, ConvConfig, ImageConfig, MaxOutConfig, NormConfig,
    PadConfig, PoolConfig, SppConfig,
};

use crate::gradient_check::{Case, Feed, LayerBuilder, ModelBuilder};

/// An image layer on top of `h` (2 channels of 4 lines of 3 pixels), and a cost.
fn on_image(name: &str, layer: LayerBuilder) -> Case {
    let model = below()
        .layer(layer)
        .fc("y", &["m"], 2, "")
        .square_error("y", "t");
    Case::new(name, model, Feed::new().dense(2).dense(2).batch())
}

fn below() -> ModelBuilder {
    ModelBuilder::new()
        .data("x", 2)
        .data("t", 2)
        .fc("h", &["x"], 24, "")
}

fn layer(kind: &str, size: u64) -> LayerBuilder {
    LayerBuilder::new(kind, "m", size)
}

fn image() -> ImageConfig {
    ImageConfig {
        channels: 2,
        img_size: 3,
        img_size_y: Some(4),
    }
}

/// 3 × 2 filters with padding on two sides, stride 2 down: 2 × 4 positions.
fn conv(groups: u32) -> ConvConfig {
    ConvConfig {
        filter_size: 2,
        filter_size_y: 3,
        channels: 2,
        stride: 1,
        stride_y: 2,
        padding: 1,
        padding_y: 1,
        groups,
        filter_channels: 2 / groups,
        img_size: 3,
        img_size_y: Some(4),
        output_x: 4,
        output_y: Some(2),
        caffe_mode: true,
    }
}

/// Maps of 2 × 2 from `h` seen as 6 channels of 2 × 2, to images of 3 × 3.
fn conv_transposed(groups: u32) -> ConvConfig {
    ConvConfig {
        filter_size: 2,
        filter_size_y: 3,
        channels: 6,
        stride: 1,
        stride_y: 2,
        padding: 0,
        padding_y: 1,
        groups,
        filter_channels: 2 / groups,
        img_size: 3,
        img_size_y: Some(3),
        output_x: 2,
        output_y: Some(2),
        caffe_mode: true,
    }
}

fn pool(kind: &str) -> PoolConfig {
    PoolConfig {
        pool_type: kind.into(),
        channels: 2,
        size_x: 2,
        stride: 1,
        output_x: 3,
        img_size: 3,
        padding: Some(1),
        size_y: Some(3),
        stride_y: Some(2),
        output_y: Some(2),
        img_size_y: Some(4),
        padding_y: Some(0),
        ..PoolConfig::default()
    }
}

fn norm(kind: &str, size: u32) -> NormConfig {
    NormConfig {
        norm_type: kind.into(),
        channels: 6,
        size,
        scale: 0.3,
        pow: 0.75,
        output_x: 2,
        img_size: 2,
        ..NormConfig::default()
    }
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = with_corners();
    cases.extend(convolutions());
    cases.extend(mixed_convolutions());
    cases.extend(normalisations());
    cases.extend(movements());
    cases
}

/// Layers with corners, where differences need a small step.
fn with_corners() -> Vec<Case> {
    let mut cases = Vec::new();
    for kind in ["max-projection", "avg-projection"] {
        cases.push(on_image(
            kind,
            layer("pool", 12)
                .input("h")
                .with(|c| c.inputs[0].pool_conf = Some(pool(kind))),
        ));
        cases.push(on_image(
            "spatial pyramid",
            layer("spp", 10).input("h").with(|c| {
                c.inputs[0].spp_conf = Some(SppConfig {
                    image_conf: image(),
                    pool_type: kind.into(),
                    pyramid_height: 2,
                })
            }),
        ));
    }
    cases.push(on_image(
        "maxout",
        layer("maxout", 8).input("h").with(|c| {
            let image_conf = ImageConfig {
                channels: 6,
                img_size: 2,
                img_size_y: None,
            };
            c.inputs[0].maxout_conf = Some(MaxOutConfig {
                image_conf,
                groups: 3,
            });
        }),
    ));
    cases.push(on_image(
        "prelu",
        layer("prelu", 24)
            .weighted("h", &[1, 8])
            .with(|c| c.partial_sum = Some(3)),
    ));
    let untold = layer("prelu", 24).weighted("h", &[1, 12]);
    cases.push(on_image("prelu, sharing by its slopes", untold));
    cases.into_iter().map(|case| case.step(1e-3)).collect()
}

fn convolutions() -> Vec<Case> {
    let set = |conf: ConvConfig, filters: u32| {
        move |c: &mut config::LayerConfig| {
            c.num_filters = Some(filters);
            c.shared_biases = Some(true);
            c.inputs
                .iter_mut()
                .for_each(|input| input.conv_conf = Some(conf.clone()));
        }
    };
    vec![
        on_image(
            "convolution of two inputs, a bias for each filter",
            layer("exconv", 24)
                .weighted("h", &[12, 3])
                .weighted("h", &[12, 3])
                .bias_of(3)
                .act("tanh")
                .with(set(conv(1), 3)),
        ),
        on_image(
            "convolution in groups, a bias for each pixel",
            layer("cudnn_conv", 32)
                .weighted("h", &[6, 4])
                .bias()
                .with(set(conv(2), 4))
                .with(|c| c.shared_biases = None),
        ),
        on_image(
            "transposed convolution",
            layer("exconvt", 18)
                .weighted("h", &[6, 12])
                .bias_of(2)
                .act("sigmoid")
                .with(set(conv_transposed(1), 2)),
        ),
        on_image(
            "transposed convolution in groups",
            layer("exconvt", 18)
                .weighted("h", &[6, 6])
                .with(set(conv_transposed(2), 2)),
        ),
    ]
}

/// A mixed layer with a convolution, of `h` or with filters from `g`.
fn mixed_convolutions() -> Vec<Case> {
    let with_filters = |name: &str, mixed: LayerBuilder| {
        let model = below()
            .fc("g", &["x"], 36, "")
            .layer(mixed)
            .fc("y", &["m"], 2, "")
            .square_error("y", "t");
        Case::new(name, model, Feed::new().dense(2).dense(2).batch())
    };
    let mut cases = Vec::new();
    for (kind, conf, filters, size) in [
        ("conv", conv(1), 3, 24),
        ("convt", conv_transposed(1), 2, 18),
    ] {
        let weights = if kind == "conv" { 36 } else { 72 };
        let projection = layer("mixed", size)
            .projected("h", kind, (24, size), &[1, weights])
            .bias_of(filters as u64)
            .with(|c| {
                (c.shared_biases, c.bias_size) = (Some(true), Some(filters as u32));
                let proj = c.inputs[0].proj_conf.as_mut().unwrap();
                (proj.conv_conf, proj.num_filters) = (Some(conf.clone()), Some(filters));
            });
        cases.push(on_image("convolution as a projection", projection));
        let mut conf = conf;
        if kind == "convt" {
            // half the channels, so that 36 values are a filter
            (conf.channels, conf.img_size_y, conf.output_y) = (3, Some(7), Some(4));
        }
        let size = if kind == "conv" { 24 } else { 42 };
        let operator = layer("mixed", size)
            .input("h")
            .input("g")
            .operator(kind, &[0, 1], 1.0)
            .with(|c| {
                let operator = &mut c.operator_confs[0];
                (operator.conv_conf, operator.num_filters) = (Some(conf), Some(filters));
            });
        cases.push(with_filters("convolution as an operator", operator));
    }
    cases
}

fn normalisations() -> Vec<Case> {
    let batch_norm = |name: &str, channels: u64, act: &str| {
        let layer = layer("batch_norm", 24)
            .weighted("h", &[1, channels])
            .weighted("h", &[1, channels])
            .weighted("h", &[1, channels])
            .bias_of(channels)
            .act(act)
            .with(|c| {
                c.inputs[0].image_conf = Some(ImageConfig {
                    channels: channels as u32,
                    img_size: 1,
                    img_size_y: None,
                })
            });
        let model = below()
            .layer(layer)
            .parameter("_m.w1", |p| p.is_static = Some(true))
            .parameter("_m.w2", |p| p.is_static = Some(true))
            .fc("y", &["m"], 2, "")
            .square_error("y", "t");
        Case::new(name, model, Feed::new().positive(2).dense(2).batch())
    };
    let mut cases = vec![
        batch_norm("batch norm of images", 6, "tanh"),
        batch_norm("batch norm of columns", 24, "").step(1e-3),
        on_image(
            "cross-channel norm",
            layer("norm", 24)
                .weighted("h", &[6, 1])
                .with(|c| c.inputs[0].norm_conf = Some(norm("cross-channel-norm", 0))),
        ),
    ];
    for size in [3, 4] {
        cases.push(on_image(
            "response norm over channels",
            layer("norm", 24)
                .input("h")
                .with(|c| c.inputs[0].norm_conf = Some(norm("cmrnorm-projection", size))),
        ));
    }
    cases
}

fn movements() -> Vec<Case> {
    let block = BlockExpandConfig {
        channels: 2,
        stride_x: 2,
        stride_y: 1,
        padding_x: 1,
        padding_y: 0,
        block_x: 2,
        block_y: 3,
        output_x: 3,
        output_y: 2,
        img_size_x: 3,
        img_size_y: 4,
    };
    let blocks = layer("blockexpand", 12)
        .input("h")
        .with(|c| c.inputs[0].block_expand_conf = Some(block));
    let model = below()
        .layer(blocks)
        .layer(
            LayerBuilder::new("average", "p", 12)
                .input("m")
                .with(|c| c.average_strategy = Some("squarerootn".into())),
        )
        .fc("y", &["p"], 2, "")
        .square_error("y", "t");
    let batch = Feed::new().dense(2).dense(2).batch();
    vec![
        Case::new("blocks of an image as a sequence", model, batch),
        on_image(
            "rotation",
            layer("rotate", 24)
                .input("h")
                .with(|c| (c.height, c.width) = (Some(4), Some(3))),
        ),
        on_image(
            "padding",
            layer("pad", 120).input("h").with(|c| {
                c.inputs[0].pad_conf = Some(PadConfig {
                    image_conf: image(),
                    pad_c: vec![1, 1],
                    pad_h: vec![0, 2],
                    pad_w: vec![2, 0],
                })
            }),
        ),
        on_image(
            "bilinear interpolation",
            layer("bilinear_interp", 30).input("h").with(|c| {
                c.inputs[0].bilinear_interp_conf = Some(BilinearInterpConfig {
                    image_conf: image(),
                    out_size_x: 5,
                    out_size_y: 3,
                })
            }),
        ),
    ]
}
