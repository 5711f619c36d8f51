//! Counters of a server, in the text form that Prometheus reads.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use words::metrics::{Exposition, MetricKind, MetricValues};

/// A number that several threads add to. Some of them are gauges: see [`Counter::set`].
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to it.
    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Relaxed);
    }

    /// Sets it, for values that can also fall.
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// Raises it to at least `value`.
    pub fn raise(&self, value: u64) {
        self.0.fetch_max(value, Relaxed);
    }

    /// Adds a time, in microseconds.
    pub(crate) fn add_time(&self, time: Duration) {
        self.add(time.as_micros() as u64);
    }

    /// Its value.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// What a server counts. Times are in microseconds.
#[derive(Debug, Default)]
pub struct ServerMetrics {
    /// Pushes accepted.
    pub pushes: Counter,
    /// Pulls that were replied to.
    pub pulls: Counter,
    /// Payload bytes received.
    pub bytes_in: Counter,
    /// Payload bytes sent.
    pub bytes_out: Counter,
    /// Rows of sparse tables that trainers received.
    pub rows_pulled: Counter,
    /// Rows of sparse tables whose gradients arrived.
    pub rows_pushed: Counter,
    /// Time that requests waited for other trainers.
    pub barrier_wait: Counter,
    /// Time spent applying gradients.
    pub apply: Counter,
    /// Steps applied, of the first service.
    pub step: Counter,
    /// Passes finished.
    pub pass: Counter,
    /// The present generation.
    pub epoch: Counter,
    /// 1 if that generation began with a restored snapshot.
    pub restored: Counter,
    /// Steps that were applied when that generation began.
    pub begun: Counter,
    /// Generations that ended with a loss.
    pub losses: Counter,
    /// The largest number of batches that the fastest trainer was ahead when a push was applied.
    pub staleness: Counter,
    /// Connections refused: strangers, wrong tokens, garbage.
    pub refused: Counter,
    /// Snapshots written.
    pub snapshots: Counter,
    /// Snapshots whose writing failed.
    pub snapshot_failures: Counter,
    /// Step of the newest snapshot.
    pub snapshot_step: Counter,
    /// When the newest snapshot was written: milliseconds of the server's clock.
    pub snapshot_at: Counter,
    /// Time that batches waited until the previous snapshot was written.
    pub snapshot_wait: Counter,
    /// When trainer 0 last confirmed a newer common snapshot, or the generation began: milliseconds of the server's
    /// clock.
    pub confirmed_at: Counter,
    /// 1 while the newest common snapshot is older than three periods.
    pub overdue: Counter,
}

/// The size of a table, for the metrics.
#[derive(Debug, Clone)]
pub struct TableMetrics {
    /// The name of the parameter.
    pub name: String,
    /// Rows or values held.
    pub rows: u64,
    /// Bytes held.
    pub bytes: u64,
    /// Whether rows are created on first use.
    pub sparse: bool,
}

/// What a server has done so far; times are in seconds.
#[derive(Debug, Clone, Default)]
pub struct ServerCounts {
    /// Payload bytes received.
    pub received_bytes: u64,
    /// Payload bytes sent.
    pub sent_bytes: u64,
    /// Time that requests waited for other trainers, summed over requests.
    pub barrier_wait: f64,
    /// Steps applied.
    pub step: u64,
    /// The present generation.
    pub epoch: u64,
    /// Whether that generation began with a restored snapshot.
    pub restored: bool,
    /// Steps that were applied when that generation began.
    pub begun: u64,
    /// Step of the newest snapshot, if any was written.
    pub snapshot_step: Option<u64>,
    /// One entry per table of the job.
    pub tables: Vec<TableMetrics>,
}

/// What is not counted but looked up for each scrape.
#[derive(Debug, Default)]
pub struct Gauges {
    /// Milliseconds of the server's clock.
    pub now: u64,
    /// Trainers connected.
    pub members: u64,
    /// Step of the newest snapshot that all servers have.
    pub common_snapshot: Option<u64>,
    /// Steps since that snapshot.
    pub common_age: Option<u64>,
    /// One entry per table of the job.
    pub tables: Vec<TableMetrics>,
    /// How evenly the rows of sparse tables are used.
    pub heat: Vec<Heat>,
}

