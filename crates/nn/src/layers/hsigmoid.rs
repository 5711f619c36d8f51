//! Hierarchical sigmoid (`hsigmoid`): the cost of a class as a path of binary decisions in a tree.
//!
//! The code of class `c` of `n` is the binary number `c + n` without its first 1. Bit `j` (from the lowest) is decided
//! by node `(c + n)/2^(j+1) - 1`, whose score is `s = Σ_inputs w[node] · x + b[node]`, clamped to ±40. The cost is
//! `Σ_j ln(1 + eˢ) - bit_j · s`, the negative logarithm of the class's probability. There are `n - 1` nodes.
//!
//! As in v1, codes that are shorter than the longest one cost `ln 2` more per missing bit; this is constant for
//! a class and changes no gradient.

use crate::error::{BuildError, LayerError};
use crate::functions::{clamp, exp, ln, sigmoid};
use crate::layer::{Backward, Build, Forward, Layer};
use crate::layers::few_classes::FewClasses;
use crate::row_gradient::Term;

const BOUND: f32 = 40.0;

/// The cost of a class in a binary tree.
pub(crate) struct HierarchicalSigmoid {
    classes: usize,
    nodes: FewClasses,
    /// The decisions of the last batch: node and sample; the scale is the derivative of the cost.
    decisions: Vec<Term>,
}

/// Builds `hsigmoid`: the inputs, then the labels.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    let inputs = build.input_sizes.len();
    build.expect(inputs >= 2, || "it needs an input and a label".to_owned())?;
    let classes = build.config.num_classes() as usize;
    build.expect(classes >= 2, || {
        format!("it needs at least 2 classes, not {classes}")
    })?;
    Ok(Box::new(HierarchicalSigmoid {
        classes,
        nodes: FewClasses::new(build, inputs - 1, classes - 1)?,
        decisions: Vec::new(),
    }))
}

/// The decisions on the way to a class: (node, bit).
fn path(class: u32, classes: usize) -> impl Iterator<Item = (u32, bool)> {
    let code = class as usize + classes;
    (0..code.ilog2()).map(move |bit| (((code >> (bit + 1)) - 1) as u32, code >> bit & 1 == 1))
}

impl Layer for HierarchicalSigmoid {
    fn is_cost(&self) -> bool {
        true
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let label = pass.inputs.len() - 1;
        let rows = pass.inputs.get(0).data.rows();
        pass.inputs.check_rows(label, rows)?;
        let labels = pass.inputs.get(label).ids(label)?;
        if let Some(&id) = labels.iter().find(|&&id| id as usize >= self.classes) {
            let limit = self.classes;
            return Err(LayerError::Id { id, limit });
        }
        self.decisions.clear();
        let mut bits = Vec::new();
        for (x, &class) in labels.iter().enumerate() {
            for (row, bit) in path(class, self.classes) {
                self.decisions.push(Term {
                    row,
                    scale: 0.0,
                    x: x as u32,
                });
                bits.push(bit);
            }
        }
        let sums = self.nodes.forward(pass, &self.decisions)?;
        let longest = (self.classes - 1).ilog2() + 1;
        let out = pass.out.value_mut();
        out.resize(rows, 1);
        for (cost, &class) in out
            .values_mut()
            .iter_mut()
            .zip(pass.inputs.get(label).ids(label)?)
        {
            let missing = longest - (class as usize + self.classes).ilog2();
            *cost = missing as f32 * std::f32::consts::LN_2;
        }
        for ((term, bit), sum) in self.decisions.iter_mut().zip(bits).zip(sums) {
            let score = clamp(sum, -BOUND, BOUND);
            let bit = if bit { 1.0 } else { 0.0 };
            out.values_mut()[term.x as usize] += ln(1.0 + exp(score)) - bit * score;
            term.scale = sigmoid(score) - bit;
        }
        Ok(())
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        self.nodes.backward(pass, &self.decisions);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_from_the_class_to_the_root() {
        let nodes = |class, classes| path(class, classes).collect::<Vec<_>>();
        assert_eq!(nodes(0, 4), [(1, false), (0, false)]);
        assert_eq!(nodes(3, 4), [(2, true), (0, true)]);
        assert_eq!(nodes(0, 3), [(0, true)]);
        assert_eq!(nodes(2, 3), [(1, true), (0, false)]);
    }

    #[test]
    fn the_probabilities_of_all_classes_sum_to_one() {
        for classes in 2..20 {
            let score = |node: u32| (node as f64 * 1.7).sin() * 3.0;
            let total: f64 = (0..classes as u32)
                .map(|class| {
                    let steps = path(class, classes).map(|(node, bit)| {
                        let up = 1.0 / (1.0 + (-score(node)).exp());
                        if bit { up } else { 1.0 - up }
                    });
                    steps.product::<f64>()
                })
                .sum();
            assert!((total - 1.0).abs() < 1e-12, "{classes}");
        }
    }
}
