//! A [`Rule`]: everything that decides how one parameter changes, and the calls that change it.
//!
//! A rule is plain data: it is sent to the parameter servers when a table is created. The caller stores the state,
//! `slots()` floats per value, one state vector after the other: for a piece of `n` values, `state[s*n..(s+1)*n]` is
//! vector `s`. First come the method's own vectors, then the momentum (only if it is not zero), then the three sums of
//! the average.
//!
//! The order of calls for a parameter: `start_pass`, then for each batch `begin` once and `update` for every block (or
//! `update_row` for every touched row), then `finish_pass`. `catch_up` comes before a row is read.

use serde::{Deserialize, Serialize};

use crate::average::{self, Average};
use crate::elements::{self, CommonCoefficients, One, ParameterPiece, ParameterPieces};
use crate::method::Method;
use crate::progress::{Idle, ParameterProgress, UpdateStep};
use crate::rows::{self, Scattered, Touched, TouchedRows};
use crate::schedule::Schedule;

/// Everything that decides how one parameter changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// The update formula and its own constants.
    pub method: Method,
    /// The rate before the schedule, per summed gradient.
    pub learning_rate: f64,
    /// The parameter's own factor on the rate (`ParamAttr.learning_rate`).
    pub scale: f64,
    /// How the rate changes with samples and passes.
    pub schedule: Schedule,
    /// The momentum coefficient of the methods that have one; with zero there is no momentum in the state.
    pub momentum: f64,
    /// L1 rate: after the update values are shrunk towards zero.
    pub l1: f64,
    /// L2 rate: `g + l2*w` for dense parameters, see [`crate::rows`] for rows.
    pub l2: f64,
    /// Apply the decay of this many batches together, after the update (dense parameters; 1 is the usual case).
    pub regularize_every: u32,
    /// Gradients are clipped to `[-clip, clip]` element by element; zero turns it off.
    pub clip: f64,
    /// The moving average, if the model is tested and saved as an average.
    pub average: Option<Average>,
}

impl Rule {
    /// Plain stochastic gradient descent with a constant rate.
    pub fn sgd(learning_rate: f64) -> Self {
        Self {
            method: Method::Momentum,
            learning_rate,
            scale: 1.0,
            schedule: Schedule::Constant,
            momentum: 0.0,
            l1: 0.0,
            l2: 0.0,
            regularize_every: 1,
            clip: 0.0,
            average: None,
        }
    }

    /// Replaces the values by those that a trainer pushes: for parameters that layers maintain themselves.
    pub fn assign() -> Self {
        Self {
            method: Method::Assign,
            ..Self::sgd(1.0)
        }
    }

    /// Whether a step without a push leaves the values unchanged; with other rules it counts as a gradient of zeros.
    pub fn stays_without_push(&self) -> bool {
        self.method == Method::Assign
    }

    /// Floats of state per value.
    pub fn slots(&self) -> usize {
        self.method.slots() + self.momentum_slots() + self.average.map_or(0, |_| average::SLOTS)
    }

    pub(crate) fn momentum_slots(&self) -> usize {
        usize::from(self.method.has_momentum() && self.momentum != 0.0)
    }

    /// Whether a row that no gradient reaches keeps its values: there is no momentum, decay or average. AdaGrad's
    /// sums still move between its two vectors; [`Rule::update_row`] catches up on that.
    #[inline]
    pub fn is_still(&self) -> bool {
        let decays = (self.l1 != 0.0 || self.l2 != 0.0) && !self.method.ignores_decay();
        self.method.rests() && self.momentum_slots() == 0 && self.average.is_none() && !decays
    }

    /// Call when pass number `pass` (from 0) begins; schedules by pass use it.
    pub fn start_pass(&self, progress: &mut ParameterProgress, pass: u64) {
        progress.pass = pass;
    }

    /// Call when the pass has ended; the average window depends on the length of passes.
    pub fn finish_pass(&self, progress: &mut ParameterProgress) {
        progress.average.finish_pass(progress.step);
    }

    /// Counts one batch of `samples` (over all trainers) and returns what its updates need.
    ///
    /// Call it once per batch and parameter, before the updates of that batch.
    pub fn begin(&self, progress: &mut ParameterProgress, samples: u64) -> UpdateStep {
        let before = Idle::of(progress);
        progress.step += 1;
        progress.samples += samples;
        progress.rate = self.scale
            * self
                .schedule
                .rate(self.learning_rate, progress.samples, progress.pass);
        let average = match &self.average {
            Some(window) => progress.average.begin(window, progress.step),
            None => average::Turn::default(),
        };
        UpdateStep {
            number: progress.step,
            rate: progress.rate as f32,
            method_rate: self
                .method
                .rate(progress.rate, self.momentum, progress.step) as f32,
            average,
            before,
        }
    }

