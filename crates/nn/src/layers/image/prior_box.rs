//! Prior boxes of a single-shot detector (`priorbox`).
//!
//! Inputs: a layer whose lines and columns are the positions of the boxes, and the image. Around the centre of every
//! position there is, for each `min_size`, a square of that side and one for each `max_size` with side
//! `√(min · max)`; then, for the last `min_size` `m`, boxes of `m√r × m/√r` for each aspect ratio `r` and `1/r`.
//! A box is eight values: left, top, right, bottom (as fractions of the image, clamped to it), then the four variances.
//! The output is one row, the same for all samples.

use std::sync::Arc;

use config::model::PriorBoxConfig;

use crate::build::ImageFrame;
use crate::domain::{Domain, Layout};
use crate::error::{BuildError, LayerError};
use crate::functions::clamp;
use crate::layer::{Backward, Build, Forward, Layer};

/// The boxes, computed once.
pub(crate) struct PriorBoxes {
    boxes: Vec<f32>,
}

/// Builds `priorbox`.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect_inputs(2..=2)?;
    let Some(conf) = &build.config.inputs[0].priorbox_conf else {
        return Err(build.error("its input has no priorbox_conf"));
    };
    build.expect(
        conf.variance.len() == 4 && !conf.min_size.is_empty(),
        || "it needs a min_size and four variances".to_owned(),
    )?;
    build.expect(conf.aspect_ratio.iter().all(|ratio| *ratio > 0.0), || {
        "aspect ratios must be positive".to_owned()
    })?;
    let frame = |input: usize| {
        let frame = build.input_frame(input);
        frame.ok_or_else(|| build.error(format!("input {input} does not say its height and width")))
    };
    let boxes = boxes(conf, frame(0)?, frame(1)?);
    build.expect(boxes.len() == build.size(), || {
        format!(
            "it has size {}, but its boxes need {}",
            build.size(),
            boxes.len()
        )
    })?;
    Ok(Box::new(PriorBoxes { boxes }))
}

fn boxes(conf: &PriorBoxConfig, places: ImageFrame, image: ImageFrame) -> Vec<f32> {
    let (height, width) = (image.height as f32, image.width as f32);
    let down = height / places.height as f32;
    let right = width / places.width as f32;
    let sides = sides(conf);
    let mut boxes = Vec::new();
    for y in 0..places.height {
        for x in 0..places.width {
            let (x, y) = ((x as f32 + 0.5) * right, (y as f32 + 0.5) * down);
            for side in &sides {
                let corners = [
                    (x - side.width / 2.0) / width,
                    (y - side.height / 2.0) / height,
                    (x + side.width / 2.0) / width,
                    (y + side.height / 2.0) / height,
                ];
                boxes.extend(corners.map(|corner| clamp(corner, 0.0, 1.0)));
                boxes.extend_from_slice(&conf.variance);
            }
        }
    }
    boxes
}

/// How large a box is.
struct BoxSides {
    width: f32,
    height: f32,
}

/// The boxes at one position.
fn sides(conf: &PriorBoxConfig) -> Vec<BoxSides> {
    let square = |side: f32| BoxSides {
        width: side,
        height: side,
    };
    let mut sides = Vec::new();
    for &min in &conf.min_size {
        sides.push(square(min as f32));
        for &max in &conf.max_size {
            sides.push(square((min as f32 * max as f32).sqrt()));
        }
    }
    let last = conf.min_size.last().map_or(0.0, |&min| min as f32);
    for ratio in conf
        .aspect_ratio
        .iter()
        .flat_map(|&ratio| [ratio, 1.0 / ratio])
    {
        if (ratio - 1.0).abs() >= 1e-6 {
            sides.push(BoxSides {
                width: last * ratio.sqrt(),
                height: last / ratio.sqrt(),
            });
        }
    }
    sides
}

impl Layer for PriorBoxes {
    fn is_differentiable(&self) -> bool {
        false
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let samples = pass.out.layout.domain.units;
        let domain = Domain {
            units: 1,
            of_sample: Some(vec![0; samples].into()),
        };
        pass.out.layout = Layout::units(Arc::new(domain));
        let out = pass.out.value_mut();
        out.resize(1, self.boxes.len());
        out.values_mut().copy_from_slice(&self.boxes);
        Ok(())
    }

    fn backward(&mut self, _: &mut Backward<'_>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_lie_around_the_places_and_inside_the_image() {
        let conf = PriorBoxConfig {
            min_size: vec![4],
            max_size: vec![9],
            aspect_ratio: vec![4.0],
            variance: vec![0.1, 0.1, 0.2, 0.2],
        };
        let frame = |height, width| ImageFrame { height, width };
        let boxes = boxes(&conf, frame(1, 2), frame(10, 20));
        let corners: Vec<&[f32]> = boxes.chunks_exact(8).map(|b| &b[..4]).collect();
        assert_eq!(corners.len(), 2 * 4);
        assert_eq!(corners[0], [0.15, 0.3, 0.35, 0.7]); // side 4 around (5, 5)
        assert_eq!(corners[1], [0.1, 0.2, 0.4, 0.8]); // side 6
        assert_eq!(corners[2], [0.05, 0.4, 0.45, 0.6]); // 8 x 2
        assert_eq!(corners[3], [0.2, 0.1, 0.3, 0.9]); // 2 x 8
        assert_eq!(corners[4], [0.65, 0.3, 0.85, 0.7]); // around (15, 5)
        assert_eq!(boxes[4..8], [0.1, 0.1, 0.2, 0.2]);
    }
}
