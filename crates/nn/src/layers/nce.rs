//! Noise-contrastive estimation (`nce`): distinguish the true class from a few drawn at random, instead of from all.
//!
//! For each row the true classes (one, or those of a sparse label) and `num_neg_samples` drawn ones have
//! `o = act(Σ_inputs w[class] · x + b[class])`. With `q = num_neg_samples · p(class)` the cost is
//! `-ln(o/(o + q))` for a true class and `-ln(q/(o + q))` for a drawn one, times the row's weight. Classes are drawn
//! uniformly or from `neg_sampling_dist`; the draw is a pure function of the batch's noise seed, the layer, the row
//! and the index of the draw.

use crate::activation::Activation;
use crate::error::{BuildError, LayerError};
use crate::functions::ln;
use crate::layer::{Backward, Build, Forward, Layer};
use crate::layers::few_classes::FewClasses;
use crate::noise::Noise;
use crate::output::OutputValues;
use crate::row_gradient::Term;

/// The cost of a class against drawn ones.
pub(crate) struct NoiseContrast {
    classes: usize,
    /// Index of the label; the inputs are before it, a weight may come after it.
    label: usize,
    weights: FewClasses,
    draws: usize,
    distribution: Distribution,
    activation: Activation,
    /// Products of the last batch; the scale is the derivative of the cost.
    terms: Vec<Term>,
}

/// Builds `nce`: inputs with weights, then the labels, then maybe a weight per row.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    let config = build.config;
    let label = config
        .inputs
        .iter()
        .take_while(|input| !input.input_parameter_name().is_empty())
        .count();
    let count = config.inputs.len();
    build.expect(label >= 1 && (label + 1..=label + 2).contains(&count), || {
        format!("it needs inputs with parameters, a label and at most one weight; it has {label} of {count}")
    })?;
    let classes = config.num_classes() as usize;
    let draws = usize::try_from(config.num_neg_samples()).unwrap_or(0);
    build.expect(classes >= 1 && draws >= 1, || {
        format!("{classes} classes and {draws} draws are not usable")
    })?;
    let distribution = Distribution::new(classes, &config.neg_sampling_dist).ok_or_else(|| {
        build.error(format!(
            "neg_sampling_dist is not a distribution of {classes} classes"
        ))
    })?;
    Ok(Box::new(NoiseContrast {
        classes,
        label,
        weights: FewClasses::new(build, label, classes)?,
        draws,
        distribution,
        activation: build.gate(config.active_type())?,
        terms: Vec::new(),
    }))
}

impl NoiseContrast {
    /// True and drawn classes of all rows: terms, and whether each is true.
    fn choose(
        &mut self,
        label: &OutputValues,
        rows: usize,
        noise: Noise,
    ) -> Result<Vec<bool>, LayerError> {
        self.terms.clear();
        let mut is_true = Vec::new();
        for row in 0..rows {
            let classes: &[u32] = match label {
                OutputValues::Ids(ids) => &ids[row..=row],
                OutputValues::Sparse(sparse) => &sparse.columns[sparse.range(row)],
                OutputValues::Dense(_) => {
                    return Err(LayerError::Kind {
                        input: self.label,
                        got: label.kind(),
                        want: "ids or sparse rows",
                    });
                }
            };
            let drawn = (0..self.draws).map(|draw| {
                self.distribution
                    .draw(noise, (row * self.draws + draw) as u64)
            });
            let x = row as u32;
            for (class, truth) in classes
                .iter()
                .map(|&class| (class, true))
                .chain(drawn.map(|class| (class, false)))
            {
                self.terms.push(Term {
                    row: class,
                    scale: 0.0,
                    x,
                });
                is_true.push(truth);
            }
        }
        match self
            .terms
            .iter()
            .find(|term| term.row as usize >= self.classes)
        {
            Some(term) => Err(LayerError::Id {
                id: term.row,
                limit: self.classes,
            }),
            None => Ok(is_true),
        }
    }
}