/// Busiest shards of a table that the metrics show.
const HOTTEST: usize = 16;

/// How evenly the shards of a sparse table are used.
#[derive(Debug, Clone, PartialEq)]
pub struct Heat {
    /// The name of the parameter.
    pub table: String,
    /// Rows pulled and pushed, mean over this server's shards.
    pub mean: f64,
    /// The busiest logical shards: (shard, rows pulled and pushed).
    pub hottest: Vec<(u32, u64)>,
}

impl Heat {
    /// From the rows pulled and pushed per shard; `None` for a table without shards here.
    pub fn of(table: &str, mut shards: Vec<(u32, u64)>) -> Option<Self> {
        if shards.is_empty() {
            return None;
        }
        let total: u64 = shards.iter().map(|(_, count)| count).sum();
        let mean = total as f64 / shards.len() as f64;
        shards.sort_unstable_by_key(|(shard, count)| (std::cmp::Reverse(*count), *shard));
        shards.truncate(HOTTEST);
        Some(Self {
            table: table.to_owned(),
            mean,
            hottest: shards,
        })
    }
}

impl ServerMetrics {
    /// The metrics as text.
    pub fn encode(&self, gauges: &Gauges) -> String {
        let mut text = Exposition::default();
        let seconds = |counter: &Counter| counter.get() as f64 / 1e6;
        let metrics = [
            ("pushes_total", "Pushes accepted", self.pushes.get() as f64),
            ("pulls_total", "Pulls replied to", self.pulls.get() as f64),
            (
                "received_bytes_total",
                "Payload bytes received",
                self.bytes_in.get() as f64,
            ),
            (
                "sent_bytes_total",
                "Payload bytes sent",
                self.bytes_out.get() as f64,
            ),
            (
                "rows_pulled_total",
                "Rows of sparse tables pulled",
                self.rows_pulled.get() as f64,
            ),
            (
                "rows_pushed_total",
                "Rows of sparse tables pushed",
                self.rows_pushed.get() as f64,
            ),
            (
                "barrier_wait_seconds_total",
                "Time requests waited for other trainers",
                seconds(&self.barrier_wait),
            ),
            (
                "apply_seconds_total",
                "Time spent applying gradients",
                seconds(&self.apply),
            ),
            ("step", "Steps applied", self.step.get() as f64),
            ("pass", "Passes finished", self.pass.get() as f64),
            (
                "epoch",
                "Generation of the job; grows with every recovery",
                self.epoch.get() as f64,
            ),
            (
                "losses_total",
                "Generations that ended with a loss",
                self.losses.get() as f64,
            ),
            (
                "staleness_batches_max",
                "Largest lead of a trainer over the slowest one at a push, in batches",
                self.staleness.get() as f64,
            ),
            (
                "refused_connections_total",
                "Connections refused",
                self.refused.get() as f64,
            ),
            ("trainers", "Trainers connected", gauges.members as f64),
            (
                "snapshots_total",
                "Snapshots written",
                self.snapshots.get() as f64,
            ),
            (
                "snapshot_failures_total",
                "Snapshots that could not be written",
                self.snapshot_failures.get() as f64,
            ),
            (
                "snapshot_step",
                "Step of the newest snapshot",
                self.snapshot_step.get() as f64,
            ),
            (
                "snapshot_age_seconds",
                "Age of the newest snapshot; -1 if there is none",
                self.snapshot_age(gauges.now),
            ),
            (
                "common_snapshot_step",
                "Step of the newest snapshot that all servers have, -1 without one",
                gauges.common_snapshot.map_or(-1.0, |step| step as f64),
            ),
            (
                "common_snapshot_age_steps",
                "Steps since the newest snapshot that all servers have or the start of the generation, -1 while none are taken",
                gauges.common_age.map_or(-1.0, |age| age as f64),
            ),
            (
                "common_snapshot_overdue",
                "1 while the newest common snapshot is older than three periods",
                self.overdue.get() as f64,
            ),
            (
                "snapshot_wait_seconds_total",
                "Time batches waited until the snapshot before was written",
                seconds(&self.snapshot_wait),
            ),
        ];
        for (name, help, value) in metrics {
            metric(&mut text, name, help).value(&[], value);
        }
        let help = "Rows of a sparse table that exist, or values of a dense table";
        let mut rows = metric(&mut text, "table_rows", help);
        for table in &gauges.tables {
            rows.value(&[("table", &table.name)], table.rows as f64);
        }
        let mut bytes = metric(&mut text, "table_bytes", "Memory used for a table");
        for table in &gauges.tables {
            bytes.value(&[("table", &table.name)], table.bytes as f64);
        }
        encode_heat(&mut text, &gauges.heat);
        text.into_text()
    }

