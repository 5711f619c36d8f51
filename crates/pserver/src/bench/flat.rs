//! The cost per id in tables of several sizes, measured alternately in one run.

use super::rig::{BenchError, Rig, Transport, table};
use super::rows::{DISTINCT_BATCHES, Draw, batches, pull, push, rule, touch};
use super::{cpu_time, median};
use crate::table::StoredSize;
use std::time::{Duration, Instant};
use wire::{Encoding, Error, Session, TableId};

/// Size of the measurement.
#[derive(Debug, Clone)]
pub struct Flat {
    /// Rows of each table; all exist before the clock starts.
    pub rows: Vec<u64>,
    /// Values per row.
    pub cols: u32,
    /// Distinct rows that each trainer pulls and pushes in a step.
    pub ids: usize,
    /// Number of trainers.
    pub trainers: u32,
    /// Number of servers.
    pub servers: u32,
    /// Turns of every table; the median counts.
    pub rounds: u32,
}

impl Default for Flat {
    fn default() -> Self {
        Self {
            rows: vec![1_000_000, 10_000_000, 50_000_000],
            cols: 16,
            ids: 100_000,
            trainers: 2,
            servers: 2,
            rounds: 7,
        }
    }
}

/// Results of the measurement.
#[derive(Debug, Clone)]
pub struct FlatResult {
    /// Seconds of CPU time per id of a batch drawn from Zipf's distribution, one entry per table.
    pub zipf: Vec<f64>,
    /// The same for batches in which all rows are equally likely.
    pub uniform: Vec<f64>,
    /// Seconds until all rows existed.
    pub filled: f64,
    /// Bytes of memory per existing row.
    pub bytes_per_row: f64,
}

/// The most expensive id divided by the cheapest.
pub fn spread(costs: &[f64]) -> f64 {
    let most = costs.iter().copied().fold(0.0, f64::max);
    most / costs.iter().copied().fold(f64::INFINITY, f64::min)
}

/// One table with one kind of batches.
struct Turn {
    table: TableId,
    batches: Vec<Vec<u32>>,
    costs: Vec<f64>,
}

impl Flat {
    /// Measures.
    pub fn run(&self) -> Result<FlatResult, BenchError> {
        let sizes = self.rows.iter().enumerate();
        let specs =
            sizes.map(|(at, rows)| table(&format!("t{at}"), *rows, self.cols, true, &rule()));
        let how = (Transport::Unix, Encoding::F32);
        let rig = Rig::start(self.servers, self.trainers, how, specs.collect())?;
        let results = rig.train(|trainer, session| self.work(trainer, session))?;
        let (filled, turns) = results.into_iter().next().expect("there is a trainer");
        let middle = |turns: &[Turn]| {
            let costs = turns.iter().map(|turn| median(&mut turn.costs.clone()));
            costs.collect()
        };
        let (zipf, uniform) = turns.split_at(self.rows.len());
        let size: StoredSize = rig.servers.iter().map(|server| server.size()).sum();
        Ok(FlatResult {
            zipf: middle(zipf),
            uniform: middle(uniform),
            filled: filled.as_secs_f64(),
            bytes_per_row: size.bytes as f64 / size.rows.max(1) as f64,
        })
    }

    /// Every table's turn again and again, first with one kind of batches, then with the other; also the time for
    /// filling.
    fn work(&self, trainer: u32, session: &mut Session) -> Result<(Duration, Vec<Turn>), Error> {
        let begun = Instant::now();
        let tables: Vec<TableId> = (0..self.rows.len() as u32).map(TableId).collect();
        for table in &tables {
            touch(session, *table, (trainer, self.trainers), self.ids)?;
        }
        session.reduce(&mut [])?;
        let filled = begun.elapsed();
        let turn = |draw, (table, rows): (&TableId, &u64)| Turn {
            table: *table,
            batches: batches(draw, *rows, self.ids, trainer),
            costs: Vec::new(),
        };
        let of = |draw| {
            tables
                .iter()
                .zip(&self.rows)
                .map(move |size| turn(draw, size))
        };
        let mut turns: Vec<Turn> = of(Draw::Zipf).chain(of(Draw::Uniform)).collect();
        let gradients = vec![0.01_f32; self.ids * self.cols as usize];
        let mut values = Vec::new();
        for round in 0..=self.rounds {
            for turn in &mut turns {
                session.reduce(&mut [])?;
                let cpu = cpu_time();
                for ids in &turn.batches {
                    pull(session, turn.table, ids, &mut values)?;
                    push(session, turn.table, ids, &gradients)?;
                }
                session.reduce(&mut [])?;
                let cost = cpu_time().saturating_sub(cpu).as_secs_f64();
                // The first round only warms up.
                if round > 0 {
                    turn.costs.push(cost / self.ids_of_a_turn());
                }
            }
        }
        Ok((filled, turns))
    }

    fn ids_of_a_turn(&self) -> f64 {
        (DISTINCT_BATCHES * self.ids) as f64 * f64::from(self.trainers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_is_measured_and_the_spread_is_the_worst_by_the_best() {
        let flat = Flat {
            rows: vec![1000, 3000],
            cols: 4,
            ids: 100,
            rounds: 2,
            ..Flat::default()
        };
        let result = flat.run().unwrap();
        assert_eq!((result.zipf.len(), result.uniform.len()), (2, 2));
        assert!(result.bytes_per_row >= 32.0);
        assert_eq!(spread(&[2.0, 1.0, 3.0]), 3.0);
    }
}
