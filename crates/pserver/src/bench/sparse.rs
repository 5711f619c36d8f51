//! W4: pulls and pushes of rows of a large table.

use super::rig::{BenchError, Rig, Transport, table};
use super::rows::{DISTINCT_BATCHES, Draw, batches, pull, push, rule, touch};
use super::{cpu_time, median};
use crate::table::StoredSize;
use std::fmt;
use std::time::Instant;
use wire::{Encoding, TableId};

const TABLE: TableId = TableId(0);

/// Size of the measurement.
#[derive(Debug, Clone, Copy)]
pub struct Sparse {
    /// Rows of the table; all exist before the clock starts.
    pub rows: u64,
    /// Values per row.
    pub cols: u32,
    /// Distinct rows that each trainer pulls and pushes in a step.
    pub ids: usize,
    /// Number of trainers.
    pub trainers: u32,
    /// Number of servers.
    pub servers: u32,
    /// Steps that are timed.
    pub steps: u32,
    /// TCP, TLS or unix sockets.
    pub transport: Transport,
    /// How values are encoded.
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

/// Results of the measurement.
#[derive(Debug, Clone)]
pub struct SparseResult {
    /// Ids (one pull and one push each) per second, over all trainers.
    pub ids_per_second: f64,
    /// Ids per second of CPU time.
    pub ids_per_cpu_second: f64,
    /// Median pull of a step, in seconds.
    pub median_pull: f64,
    /// Median push of a step, until a later pull proves that it was applied, in seconds.
    pub median_push: f64,
    /// Bytes of memory per existing row.
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
        let rule = rule();
        let specs = vec![table("emb", self.rows, self.cols, true, &rule)];
        let rig = Rig::start(
            self.servers,
            self.trainers,
            (self.transport, self.encoding),
            specs,
        )?;
        let results = rig.train(|trainer, session| {
            touch(session, TABLE, (trainer, self.trainers), self.ids)?;
            let batches = batches(Draw::Zipf, self.rows, self.ids, trainer);
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
                pull(session, TABLE, ids, &mut values)?;
                let pulled = Instant::now();
                push(session, TABLE, ids, &gradients)?;
                if self.trainers == 1 {
                    pull(session, TABLE, &ids[..1], &mut Vec::new())?;
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
        let size: StoredSize = rig.servers.iter().map(|server| server.size()).sum();
        Ok(SparseResult {
            ids_per_second: ids / elapsed.as_secs_f64(),
            ids_per_cpu_second: ids / cpu.as_secs_f64(),
            median_pull: median(&mut pulls),
            median_push: median(&mut pushes),
            bytes_per_row: size.bytes as f64 / size.rows.max(1) as f64,
            ideal_bytes_per_row: f64::from(self.cols) * 4.0 * (1 + rule.slots()) as f64,
        })
    }
}
