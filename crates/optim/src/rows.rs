//! Brings a row up to date for the steps that did not touch it.
//!
//! A by-row parameter is a large table of which a batch touches a few rows. The others cost nothing: they are
//! brought up to date when they are read or touched again. With `n` missed steps, `lr` the rate of the last
//! completed step (v1 uses the current rate for missed steps, too) and `r` the method's step factor at the
//! row's last touch (1 for momentum, Adam, Adamax):
//!
//! 1. momentum continues: `w += mom * (mu + mu^2 + … + mu^n)`, `mom *= mu^n`;
//! 2. L1: `w = sign(w) * max(|w| - lr*r*l1*n, 0)`, then L2: `w /= 1 + lr*r*l2*n`;
//! 3. decaying averages decay: `a *= rho^n` (RMSProp, DecayedAdaGrad, AdaDelta); AdaGrad moves its sum into the
//!    long-term buffer where the dense rule would have; Adam's and Adamax's state waits for the next touch;
//! 4. the sums of the model average get the value `n` times.
//!
//! The touching step itself is the dense formula, but L2 acts after the update (`w /= 1 + lr*r*l2`) as v1's sparse
//! regularizer does; Adam and Adamax, which had none in v1, keep the dense term `g + l2*w`.
//!
//! Where row and dense agree bit for bit (without L1, L2, momentum and average): momentum (plain SGD) and AdaGrad,
//! because there a zero gradient leaves value and state as they are. To rounding: momentum, torch_momentum,
//! sparse_momentum and AdaGrad with momentum; AdaDelta without momentum. RMSProp and DecayedAdaGrad treat a row's
//! first touch as v1 does (`a = g^2`), where the dense rule does so at the first step only. Adam and Adamax by row
//! are lazy: rows that are touched in every step agree bit for bit with the dense rule, others keep their moments.
//!
//! Where a step without a gradient changes nothing ([`Rule::is_still`]) there is nothing to catch up, and the mark stays.
//!
//! A row's mark is a `u32`: 0 for a new row (its value counts from step 0, whenever it is created), else the number of
//! the last step it includes, modulo 2^31, and in the highest bit whether a gradient has ever reached it.

use crate::average::{self, Missed};
use crate::elements::{ParameterPiece, ParameterPieces, shrunk};
use crate::progress::{Idle, UpdateStep};
use crate::rule::Rule;

const TOUCHED: u32 = 1 << 31;
const STEPS: u32 = TOUCHED - 1;

/// The mark of a row that a gradient reached in `step`.
pub(crate) fn mark(step: u64) -> u32 {
    low(step) | TOUCHED
}

/// Whether a gradient has ever reached the row.
pub(crate) fn touched(mark: u32) -> bool {
    mark & TOUCHED != 0
}

fn low(step: u64) -> u32 {
    (step & u64::from(STEPS)) as u32
}

/// Steps between the mark and `through`; 0 if the mark is later.
fn missed(mark: u32, through: u64) -> u64 {
    let distance = low(through).wrapping_sub(mark) & STEPS;
    if distance > STEPS / 2 {
        0
    } else {
        u64::from(distance).min(through)
    }
}

/// The rows of a table that one step touches, in the caller's storage.
#[derive(Debug)]
pub struct TouchedRows<'a> {
    /// All values of the table, row after row.
    pub values: &'a mut [f32],
    /// The state of all rows: for each row one state vector after the other.
    pub state: &'a mut [f32],
    /// The mark of each row; see the head of this file.
    pub last: &'a mut [u32],
    /// Values per row.
    pub dim: usize,
}

impl TouchedRows<'_> {
    /// A row's values and state.
    #[inline(always)]
    pub(crate) fn get(&mut self, id: u32, slots: usize) -> (&mut [f32], &mut [f32]) {
        let (at, dim, width) = (id as usize, self.dim, slots * self.dim);
        (
            &mut self.values[at * dim..][..dim],
            &mut self.state[at * width..][..width],
        )
    }

    /// Brings these rows up to date with the step that `idle` names.
    pub(crate) fn catch_up(&mut self, rule: &Rule, idle: &Idle, ids: &[u32]) {
        let slots = rule.slots();
        for &id in ids {
            let mut last = self.last[id as usize];
            let (value, state) = self.get(id, slots);
            catch_up(rule, idle, value, state, &mut last);
            self.last[id as usize] = last;
        }
    }
}

