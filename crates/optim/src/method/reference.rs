//! The checks that every method passes, against independent formulas in f64.

use crate::{Average, Method, ParameterProgress, Rule, Schedule};

/// The options of one comparison.
pub(crate) struct MethodCase {
    pub mu: f64,
    pub l1: f64,
    pub l2: f64,
    pub clip: f64,
}

/// One step of the independent formula: (case, state, value, clipped gradient, rate, step) to the new value.
pub(crate) type Formula = fn(&MethodCase, &mut [f64; 3], f64, f64, f64, u64) -> f64;

/// Deterministic gradients in [-1, 1) with some exact zeros.
pub(crate) struct TestGradients(u64);

impl TestGradients {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn next(&mut self) -> f32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        if self.0.is_multiple_of(8) {
            return 0.0;
        }
        ((self.0 >> 40) as f32) / (1u64 << 23) as f32 - 1.0
    }

    pub(super) fn list(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.next()).collect()
    }
}

fn schedule() -> Schedule {
    Schedule::Exp { a: 0.5, b: 500.0 }
}

fn rule(method: Method, case: &MethodCase) -> Rule {
    Rule {
        method,
        momentum: case.mu,
        l1: case.l1,
        l2: case.l2,
        clip: case.clip,
        scale: 2.0,
        schedule: schedule(),
        ..Rule::sgd(0.01)
    }
}

fn close(got: f32, want: f64, what: &str) {
    let error = (f64::from(got) - want).abs();
    assert!(
        error <= 2e-5 * want.abs().max(1.0),
        "{what}: {got} is not {want}"
    );
}

/// A hundred dense steps under a schedule, with and without momentum, L2, L1 and clipping, against `formula`.
///
/// L1 is compared for the methods whose step factor is always 1; `has_momentum` is whether the method uses `mu`.
pub(crate) fn check(method: Method, has_momentum: bool, formula: Formula) {
    let mu = if has_momentum { 0.9 } else { 0.0 };
    let plain = method.factor(&[1.0, 0.5], 0, 1) == 1.0;
    let l1 = if plain { 0.02 } else { 0.0 };
    for (mu, l2, l1, clip) in [
        (0.0, 0.0, 0.0, 0.0),
        (mu, 0.0, 0.0, 0.5),
        (0.0, 0.1, 0.0, 0.0),
        (mu, 0.1, l1, 0.7),
    ] {
        hundred(method, &MethodCase { mu, l1, l2, clip }, formula);
    }
}

fn hundred(method: Method, case: &MethodCase, formula: Formula) {
    let rule = rule(method, case);
    let n = 19;
    let mut noise = TestGradients::new(7);
    let mut value = noise.list(n);
    let mut want: Vec<f64> = value.iter().map(|w| f64::from(*w)).collect();
    let mut state = vec![0.0f32; rule.slots() * n];
    let mut want_state = vec![[0.0f64; 3]; n];
    let mut progress = ParameterProgress::default();
    for number in 1..=100u64 {
        // Every element has a gradient in the first step, so that no formula divides by zero.
        let grad: Vec<f32> = noise
            .list(n)
            .iter()
            .map(|g| if number == 1 { g + 1.5 } else { *g })
            .collect();
        let step = rule.begin(&mut progress, 10);
        rule.update(&step, &mut value, &mut state, &grad);
        let lr = 2.0 * schedule().rate(0.01, 10 * number, 0);
        for i in 0..n {
            let c = if case.clip > 0.0 {
                case.clip
            } else {
                f64::INFINITY
            };
            let g = f64::from(grad[i]).clamp(-c, c);
            let moved = formula(case, &mut want_state[i], want[i], g, lr, number);
            want[i] = moved.signum() * (moved.abs() - lr * case.l1).max(0.0);
        }
    }
    for i in 0..n {
        close(
            value[i],
            want[i],
            &format!("{method:?} mu={} l2={}", case.mu, case.l2),
        );
    }
}

