//! W4: pulls and pushes of rows of a large table.

use super::rig::{BenchError, Rig, Transport, table};
use super::{cpu_time, median};
use optim::{Method, Rule};
use std::fmt;
use std::time::Instant;
use wire::{Encoding, Error, Rows, Session, TableId};

const TABLE: TableId = TableId(0);
const DISTINCT_BATCHES: usize = 8;

/// What to measure.
#[derive(Debug, Clone, Copy)]
pub struct Sparse {
    /// Rows of the table; all are touched before the clock starts.
    pub rows: u64,
    /// Numbers in a row.
    pub cols: u32,
    /// Distinct rows that each trainer pulls and pushes in a step.
    pub ids: usize,
    /// Trainers.
    pub trainers: u32,
    /// Servers.
    pub servers: u32,
    /// Steps that are timed.
    pub steps: u32,
    /// How bytes travel.
    pub transport: Transport,
    /// How numbers are written.
    pub encoding: Encoding,
}

impl Default for Sparse {
    fn default() -> Self {
        Self {
            rows: 10_000_000,
            cols: 16,
            ids: 100_000,
            trainers: 2,
            servers: 2,
            steps: 30,
            transport: Transport::Unix,
            encoding: Encoding::F32,
        }
    }
}

/// What came out.
#[derive(Debug, Clone)]
pub struct SparseResult {
    /// Ids (one pull and one push each) a second, over all trainers.
    pub ids_per_second: f64,
    /// Ids for each second of CPU time.
    pub ids_per_cpu_second: f64,
    /// The middle pull of a step, seconds.
    pub median_pull: f64,
    /// The middle push of a step, until a later pull proves it applied, seconds.
    pub median_push: f64,
    /// Bytes of memory that a touched row takes.
    pub bytes_per_row: f64,
    /// Bytes of its values and optimizer state.
    pub ideal_bytes_per_row: f64,
}

impl fmt::Display for SparseResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "ids per second       {:8.2} million",
            self.ids_per_second / 1e6
        )?;
        writeln!(
            f,
            "ids per CPU-second   {:8.2} million",
            self.ids_per_cpu_second / 1e6
        )?;
        writeln!(
            f,
            "pull                 {:8.3} ms (median)",
            self.median_pull * 1e3
        )?;
        writeln!(
            f,
            "push, acknowledged   {:8.3} ms (median)",
            self.median_push * 1e3
        )?;
        let share = self.bytes_per_row / self.ideal_bytes_per_row;
        write!(
            f,
            "memory of a row      {:8.1} bytes = {share:.3} of its values and state",
            self.bytes_per_row
        )
    }
}

impl Sparse {
    /// One client that pulls and pushes 10,000 rows.
    pub fn latency() -> Self {
        Self {
            rows: 1_000_000,
            ids: 10_000,
            trainers: 1,
            servers: 1,
            steps: 200,
            ..Self::default()
        }
    }

    /// Measures.
    pub fn run(&self) -> Result<SparseResult, BenchError> {
        let rule = Rule {
            method: Method::AdaGrad { epsilon: 1e-6 },
            ..Rule::sgd(0.05)
        };
        let specs = vec![table("emb", self.rows, self.cols, true, &rule)];
        let rig = Rig::start(
            self.servers,
            self.trainers,
            (self.transport, self.encoding),
            specs,
        )?;
        let results = rig.train(|trainer, session| {
            touch(session, self.rows, trainer, self.trainers)?;
            let batches: Vec<Vec<u32>> = (0..DISTINCT_BATCHES)
                .map(|at| zipf(self.rows, self.ids, u64::from(trainer) * 1000 + at as u64))
                .collect();
            let gradients = vec![0.01_f32; self.ids * self.cols as usize];
            let mut values = Vec::new();
            let (mut pulls, mut pushes) = (Vec::new(), Vec::new());
            let warm = DISTINCT_BATCHES as u32;
            let (mut begun, mut cpu) = (Instant::now(), cpu_time());
            for step in 0..warm + self.steps {
                if step == warm {
                    session.reduce(&mut [])?;
                    (begun, cpu) = (Instant::now(), cpu_time());
                }
                let ids = &batches[step as usize % batches.len()];
                let started = Instant::now();
                session.pull_rows(&mut [Rows {
                    table: TABLE,
                    ids,
                    values: &mut values,
                }])?;
                let pulled = Instant::now();
                session.start_batch(1);
                session.push_rows(TABLE, ids, &gradients[..ids.len() * self.cols as usize])?;
                session.finish_batch(0.0)?;
                session.wait_values(&mut [])?;
                if self.trainers == 1 {
                    let mut one = Vec::new();
                    session.pull_rows(&mut [Rows {
                        table: TABLE,
                        ids: &ids[..1],
                        values: &mut one,
                    }])?;
                }
                pulls.push((pulled - started).as_secs_f64());
                pushes.push(pulled.elapsed().as_secs_f64());
            }
            session.reduce(&mut [])?;
            let (elapsed, cpu) = (begun.elapsed(), cpu_time().saturating_sub(cpu));
            let timed = |mut times: Vec<f64>| times.split_off(warm as usize);
            Ok((elapsed, cpu, timed(pulls), timed(pushes)))
        })?;
        let (elapsed, cpu, mut pulls, mut pushes) =
            results.into_iter().next().expect("there is a trainer");
        let ids = f64::from(self.steps) * self.ids as f64 * f64::from(self.trainers);
        let (rows, bytes) = rig
            .servers
            .iter()
            .map(|server| server.size())
            .fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
        Ok(SparseResult {
            ids_per_second: ids / elapsed.as_secs_f64(),
            ids_per_cpu_second: ids / cpu.as_secs_f64(),
            median_pull: median(&mut pulls),
            median_push: median(&mut pushes),
            bytes_per_row: bytes as f64 / rows.max(1) as f64,
            ideal_bytes_per_row: f64::from(self.cols) * 4.0 * (1 + rule.slots()) as f64,
        })
    }
}

/// Makes this trainer's share of all rows exist.
fn touch(session: &mut Session, rows: u64, trainer: u32, trainers: u32) -> Result<(), Error> {
    let mut values = Vec::new();
    for first in (0..rows)
        .step_by(100_000)
        .skip(trainer as usize)
        .step_by(trainers as usize)
    {
        let ids: Vec<u32> = (first..rows.min(first + 100_000))
            .map(|id| id as u32)
            .collect();
        session.pull_rows(&mut [Rows {
            table: TABLE,
            ids: &ids,
            values: &mut values,
        }])?;
    }
    Ok(())
}

/// Distinct ids, ascending, drawn from a Zipf distribution with exponent 1.05 and scattered over the table.
fn zipf(rows: u64, count: usize, seed: u64) -> Vec<u32> {
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
            let rank = ((top * uniform + 1.0).powf(1.0 / exponent)).min(rows as f64) as u64;
            ids.push((rank.wrapping_mul(0x9e37_79b1) % rows) as u32);
        }
        ids.sort_unstable();
        ids.dedup();
    }
    // An even thinning, so that no region of the table is preferred.
    let surplus = ids.len();
    (0..count).map(|at| ids[at * surplus / count]).collect()
}