    /// Applies a gradient to any contiguous piece of a dense parameter.
    ///
    /// # Panics
    ///
    /// If `state` is not `slots() * value.len()` long or `grad` not as long as `value`.
    pub fn update(&self, step: &UpdateStep, value: &mut [f32], state: &mut [f32], grad: &[f32]) {
        self.check(value.len(), state.len(), grad.len());
        let first = step.number == 1;
        self.apply(step, self.dense_tail(step), first, value, state, grad);
        self.method.fold(step, value.len(), state);
    }

    /// Applies a gradient to one row: its values, then its state vectors, each as long as `grad`.
    ///
    /// `last` is the row's mark: 0 for a new row, stored by the caller next to the row, otherwise opaque.
    /// Steps that the row missed are caught up first.
    ///
    /// # Panics
    ///
    /// If `row` is not `(1 + slots()) * grad.len()` long.
    pub fn update_row(&self, step: &UpdateStep, row: &mut [f32], last: &mut u32, grad: &[f32]) {
        let dim = grad.len();
        self.check(dim, row.len().saturating_sub(dim), dim);
        let (value, state) = row.split_at_mut(dim);
        rows::catch_up(self, &step.before, value, state, last);
        let first = !rows::touched(*last);
        self.apply(step, self.row_tail(step), first, value, state, grad);
        self.method.fold(step, dim, state);
        *last = rows::mark(step.number);
    }

    /// Brings a row up to date: decay, momentum and averages of the steps that did not touch it.
    ///
    /// Call it between steps, before the row is read for training. For testing and saving, catch up a copy of the
    /// row and of its mark, so that reading a model does not change its training.
    ///
    /// # Panics
    ///
    /// If the length of `row` is not a multiple of `1 + slots()`.
    pub fn catch_up(&self, progress: &ParameterProgress, row: &mut [f32], last: &mut u32) {
        assert_eq!(
            row.len() % (1 + self.slots()),
            0,
            "a row is a value and its slots"
        );
        let (value, state) = row.split_at_mut(row.len() / (1 + self.slots()));
        rows::catch_up(self, &Idle::of(progress), value, state, last);
    }

    /// [`Rule::update_row`] for many rows of a table, with the common work done once.
    ///
    /// `grad` holds the gradients of `ids`, one after the other; an id may occur once.
    ///
    /// # Panics
    ///
    /// If the lengths of the table's slices or of `grad` do not fit its `dim`, or an id is outside the table.
    pub fn update_rows(
        &self,
        step: &UpdateStep,
        mut rows: TouchedRows<'_>,
        ids: &[u32],
        grad: &[f32],
    ) {
        self.check(rows.values.len(), rows.state.len(), rows.values.len());
        assert_eq!(grad.len(), ids.len() * rows.dim, "a gradient for every row");
        rows.catch_up(self, &step.before, ids);
        self.apply_rows(step, &mut rows, ids, grad);
        for &id in ids {
            rows.last[id as usize] = rows::mark(step.number);
        }
    }

    /// [`Rule::update_row`] for rows of `dim` values at any addresses, with the common work done once.
    ///
    /// # Panics
    ///
    /// If a row is not `(1 + slots())` times as long as its gradient.
    pub fn update_scattered(&self, step: &UpdateStep, rows: impl Scattered) {
        let pieces = rows::Visited {
            rule: self,
            step,
            rows,
        };
        self.method.apply(&self.row_tail(step), pieces);
    }

    /// Completes the update of a piece after the method's own part: sums of the average, AdaGrad's move.
    pub(crate) fn settle(&self, step: &UpdateStep, value: &[f32], state: &mut [f32]) {
        if self.average.is_some() {
            let sums = self.sums_at(value.len());
            average::add(step.average, value, &mut state[sums..]);
        }
        self.method.fold(step, value.len(), state);
    }

    /// [`Rule::catch_up`] for many rows of a table.
    pub fn catch_up_rows(
        &self,
        progress: &ParameterProgress,
        mut rows: TouchedRows<'_>,
        ids: &[u32],
    ) {
        rows.catch_up(self, &Idle::of(progress), ids);
    }

    fn apply_rows(&self, step: &UpdateStep, rows: &mut TouchedRows<'_>, ids: &[u32], grad: &[f32]) {
        let own = self.method.slots() * rows.dim;
        let sums = self.sums_at(rows.dim);
        let pieces = Touched {
            slots: self.slots(),
            own,
            sums,
            rows,
            ids,
            grad,
        };
        self.method.apply(&self.row_tail(step), pieces);
        if self.average.is_none() && !self.method.folds(step) {
            return;
        }
        for &id in ids {
            let (value, state) = rows.get(id, self.slots());
            if self.average.is_some() {
                average::add(step.average, value, &mut state[sums..]);
            }
            self.method.fold(step, value.len(), state);
        }
    }

