//! Connectionist temporal classification (`ctc`, `warp_ctc`): labels without positions in time.
//!
//! The cost of a sequence is `-ln` of the probability of its labels, summed over all ways to stretch them over the
//! steps of the input, with blanks between them (see [`alignment`]). `ctc` reads probabilities (a softmax) and its
//! blank is the last class; `warp_ctc` reads the input of a softmax, and `blank` is the index of its blank class.
//!
//! As in v1, a sequence that is too short for its labels costs nothing, and `norm_by_times` divides the gradient (not
//! the cost) by the number of steps. Unlike v1, the cost of long sequences does not stop at 87.

pub(crate) mod alignment;

use rayon::prelude::*;

use self::alignment::Alignment;
use crate::error::{BuildError, LayerError};
use crate::layer::{Backward, Build, Forward, Layer};

/// The cost of unaligned labels.
pub(crate) struct Ctc {
    classes: usize,
    blank: u32,
    norm_by_times: bool,
    /// Whether the input already is probabilities.
    softmax_below: bool,
}

/// Builds `ctc`.
pub(crate) fn build(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    let last = build
        .input_sizes
        .first()
        .map_or(0, |classes| classes.saturating_sub(1));
    Ctc::boxed(build, last, true)
}

/// Builds `warp_ctc`.
pub(crate) fn build_warp(build: &mut Build<'_>) -> Result<Box<dyn Layer>, BuildError> {
    Ctc::boxed(build, build.config.blank() as usize, false)
}

impl Ctc {
    fn boxed(
        build: &Build<'_>,
        blank: usize,
        softmax_below: bool,
    ) -> Result<Box<dyn Layer>, BuildError> {
        build.expect_inputs(2..=2)?;
        let classes = build.input_sizes[0];
        build.expect(classes >= 2 && blank < classes, || {
            format!("it needs at least 2 classes, one of them blank; it has {classes} and blank is {blank}")
        })?;
        Ok(Box::new(Self {
            classes,
            blank: blank as u32,
            norm_by_times: build.config.norm_by_times(),
            softmax_below,
        }))
    }

    /// Logarithms of the probabilities of all classes at all steps.
    fn log_probabilities(&self, x: &[f32]) -> Vec<f64> {
        let mut logs: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
        for row in logs.chunks_exact_mut(self.classes) {
            if self.softmax_below {
                row.iter_mut().for_each(|x| {
                    *x = if *x > 0.0 {
                        libm::log(*x)
                    } else {
                        f64::NEG_INFINITY
                    }
                });
            } else {
                let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let total: f64 = row.iter().map(|x| libm::exp(x - max)).sum();
                let log_total = max + libm::log(total);
                row.iter_mut().for_each(|x| *x -= log_total);
            }
        }
        logs
    }

    /// Adds the gradient of one sequence.
    fn add_gradient(&self, x: &[f32], labels: &[u32], grad: &mut [f32]) {
        let logs = self.log_probabilities(x);
        let Some(alignment) = Alignment::new(&logs, self.classes, labels, self.blank) else {
            return;
        };
        let steps = x.len() / self.classes;
        let scale = if self.norm_by_times {
            1.0 / steps as f64
        } else {
            1.0
        };
        let chances = alignment.chances();
        for (place, grad) in grad.iter_mut().enumerate() {
            let (log, chance) = (logs[place], chances[place]);
            let slope = match self.softmax_below {
                true if chance > 0.0 => -chance / libm::exp(log),
                true => 0.0,
                false => libm::exp(log) - chance,
            };
            *grad += (scale * slope) as f32;
        }
    }
}

impl Layer for Ctc {
    fn is_cost(&self) -> bool {
        true
    }

    fn forward(&mut self, pass: &mut Forward<'_>) -> Result<(), LayerError> {
        let x = pass.inputs.dense_of(0, self.classes)?;
        let steps = pass.inputs.get(0).sequences(0)?;
        let labels = pass.inputs.get(1).ids(1)?;
        let places = pass.inputs.get(1).sequences(1)?;
        if places.len() != steps.len() {
            let (got, want) = (places.len() - 1, steps.len() - 1);
            return Err(LayerError::Rows {
                input: 1,
                got,
                want,
            });
        }
        if let Some(&id) = labels
            .iter()
            .find(|&&label| label as usize >= self.classes || label == self.blank)
        {
            let (limit, blank) = (self.classes, self.blank);
            return Err(LayerError::Value(format!(
                "label {id} is blank ({blank}) or not one of {limit} classes"
            )));
        }
        let costs: Vec<f32> = steps
            .par_windows(2)
            .zip(places.par_windows(2))
            .map(|(steps, places)| {
                let x =
                    &x.values()[steps[0] as usize * self.classes..steps[1] as usize * self.classes];
                let labels = &labels[places[0] as usize..places[1] as usize];
                let logs = self.log_probabilities(x);
                Alignment::new(&logs, self.classes, labels, self.blank)
                    .map_or(0.0, |alignment| alignment.cost() as f32)
            })
            .collect();
        pass.out.layout = pass.out.layout.pooled();
        let out = pass.out.value_mut();
        out.resize(costs.len(), 1);
        out.values_mut().copy_from_slice(&costs);
        Ok(())
    }

    fn backward(&mut self, pass: &mut Backward<'_>) {
        if !pass.inputs.wants_grad(0) {
            return;
        }
        let labels = pass
            .inputs
            .get(1)
            .ids(1)
            .map(<[u32]>::to_vec)
            .expect("forward checked the labels");
        let places = pass
            .inputs
            .get(1)
            .sequences(1)
            .cloned()
            .expect("forward checked the sequences");
        let steps = pass
            .inputs
            .get(0)
            .sequences(0)
            .cloned()
            .expect("forward checked the sequences");
        let (grad, x) = pass.inputs.get_mut(0).grad_and_value();
        grad.split_rows_mut(&steps)
            .into_par_iter()
            .enumerate()
            .for_each(|(sequence, grad)| {
                let (start, end) = (steps[sequence] as usize, steps[sequence + 1] as usize);
                let labels = &labels[places[sequence] as usize..places[sequence + 1] as usize];
                self.add_gradient(
                    &x.values()[start * self.classes..end * self.classes],
                    labels,
                    grad,
                );
            });
    }
}
