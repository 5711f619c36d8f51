//! Attention in a step of a recurrent group, as one layer (v1's `simple_attention` is five).
//!
//! ```text
//! yₜ = tanh(pₜ + s)          for every position of the sequence, s: the state, one row per sequence
//! w  = softmax over t of yₜ·v
//! c  = Σ wₜ eₜ
//! ```
//!
//! A step reads whole sequences for one row of state, so memory traffic decides: the layers alone would write the
//! expanded state, its sum with p, and the scaled e. Groups replace the five layers by this one ([`join`]).

use std::collections::HashMap;

use config::{LayerConfig, LayerInputConfig};
use rayon::prelude::*;

use crate::activation::{softmax_row, softmax_row_backward};
use crate::error::{BuildError, LayerError};
use crate::functions::tanh;
use crate::layer::{Backward, Build, Forward, Layer, Reads, full};
use crate::matrix::Matrix;
use crate::parameters::ParameterIndex;
use crate::product::{MatrixView, multiply};
use crate::simd;

/// The type of the joint layer; no configuration can name it.
pub(crate) const KIND: &str = "attention of a step";

/// Fewer values than this are not worth another thread.
const PARALLEL: usize = 1 << 16;

/// Attention with one row of state per sequence. Inputs: s, p and e.
pub(crate) struct Attention {
    size: usize,
    scores: ParameterIndex,
    /// y of every position.
    combined: Matrix,
    /// w of every position; in backward the gradients of the scores.
    weights: Matrix,
}

/// Builds the joint layer.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect_inputs(3..=3)?;
    let size = build.input_sizes[0];
    build.expect(build.input_sizes == [size, size, build.size()], || {
        format!("inputs have widths {:?}", build.input_sizes)
    })?;
    Ok(Box::new(Attention {
        size,
        scores: build.input_parameter(0, size)?,
        combined: Matrix::default(),
        weights: Matrix::default(),
    }))
}