    /// Writes the averaged values into `out`: the values to test and save if the rule has an average.
    ///
    /// Takes a piece and its state as [`Rule::update`] does (a row: caught up, split after its values).
    /// Without an average, or before the first step, these are the values themselves.
    ///
    /// # Panics
    ///
    /// If `state` is not `slots() * value.len()` long or `out` not as long as `value`.
    pub fn averaged(
        &self,
        progress: &ParameterProgress,
        value: &[f32],
        state: &[f32],
        out: &mut [f32],
    ) {
        self.check(value.len(), state.len(), out.len());
        match (self.average, progress.average.scale()) {
            (Some(_), Some(scale)) => {
                average::mean(scale, &state[self.sums_at(value.len())..], out);
            }
            _ => out.copy_from_slice(value),
        }
    }

    fn check(&self, values: usize, state: usize, other: usize) {
        assert_eq!(state, self.slots() * values, "state is slots times values");
        assert_eq!(other, values, "as many gradients or results as values");
    }

    /// Offset of the average's sums in the state of a piece of `values` values.
    pub(crate) fn sums_at(&self, values: usize) -> usize {
        (self.method.slots() + self.momentum_slots()) * values
    }

    fn apply(
        &self,
        step: &UpdateStep,
        tail: CommonCoefficients,
        first: bool,
        value: &mut [f32],
        state: &mut [f32],
        grad: &[f32],
    ) {
        let n = value.len();
        let (own, rest) = state.split_at_mut(self.method.slots() * n);
        let (momentum, sums) = rest.split_at_mut(self.momentum_slots() * n);
        let piece = ParameterPiece {
            value,
            own,
            momentum,
            grad,
        };
        self.method.apply(&tail, One { first, piece });
        if self.average.is_some() {
            average::add(step.average, value, sums);
        }
    }

    /// The common coefficients of a dense update.
    fn dense_tail(&self, step: &UpdateStep) -> CommonCoefficients {
        let every = u64::from(self.regularize_every.max(1));
        let batches = match every {
            1 => 1.0,
            _ if step.number.is_multiple_of(every) => every as f64,
            _ => 0.0,
        };
        let behind = if every == 1 { 0.0 } else { self.l2 };
        CommonCoefficients {
            l2: if every == 1 { self.l2 as f32 } else { 0.0 },
            after_l1: (self.l1 * batches) as f32,
            after_l2: (behind * batches) as f32,
            ..self.tail(step)
        }
    }

    /// The common coefficients of an update by row: L2 after the update, as in v1's sparse regularizer; Adam and
    /// Adamax keep the gradient term.
    fn row_tail(&self, step: &UpdateStep) -> CommonCoefficients {
        let (term, behind) = if self.method.rows_decay_by_gradient() {
            (self.l2, 0.0)
        } else {
            (0.0, self.l2)
        };
        CommonCoefficients {
            l2: term as f32,
            after_l1: self.l1 as f32,
            after_l2: behind as f32,
            ..self.tail(step)
        }
    }

    fn tail(&self, step: &UpdateStep) -> CommonCoefficients {
        CommonCoefficients {
            rate: step.rate,
            method_rate: step.method_rate,
            momentum: self.momentum as f32,
            clip: if self.clip > 0.0 {
                self.clip as f32
            } else {
                f32::INFINITY
            },
            l2: 0.0,
            after_l1: 0.0,
            after_l2: 0.0,
        }
    }
}

impl Method {
    /// Runs the method's loop over pieces.
    fn apply(&self, tail: &CommonCoefficients, pieces: impl ParameterPieces) {
        use crate::method as m;
        match *self {
            Method::Momentum | Method::TorchMomentum => {
                elements::run(|_| m::momentum::Kernel, tail, pieces);
            }
            Method::SparseMomentum => elements::run(|_| m::sparse_momentum::Kernel, tail, pieces),
            Method::AdaGrad { epsilon } => {
                elements::run(|_| m::adagrad::Kernel::new(epsilon), tail, pieces);
            }
            Method::AdaDelta { rho, epsilon } => {
                elements::run(|_| m::adadelta::Kernel::new(rho, epsilon), tail, pieces);
            }
            Method::RmsProp { rho, epsilon } => {
                let kernel = |first| m::rmsprop::Kernel::new(rho, epsilon, first);
                elements::run(kernel, tail, pieces);
            }
            Method::DecayedAdaGrad { rho, epsilon } => {
                let kernel = |first| m::decayed_adagrad::Kernel::new(rho, epsilon, first);
                elements::run(kernel, tail, pieces);
            }
            Method::Adam {
                beta1,
                beta2,
                epsilon,
            } => elements::run(
                |_| m::adam::Kernel::new(beta1, beta2, epsilon),
                tail,
                pieces,
            ),
            Method::AdaMax { beta1, beta2 } => {
                elements::run(|_| m::adamax::Kernel::new(beta1, beta2), tail, pieces);
            }
            Method::Add { rate } => pieces.each(|_, piece| m::add::apply(rate, piece)),
            Method::Assign => pieces.each(|_, piece| m::assign::apply(piece)),
        }
    }
}
