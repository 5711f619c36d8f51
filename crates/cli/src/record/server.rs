//! A server's part of a record: snapshots, recoveries, sizes of sparse tables, and its present state.

use std::sync::Arc;
use std::time::Instant;

use pserver::Server;
use pserver::metrics::{Heat, ServerCounts, TableMetrics};
use watch::recorder::{RecordError, Recorder};
use words::event::{Event, ProcessStart};
use words::process::Role;
use words::status::{HotShard, Status};

use super::Folder;
use super::heart::Heart;
use super::notes::Notes;

/// A table that grew by less than this fraction is not recorded again.
const GROWTH: f64 = 0.02;

/// Busiest shards of a table that a status names.
const SHOWN_SHARDS: usize = 3;

/// Writes what a server does. Dropping it ends the record.
#[derive(Debug)]
pub(crate) struct ServerRecord {
    /// When dropped, it records what is new once more and ends.
    _heart: Heart,
}

/// Begins the record of a server.
pub(crate) fn begin(
    folder: &Folder,
    start: ProcessStart,
    server: Arc<Server>,
    notes: Arc<Notes>,
) -> anyhow::Result<ServerRecord> {
    let mut recorder = Recorder::append(&folder.file("server.events.jsonl"))?;
    let base = Status {
        run: start.run.clone(),
        role: Some(Role::Pserver),
        node: start.node,
        pid: start.pid,
        host: start.host.clone(),
        status_port: start.status_port,
        ..Status::default()
    };
    recorder.record(Event::Start(Box::new(start)))?;
    recorder.flush()?;
    let mut watcher = Watcher {
        recorder: Some(recorder),
        notes,
        told: Recorded::default(),
        rates: RateMeter::default(),
    };
    let heart = Heart::start(folder.file("server.beat.json"), move || {
        watcher.look(&server, &base)
    })?;
    Ok(ServerRecord { _heart: heart })
}

struct Watcher {
    recorder: Option<Recorder>,
    notes: Arc<Notes>,
    told: Recorded,
    rates: RateMeter,
}

impl Watcher {
    fn look(&mut self, server: &Server, base: &Status) -> Status {
        let counts = server.counts();
        let mut news = self.told.news(&counts);
        let notes = self.notes.take().into_iter();
        news.extend(notes.map(|text| Event::Note { text }));
        if let Some(recorder) = &mut self.recorder
            && write(recorder, news).is_err()
        {
            // A full disk ends the record, not the server.
            self.recorder = None;
        }
        let rates = self.rates.look(&counts, Instant::now());
        Status {
            received_bytes_per_second: rates.map(|rates| rates.received),
            sent_bytes_per_second: rates.map(|rates| rates.sent),
            waiting: rates.map(|rates| rates.waiting),
            hot_shards: hot_shards(&server.heat()),
            ..status(server, base)
        }
    }
}

/// The busiest shards of each table, as far as they are busier than the others.
fn hot_shards(heat: &[Heat]) -> Vec<HotShard> {
    let of_table = |heat: &Heat| {
        let (table, mean) = (heat.table.clone(), heat.mean);
        let busier = heat
            .hottest
            .iter()
            .filter(move |(_, touched)| *touched as f64 > mean);
        let busiest = busier
            .take(SHOWN_SHARDS)
            .map(move |(shard, touched)| HotShard {
                table: table.clone(),
                shard: *shard,
                touched: *touched,
                mean,
            });
        busiest.collect::<Vec<_>>()
    };
    heat.iter().flat_map(of_table).collect()
}

/// The status of a server, on top of what does not change.
pub(crate) fn status(server: &Server, base: &Status) -> Status {
    let report = server.report();
    Status {
        pass: Some(report.status.pass),
        step: server.takes_steps().then_some(report.status.step),
        phase: Some(report.phase),
        waits_for: report.status.waits_for,
        waits_on: server.waits_on(),
        busy: server.is_busy(),
        task: server.task(),
        snapshot_step: report.snapshots.last().map(|step| step.0),
        snapshot_wanted: report.wanted.map(|step| step.0),
        snapshot_on_all: server.stable().map(|step| step.0),
        snapshot_age: server.snapshot_age(),
        ..base.clone()
    }
}

fn write(recorder: &mut Recorder, news: Vec<Event>) -> Result<(), RecordError> {
    if news.is_empty() {
        return Ok(());
    }
    for record in news {
        recorder.record(record)?;
    }
    recorder.flush()
}

/// What the record already contains.
#[derive(Debug, Default)]
struct Recorded {
    snapshot: Option<u64>,
    epoch: u64,
    rows: Vec<u64>,
}