impl Layer for Attention {
    fn reads(&self) -> Reads {
        Reads::Samples
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let state = pass.inputs.dense_of(0, self.size)?;
        let projected = pass.inputs.dense_of(1, self.size)?;
        let encoded = pass.inputs.dense(2)?;
        let sequences = pass.inputs.get(1).sequences(1)?.clone();
        pass.inputs.check_rows(0, sequences.len() - 1)?;
        pass.inputs.check_rows(2, projected.rows())?;
        let scores = pass.parameters.full(self.scores)?;
        let (rows, cols) = (state.rows(), encoded.cols());
        self.combined.resize(projected.rows(), self.size);
        self.weights.resize(projected.rows(), 1);
        let out = pass.out.value_mut();
        out.resize(rows, cols);
        let pieces: Vec<_> = self
            .combined
            .split_rows_mut(&sequences)
            .into_iter()
            .zip(self.weights.split_rows_mut(&sequences))
            .zip(out.iter_rows_mut())
            .enumerate()
            .map(|(unit, ((combined, weights), out))| (unit, combined, weights, out))
            .collect();
        each(
            pieces,
            encoded.values().len(),
            #[inline(always)]
            |(unit, combined, weights, out): (usize, &mut [f32], &mut [f32], &mut [f32])| {
                let start = sequences[unit] as usize;
                let state = state.row(unit);
                let positions = combined.chunks_exact_mut(self.size).zip(&mut *weights);
                for (position, (combined, weight)) in positions.enumerate() {
                    let projected = projected.row(start + position);
                    for j in 0..self.size {
                        combined[j] = tanh(projected[j] + state[j]);
                    }
                    *weight = simd::dot(combined, scores);
                }
                if !weights.is_empty() {
                    softmax_row(weights);
                }
                out.fill(0.0);
                for (position, &weight) in weights.iter().enumerate() {
                    simd::add_scaled(out, weight, encoded.row(start + position));
                }
            },
        );
        pass.out.layout = pass.out.layout.pooled();
        Ok(())
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        let scores = full(pass.parameters, self.scores);
        let Ok(sequences) = pass.inputs.get(1).sequences(1).cloned() else {
            unreachable!("forward read sequences")
        };
        let mut taken: Vec<Matrix> = Vec::new();
        for input in 0..3 {
            let source = pass.inputs.get_mut(input);
            source.grad_mut();
            taken.push(source.take_grad());
        }
        let [to_state, to_projected, to_encoded] = taken.as_mut_slice() else {
            unreachable!("three inputs")
        };
        let (encoded, grads) = (pass.inputs.get(2).value(), pass.out.grad());
        let (size, cols) = (self.size, encoded.cols());
        let (wants_projected, wants_encoded) =
            (pass.inputs.wants_grad(1), pass.inputs.wants_grad(2));
        type Piece<'a> = (
            usize,
            &'a mut [f32],
            &'a [f32],
            (&'a mut [f32], &'a mut [f32], &'a mut [f32]),
        );
        let combined = self.combined.values();
        let pieces: Vec<Piece<'_>> = self
            .weights
            .split_rows_mut(&sequences)
            .into_iter()
            .zip(to_state.iter_rows_mut())
            .zip(to_projected.split_rows_mut(&sequences))
            .zip(to_encoded.split_rows_mut(&sequences))
            .enumerate()
            .map(
                |(unit, (((weights, to_state), to_projected), to_encoded))| {
                    let range =
                        sequences[unit] as usize * size..sequences[unit + 1] as usize * size;
                    let grads = (to_state, to_projected, to_encoded);
                    (unit, weights, &combined[range], grads)
                },
            )
            .collect();
        each(
            pieces,
            encoded.values().len(),
            #[inline(always)]
            |(unit, weights, combined, (to_state, to_projected, to_encoded)): Piece<'_>| {
                let start = sequences[unit] as usize;
                let grad = grads.row(unit);
                let mut slopes = vec![0.0; weights.len()];
                for (position, &weight) in weights.iter().enumerate() {
                    slopes[position] = simd::dot(grad, encoded.row(start + position));
                    if wants_encoded {
                        simd::add_scaled(&mut to_encoded[position * cols..][..cols], weight, grad);
                    }
                }
                softmax_row_backward(&mut slopes, weights);
                weights.copy_from_slice(&slopes);
                let positions = combined.chunks_exact(size).zip(&slopes);
                for (position, (combined, &slope)) in positions.enumerate() {
                    if wants_projected {
                        let to_projected = &mut to_projected[position * size..][..size];
                        for j in 0..size {
                            let grad = slope * scores[j] * (1.0 - combined[j] * combined[j]);
                            to_projected[j] += grad;
                            to_state[j] += grad;
                        }
                    } else {
                        for j in 0..size {
                            to_state[j] += slope * scores[j] * (1.0 - combined[j] * combined[j]);
                        }
                    }
                }
            },
        );
        if let Some((to, mode)) = pass.gradients.dense(self.scores) {
            let (y, slopes) = (
                MatrixView::from(&self.combined),
                MatrixView::from(&self.weights),
            );
            multiply(to, y.t(), slopes, mode);
        }
        for (input, grad) in taken.into_iter().enumerate() {
            pass.inputs.get_mut(input).put_grad(grad);
        }
    }
}

/// Calls `work` for all pieces, on all threads if there is enough to do.
#[inline(always)]
fn each<T: Send>(pieces: Vec<T>, values: usize, work: impl Fn(T) + Send + Sync) {
    if values < PARALLEL || rayon::current_num_threads() == 1 {
        simd::vectorised(
            #[inline(always)]
            || {
                // `for_each` of a list is a function of its own, which would be compiled without the machine's vectors.
                for piece in pieces {
                    work(piece);
                }
            },
        );
        return;
    }
    pieces.into_par_iter().for_each(|piece| {
        simd::vectorised(
            #[inline(always)]
            || work(piece),
        );
    });
}