/// Rows at any addresses, each contiguous with its state; the implementation visits those that a step touches.
pub trait Scattered {
    /// Calls `f` with the mark, the row (values, then state) and the gradient of each row, every row once.
    /// Implementations are `#[inline(always)]`: the loop over small rows must not leave the vector unit's code.
    fn each(self, f: impl FnMut(&mut u32, &mut [f32], &[f32]));
}

/// The pieces of scattered rows that a step touches; brings each row up to date before the method, and settles it after.
pub(crate) struct Visited<'a, R> {
    pub rule: &'a Rule,
    pub step: &'a UpdateStep,
    pub rows: R,
}

impl<R: Scattered> ParameterPieces for Visited<'_, R> {
    fn has_momentum(&self) -> bool {
        self.rule.momentum_slots() > 0
    }

    #[inline(always)]
    fn each(self, mut f: impl FnMut(bool, ParameterPiece<'_>)) {
        let (rule, step) = (self.rule, self.step);
        let (own, momentum) = (rule.method.slots(), rule.momentum_slots());
        let still = rule.is_still();
        let behind = rule.average.is_some() || rule.method.folds(step);
        self.rows.each(
            #[inline(always)]
            |last, row, grad| {
                let (value, state) = row.split_at_mut(grad.len());
                let steps = missed(*last, step.before.through);
                if steps != 0
                    && !(still && same_fold(step.before.through - steps, step.before.through))
                {
                    *last = low(step.before.through) | (*last & TOUCHED);
                    miss(rule, &step.before, steps, value, state);
                }
                let dim = value.len();
                let (slots, rest) = state.split_at_mut(own * dim);
                let first = !touched(*last);
                f(
                    first,
                    ParameterPiece {
                        value: &mut *value,
                        own: slots,
                        momentum: &mut rest[..momentum * dim],
                        grad,
                    },
                );
                if behind {
                    rule.settle(step, value, state);
                }
                *last = mark(step.number);
            },
        );
    }
}

/// The pieces of rows that a step touches.
pub(crate) struct Touched<'a, 'b> {
    pub rows: &'a mut TouchedRows<'b>,
    pub ids: &'a [u32],
    pub grad: &'a [f32],
    pub slots: usize,
    /// Offsets in a row's state at which the method's own vectors and the momentum end.
    pub own: usize,
    pub sums: usize,
}

impl ParameterPieces for Touched<'_, '_> {
    fn has_momentum(&self) -> bool {
        self.sums > self.own
    }

