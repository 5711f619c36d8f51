//! Checks of whole image networks.

use config::model::{ConvConfig, ImageConfig, PoolConfig};

use super::{LayerBuilder, ModelBuilder, gradients, random_parameters};
use crate::{Batch, Network, Slot, SlotData};

/// Convolution, batch normalisation and pooling of 3 × 16 × 16.
fn model() -> ModelBuilder {
    let (side, filters) = (16, 8);
    let size = u64::from(filters * side * side);
    let conv = ConvConfig {
        filter_size: 3,
        filter_size_y: 3,
        channels: 3,
        stride: 1,
        stride_y: 1,
        padding: 1,
        padding_y: 1,
        groups: 1,
        filter_channels: 3,
        output_x: side,
        img_size: side,
        ..ConvConfig::default()
    };
    let norm = ImageConfig {
        channels: filters,
        img_size: side,
        img_size_y: None,
    };
    let pool = PoolConfig {
        pool_type: "max-projection".into(),
        channels: filters,
        size_x: 2,
        stride: 2,
        output_x: side / 2,
        img_size: side,
        ..PoolConfig::default()
    };
    ModelBuilder::new()
        .data("x", 768)
        .data("t", 3)
        .layer(
            LayerBuilder::new("exconv", "c", size)
                .weighted("x", &[1, 216])
                .bias_of(8)
                .with(|c| {
                    (c.num_filters, c.shared_biases) = (Some(filters), Some(true));
                    c.inputs[0].conv_conf = Some(conv);
                }),
        )
        .layer(
            LayerBuilder::new("batch_norm", "n", size)
                .weighted("c", &[1, 8])
                .weighted("c", &[1, 8])
                .weighted("c", &[1, 8])
                .bias_of(8)
                .act("relu")
                .with(|c| c.inputs[0].image_conf = Some(norm)),
        )
        .parameter("_n.w1", |p| p.is_static = Some(true))
        .parameter("_n.w2", |p| p.is_static = Some(true))
        .layer(
            LayerBuilder::new("pool", "p", size / 4)
                .input("n")
                .with(|c| c.inputs[0].pool_conf = Some(pool)),
        )
        .fc("y", &["p"], 3, "softmax")
        .layer(
            LayerBuilder::new("multi-class-cross-entropy", "cost", 1)
                .input("y")
                .input("t"),
        )
}

#[test]
fn threads_do_not_change_a_bit_of_an_image_network() {
    let (samples, dim) = (37, 768);
    let batch = Batch {
        samples,
        slots: vec![
            Slot::plain(SlotData::Dense {
                dim,
                values: (0..samples * dim)
                    .map(|i| (i * 7919 % 1009) as f32 / 1009.0)
                    .collect(),
            }),
            Slot::plain(SlotData::Ids((0..samples as u32).map(|i| i % 3).collect())),
        ],
    };
    let run = |threads| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| {
            let mut network = Network::new(&model().0).unwrap();
            let mut parameters = random_parameters(&network);
            let (gradients, cost) = gradients(&mut network, &parameters, &batch);
            network.assign(&mut parameters);
            (gradients, cost.to_bits(), parameters)
        })
    };
    let one = run(1);
    assert!([2, 3, 5].into_iter().all(|threads| run(threads) == one));
}
