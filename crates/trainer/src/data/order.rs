//! The order of samples: a pure function of (seed, pass, trainer), whatever the speed and number of workers.
//!
//! 1. The files of the list are read in order; if samples are shuffled from a bounded pool and not kept for later
//!    passes, the files are put into random order first ([`files`]).
//! 2. Without shuffling, one file follows the other, as always with native readers. With shuffling, groups of sixteen
//!    files are read together: in turn, each contributes a block of up to 128 samples (fewer if dense slots are wide or
//!    long), until all of the group have ended.
//! 3. The samples enter a pool in this order. Before each batch the pool is filled to its level ([`PoolLevel`]); then the
//!    samples of the batch are drawn from it at random, or from its front without shuffling. The level is `pool_size`;
//!    if that is unlimited, the whole pass; or, where `min_pool_size` is given, that many but at least sixteen batches.
//! 4. A batch is full when the weights of its samples reach `batch_size` (each 1, or `calc_batch_size`); with
//!    `can_over_batch_size=False` a sample that would exceed it opens the next batch. The last batch may be smaller.
//!
//! In v1 the contents of the pool when a batch was drawn depended on the speed of a thread. A source that keeps its
//! samples reads them in the same order in every pass, so a process that starts at pass k orders pass k like one that
//! started at pass 0.

use std::collections::VecDeque;

use super::error::DataError;
use super::random::DataRandom;
use super::table::SampleTable;

/// Number of files that are read in turn when samples are shuffled.
pub(crate) const GROUP: usize = 16;

/// What decides the order, besides seed, pass and trainer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct OrderPlan {
    /// Whether samples are drawn at random.
    pub shuffle: bool,
    /// How full the pool is before a batch is drawn.
    pub level: PoolLevel,
    /// Whether samples are kept for later passes.
    pub cache: bool,
    /// Total weight of a batch's samples.
    pub batch_size: u64,
    /// Whether the last sample of a batch may exceed `batch_size`.
    pub can_over_batch_size: bool,
}

/// How full the pool is before a batch is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum PoolLevel {
    /// All samples of the pass.
    Everything,
    /// Samples with this total weight.
    Weight(u64),
}

impl PoolLevel {
    /// The level of v1's two sizes; negative means unlimited.
    pub(crate) fn new(pool_size: i64, min_pool_size: i64, batch_size: u64) -> Self {
        match (u64::try_from(pool_size), u64::try_from(min_pool_size)) {
            (Ok(pool), _) => Self::Weight(pool.max(batch_size)),
            (Err(_), Ok(least)) => Self::Weight(least.max(batch_size.saturating_mul(16))),
            (Err(_), Err(_)) => Self::Everything,
        }
    }
}

/// The files of a pass in the order in which they are read, in groups whose files are read in turn.
pub(crate) fn files(plan: &OrderPlan, random: &mut DataRandom, count: usize) -> Vec<Vec<u32>> {
    let mut files: Vec<u32> = (0..count as u32).collect();
    if plan.shuffle && !plan.cache && plan.level != PoolLevel::Everything {
        random.shuffle(&mut files);
    }
    let group = if plan.shuffle { GROUP } else { 1 };
    files.chunks(group).map(<[u32]>::to_vec).collect()
}

/// Samples that wait for a batch, as row indices of a table.
pub(crate) struct Pool {
    waiting: VecDeque<u32>,
    weight: u64,
    /// The sample that did not fit into the last batch, if any; it opens the next one.
    carried: Option<u32>,
}

impl Pool {
    pub(super) fn new() -> Self {
        Self {
            waiting: VecDeque::new(),
            weight: 0,
            carried: None,
        }
    }

    /// Whether another block of samples should enter before a batch is drawn.
    pub(super) fn wants_more(&self, plan: &OrderPlan) -> bool {
        match plan.level {
            _ if !plan.shuffle => self.weight < plan.batch_size,
            PoolLevel::Everything => true,
            PoolLevel::Weight(level) => self.weight < level,
        }
    }

