//! `crf_decoding`: the most probable labels of each sequence, see [`Chain`].
//!
//! Without a second input the output is the labels. With one (the true labels) it is 1 where they differ and else 0;
//! evaluators of labels still see the labels.

use rayon::prelude::*;

use super::chain::Chain;
use super::cost::LabeledSequences;
use crate::error::{BuildError, LayerError};
use crate::layer::{Backward, Build, Forward, Layer, Reads};
use crate::parameters::ParameterIndex;

/// The best labels.
pub(crate) struct CrfDecoding {
    classes: usize,
    parameter: ParameterIndex,
}

/// Builds `crf_decoding`.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    build.expect_inputs(1..=2)?;
    let classes = build.input_sizes[0];
    build.expect(classes >= 2, || {
        format!("it needs at least 2 classes, not {classes}")
    })?;
    Ok(Box::new(CrfDecoding {
        classes,
        parameter: build.input_parameter(0, Chain::parameter_size(classes))?,
    }))
}

impl Layer for CrfDecoding {
    fn reads(&self) -> Reads {
        Reads::Samples
    }

    fn is_differentiable(&self) -> bool {
        false
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let chain = Chain::new(self.classes, pass.parameters.full(self.parameter)?);
        let scores = pass.inputs.dense_of(0, self.classes)?;
        let sequences = pass.inputs.get(0).sequences(0)?;
        let decoded: Vec<Vec<u32>> = sequences
            .par_windows(2)
            .map(|range| {
                let (start, end) = (range[0] as usize, range[1] as usize);
                let mut labels = vec![0; end - start];
                chain.decode(
                    &scores.values()[start * self.classes..end * self.classes],
                    &mut labels,
                );
                labels
            })
            .collect();
        let decoded = decoded.concat();
        if pass.inputs.len() == 1 {
            *pass.out.ids_mut() = decoded;
            return Ok(());
        }
        let LabeledSequences { labels, .. } = LabeledSequences::of(&pass.inputs, self.classes)?;
        let out = pass.out.value_mut();
        out.resize(decoded.len(), 1);
        for ((error, got), want) in out.values_mut().iter_mut().zip(&decoded).zip(labels) {
            *error = if got == want { 0.0 } else { 1.0 };
        }
        pass.out.beside = decoded;
        Ok(())
    }

    fn backward(&mut self, _: &mut Backward<'_>) {}
}

#[cfg(test)]
mod tests {
    use crate::gradient_check::{LayerBuilder, ModelBuilder};
    use crate::{Batch, BatchUse, Network, ParameterValues, Parameters, Slot, SlotData};

    /// Two classes; staying in a class is worth 1, the start must be class 1.
    #[test]
    fn labels_or_errors_come_out() {
        let decoding =
            |name: &str| LayerBuilder::new("crf_decoding", name, 2).weighted("x", &[4, 2]);
        let model = ModelBuilder::new()
            .data("x", 2)
            .data("l", 2)
            .layer(decoding("labels"))
            .layer(decoding("errors").input("l"));
        let mut network = Network::new(&model.0).unwrap();
        let weight = ParameterValues::Full(vec![-9.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0]);
        let sequence = |data| Slot::sequence(data, vec![0, 3, 3, 4]);
        let values = vec![5.0, 0.0, 0.6, 0.0, 3.0, 0.0, 1.0, 0.0];
        let batch = Batch {
            samples: 3,
            slots: vec![
                sequence(SlotData::Dense { dim: 2, values }),
                sequence(SlotData::Ids(vec![1, 1, 0, 1])),
            ],
        };
        network
            .forward(
                &Parameters(vec![weight.clone(), weight]),
                &batch,
                BatchUse::Test,
            )
            .unwrap();
        let (labels, errors) = (
            network.output("labels").unwrap(),
            network.output("errors").unwrap(),
        );
        assert_eq!(
            (0..4)
                .map(|row| labels.id(row).unwrap())
                .collect::<Vec<_>>(),
            [1, 0, 0, 1]
        );
        assert_eq!(errors.to_dense().unwrap(), [0.0, 1.0, 0.0, 0.0]);
        assert_eq!(
            (0..4)
                .map(|row| errors.label(row).unwrap())
                .collect::<Vec<_>>(),
            [1, 0, 0, 1]
        );
        assert_eq!(labels.sequences().unwrap(), [0, 3, 3, 4]);
    }
}
