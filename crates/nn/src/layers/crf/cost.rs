//! `crf`: `-ln p(labels | scores)` of each sequence, see [`Chain`].
//!
//! Inputs: scores of all classes (a sequence), labels (ids, the same sequence) and maybe a weight per sequence.
//! As in v1, `coeff` scales the gradient, not the cost that is reported.

use rayon::prelude::*;

use super::chain::Chain;
use crate::error::{BuildError, LayerError};
use crate::layer::{Backward, Build, Forward, Inputs, Layer};
use crate::parameters::ParameterIndex;

/// Number of parts of the sum over sequences, whatever the number of threads.
const PARTS: usize = 8;

/// The cost of a conditional random field.
pub(crate) struct CrfCost {
    classes: usize,
    parameter: ParameterIndex,
    coeff: f32,
    chain: Chain,
}

/// Builds `crf`.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect_inputs(2..=3)?;
    let classes = build.input_sizes[0];
    build.expect(classes >= 2, || {
        format!("it needs at least 2 classes, not {classes}")
    })?;
    Ok(Box::new(CrfCost {
        classes,
        parameter: build.input_parameter(0, Chain::parameter_size(classes))?,
        coeff: build.config.coeff() as f32,
        chain: Chain::default(),
    }))
}

/// Where the sequences of scores begin and end, and the label of every position.
pub(super) struct LabeledSequences<'a> {
    pub(super) offsets: &'a [u32],
    pub(super) labels: &'a [u32],
}

impl<'a> LabeledSequences<'a> {
    /// Returns an error unless scores and labels have the same sequences and every label is a class.
    pub(super) fn of(inputs: &'a Inputs<'_>, classes: usize) -> Result<Self, LayerError> {
        let scores = inputs.dense_of(0, classes)?;
        let offsets = inputs.get(0).sequences(0)?;
        let labels = inputs.get(1).ids(1)?;
        if inputs.get(1).sequences(1)? != offsets {
            let (got, want) = (labels.len(), scores.rows());
            return Err(LayerError::Rows {
                input: 1,
                got,
                want,
            });
        }
        match labels.iter().find(|&&label| label as usize >= classes) {
            Some(&id) => Err(LayerError::Id { id, limit: classes }),
            None => Ok(Self { offsets, labels }),
        }
    }
}

impl Layer for CrfCost {
    fn is_cost(&self) -> bool {
        true
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let LabeledSequences { offsets, labels } =
            LabeledSequences::of(&pass.inputs, self.classes)?;
        self.chain = Chain::new(self.classes, pass.parameters.full(self.parameter)?);
        let scores = pass.inputs.dense(0)?;
        let mut costs: Vec<f32> = offsets
            .par_windows(2)
            .map(|range| {
                let (start, end) = (range[0] as usize, range[1] as usize);
                let x = &scores.values()[start * self.classes..end * self.classes];
                self.chain.cost(x, &labels[start..end]) as f32
            })
            .collect();
        if pass.inputs.len() == 3 {
            pass.inputs.check_rows(2, costs.len())?;
            let weights = pass.inputs.dense_of(2, 1)?.values();
            costs
                .iter_mut()
                .zip(weights)
                .for_each(|(cost, weight)| *cost *= weight);
        }
        pass.out.layout = pass.out.layout.pooled();
        let out = pass.out.value_mut();
        out.resize(costs.len(), 1);
        out.values_mut().copy_from_slice(&costs);
        Ok(())
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        let Backward {
            inputs, gradients, ..
        } = pass;
        let weights: Option<Vec<f32>> =
            (inputs.len() == 3).then(|| inputs.get(2).value().values().to_vec());
        let labels = inputs
            .get(1)
            .ids(1)
            .map(<[u32]>::to_vec)
            .expect("forward checked the labels");
        let sequences = inputs
            .get(0)
            .sequences(0)
            .cloned()
            .expect("forward checked the sequences");
        let (grad, scores) = inputs.get_mut(0).grad_and_value();
        let (chain, classes) = (&self.chain, self.classes);
        let mut pieces = grad.split_rows_mut(&sequences);
        let size = pieces.len().div_ceil(PARTS).max(1);
        let sums: Vec<Vec<f64>> = pieces
            .par_chunks_mut(size)
            .enumerate()
            .map(|(part, pieces)| {
                let mut sum = vec![0.0; Chain::parameter_size(classes)];
                for (place, grad) in pieces.iter_mut().enumerate() {
                    let sequence = part * size + place;
                    let (start, end) = (
                        sequences[sequence] as usize,
                        sequences[sequence + 1] as usize,
                    );
                    let x = &scores.values()[start * classes..end * classes];
                    let scale =
                        self.coeff * weights.as_ref().map_or(1.0, |weights| weights[sequence]);
                    chain.add_gradient(x, &labels[start..end], scale, grad, &mut sum);
                }
                sum
            })
            .collect();
        if let Some(parameter) = gradients.dense_zeroed(self.parameter) {
            for (place, grad) in parameter.iter_mut().enumerate() {
                *grad += sums.iter().map(|sum| sum[place]).sum::<f64>() as f32;
            }
        }
    }
}