    /// Adds rows of the table to the pool.
    pub(super) fn enter(&mut self, table: &SampleTable, rows: std::ops::Range<usize>) {
        for row in rows {
            self.weight += table.weight(row as u32);
            self.waiting.push_back(row as u32);
        }
    }

    /// Draws the samples of one batch; returns none if the pool is empty.
    pub(super) fn draw(
        &mut self,
        plan: &OrderPlan,
        table: &SampleTable,
        random: &mut DataRandom,
        batch: &mut Vec<u32>,
    ) -> Result<(), DataError> {
        batch.clear();
        let mut filled = 0;
        while filled < plan.batch_size {
            let Some(sample) = self.carried.take().or_else(|| self.next(plan, random)) else {
                break;
            };
            let weight = table.weight(sample);
            if filled + weight > plan.batch_size && !plan.can_over_batch_size {
                if batch.is_empty() {
                    let batch = plan.batch_size;
                    return Err(DataError::TooHeavy { weight, batch });
                }
                self.carried = Some(sample);
                break;
            }
            filled += weight;
            self.weight -= weight;
            batch.push(sample);
        }
        Ok(())
    }

    fn next(&mut self, plan: &OrderPlan, random: &mut DataRandom) -> Option<u32> {
        if !plan.shuffle {
            return self.waiting.pop_front();
        }
        let at = random.below(self.waiting.len() as u64) as usize;
        self.waiting.swap_remove_back(at)
    }

    /// Samples in the pool.
    pub(super) fn len(&self) -> usize {
        self.waiting.len() + usize::from(self.carried.is_some())
    }