impl Layer for NoiseContrast {
    fn is_cost(&self) -> bool {
        true
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let rows = pass.inputs.get(0).data.rows();
        for input in 1..pass.inputs.len() {
            pass.inputs.check_rows(input, rows)?;
        }
        let is_true = self.choose(&pass.inputs.get(self.label).data, rows, pass.noise)?;
        let sums = self.weights.forward(pass, &self.terms)?;
        let weights = match pass.inputs.len() > self.label + 1 {
            true => Some(pass.inputs.dense_of(self.label + 1, 1)?.values()),
            false => None,
        };
        let out = pass.out.value_mut();
        out.resize_zeroed(rows, 1);
        for ((term, is_true), sum) in self.terms.iter_mut().zip(is_true).zip(sums) {
            let o = self.activation.at(sum);
            let q = self.draws as f32 * self.distribution.probability(term.row);
            let weight = weights.map_or(1.0, |weights| weights[term.x as usize]);
            let (cost, slope) = match is_true {
                true => (-ln(o / (o + q)), -q / (o * (o + q))),
                false => (-ln(q / (o + q)), 1.0 / (o + q)),
            };
            out.values_mut()[term.x as usize] += weight * cost;
            term.scale = weight * slope * self.activation.slope(o);
        }
        Ok(())
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        self.weights.backward(pass, &self.terms);
    }
}

/// How classes are drawn.
enum Distribution {
    Uniform {
        classes: usize,
    },
    /// Probabilities, and their sums up to and with each class.
    Given {
        probabilities: Vec<f32>,
        sums: Vec<f64>,
    },
}

impl Distribution {
    /// Uniform if none is given; `None` if there is not one probability per class.
    fn new(classes: usize, given: &[f64]) -> Option<Self> {
        if given.is_empty() {
            return Some(Self::Uniform { classes });
        }
        let mut total = 0.0;
        let sums: Vec<f64> = given
            .iter()
            .map(|p| {
                total += p;
                total
            })
            .collect();
        let valid = given.len() == classes
            && given.iter().all(|p| *p >= 0.0)
            && total > 0.0
            && total.is_finite();
        valid.then(|| Self::Given {
            probabilities: given.iter().map(|&p| p as f32).collect(),
            sums,
        })
    }

    fn probability(&self, class: u32) -> f32 {
        match self {
            Self::Uniform { classes } => 1.0 / *classes as f32,
            Self::Given { probabilities, .. } => probabilities[class as usize],
        }
    }

    fn draw(&self, noise: Noise, index: u64) -> u32 {
        let bits = noise.bits(index);
        match self {
            Self::Uniform { classes } => ((u128::from(bits) * *classes as u128) >> 64) as u32,
            Self::Given { sums, .. } => {
                let total = sums[sums.len() - 1];
                let u = (bits >> 11) as f64 / (1u64 << 53) as f64 * total;
                sums.partition_point(|sum| *sum <= u).min(sums.len() - 1) as u32
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frequencies(distribution: &Distribution, classes: usize) -> Vec<f64> {
        let draws = 40_000;
        let mut counts = vec![0.0; classes];
        for index in 0..draws {
            counts[distribution.draw(Noise::new(3), index) as usize] += 1.0 / draws as f64;
        }
        counts
    }

    #[test]
    fn classes_are_drawn_as_often_as_they_should() {
        let given = [0.1, 0.0, 0.6, 0.3];
        let distribution = Distribution::new(4, &given).unwrap();
        for (got, want) in frequencies(&distribution, 4).iter().zip(given) {
            assert!((got - want).abs() < 0.01, "{got} {want}");
        }
        let uniform = Distribution::new(7, &[]).unwrap();
        assert!(
            frequencies(&uniform, 7)
                .iter()
                .all(|got| (got - 1.0 / 7.0).abs() < 0.01)
        );
    }

    #[test]
    fn what_is_no_distribution_is_refused() {
        assert!(Distribution::new(3, &[0.5, 0.5]).is_none());
        assert!(Distribution::new(2, &[1.5, -0.5]).is_none());
        assert!(Distribution::new(2, &[0.0, 0.0]).is_none());
        assert!(Distribution::new(2, &[f64::NAN, 1.0]).is_none());
    }
}
