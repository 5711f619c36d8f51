//! The common part of the layers that multiply each row with only a few rows of a large weight: `hsigmoid`, `nce`,
//! `selective_fc`.
//!
//! A [`Term`] is one product, of a row of an input and a row of a weight (`classes × width`). The same terms read the
//! bias, one value per class.

use crate::error::{BuildError, LayerError};
use crate::layer::{Backward, Build, Forward, full};
use crate::parameters::ParameterIndex;
use crate::row_gradient::{RowGradient, Term, add_weights, products};

/// The weights of all inputs, and the bias.
pub(super) struct FewClasses {
    weights: Vec<(ParameterIndex, usize, RowGradient)>,
    bias: Option<ParameterIndex>,
}

impl FewClasses {
    /// The weights of the first `inputs` inputs of a layer, for `classes` classes.
    pub(super) fn new(
        build: &mut Build<'_>,
        inputs: usize,
        classes: usize,
    ) -> Result<Self, BuildError> {
        let mut weights = Vec::new();
        for input in 0..inputs {
            let width = build.input_sizes[input];
            let parameter = build.input_parameter(input, classes * width)?;
            weights.push((parameter, width, RowGradient::default()));
        }
        let bias = build.bias(classes)?;
        Ok(Self { weights, bias })
    }

    /// The sum of bias and products for each term.
    pub(super) fn forward(
        &self,
        pass: &Forward<'_>,
        terms: &[Term],
    ) -> Result<Vec<f32>, LayerError> {
        let mut sums = vec![0.0; terms.len()];
        if let Some(bias) = self.bias {
            let bias = pass.parameters.full(bias)?;
            sums.iter_mut()
                .zip(terms)
                .for_each(|(sum, term)| *sum = bias[term.row as usize]);
        }
        let rows = pass.inputs.get(0).data.rows();
        for (input, (parameter, width, _)) in self.weights.iter().enumerate() {
            pass.inputs.check_rows(input, rows)?;
            let x = pass.inputs.dense_of(input, *width)?;
            products(&mut sums, terms, pass.parameters.full(*parameter)?, x);
        }
        Ok(sums)
    }

    /// Adds to all gradients; the scale of a term is the gradient of its sum.
    pub(super) fn backward(&mut self, pass: &mut Backward<'_>, terms: &[Term]) {
        if let Some(bias) = self.bias.and_then(|bias| pass.gradients.dense_zeroed(bias)) {
            terms
                .iter()
                .for_each(|term| bias[term.row as usize] += term.scale);
        }
        for (input, (parameter, _, gradient)) in self.weights.iter_mut().enumerate() {
            let spec = &pass.specs[parameter.0];
            let source = pass.inputs.get_mut(input);
            gradient
                .add(pass.gradients, *parameter, spec, terms, source.value())
                .expect("forward checked that all classes exist");
            if source.wants_grad {
                add_weights(source.grad_mut(), terms, full(pass.parameters, *parameter));
            }
        }
    }
}
