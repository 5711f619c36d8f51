//! Rows of a table: how a measurement draws, creates, pulls and pushes them.

use optim::{Method, Rule};
use wire::{Error, RowRequest, Session, TableId};

/// Batches of a trainer that are used in turn.
pub(crate) const DISTINCT_BATCHES: usize = 8;
/// Rows that are created in one request.
const MADE: u64 = 100_000;
/// Batches that a trainer draws while the table is filled, and the first of their seeds.
const TRAINED: u64 = 50;
const FILL_SEED: u64 = 1 << 32;

/// Which rows a batch has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Draw {
    /// Zipf's distribution with exponent 1.05, scattered over the table.
    Zipf,
    /// All rows equally likely: caches help least.
    Uniform,
}

/// AdaGrad, as in W4.
pub(crate) fn rule() -> Rule {
    Rule {
        method: Method::AdaGrad { epsilon: 1e-6 },
        ..Rule::sgd(0.05)
    }
}

/// Creates this trainer's share of all rows: first those that some batches of Zipf's distribution draw, as a
/// training run would, then all others.
pub(crate) fn touch(
    session: &mut Session,
    table: TableId,
    (trainer, trainers): (u32, u32),
    ids_a_batch: usize,
) -> Result<(), Error> {
    let rows = session.spec().tables[table.index()].rows;
    let mut values = Vec::new();
    for batch in 0..TRAINED {
        let seed = FILL_SEED + u64::from(trainer) * TRAINED + batch;
        let ids = distinct(Draw::Zipf, rows, ids_a_batch, seed);
        pull(session, table, &ids, &mut values)?;
    }
    for first in (0..rows)
        .step_by(MADE as usize)
        .skip(trainer as usize)
        .step_by(trainers as usize)
    {
        let ids: Vec<u32> = (first..rows.min(first + MADE))
            .map(|id| id as u32)
            .collect();
        pull(session, table, &ids, &mut values)?;
    }
    Ok(())
}

/// Fetches rows.
pub(crate) fn pull(
    session: &mut Session,
    table: TableId,
    ids: &[u32],
    values: &mut Vec<f32>,
) -> Result<(), Error> {
    session.pull_rows(&mut [RowRequest { table, ids, values }])
}

/// Pushes the first of `gradients` for these rows, as a batch of its own.
pub(crate) fn push(
    session: &mut Session,
    table: TableId,
    ids: &[u32],
    gradients: &[f32],
) -> Result<(), Error> {
    let cols = session.spec().tables[table.index()].cols as usize;
    session.start_batch(1);
    session.push_rows(table, ids, &gradients[..ids.len() * cols])?;
    session.finish_batch(0.0)?;
    session.wait_values(&mut []).map(|_| ())
}

/// A trainer's batches of `count` distinct ids each, ascending.
pub(crate) fn batches(draw: Draw, rows: u64, count: usize, trainer: u32) -> Vec<Vec<u32>> {
    (0..DISTINCT_BATCHES as u64)
        .map(|at| distinct(draw, rows, count, u64::from(trainer) * 1000 + at))
        .collect()
}

fn distinct(draw: Draw, rows: u64, count: usize, seed: u64) -> Vec<u32> {
    let exponent = 1.0 - 1.05_f64;
    let top = (rows as f64).powf(exponent) - 1.0;
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678;
    let mut ids = Vec::with_capacity(count * 4);
    while ids.len() < count {
        for _ in 0..count {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let uniform = ((state >> 11) as f64) / (1_u64 << 53) as f64;
            ids.push(match draw {
                Draw::Zipf => {
                    let rank = (top * uniform + 1.0).powf(1.0 / exponent);
                    let rank = rank.min(rows as f64) as u64;
                    (rank.wrapping_mul(0x9e37_79b1) % rows) as u32
                }
                Draw::Uniform => (uniform * rows as f64) as u32,
            });
        }
        ids.sort_unstable();
        ids.dedup();
    }
    // Drops ids evenly, so that no region of the table is preferred.
    let surplus = ids.len();
    (0..count).map(|at| ids[at * surplus / count]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_ascend_and_zipf_prefers_few_rows() {
        let overlap = |draw| {
            let all = batches(draw, 100_000, 1000, 1);
            for ids in &all {
                assert_eq!(ids.len(), 1000);
                assert!(ids.is_sorted_by(|a, b| a < b) && ids[999] < 100_000);
            }
            let shared = |id: &&u32| all[1].binary_search(id).is_ok();
            all[0].iter().filter(shared).count()
        };
        assert!(overlap(Draw::Zipf) > 5 * overlap(Draw::Uniform));
    }
}