/// A parameter updated in blocks of any size has the same bytes as one updated as a whole, average included.
pub(crate) fn blocks(method: Method) {
    for l1 in [0.0, 0.01] {
        let case = MethodCase {
            mu: 0.5,
            l1,
            l2: 0.01,
            clip: 0.9,
        };
        let rule = Rule {
            average: Some(Average {
                window: 0.5,
                max_window: Some(7),
            }),
            ..rule(method, &case)
        };
        let n = 67;
        let whole = train_in_blocks(&rule, n, n);
        for size in [1, 3, 8, 32, 50] {
            let cut = train_in_blocks(&rule, n, size);
            assert_eq!(whole, cut, "{method:?} in blocks of {size}");
        }
    }
}

fn train_in_blocks(rule: &Rule, n: usize, size: usize) -> Vec<u32> {
    let mut noise = TestGradients::new(11);
    let mut value = noise.list(n);
    let mut states: Vec<Vec<f32>> = value
        .chunks(size)
        .map(|b| vec![0.0; rule.slots() * b.len()])
        .collect();
    let mut progress = ParameterProgress::default();
    for _ in 0..25 {
        let grad = noise.list(n);
        let step = rule.begin(&mut progress, 3);
        let pieces = value
            .chunks_mut(size)
            .zip(&mut states)
            .zip(grad.chunks(size));
        for ((value, state), grad) in pieces {
            rule.update(&step, value, state, grad);
        }
    }
    let mut mean = vec![0.0; n];
    let pieces = value.chunks(size).zip(&states).zip(mean.chunks_mut(size));
    for ((value, state), mean) in pieces {
        rule.averaged(&progress, value, state, mean);
    }
    value.iter().chain(&mean).map(|w| w.to_bits()).collect()
}

/// Rows touched now and then have the same bytes as the dense parameter with zero gradients in between.
pub(crate) fn rows_equal_dense_exactly(method: Method) {
    let (dense, rows) = rows_and_dense(method, 0.0, |step, row| (step + row) % 3 == 0);
    let bits = |v: &[f32]| v.iter().map(|w| w.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&dense), bits(&rows), "{method:?}");
}

/// The same to rounding, with momentum.
pub(crate) fn rows_equal_dense_nearly(method: Method, mu: f64) {
    let (dense, rows) = rows_and_dense(method, mu, |step, row| step == 1 || (step * row) % 5 == 1);
    for (dense, row) in dense.iter().zip(&rows) {
        close(*row, f64::from(*dense), &format!("{method:?} by row"));
    }
}

/// Rows that every step touches have the same bytes as the dense parameter.
pub(crate) fn rows_touched_always_equal_dense(method: Method) {
    let (dense, rows) = rows_and_dense(method, 0.0, |_, _| true);
    assert_eq!(dense, rows, "{method:?}");
}

/// Trains six rows of five columns both ways, with constant rate.
fn rows_and_dense(method: Method, mu: f64, touches: fn(u64, u64) -> bool) -> (Vec<f32>, Vec<f32>) {
    let rule = Rule {
        method,
        momentum: mu,
        clip: 0.8,
        ..Rule::sgd(0.02)
    };
    let (rows, dim) = (6u64, 5usize);
    let mut noise = TestGradients::new(13);
    let mut value = noise.list(rows as usize * dim);
    let mut state = vec![0.0; rule.slots() * value.len()];
    let width = dim * (1 + rule.slots());
    let mut table: Vec<(Vec<f32>, u32)> = value
        .chunks(dim)
        .map(|w| {
            let mut row = w.to_vec();
            row.resize(width, 0.0);
            (row, 0)
        })
        .collect();
    let mut progress = ParameterProgress::default();
    for number in 1..=100u64 {
        let step = rule.begin(&mut progress, 1);
        let mut grad = vec![0.0; value.len()];
        for row in 0..rows {
            if touches(number, row) {
                let at = row as usize * dim;
                grad[at..at + dim].copy_from_slice(&noise.list(dim));
                let (values, last) = &mut table[row as usize];
                rule.update_row(&step, values, last, &grad[at..at + dim]);
            }
        }
        rule.update(&step, &mut value, &mut state, &grad);
    }
    let mut by_row = Vec::new();
    for (row, last) in &mut table {
        rule.catch_up(&progress, row, last);
        by_row.extend_from_slice(&row[..dim]);
    }
    (value, by_row)
}