    /// Replaces a table by one with only the waiting samples, if most of its samples have left the pool.
    pub(super) fn compact(&mut self, table: &mut SampleTable) {
        if table.len() < 4096 || table.len() < 2 * self.len() {
            return;
        }
        let waiting: Vec<u32> = self.carried.iter().chain(&self.waiting).copied().collect();
        *table = table.gather(&waiting);
        let carried = u32::from(self.carried.is_some());
        self.carried = self.carried.map(|_| 0);
        self.waiting = (carried..carried + self.waiting.len() as u32).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::table::{ElementKind, SlotType};

    fn plan(shuffle: bool, level: PoolLevel) -> OrderPlan {
        OrderPlan {
            shuffle,
            level,
            cache: false,
            batch_size: 4,
            can_over_batch_size: true,
        }
    }

    /// A table of `n` samples whose only id is their index, with the given weights.
    fn table(n: u32, weights: &[u32]) -> SampleTable {
        let mut table = SampleTable::new(&[SlotType {
            name: "id".into(),
            kind: ElementKind::Ids,
            level: 0,
            dim: n as usize,
            first: 0,
        }]);
        table.columns_mut()[0].ids.extend(0..n);
        table.grow(n as usize, weights.iter().copied());
        table
    }

    /// Draws a whole pass whose samples arrive in blocks of ten.
    fn pass(plan: &OrderPlan, table: &SampleTable, number: u64) -> Vec<Vec<u32>> {
        let mut random = DataRandom::new(1, number, 0);
        let (mut pool, mut arrived, mut batches) = (Pool::new(), 0, Vec::new());
        loop {
            while arrived < table.len() && pool.wants_more(plan) {
                let end = (arrived + 10).min(table.len());
                pool.enter(table, arrived..end);
                arrived = end;
            }
            let mut batch = Vec::new();
            pool.draw(plan, table, &mut random, &mut batch).unwrap();
            if batch.is_empty() {
                return batches;
            }
            batches.push(batch);
        }
    }

    #[test]
    fn without_shuffling_the_order_is_that_of_arrival() {
        let batches = pass(&plan(false, PoolLevel::Everything), &table(10, &[]), 0);
        assert_eq!(batches, [vec![0, 1, 2, 3], vec![4, 5, 6, 7], vec![8, 9]]);
    }

    #[test]
    fn every_sample_comes_once_and_passes_differ() {
        for level in [PoolLevel::Everything, PoolLevel::Weight(12)] {
            let table = table(53, &[]);
            let plan = plan(true, level);
            let (first, again, second) = (
                pass(&plan, &table, 0),
                pass(&plan, &table, 0),
                pass(&plan, &table, 1),
            );
            assert_eq!(first, again);
            assert_ne!(first, second);
            let mut all: Vec<u32> = first.concat();
            all.sort_unstable();
            assert_eq!(all, (0..53).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_bounded_pool_draws_only_what_has_arrived() {
        let batches = pass(&plan(true, PoolLevel::Weight(12)), &table(1000, &[]), 0);
        for (number, batch) in batches.iter().enumerate() {
            // At most 12 + 9 wait after a refill, so nothing later than that can be drawn.
            let arrived = number as u32 * 4 + 12 + 10;
            assert!(batch.iter().all(|sample| *sample < arrived));
        }
    }

    #[test]
    fn weights_fill_batches_and_overflow_waits() {
        let table = table(5, &[3, 3, 1, 2, 4]);
        let over = plan(false, PoolLevel::Everything);
        assert_eq!(pass(&over, &table, 0), [vec![0, 1], vec![2, 3, 4]]);
        let strict = OrderPlan {
            can_over_batch_size: false,
            ..over
        };
        assert_eq!(
            pass(&strict, &table, 0),
            [vec![0], vec![1, 2], vec![3], vec![4]]
        );
    }

    #[test]
    fn a_sample_heavier_than_a_batch_is_refused() {
        let (table, mut pool) = (table(1, &[9]), Pool::new());
        pool.enter(&table, 0..1);
        let strict = OrderPlan {
            can_over_batch_size: false,
            ..plan(false, PoolLevel::Everything)
        };
        let failed = pool.draw(
            &strict,
            &table,
            &mut DataRandom::new(0, 0, 0),
            &mut Vec::new(),
        );
        assert!(matches!(
            failed,
            Err(DataError::TooHeavy {
                weight: 9,
                batch: 4
            })
        ));
    }

    #[test]
    fn compaction_keeps_the_waiting_samples() {
        let mut whole = table(6000, &[]);
        let plan = plan(true, PoolLevel::Everything);
        let (mut pool, mut random) = (Pool::new(), DataRandom::new(1, 0, 0));
        pool.enter(&whole, 0..6000);
        let mut batch = Vec::new();
        for _ in 0..1000 {
            pool.draw(&plan, &whole, &mut random, &mut batch).unwrap();
        }
        let before: Vec<u32> = pool.waiting.iter().copied().collect();
        pool.compact(&mut whole);
        assert_eq!(whole.len(), 2000);
        let ids = whole.batch(&(0..2000).collect::<Vec<_>>()).unwrap();
        assert_eq!(ids.slots[0].data, nn::batch::SlotData::Ids(before));
    }

    #[test]
    fn files_are_shuffled_only_where_nothing_else_depends_on_them() {
        let order = |plan: &OrderPlan| files(plan, &mut DataRandom::new(3, 0, 0), 40).concat();
        let straight: Vec<u32> = (0..40).collect();
        assert_eq!(order(&plan(false, PoolLevel::Weight(9))), straight);
        assert_eq!(order(&plan(true, PoolLevel::Everything)), straight);
        let bounded = plan(true, PoolLevel::Weight(9));
        assert_ne!(order(&bounded), straight);
        assert_eq!(
            order(&OrderPlan {
                cache: true,
                ..bounded
            }),
            straight
        );
        assert_eq!(files(&bounded, &mut DataRandom::new(3, 0, 0), 40).len(), 3);
    }

    #[test]
    fn levels_follow_the_two_sizes() {
        assert_eq!(PoolLevel::new(-1, -1, 128), PoolLevel::Everything);
        assert_eq!(PoolLevel::new(5000, -1, 128), PoolLevel::Weight(5000));
        assert_eq!(PoolLevel::new(5, 0, 128), PoolLevel::Weight(128));
        assert_eq!(PoolLevel::new(-1, 9000, 128), PoolLevel::Weight(9000));
        assert_eq!(PoolLevel::new(-1, 0, 128), PoolLevel::Weight(2048));
    }
}
