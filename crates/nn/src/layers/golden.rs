//! Compares layers with their definitions as plain loops. A gradient check alone cannot find a wrong function whose
//! gradient is right.

use config::model::{BilinearInterpConfig, ImageConfig, MaxOutConfig, NormConfig, SppConfig};

use crate::gradient_check::{LayerBuilder, ModelBuilder};
use crate::noise::Noise;
use crate::{Batch, BatchUse, Network, ParameterValues, Parameters, Slot, SlotData};

const SAMPLES: usize = 2;

fn random(n: usize, seed: u64) -> Vec<f32> {
    let noise = Noise::new(seed);
    (0..n)
        .map(|i| noise.uniform(i as u64) * 2.0 - 1.0)
        .collect()
}

/// The output of layer `y` for two samples of each input: names and values.
fn run(layer: LayerBuilder, inputs: &[(&str, &[f32])], parameters: &[&[f32]]) -> Vec<f32> {
    let mut model = ModelBuilder::new();
    for (name, values) in inputs {
        model = model.data(name, (values.len() / SAMPLES) as u64);
    }
    let slots = inputs.iter().map(|(_, values)| {
        Slot::plain(SlotData::Dense {
            dim: values.len() / SAMPLES,
            values: values.to_vec(),
        })
    });
    run_slots(model.layer(layer), slots.collect(), parameters)
}

fn run_slots(model: ModelBuilder, slots: Vec<Slot>, parameters: &[&[f32]]) -> Vec<f32> {
    let mut network = Network::new(&model.0).unwrap();
    let parameters = Parameters(
        parameters
            .iter()
            .map(|values| ParameterValues::Full(values.to_vec()))
            .collect(),
    );
    let batch = Batch {
        samples: SAMPLES,
        slots,
    };
    network
        .forward(&parameters, &batch, BatchUse::Test)
        .unwrap();
    network.output("y").unwrap().to_dense().unwrap()
}

fn assert_near(got: &[f32], want: &[f64]) {
    assert_eq!(got.len(), want.len());
    for (got, want) in got.iter().zip(want) {
        assert!((f64::from(*got) - want).abs() < 1e-5, "{got} {want}");
    }
}

/// Indices (sample, channel, pixel) in rows of images.
fn places(channels: usize, pixels: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    let sample = move |n| (0..channels).flat_map(move |c| (0..pixels).map(move |p| (n, c, p)));
    (0..SAMPLES).flat_map(sample)
}

fn image(channels: u32, height: u32, width: u32) -> ImageConfig {
    ImageConfig {
        channels,
        img_size: width,
        img_size_y: Some(height),
    }
}

#[test]
fn response_norm_divides_by_the_channels_around() {
    let (channels, pixels) = (6, 4);
    let x = random(SAMPLES * channels * pixels, 1);
    for (size, before, after) in [(3, 1, 1), (4, 1, 2), (5, 2, 2), (1, 0, 0)] {
        let layer = LayerBuilder::new("norm", "y", 24).input("x").with(|c| {
            c.inputs[0].norm_conf = Some(NormConfig {
                norm_type: "cmrnorm-projection".into(),
                channels: 6,
                size,
                scale: 0.3,
                pow: 0.75,
                ..NormConfig::default()
            })
        });
        let at = |n: usize, c: usize, p: usize| f64::from(x[(n * channels + c) * pixels + p]);
        let want: Vec<f64> = places(channels, pixels)
            .map(|(n, c, p)| {
                let around = c.saturating_sub(before)..=(c + after).min(channels - 1);
                let squares: f64 = around.map(|c| at(n, c, p).powi(2)).sum();
                at(n, c, p) * (1.0 + 0.3 * squares).powf(-0.75)
            })
            .collect();
        assert_near(&run(layer, &[("x", &x)], &[]), &want);
    }
}

#[test]
fn cross_channel_norm_gives_every_pixel_its_scaled_direction() {
    let (channels, pixels) = (3, 4);
    let mut x = random(SAMPLES * channels * pixels, 2);
    for channel in 0..channels {
        x[channel * pixels] = 0.0;
    }
    let scale = [1.0, 2.0, -0.5];
    let layer = LayerBuilder::new("norm", "y", 12)
        .weighted("x", &[3, 1])
        .with(|c| {
            c.inputs[0].norm_conf = Some(NormConfig {
                norm_type: "cross-channel-norm".into(),
                channels: 3,
                ..NormConfig::default()
            })
        });
    let at = |n: usize, c: usize, p: usize| f64::from(x[(n * channels + c) * pixels + p]);
    let want: Vec<f64> = places(channels, pixels)
        .map(|(n, c, p)| {
            let length = (0..channels)
                .map(|c| at(n, c, p).powi(2))
                .sum::<f64>()
                .sqrt();
            if length > 0.0 {
                f64::from(scale[c]) * at(n, c, p) / length
            } else {
                0.0
            }
        })
        .collect();
    assert_near(&run(layer, &[("x", &x)], &[&scale]), &want);
}

#[test]
fn maxout_takes_the_greatest_of_neighbouring_channels() {
    let (groups, pixels) = (3, 4);
    let x = random(SAMPLES * 6 * pixels, 3);
    let layer = LayerBuilder::new("maxout", "y", 8).input("x").with(|c| {
        let image_conf = image(6, 2, 2);
        c.inputs[0].maxout_conf = Some(MaxOutConfig {
            image_conf,
            groups: 3,
        });
    });
    let want: Vec<f64> = places(2, pixels)
        .map(|(n, c, p)| {
            let channels = c * groups..(c + 1) * groups;
            channels
                .map(|c| f64::from(x[(n * 6 + c) * pixels + p]))
                .fold(f64::MIN, f64::max)
        })
        .collect();
    assert_near(&run(layer, &[("x", &x)], &[]), &want);
}