    /// What was counted so far.
    pub fn counts(&self, tables: Vec<TableMetrics>) -> ServerCounts {
        ServerCounts {
            received_bytes: self.bytes_in.get(),
            sent_bytes: self.bytes_out.get(),
            barrier_wait: self.barrier_wait.get() as f64 / 1e6,
            step: self.step.get(),
            epoch: self.epoch.get(),
            restored: self.restored.get() > 0,
            begun: self.begun.get(),
            snapshot_step: (self.snapshots.get() > 0).then(|| self.snapshot_step.get()),
            tables,
        }
    }

    fn snapshot_age(&self, now: u64) -> f64 {
        if self.snapshots.get() == 0 {
            return -1.0;
        }
        now.saturating_sub(self.snapshot_at.get()) as f64 / 1000.0
    }
}

fn encode_heat(text: &mut Exposition, heat: &[Heat]) {
    let help = "Rows accessed, mean over the logical shards of a table";
    let mut mean = metric(text, "shard_touched_rows_mean", help);
    for heat in heat {
        mean.value(&[("table", &heat.table)], heat.mean);
    }
    let help = "Rows accessed in the busiest logical shards of a table";
    let mut total = metric(text, "shard_touched_rows_total", help);
    for heat in heat {
        for (shard, count) in &heat.hottest {
            let labels = [
                ("table", heat.table.as_str()),
                ("shard", &shard.to_string()),
            ];
            total.value(&labels, *count as f64);
        }
    }
}

/// Begins a metric of servers. As everywhere, what only grows ends in `_total`.
fn metric<'a>(text: &'a mut Exposition, name: &str, help: &str) -> MetricValues<'a> {
    let kind = match name.ends_with("_total") {
        true => MetricKind::Counter,
        false => MetricKind::Gauge,
    };
    text.metric(&format!("canoe_pserver_{name}"), kind, help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_has_help_type_and_value() {
        let metrics = ServerMetrics::default();
        metrics.pushes.add(3);
        let table = TableMetrics {
            name: "a\"b".to_owned(),
            rows: 2,
            bytes: 9,
            sparse: true,
        };
        let heat = |name| Heat::of(name, vec![(3, 1), (5, 7)]);
        let gauges = Gauges {
            tables: vec![table],
            heat: ["a\"b", "c"].into_iter().filter_map(heat).collect(),
            ..Gauges::default()
        };
        let text = metrics.encode(&gauges);
        assert!(text.contains("\ncanoe_pserver_pushes_total 3\n"));
        assert!(text.contains("canoe_pserver_table_rows{table=\"a\\\"b\"} 2\n"));
        assert!(text.contains("canoe_pserver_snapshot_age_seconds -1\n"));
        let shard = "canoe_pserver_shard_touched_rows_total{table=\"a\\\"b\",shard=\"5\"} 7\n";
        assert!(text.contains(shard), "{text}");
        assert!(text.contains("canoe_pserver_shard_touched_rows_mean{table=\"c\"} 4\n"));
        // Two tables have shards of the same numbers: still no line occurs twice.
        let names = text
            .lines()
            .filter_map(|line| Some(line.rsplit_once(' ')?.0));
        let mut names: Vec<&str> = names.filter(|name| !name.starts_with('#')).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        let helps = text.lines().filter(|l| l.starts_with("# HELP")).count();
        let types = text.lines().filter(|l| l.starts_with("# TYPE")).count();
        assert_eq!(helps, types);
    }
}
