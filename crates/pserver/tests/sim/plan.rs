//! The job that is simulated: its chance, its numbers, and the model that an undisturbed run gives.

use super::Time;
use std::collections::BTreeMap;
use wire::owed::{Periods, Save};

/// A pass, and what of it is saved.
pub(super) type Place = (u64, Save);

/// The values of all servers that hold tables, and of these.
pub(super) type Values = Vec<Vec<u64>>;

/// A repeatable source of chance.
#[derive(Clone)]
pub(super) struct Chance(u64);

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Self(mix(seed ^ 0x5bd1_e995))
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0) % bound
    }

    pub(super) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

pub(super) fn mix(value: u64) -> u64 {
    let mut x = value.wrapping_mul(0xff51_afd7_ed55_8ccd);
    x ^= x >> 33;
    x = x.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ (x >> 29)
}

/// The job that is simulated.
#[derive(Clone)]
pub(crate) struct Plan {
    pub trainers: usize,
    pub servers: usize,
    /// Servers that hold tables: the first ones.
    pub holders: usize,
    pub tables: usize,
    pub passes: u64,
    pub batches: Vec<u64>,
    pub snapshot_every: u64,
    pub periods: Periods,
    pub faults_until: Time,
    /// How long each server's disk takes at most for a snapshot.
    pub disks: Vec<Time>,
    /// Disks that take nothing now and then.
    pub failing: bool,
}

impl Plan {
    pub(crate) fn from_seed(seed: u64) -> Self {
        let mut chance = Chance::new(seed.wrapping_mul(77));
        let trainers = 1 + chance.below(3) as usize;
        let servers = 1 + chance.below(3) as usize;
        Self {
            trainers,
            servers,
            holders: 1 + chance.below(servers as u64) as usize,
            tables: 1 + chance.below(3) as usize,
            passes: 1 + chance.below(2),
            batches: (0..trainers).map(|_| chance.below(7)).collect(),
            snapshot_every: 1 + chance.below(4),
            faults_until: 500 + chance.below(4000),
            periods: Periods {
                saving: 1 + chance.below(2),
                saving_by_batches: chance.below(4),
                test: 0,
                average_test: 0,
            },
            disks: (0..servers).map(|_| 1 + chance.below(300)).collect(),
            failing: chance.one_in(4),
        }
    }

    pub(crate) fn gradient(value: u64, trainer: usize, pass: u64, batch: u64) -> u64 {
        mix(value ^ mix(trainer as u64 + 1).wrapping_add(mix(pass * 1000 + batch)))
    }

    pub(crate) fn samples(trainer: usize, batch: u64) -> u64 {
        1 + trainer as u64 * 10 + batch
    }

    pub(crate) fn apply(value: u64, samples: u64, contributions: &[u64]) -> u64 {
        contributions
            .iter()
            .fold(mix(value ^ samples), |sum, part| {
                mix(sum.wrapping_add(*part))
            })
    }

    /// The values of all servers and tables after a run without faults, and all that is saved on the way.
    pub(crate) fn undisturbed(&self) -> (Values, BTreeMap<Place, Values>) {
        let mut saved = BTreeMap::new();
        let mut values = vec![vec![0_u64; self.tables]; self.holders];
        for (server, tables) in values.iter_mut().enumerate() {
            tables
                .iter_mut()
                .enumerate()
                .for_each(|(table, v)| *v = initial(server, table));
        }
        for pass in 0..self.passes {
            for batch in 0..self.batches.iter().copied().max().unwrap_or(0) {
                let active: Vec<usize> = (0..self.trainers)
                    .filter(|t| batch < self.batches[*t])
                    .collect();
                let samples = active.iter().map(|t| Self::samples(*t, batch)).sum();
                for value in values.iter_mut().flatten() {
                    let parts: Vec<u64> = active
                        .iter()
                        .map(|t| Self::gradient(*value, *t, pass, batch))
                        .collect();
                    *value = Self::apply(*value, samples, &parts);
                }
                let done = batch + 1;
                if let Some(save) = self.periods.inside(done).save
                    && done <= self.batches[0]
                {
                    saved.insert((pass, save), values.clone());
                }
            }
            if let Some(save) = self.periods.at_end(pass, pass + 1 == self.passes).save {
                saved.insert((pass, save), values.clone());
            }
        }
        (values, saved)
    }
}

pub(super) fn initial(server: usize, table: usize) -> u64 {
    mix((server * 100 + table + 1) as u64)
}