#[test]
fn a_pyramid_has_one_then_four_windows() {
    let layer = LayerBuilder::new("spp", "y", 10).input("x").with(|c| {
        c.inputs[0].spp_conf = Some(SppConfig {
            image_conf: image(2, 2, 4),
            pool_type: "max-projection".into(),
            pyramid_height: 2,
        })
    });
    let x: Vec<f32> = (1..=32).map(|x| x as f32).collect();
    let got = run(layer, &[("x", &x)], &[]);
    // whole channels first, then the quarters of each channel
    assert_eq!(
        got[..10],
        [8.0, 16.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0]
    );
}

#[test]
fn bilinear_interpolation_of_a_plane_is_the_plane() {
    let plane = |y: f32, x: f32| 1.0 + 2.0 * y - 3.0 * x;
    let (height, width) = (3, 4);
    let pixels = (0..height).flat_map(|y| (0..width).map(move |x| plane(y as f32, x as f32)));
    let one: Vec<f32> = pixels.collect();
    let x = [&one[..], &one[..]].concat();
    let layer = LayerBuilder::new("bilinear_interp", "y", 35)
        .input("x")
        .with(|c| {
            c.inputs[0].bilinear_interp_conf = Some(BilinearInterpConfig {
                image_conf: image(1, 3, 4),
                out_size_x: 7,
                out_size_y: 5,
            })
        });
    let places = (0..2).flat_map(|_| (0..5).flat_map(|y| (0..7).map(move |x| (y, x))));
    let want: Vec<f64> = places
        .map(|(y, x)| f64::from(plane(y as f32 / 2.0, x as f32 / 2.0)))
        .collect();
    assert_near(&run(layer, &[("x", &x)], &[]), &want);
}

#[test]
fn circular_convolution_wraps_around() {
    let (a, b) = (
        [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
        [1.0, 10.0, 100.0, 0.0, 1.0, 0.0],
    );
    let layer = LayerBuilder::new("conv_shift", "y", 4)
        .input("a")
        .input("b");
    let want = [214.0, 321.0, 432.0, 143.0, 5.0, 6.0, 7.0, 8.0];
    assert_near(&run(layer, &[("a", &a), ("b", &b)], &[]), &want);
}

#[test]
fn parametric_relu_scales_negative_numbers() {
    let x = [1.0, -2.0, -3.0, 4.0, -1.0, -1.0, 2.0, -4.0];
    let layer = LayerBuilder::new("prelu", "y", 4)
        .weighted("x", &[1, 2])
        .with(|c| c.partial_sum = Some(2));
    let want = [1.0, -1.0, -6.0, 4.0, -0.5, -0.5, 2.0, -8.0];
    assert_near(&run(layer, &[("x", &x)], &[&[0.5, 2.0]]), &want);
}

#[test]
fn a_tree_of_sigmoids_costs_the_logarithms_of_its_decisions() {
    let layer = LayerBuilder::new("hsigmoid", "y", 1)
        .weighted("x", &[2, 1])
        .input("l")
        .bias_of(2)
        .with(|c| c.num_classes = Some(3));
    let model = ModelBuilder::new().data("x", 1).data("l", 3).layer(layer);
    let values = vec![2.0, 3.0];
    let slots = vec![
        Slot::plain(SlotData::Dense { dim: 1, values }),
        Slot::plain(SlotData::Ids(vec![0, 1])),
    ];
    let got = run_slots(model, slots, &[&[0.5, -1.0], &[0.1, 0.2]]);
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    // class 0 is right at node 0, and one bit short; class 1 is left at node 1, then left at node 0
    let first = -sigmoid(0.5 * 2.0 + 0.1).ln() + 2f64.ln();
    let second = -(1.0 - sigmoid(-3.0 + 0.2)).ln() - (1.0 - sigmoid(0.5 * 3.0 + 0.1)).ln();
    assert_near(&got, &[first, second]);
}

#[test]
fn noise_contrast_costs_the_true_class_and_the_drawn_ones() {
    let layer = LayerBuilder::new("nce", "y", 1)
        .weighted("x", &[2, 1])
        .input("l")
        .bias_of(2)
        .act("sigmoid")
        .with(|c| (c.num_classes, c.num_neg_samples) = (Some(2), Some(3)))
        // class 1 is never drawn
        .with(|c| c.neg_sampling_dist = vec![1.0, 0.0]);
    let model = ModelBuilder::new().data("x", 1).data("l", 2).layer(layer);
    let values = vec![2.0, -1.0];
    let slots = vec![
        Slot::plain(SlotData::Dense { dim: 1, values }),
        Slot::plain(SlotData::Ids(vec![0, 0])),
    ];
    let got = run_slots(model, slots, &[&[0.5, 9.0], &[0.1, 9.0]]);
    let want = [2.0f64, -1.0].map(|x| {
        let o = 1.0 / (1.0 + (-(0.5 * x + 0.1)).exp());
        -(o / (o + 3.0)).ln() - 3.0 * (3.0 / (o + 3.0)).ln()
    });
    assert_near(&got, &want);
}