/// Replaces the five layers of an attention by the joint one, wherever nothing else reads what is between them.
/// `reads` is how often each layer is read.
pub(crate) fn join(layers: &mut Vec<LayerConfig>, reads: &HashMap<String, usize>) {
    let found: Vec<JointLayer> = layers
        .iter()
        .filter_map(|layer| joint(layer, layers, reads))
        .collect();
    for JointLayer { config, inner } in found {
        layers.retain(|layer| !inner.contains(&layer.name));
        if let Some(place) = layers.iter().position(|layer| layer.name == config.name) {
            layers[place] = config;
        }
    }
}

/// The layer that computes a whole attention.
struct JointLayer {
    /// It has the name of the last of the five layers.
    config: LayerConfig,
    /// The other four layers that it replaces.
    inner: [String; 4],
}

/// The joint layer for a sum over a sequence, if the sum ends an attention.
fn joint(
    sum: &LayerConfig,
    layers: &[LayerConfig],
    reads: &HashMap<String, usize>,
) -> Option<JointLayer> {
    let plain = |layer: &LayerConfig| {
        layer.bias_parameter_name().is_empty()
            && layer.drop_rate() <= 0.0
            && layer.error_clipping_threshold() <= 0.0
            && layer.operator_confs.is_empty()
    };
    let linear = |layer: &LayerConfig| matches!(layer.active_type(), "" | "linear");
    let once = |name: &str, kind: &str| {
        let layer = layers.iter().find(|layer| layer.name == name)?;
        (layer.r#type == kind && plain(layer) && reads.get(name) == Some(&1)).then_some(layer)
    };
    let name = |input: &LayerInputConfig| input.input_layer_name.clone();
    let is_sum = sum.r#type == "average"
        && sum.average_strategy() == "sum"
        && sum.trans_type() == "non-seq"
        && sum.seq_pool_stride() <= 0
        && plain(sum)
        && linear(sum);
    let [scaled] = sum.inputs.as_slice() else {
        return None;
    };
    if !is_sum {
        return None;
    }
    let scaled = once(&name(scaled), "scaling")?;
    let [weight, encoded] = scaled.inputs.as_slice() else {
        return None;
    };
    let weight = once(&name(weight), "fc").filter(|layer| {
        layer.size() == 1 && layer.active_type() == "sequence_softmax" && layer.inputs.len() == 1
    })?;
    let combined = once(&name(&weight.inputs[0]), "mixed")?;
    let [a, b] = combined.inputs.as_slice() else {
        return None;
    };
    let identity = |input: &LayerInputConfig| {
        let projection = input.proj_conf.as_ref();
        projection.is_some_and(|projection| projection.r#type == "identity")
    };
    if combined.active_type() != "tanh" || !identity(a) || !identity(b) {
        return None;
    }
    let (expanded, projected) = match once(&name(a), "expand") {
        Some(expanded) => (expanded, b),
        None => (once(&name(b), "expand")?, a),
    };
    let projected = name(projected);
    if expanded.trans_type() != "non-seq" || !linear(expanded) || projected == name(encoded) {
        return None;
    }
    let input = |layer: String, parameter: Option<String>| LayerInputConfig {
        input_layer_name: layer,
        input_parameter_name: parameter,
        ..LayerInputConfig::default()
    };
    let scores = weight.inputs[0].input_parameter_name.clone();
    let config = LayerConfig {
        name: sum.name.clone(),
        r#type: KIND.to_owned(),
        size: sum.size,
        inputs: vec![
            input(name(&expanded.inputs[0]), scores),
            input(projected, None),
            input(name(encoded), None),
        ],
        ..LayerConfig::default()
    };
    let inner = [scaled, weight, combined, expanded].map(|layer| layer.name.clone());
    Some(JointLayer { config, inner })
}