    #[inline(always)]
    fn each(self, mut f: impl FnMut(bool, ParameterPiece<'_>)) {
        let dim = self.rows.dim;
        for (&id, grad) in self.ids.iter().zip(self.grad.chunks_exact(dim)) {
            let first = !touched(self.rows.last[id as usize]);
            let (value, state) = self.rows.get(id, self.slots);
            let (own, rest) = state.split_at_mut(self.own);
            let momentum = &mut rest[..self.sums - self.own];
            f(
                first,
                ParameterPiece {
                    value,
                    own,
                    momentum,
                    grad,
                },
            );
        }
    }
}

/// Brings a row, given as values and state, up to date with the step that `idle` names.
#[inline]
pub(crate) fn catch_up(
    rule: &Rule,
    idle: &Idle,
    value: &mut [f32],
    state: &mut [f32],
    last: &mut u32,
) {
    let steps = missed(*last, idle.through);
    if steps != 0 && !(rule.is_still() && same_fold(idle.through - steps, idle.through)) {
        *last = low(idle.through) | (*last & TOUCHED);
        miss(rule, idle, steps, value, state);
    }
}

/// Whether AdaGrad moves no sum between two steps.
fn same_fold(from: u64, through: u64) -> bool {
    from / average::FOLD == through / average::FOLD
}

fn miss(rule: &Rule, idle: &Idle, steps: u64, value: &mut [f32], state: &mut [f32]) {
    let from = idle.through - steps;
    let dim = value.len();
    let (own, rest) = state.split_at_mut(rule.method.slots() * dim);
    let (momentum, sums) = rest.split_at_mut(rule.momentum_slots() * dim);
    let gap = Gap {
        steps,
        from,
        through: idle.through,
        rate: f64::from(idle.rate),
    };
    drift(rule, &gap, value, momentum);
    regularize(rule, &gap, value, own);
    rule.method.idle(&gap, own, dim);
    if rule.average.is_some() {
        let missed = Missed { value, sums };
        average::add_missed(idle.restarts, from, idle.through, missed);
    }
}

/// The steps that a row missed.
pub(crate) struct Gap {
    pub steps: u64,
    pub from: u64,
    pub through: u64,
    pub rate: f64,
}

impl Gap {
    /// `base` to the power of the missed steps.
    pub(crate) fn power(&self, base: f64) -> f64 {
        libm::pow(base, self.steps as f64)
    }
}

/// Applies the momentum of missed steps; with sparse_momentum the value decays meanwhile.
fn drift(rule: &Rule, gap: &Gap, value: &mut [f32], momentum: &mut [f32]) {
    let decay = rule.method.decay_per_step(gap.rate * rule.l2);
    if momentum.is_empty() && decay == 1.0 {
        return;
    }
    let remains = gap.power(decay) as f32;
    if momentum.is_empty() {
        value.iter_mut().for_each(|w| *w *= remains);
        return;
    }
    let kept = gap.power(rule.momentum) as f32;
    let path = path(rule.momentum, decay, gap.steps) as f32;
    for (w, mom) in value.iter_mut().zip(momentum) {
        *w = *w * remains + *mom * path;
        *mom *= kept;
    }
}

/// The sum of `mu^k * d^(n-k)` for `k` in `1..=n`: how far a momentum carries a value that shrinks by `d` per step.
fn path(mu: f64, d: f64, n: u64) -> f64 {
    if (mu - d).abs() < 1e-12 {
        return n as f64 * libm::pow(d, n as f64);
    }
    mu * (libm::pow(d, n as f64) - libm::pow(mu, n as f64)) / (d - mu)
}

fn regularize(rule: &Rule, gap: &Gap, value: &mut [f32], own: &[f32]) {
    let decays_on_its_way = rule.method.decay_per_step(1.0) != 1.0;
    let l2 = if decays_on_its_way { 0.0 } else { rule.l2 };
    if (rule.l1 == 0.0 && l2 == 0.0) || rule.method.ignores_decay() {
        return;
    }
    let rate = (gap.rate * gap.steps as f64) as f32;
    let (l1, l2) = (rule.l1 as f32, l2 as f32);
    let dim = value.len();
    for (i, w) in value.iter_mut().enumerate() {
        let rate = rate * rule.method.factor(own, i, dim);
        *w = shrunk(*w, rate * l1) / (1.0 + rate * l2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_count_across_their_wrap() {
        assert_eq!(missed(0, 0), 0);
        assert_eq!(missed(0, 7), 7);
        assert_eq!(missed(mark(5), 7), 2);
        assert_eq!(missed(mark(7), 7), 0);
        assert_eq!(missed(mark(8), 7), 0);
        let late = (1u64 << 31) + 3;
        assert_eq!(missed(mark(late - 10), late), 10);
        assert!(touched(mark(0)) && !touched(9));
    }

    #[test]
    fn the_path_of_a_momentum_is_the_sum_of_its_steps() {
        for (mu, d) in [(0.9f64, 1.0f64), (0.5, 0.99), (0.9, 0.9)] {
            let sum: f64 = (1..=20).map(|k| mu.powi(k) * d.powi(20 - k)).sum();
            assert!((path(mu, d, 20) - sum).abs() < 1e-12 * sum.abs());
        }
    }

    #[test]
    fn l1_and_l2_are_caught_up_with_the_missed_steps() {
        let rule = Rule {
            l1: 0.1,
            l2: 0.5,
            ..Rule::sgd(0.1)
        };
        let mut progress = crate::ParameterProgress::default();
        for _ in 0..4 {
            rule.begin(&mut progress, 1);
        }
        let (mut row, mut last) = (vec![1.0f32, -1.0, 0.01], 0);
        rule.catch_up(&progress, &mut row, &mut last);
        // 4 steps: shrink by 0.1*0.1*4 = 0.04, then divide by 1 + 0.1*0.5*4 = 1.2.
        let want = [0.8f32, -0.8, 0.0];
        for (got, want) in row.iter().zip(want) {
            assert!((got - want).abs() < 1e-6, "{row:?}");
        }
        let again = row.clone();
        rule.catch_up(&progress, &mut row, &mut last);
        assert_eq!(row, again, "a row is caught up once");
    }

    #[test]
    fn many_rows_at_once_are_the_rows_one_by_one() {
        use crate::{Average, Method, Schedule};
        let (rho, epsilon) = (0.9, 1e-6);
        let methods = [
            Method::Momentum,
            Method::SparseMomentum,
            Method::AdaGrad { epsilon },
            Method::AdaDelta { rho, epsilon },
            Method::RmsProp { rho, epsilon },
            Method::DecayedAdaGrad { rho, epsilon },
            Method::Adam {
                beta1: 0.9,
                beta2: 0.999,
                epsilon,
            },
            Method::AdaMax {
                beta1: 0.9,
                beta2: 0.999,
            },
        ];
        let averages = [
            None,
            Some(Average {
                window: 0.5,
                max_window: Some(100),
            }),
        ];
        for method in methods {
            for (momentum, l1, l2, average) in
                [(0.0, 0.0, 0.0, averages[0]), (0.9, 1e-3, 1e-2, averages[1])]
            {
                let rule = Rule {
                    method,
                    momentum,
                    l1,
                    l2,
                    average,
                    schedule: Schedule::Constant,
                    ..Rule::sgd(0.1)
                };
                together_is_one_by_one(&rule);
            }
        }
    }

    /// Rows in a separate list, by index.
    struct Listed<'a> {
        rows: &'a mut [(Vec<f32>, u32)],
        ids: &'a [u32],
        grad: &'a [f32],
    }

    impl Scattered for Listed<'_> {
        fn each(self, mut f: impl FnMut(&mut u32, &mut [f32], &[f32])) {
            let dim = self.grad.len() / self.ids.len().max(1);
            for (at, id) in self.ids.iter().enumerate() {
                let (row, mark) = &mut self.rows[*id as usize];
                f(mark, row, &self.grad[at * dim..(at + 1) * dim]);
            }
        }
    }

    fn together_is_one_by_one(rule: &Rule) {
        let (count, dim) = (9usize, 3);
        let width = rule.slots() * dim;
        let start: Vec<f32> = (0..count * dim).map(|i| i as f32 * 0.1 - 1.0).collect();
        let (mut values, mut state, mut last) =
            (start.clone(), vec![0.0; count * width], vec![0; count]);
        let mut single: Vec<(Vec<f32>, u32)> = start
            .chunks(dim)
            .map(|value| ([value, &vec![0.0; width]].concat(), 0))
            .collect();
        let mut scattered = single.clone();
        let mut progress = crate::ParameterProgress::default();
        for number in 1..=40usize {
            let ids: Vec<u32> = (0..count as u32)
                .filter(|id| number.is_multiple_of(*id as usize + 1))
                .collect();
            let grad: Vec<f32> = (0..ids.len() * dim)
                .map(|i| ((i * 7 + number * 3) % 11) as f32 - 5.0)
                .collect();
            let step = rule.begin(&mut progress, 4);
            let rows = TouchedRows {
                values: &mut values,
                state: &mut state,
                last: &mut last,
                dim,
            };
            rule.update_rows(&step, rows, &ids, &grad);
            let listed = Listed {
                rows: &mut scattered,
                ids: &ids,
                grad: &grad,
            };
            rule.update_scattered(&step, listed);
            for (id, grad) in ids.iter().zip(grad.chunks(dim)) {
                let (row, mark) = &mut single[*id as usize];
                rule.update_row(&step, row, mark, grad);
            }
        }
        assert_eq!(scattered, single, "{rule:?}");
        for (id, (row, mark)) in single.iter().enumerate() {
            let together = [
                &values[id * dim..(id + 1) * dim],
                &state[id * width..(id + 1) * width],
            ];
            assert_eq!(*row, together.concat(), "row {id} under {rule:?}");
            assert_eq!(*mark, last[id]);
        }
    }

    #[test]
    fn reading_a_row_before_its_update_changes_nothing() {
        let rule = Rule {
            momentum: 0.9,
            l2: 0.01,
            ..Rule::sgd(0.1)
        };
        let mut progress = crate::ParameterProgress::default();
        let (mut read, mut unread) = (vec![1.0f32, 0.0], vec![1.0f32, 0.0]);
        let (mut read_last, mut unread_last) = (0, 0);
        for step in 1..=50u64 {
            let touch = step % 7 == 0;
            if touch {
                rule.catch_up(&progress, &mut read, &mut read_last);
            }
            let now = rule.begin(&mut progress, 1);
            if touch {
                rule.update_row(&now, &mut read, &mut read_last, &[0.3]);
                rule.update_row(&now, &mut unread, &mut unread_last, &[0.3]);
            }
        }
        assert_eq!(read, unread);
        assert_eq!(read_last, unread_last);
    }
}