impl Recorded {
    fn news(&mut self, counts: &ServerCounts) -> Vec<Event> {
        let mut news = Vec::new();
        if counts.epoch != self.epoch {
            if self.epoch > 0 || counts.epoch > 1 || counts.restored {
                news.push(Event::Recovery {
                    epoch: counts.epoch,
                    // The server has made steps since.
                    step: counts.begun,
                    restored: counts.restored,
                });
            }
            self.epoch = counts.epoch;
        }
        if let (Some(step), true) = (counts.snapshot_step, counts.snapshot_step != self.snapshot) {
            news.push(Event::Snapshot { step });
            self.snapshot = counts.snapshot_step;
        }
        let sparse: Vec<&TableMetrics> =
            counts.tables.iter().filter(|table| table.sparse).collect();
        let rows: Vec<u64> = sparse.iter().map(|table| table.rows).collect();
        if has_changed(&self.rows, &rows) {
            let tables = sparse.into_iter().map(|table| words::event::TableSize {
                name: table.name.clone(),
                rows: table.rows,
                bytes: table.bytes,
            });
            news.push(Event::Tables {
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

/// Bytes per second received and sent, and the mean number of waiting requests, over the last seconds.
#[derive(Debug, Default)]
struct RateMeter {
    marks: Vec<RateMark>,
}

/// What was counted at one time.
#[derive(Debug, Clone, Copy)]
struct RateMark {
    at: Instant,
    received: u64,
    sent: u64,
    waited: f64,
}

/// Per second.
#[derive(Debug, Clone, Copy, PartialEq)]
struct ServerRates {
    received: f64,
    sent: f64,
    /// Mean number of waiting requests.
    waiting: f64,
}

impl RateMeter {
    const WINDOW: f64 = 3.0;

    fn look(&mut self, counts: &ServerCounts, now: Instant) -> Option<ServerRates> {
        let mark = RateMark {
            at: now,
            received: counts.received_bytes,
            sent: counts.sent_bytes,
            waited: counts.barrier_wait,
        };
        self.marks.push(mark);
        let age = |mark: &RateMark| now.saturating_duration_since(mark.at).as_secs_f64();
        self.marks.retain(|mark| age(mark) <= Self::WINDOW);
        let first = self.marks.first()?;
        let seconds = age(first);
        (seconds > 0.0).then(|| ServerRates {
            received: mark.received.saturating_sub(first.received) as f64 / seconds,
            sent: mark.sent.saturating_sub(first.sent) as f64 / seconds,
            waiting: (mark.waited - first.waited).max(0.0) / seconds,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn counts(epoch: u64, snapshot: Option<u64>, rows: u64) -> ServerCounts {
        let table = |name: &str, sparse| TableMetrics {
            name: name.into(),
            rows,
            bytes: rows * 8,
            sparse,
        };
        ServerCounts {
            epoch,
            snapshot_step: snapshot,
            received_bytes: rows * 100,
            tables: vec![table("emb", true), table("w", false)],
            ..ServerCounts::default()
        }
    }

    #[test]
    fn only_changes_are_news() {
        let mut told = Recorded::default();
        let first = told.news(&counts(1, None, 1000));
        assert!(
            matches!(&first[..], [Event::Tables { tables }] if tables.len() == 1),
            "{first:?}"
        );
        assert!(told.news(&counts(1, None, 1010)).is_empty());
        let news = told.news(&counts(2, Some(40), 1030));
        let kinds: Vec<_> = news.iter().map(std::mem::discriminant).collect();
        assert_eq!(kinds.len(), 3, "{news:?}");
        assert!(told.news(&counts(2, Some(40), 1031)).is_empty());
    }

    #[test]
    fn a_recovery_names_the_step_that_was_restored_and_not_a_later_one() {
        let restored = ServerCounts {
            step: 395,
            begun: 316,
            restored: true,
            tables: Vec::new(),
            ..counts(1, None, 0)
        };
        let news = Recorded::default().news(&restored);
        assert!(
            matches!(&news[..], [Event::Recovery { step: 316, .. }]),
            "{news:?}"
        );
    }

    #[test]
    fn rates_are_of_the_last_seconds() {
        let (mut rates, begun) = (RateMeter::default(), Instant::now());
        assert_eq!(rates.look(&counts(1, None, 0), begun), None);
        let later = begun + Duration::from_secs(2);
        assert_eq!(
            rates.look(&counts(1, None, 4), later),
            Some(ServerRates {
                received: 200.0,
                sent: 0.0,
                waiting: 0.0
            })
        );
    }
}
