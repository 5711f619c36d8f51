//! The methods: one file per method, with formula, state, deviations and tests.
//!
//! Symbols in their heads: `g` the clipped gradient, summed over the batch of all trainers; `w` the value; `lr` the
//! scheduled rate; `mu` the momentum coefficient; `mom` the momentum vector; `r` the method's step factor.

pub(crate) mod adadelta;
pub(crate) mod adagrad;
pub(crate) mod adam;
pub(crate) mod adamax;
pub(crate) mod add;
pub(crate) mod assign;
pub(crate) mod decayed_adagrad;
pub(crate) mod momentum;
#[cfg(test)]
mod reference;
pub(crate) mod rmsprop;
pub(crate) mod sparse_momentum;
pub(crate) mod torch_momentum;

use serde::{Deserialize, Serialize};

use crate::average;
use crate::progress::UpdateStep;
use crate::rows::Gap;

/// The update formula with its own constants; v1's names are in [`Method::NAMES`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Method {
    /// Gradient descent with momentum.
    Momentum,
    /// Momentum as Torch scales it.
    TorchMomentum,
    /// Momentum for rows that are seldom touched.
    SparseMomentum,
    /// Step factors from the sum of squared gradients.
    AdaGrad {
        /// Added under the root.
        epsilon: f64,
    },
    /// Step factors from running averages of squared gradients and squared changes.
    AdaDelta {
        /// Decay of the averages per step.
        rho: f64,
        /// Added to both averages.
        epsilon: f64,
    },
    /// Step factors from the running variance of the gradient.
    RmsProp {
        /// Decay of the averages per step.
        rho: f64,
        /// Added under the root.
        epsilon: f64,
    },
    /// Step factors from the running average of squared gradients.
    DecayedAdaGrad {
        /// Decay of the average per step.
        rho: f64,
        /// Added under the root.
        epsilon: f64,
    },
    /// Bias-corrected running moments.
    Adam {
        /// Decay of the first moment per step.
        beta1: f64,
        /// Decay of the second moment per step.
        beta2: f64,
        /// Added to the root.
        epsilon: f64,
    },
    /// Adam with the infinity norm.
    AdaMax {
        /// Decay of the first moment per step.
        beta1: f64,
        /// Decay of the norm per step.
        beta2: f64,
    },
    /// Adds the changes that trainers computed locally.
    Add {
        /// Factor on the changes.
        rate: f64,
    },
    /// Takes over values that a trainer computed: what layers maintain themselves.
    Assign,
}

impl Method {
    /// The values of v1's `learning_method`.
    pub const NAMES: [&'static str; 10] = [
        "momentum",
        "torch_momentum",
        "sparse_momentum",
        "adagrad",
        "adadelta",
        "rmsprop",
        "decayed_adagrad",
        "adam",
        "adamax",
        "add",
    ];

    /// State values per parameter value of the method itself, without momentum and average.
    pub(crate) fn slots(&self) -> usize {
        match self {
            Self::Momentum
            | Self::TorchMomentum
            | Self::SparseMomentum
            | Self::Add { .. }
            | Self::Assign => 0,
            Self::DecayedAdaGrad { .. } => 1,
            Self::AdaGrad { .. }
            | Self::AdaDelta { .. }
            | Self::RmsProp { .. }
            | Self::Adam { .. }
            | Self::AdaMax { .. } => 2,
        }
    }

    /// Whether the method uses the momentum coefficient.
    pub(crate) fn has_momentum(&self) -> bool {
        !matches!(
            self,
            Self::Adam { .. } | Self::AdaMax { .. } | Self::Add { .. } | Self::Assign
        )
    }

    /// The rate of the gradient in step number `step`, from the scheduled rate.
    pub(crate) fn rate(&self, rate: f64, momentum: f64, step: u64) -> f64 {
        match *self {
            Self::TorchMomentum => rate * torch_momentum::factor(momentum, step),
            Self::Adam { beta1, beta2, .. } => rate * adam::correction(beta1, beta2, step),
            Self::AdaMax { beta1, .. } => rate * adamax::correction(beta1, step),
            _ => rate,
        }
    }

    /// Whether L2 stays in the gradient when a row is touched; the others decay after the update, as in v1.
    pub(crate) fn rows_decay_by_gradient(&self) -> bool {
        matches!(self, Self::Adam { .. } | Self::AdaMax { .. })
    }

    /// Whether L1 and L2 are not applied: the changes or values that trainers send are already decayed.
    pub(crate) fn ignores_decay(&self) -> bool {
        matches!(self, Self::Add { .. } | Self::Assign)
    }

    /// The factor on a value in a step without gradient, for methods that decay between the steps of the momentum;
    /// `decay` is rate times L2.
    pub(crate) fn decay_per_step(&self, decay: f64) -> f64 {
        match self {
            Self::SparseMomentum => sparse_momentum::kept(decay),
            _ => 1.0,
        }
    }

    /// The step factor `r` of element `i`, from the method's state vectors of `dim` elements each.
    pub(crate) fn factor(&self, own: &[f32], i: usize, dim: usize) -> f32 {
        match *self {
            Self::AdaGrad { epsilon } => adagrad::factor(own[i], own[dim + i], epsilon as f32),
            Self::AdaDelta { epsilon, .. } => {
                adadelta::factor(own[i], own[dim + i], epsilon as f32)
            }
            Self::RmsProp { epsilon, .. } => rmsprop::factor(own[i], own[dim + i], epsilon as f32),
            Self::DecayedAdaGrad { epsilon, .. } => decayed_adagrad::factor(own[i], epsilon as f32),
            _ => 1.0,
        }
    }

    /// Whether the state of a row that no gradient reaches stays as it is, except for AdaGrad's regular move.
    pub(crate) fn rests(&self) -> bool {
        matches!(
            self,
            Self::Momentum
                | Self::TorchMomentum
                | Self::AdaGrad { .. }
                | Self::Adam { .. }
                | Self::AdaMax { .. }
                | Self::Add { .. }
                | Self::Assign
        )
    }

    /// Applies to the method's state the steps that did not touch the row.
    pub(crate) fn idle(&self, gap: &Gap, own: &mut [f32], dim: usize) {
        match *self {
            Self::AdaGrad { .. } if gap.through / average::FOLD > gap.from / average::FOLD => {
                adagrad::fold(own, dim);
            }
            Self::AdaDelta { rho, .. }
            | Self::RmsProp { rho, .. }
            | Self::DecayedAdaGrad { rho, .. } => {
                let kept = gap.power(rho) as f32;
                own.iter_mut().for_each(|average| *average *= kept);
            }
            _ => {}
        }
    }

    /// Whether this step ends with AdaGrad's sum moving into its long-term buffer.
    pub(crate) fn folds(&self, step: &UpdateStep) -> bool {
        matches!(self, Self::AdaGrad { .. }) && step.number.is_multiple_of(average::FOLD)
    }

    /// Moves AdaGrad's sum into its long-term buffer when it is due.
    pub(crate) fn fold(&self, step: &UpdateStep, dim: usize, state: &mut [f32]) {
        if self.folds(step) {
            adagrad::fold(&mut state[..2 * dim], dim);
        }
    }
}
