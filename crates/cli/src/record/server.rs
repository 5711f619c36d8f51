//! A server's part of a record: snapshots, recoveries, sizes of sparse tables, and its present state.

use std::sync::Arc;
use std::time::Instant;

use pserver::Server;
use pserver::metrics::{Counts, TableSize};
use watch::beat::Beat;
use watch::record::{Record, Role, Start};
use watch::recorder::{RecordError, Recorder};

use super::Folder;
use super::heart::Heart;

/// A table that grew by less than this part is not worth a record.
const GROWTH: f64 = 0.02;

/// Writes what a server does. Dropping it ends the record.
#[derive(Debug)]
pub struct ServerRecord {
    /// Ends, with its last looks, when dropped.
    _heart: Heart,
}

/// Begins the record of a server.
pub fn begin(folder: &Folder, start: Start, server: Arc<Server>) -> anyhow::Result<ServerRecord> {
    let mut recorder = Recorder::append(&folder.file("server.events.jsonl"))?;
    let base = Beat {
        run: start.run.clone(),
        role: Role::Pserver,
        pid: start.pid,
        host: start.host.clone(),
        status_port: start.status_port,
        ..Beat::default()
    };
    recorder.record(Record::Start(Box::new(start)))?;
    recorder.flush()?;
    let mut watcher = Watcher {
        recorder: Some(recorder),
        told: Told::default(),
        rates: Rates::default(),
    };
    let heart = Heart::start(folder.file("server.beat.json"), move || {
        watcher.look(&server, &base)
    })?;
    Ok(ServerRecord { _heart: heart })
}

struct Watcher {
    recorder: Option<Recorder>,
    told: Told,
    rates: Rates,
}

impl Watcher {
    fn look(&mut self, server: &Server, base: &Beat) -> Beat {
        let (counts, report) = (server.counts(), server.report());
        let news = self.told.news(&counts);
        if let Some(recorder) = &mut self.recorder
            && write(recorder, news).is_err()
        {
            // A disk that is full ends the record, not the server.
            self.recorder = None;
        }
        let rates = self.rates.look(&counts, Instant::now());
        Beat {
            pass: Some(report.status.pass),
            step: Some(counts.step),
            received_bytes_per_second: rates.map(|rates| rates.0),
            sent_bytes_per_second: rates.map(|rates| rates.1),
            waiting: rates.map(|rates| rates.2),
            phase: format!("{:?}", report.phase).to_lowercase(),
            waits_for: report.status.waits_for,
            ..base.clone()
        }
    }
}

fn write(recorder: &mut Recorder, news: Vec<Record>) -> Result<(), RecordError> {
    if news.is_empty() {
        return Ok(());
    }
    for record in news {
        recorder.record(record)?;
    }
    recorder.flush()
}

/// What the record holds already.
#[derive(Debug, Default)]
struct Told {
    snapshot: Option<u64>,
    epoch: u64,
    rows: Vec<u64>,
}

impl Told {
    fn news(&mut self, counts: &Counts) -> Vec<Record> {
        let mut news = Vec::new();
        if counts.epoch != self.epoch {
            if self.epoch > 0 || counts.epoch > 1 {
                news.push(Record::Recovery {
                    epoch: counts.epoch,
                    step: counts.step,
                });
            }
            self.epoch = counts.epoch;
        }
        if let (Some(step), true) = (counts.snapshot_step, counts.snapshot_step != self.snapshot) {
            news.push(Record::Snapshot { step });
            self.snapshot = counts.snapshot_step;
        }
        let sparse: Vec<&TableSize> = counts.tables.iter().filter(|table| table.sparse).collect();
        let rows: Vec<u64> = sparse.iter().map(|table| table.rows).collect();
        if has_changed(&self.rows, &rows) {
            let tables = sparse.into_iter().map(|table| watch::record::TableSize {
                name: table.name.clone(),
                rows: table.rows,
                bytes: table.bytes,
            });
            news.push(Record::Tables {
                tables: tables.collect(),
            });
            self.rows = rows;
        }
        news
    }
}

fn has_changed(before: &[u64], now: &[u64]) -> bool {
    let moved =
        |(before, now): (&u64, &u64)| now.abs_diff(*before) as f64 > GROWTH * *before as f64;
    before.len() != now.len() || before.iter().zip(now).any(moved)
}

/// Bytes a second received and sent, and requests that waited on average, over the last seconds.
#[derive(Debug, Default)]
struct Rates {
    marks: Vec<(Instant, u64, u64, f64)>,
}

impl Rates {
    const WINDOW: f64 = 3.0;

    fn look(&mut self, counts: &Counts, now: Instant) -> Option<(f64, f64, f64)> {
        let mark = (
            now,
            counts.received_bytes,
            counts.sent_bytes,
            counts.barrier_wait,
        );
        self.marks.push(mark);
        self.marks
            .retain(|(at, ..)| now.saturating_duration_since(*at).as_secs_f64() <= Self::WINDOW);
        let first = self.marks.first()?;
        let seconds = now.saturating_duration_since(first.0).as_secs_f64();
        (seconds > 0.0).then(|| {
            (
                mark.1.saturating_sub(first.1) as f64 / seconds,
                mark.2.saturating_sub(first.2) as f64 / seconds,
                (mark.3 - first.3).max(0.0) / seconds,
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn counts(epoch: u64, snapshot: Option<u64>, rows: u64) -> Counts {
        let table = |name: &str, sparse| TableSize {
            name: name.into(),
            rows,
            bytes: rows * 8,
            sparse,
        };
        Counts {
            epoch,
            snapshot_step: snapshot,
            received_bytes: rows * 100,
            tables: vec![table("emb", true), table("w", false)],
            ..Counts::default()
        }
    }

    #[test]
    fn only_changes_are_news() {
        let mut told = Told::default();
        let first = told.news(&counts(1, None, 1000));
        assert!(
            matches!(&first[..], [Record::Tables { tables }] if tables.len() == 1),
            "{first:?}"
        );
        assert!(told.news(&counts(1, None, 1010)).is_empty());
        let news = told.news(&counts(2, Some(40), 1030));
        let kinds: Vec<_> = news.iter().map(std::mem::discriminant).collect();
        assert_eq!(kinds.len(), 3, "{news:?}");
        assert!(told.news(&counts(2, Some(40), 1031)).is_empty());
    }

    #[test]
    fn rates_are_of_the_last_seconds() {
        let (mut rates, begun) = (Rates::default(), Instant::now());
        assert_eq!(rates.look(&counts(1, None, 0), begun), None);
        let later = begun + Duration::from_secs(2);
        assert_eq!(
            rates.look(&counts(1, None, 4), later),
            Some((200.0, 0.0, 0.0))
        );
    }
}
