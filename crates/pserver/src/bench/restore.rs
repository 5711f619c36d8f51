//! How long a job takes to continue from a snapshot of a large table, and how large the table is in memory.

use super::rig::{BenchError, Rig, Transport, table};
use super::rows::{pull, push, rule, touch};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use wire::{Encoding, TableId};

const TABLE: TableId = TableId(0);

/// Servers that the table is on.
const SERVERS: u32 = 2;

/// Size of the measurement.
#[derive(Debug, Clone)]
pub struct Restore {
    /// Rows of the table; all exist.
    pub rows: u64,
    /// Values per row.
    pub cols: u32,
    /// Where the snapshot is written; a folder that is empty.
    pub directory: PathBuf,
}

/// Results of the measurement.
#[derive(Debug, Clone, Copy)]
pub struct RestoreResult {
    /// Seconds from the order of a snapshot until all servers have it.
    pub written: f64,
    /// Seconds from the first connection until the servers have restored it and the trainer may begin.
    pub restored: f64,
    /// Bytes of the snapshot's files.
    pub bytes: u64,
    /// Bytes of the table in memory.
    pub table: u64,
}

impl Restore {
    /// Measures.
    pub fn run(&self) -> Result<RestoreResult, BenchError> {
        let ids: Vec<u32> = (0..self.rows.min(1000) as u32).collect();
        let first = self.rig()?;
        let lives = first.train(|_, session| {
            touch(session, TABLE, (0, 1), ids.len())?;
            let gradients = vec![1.0_f32; ids.len() * self.cols as usize];
            let mut values = Vec::new();
            let begun = Instant::now();
            first
                .servers
                .iter()
                .for_each(|server| server.want_snapshot());
            while first.servers.iter().any(|server| server.stable().is_none()) {
                pull(session, TABLE, &ids, &mut values)?;
                push(session, TABLE, &ids, &gradients)?;
                std::thread::sleep(Duration::from_millis(20));
            }
            Ok(begun.elapsed().as_secs_f64())
        })?;
        drop(first);
        let bytes = folder_size(&self.directory).map_err(BenchError::Stream)?;
        let second = self.rig()?;
        let begun = Instant::now();
        let found = second.train(|_, session| {
            let restored = begun.elapsed().as_secs_f64();
            let step = session.step();
            let mut values = Vec::new();
            pull(session, TABLE, &ids[..1], &mut values)?;
            Ok((restored, step, values[0]))
        })?;
        let (restored, step, value) = found[0];
        if step.0 == 0 || value == 0.0 {
            let text = format!("row 0 is {value} at step {step}: nothing was restored");
            return Err(BenchError::Wrong(text));
        }
        Ok(RestoreResult {
            written: lives[0],
            restored,
            bytes,
            table: second
                .servers
                .iter()
                .map(|server| server.size().bytes)
                .sum(),
        })
    }

    fn rig(&self) -> Result<Rig, BenchError> {
        let specs = vec![table("emb", self.rows, self.cols, true, &rule())];
        let how = (Transport::Unix, Encoding::F32);
        // Only on order.
        let snapshots = Some((self.directory.clone(), 1 << 40));
        Rig::start_with(SERVERS, 1, how, specs, snapshots)
    }
}

/// Bytes of all files below a folder; a file with two names counts twice.
fn folder_size(folder: &std::path::Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let found = entry.metadata()?;
        bytes += match found.is_dir() {
            true => folder_size(&entry.path())?,
            false => found.len(),
        };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_restored() {
        let folder = tempfile::tempdir().unwrap();
        let restore = Restore {
            rows: 5_000,
            cols: 2,
            directory: folder.path().to_owned(),
        };
        let result = restore.run().unwrap();
        assert!(result.bytes > 5_000 * 2 * 4, "{result:?}");
    }
}
