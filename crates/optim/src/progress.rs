//! The scalars that are kept per parameter from step to step, besides its values and state.
//!
//! There is one [`ParameterProgress`] per parameter, whatever the number of blocks and servers over which the parameter
//! is distributed. (v1 had a counter per block, so its results depended on the number of blocks.) It is saved with the
//! state.

use serde::{Deserialize, Serialize};

use crate::average::{Turn, Windows};

/// The scalars of one parameter. A new parameter starts with the default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ParameterProgress {
    /// Number of batches begun; 0 before the first.
    pub step: u64,
    /// Number of samples in these batches, over all trainers.
    pub samples: u64,
    /// The current pass, from 0.
    pub pass: u64,
    /// The scheduled rate of the latest step; 0 before the first.
    pub rate: f64,
    /// The current windows of the moving average.
    pub average: Windows,
}

/// The scalars that the updates of one batch need; returned by [`crate::Rule::begin`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UpdateStep {
    /// The number of the step, from 1.
    pub number: u64,
    /// The scheduled learning rate of this step.
    pub rate: f32,
    /// The rate with the method's own correction (Adam's bias, Torch's factor).
    pub(crate) method_rate: f32,
    pub(crate) average: Turn,
    /// Progress before this step, for rows that missed steps.
    pub(crate) before: Idle,
}

/// The scalars that catching up needs: the last step, its rate, and the restarts of the average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Idle {
    /// The last completed step.
    pub through: u64,
    /// The rate of that step; it is used for missed steps too, as in v1.
    pub rate: f32,
    /// The two newest restarts of the average window.
    pub restarts: [u64; 2],
}

impl Idle {
    pub(crate) fn of(progress: &ParameterProgress) -> Self {
        Self {
            through: progress.step,
            rate: progress.rate as f32,
            restarts: progress.average.restarts,
        }
    }
}
