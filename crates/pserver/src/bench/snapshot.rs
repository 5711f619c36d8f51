//! What snapshots cost: W4's steps without any, and with one every so many steps.

use super::rig::{BenchError, Rig, Transport, table};
use super::rows::{Draw, batches, pull, push, rule, touch};
use std::path::PathBuf;
use std::time::Instant;
use wire::{Encoding, TableId};

const TABLE: TableId = TableId(0);

/// Size of the measurement.
#[derive(Debug, Clone)]
pub struct Snapshots {
    /// Rows of the table; all exist before the clock starts.
    pub rows: u64,
    /// Values per row.
    pub cols: u32,
    /// Distinct rows that each trainer pulls and pushes in a step.
    pub ids: usize,
    /// Steps that are timed, without snapshots and then with them.
    pub steps: u32,
    /// Steps between two snapshots.
    pub every: u64,
    /// Where they are written.
    pub directory: PathBuf,
}

/// Results of the measurement; times are in seconds.
#[derive(Debug, Clone, Copy)]
pub struct SnapshotsResult {
    /// Mean step without snapshots.
    pub plain: f64,
    /// Longest step without snapshots.
    pub longest_plain: f64,
    /// Mean step with snapshots.
    pub with: f64,
    /// Longest step with snapshots.
    pub longest_with: f64,
    /// Snapshots that were completed on all servers.
    pub written: u64,
    /// Bytes of one snapshot, over all servers.
    pub bytes: u64,
}

impl SnapshotsResult {
    /// What a step costs more with snapshots, as a share of a step without.
    pub fn share(&self) -> f64 {
        self.with / self.plain - 1.0
    }
}

impl Snapshots {
    /// Measures.
    pub fn run(&self) -> Result<SnapshotsResult, BenchError> {
        let (plain, _) = self.steps(None)?;
        let (with, rig) = self.steps(Some(self.every))?;
        let counts: Vec<_> = rig.servers.iter().map(|server| server.counts()).collect();
        let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len().max(1) as f64;
        let longest = |times: &[f64]| times.iter().copied().fold(0.0, f64::max);
        let steps = counts.iter().filter_map(|counts| counts.snapshot_step);
        Ok(SnapshotsResult {
            plain: mean(&plain),
            longest_plain: longest(&plain),
            with: mean(&with),
            longest_with: longest(&with),
            written: steps.min().unwrap_or(0) / self.every.max(1),
            bytes: rig.servers.iter().map(|server| server.size().bytes).sum(),
        })
    }

    /// The times of the steps of trainer 0, and what ran.
    fn steps(&self, every: Option<u64>) -> Result<(Vec<f64>, Rig), BenchError> {
        let specs = vec![table("emb", self.rows, self.cols, true, &rule())];
        let how = (Transport::Unix, Encoding::F32);
        let snapshots = every.map(|every| (self.directory.clone(), every));
        let rig = Rig::start_with(2, 2, how, specs, snapshots)?;
        let times = rig.train(|trainer, session| {
            touch(session, TABLE, (trainer, 2), self.ids)?;
            let batches = batches(Draw::Zipf, self.rows, self.ids, trainer);
            let gradients = vec![0.01_f32; self.ids * self.cols as usize];
            let mut values = Vec::new();
            let mut times = Vec::new();
            session.reduce(&mut [])?;
            for step in 0..self.steps {
                let ids = &batches[step as usize % batches.len()];
                let begun = Instant::now();
                pull(session, TABLE, ids, &mut values)?;
                push(session, TABLE, ids, &gradients)?;
                times.push(begun.elapsed().as_secs_f64());
            }
            session.reduce(&mut [])?;
            Ok(times)
        })?;
        let times = times.into_iter().next().expect("there is a trainer");
        Ok((times, rig))
    }
}
