//! What a parameter carries from step to step beside its values and state: a few scalars.
//!
//! One [`Progress`] belongs to one parameter, whatever the number of blocks and servers it is cut into, because
//! v1's counter per block made the result depend on the cutting. It is saved with the state.

use serde::{Deserialize, Serialize};

use crate::average::{Turn, Windows};

/// The scalars of one parameter. A new parameter starts with the default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Batches begun; 0 before the first.
    pub step: u64,
    /// Samples of these batches, over all trainers.
    pub samples: u64,
    /// The present pass, from 0.
    pub pass: u64,
    /// The scheduled rate of the newest step; 0 before the first.
    pub rate: f64,
    /// Where the windows of the moving average stand.
    pub average: Windows,
}

/// What the updates of one batch need; made by [`crate::Rule::begin`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The number of the step, from 1.
    pub number: u64,
    /// The scheduled learning rate of this step.
    pub rate: f32,
    /// The rate with the method's own correction (Adam's bias, Torch's factor).
    pub(crate) method_rate: f32,
    pub(crate) average: Turn,
    /// The state of affairs before this step, for rows that missed some.
    pub(crate) before: Idle,
}

/// What catching up needs: up to where, and with which rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Idle {
    /// The last completed step.
    pub through: u64,
    /// The rate of that step; missed steps are charged with it, as v1 does.
    pub rate: f32,
    /// The two newest restarts of the average window.
    pub restarts: [u64; 2],
}

impl Idle {
    pub fn of(progress: &Progress) -> Self {
        Self {
            through: progress.step,
            rate: progress.rate as f32,
            restarts: progress.average.restarts,
        }
    }
}
