//! W3: rounds of pushing and pulling a dense model.

use super::keys::BenchKeys;
use super::rig::{BenchError, Rig, Transport, table};
use super::stream::{self, Rate, StreamLoad};
use super::{cpu_time, median};
use optim::Rule;
use std::fmt;
use std::time::Instant;
use wire::{Encoding, TableId};

/// Size of the measurement.
#[derive(Debug, Clone, Copy)]
pub struct Dense {
    /// Values in the model.
    pub values: u64,
    /// Tables it is cut into.
    pub tables: u32,
    /// Number of trainers.
    pub trainers: u32,
    /// Number of servers.
    pub servers: u32,
    /// Rounds that are timed.
    pub rounds: u32,
    /// TCP, TLS or unix sockets.
    pub transport: Transport,
    /// How values are encoded.
    pub encoding: Encoding,
}

impl Default for Dense {
    fn default() -> Self {
        Self {
            values: 25_000_000,
            tables: 1,
            trainers: 2,
            servers: 2,
            rounds: 30,
            transport: Transport::Unix,
            encoding: Encoding::F32,
        }
    }
}

/// Results of the measurement.
#[derive(Debug, Clone)]
pub struct DenseResult {
    /// Bytes per second: 2 x model x trainers per round, over the mean time.
    pub bytes_per_second: f64,
    /// Median time of a round in seconds.
    pub median_round: f64,
    /// The fastest round, in seconds.
    pub best_round: f64,
    /// Bytes per round.
    pub round_bytes: f64,
    /// Bytes per second of CPU time of all processes.
    pub bytes_per_cpu_second: f64,
    /// Plain streams of the same run, before and after: the best of each figure. Plain TLS streams if the round is over
    /// TLS, otherwise plain TCP ones.
    pub stream: Rate,
    /// The same streams from and to as much memory as the model takes, which no cache holds.
    pub memory_stream: Rate,
}

impl DenseResult {
    /// The fastest round over the fastest plain stream: what both can do when nothing else disturbs.
    pub fn ratio(&self) -> f64 {
        self.round_bytes / self.best_round / self.stream.per_second
    }

    /// The mean round over the fastest plain stream.
    pub fn mean_ratio(&self) -> f64 {
        self.bytes_per_second / self.stream.per_second
    }

    /// The same by CPU time, which a loaded machine disturbs less.
    pub fn cpu_ratio(&self) -> f64 {
        self.bytes_per_cpu_second / self.stream.per_cpu_second
    }
}

impl fmt::Display for DenseResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let giga = |bytes: f64| bytes / 1e9;
        let best = giga(self.round_bytes / self.best_round);
        writeln!(
            f,
            "synchronous rounds   {:8.2} GB/s mean, {best:.2} GB/s best (median round {:.1} ms)",
            giga(self.bytes_per_second),
            self.median_round * 1e3
        )?;
        writeln!(
            f,
            "per CPU-second       {:8.2} GB",
            giga(self.bytes_per_cpu_second)
        )?;
        writeln!(
            f,
            "plain stream         {:8.2} GB/s, {:.2} GB per CPU-second; from and to {:.0} MB of memory {:.2} GB/s, {:.2} GB",
            giga(self.stream.per_second),
            giga(self.stream.per_cpu_second),
            self.round_bytes / 4e6,
            giga(self.memory_stream.per_second),
            giga(self.memory_stream.per_cpu_second)
        )?;
        write!(
            f,
            "ratio                {:8.2} best to best, {:.2} per CPU-second",
            self.ratio(),
            self.cpu_ratio()
        )
    }
}

impl Dense {
    /// Measures, alternating with the plain stream.
    pub fn run(&self) -> Result<DenseResult, BenchError> {
        let keys = match self.transport {
            Transport::Tls => Some(BenchKeys::new()?),
            Transport::Tcp | Transport::Unix => None,
        };
        let model = (self.values as usize * 4).next_multiple_of(stream::PIECE);
        let best = |memory| best_stream(memory, keys.as_ref());
        let before = (best(stream::PIECE)?, best(model)?);
        let rule = Rule::sgd(1.0);
        let each = self.values / u64::from(self.tables);
        let specs = (0..self.tables)
            .map(|at| table(&format!("w{at}"), each, 1, false, &rule))
            .collect();
        let rig = Rig::start(
            self.servers,
            self.trainers,
            (self.transport, self.encoding),
            specs,
        )?;
        let warm = 2;
        let results = rig.train(|trainer, session| {
            let gradient = vec![1.0 + trainer as f32; each as usize];
            let mut values: Vec<Vec<f32>> =
                (0..self.tables).map(|_| vec![0.0; each as usize]).collect();
            let mut times = Vec::new();
            let (mut begun, mut cpu) = (Instant::now(), cpu_time());
            for round in 0..warm + self.rounds {
                if round == warm {
                    session.reduce(&mut [])?;
                    (begun, cpu) = (Instant::now(), cpu_time());
                }
                let started = Instant::now();
                session.start_batch(1);
                for at in 0..self.tables {
                    session.push_dense(TableId(at), &gradient, None)?;
                }
                session.finish_batch(0.0)?;
                let mut into: Vec<_> = values
                    .iter_mut()
                    .enumerate()
                    .map(|(at, v)| (TableId(at as u32), v.as_mut_slice()))
                    .collect();
                session.wait_values(&mut into)?;
                times.push(started.elapsed().as_secs_f64());
            }
            session.reduce(&mut [])?;
            let sample = values
                .iter()
                .flat_map(|v| [v[0], v[v.len() / 2], v[v.len() - 1]])
                .collect::<Vec<_>>();
            let timed = times.split_off(warm as usize);
            Ok((
                begun.elapsed(),
                cpu_time().saturating_sub(cpu),
                timed,
                sample,
            ))
        })?;
        let stream = better(before.0, best(stream::PIECE)?);
        let memory_stream = better(before.1, best(model)?);
        let wanted =
            -((warm + self.rounds) as f32) * (1..=self.trainers).map(|g| g as f32).sum::<f32>();
        for (_, _, _, sample) in &results {
            if let Some(wrong) = sample.iter().find(|value| **value != wanted) {
                return Err(BenchError::Wrong(format!(
                    "a value is {wrong}, not {wanted}"
                )));
            }
        }
        let (elapsed, cpu, mut times, _) = results.into_iter().next().expect("there is a trainer");
        let round =
            2.0 * self.values as f64 * self.encoding.bytes() as f64 * f64::from(self.trainers);
        let bytes = round * f64::from(self.rounds);
        Ok(DenseResult {
            bytes_per_second: bytes / elapsed.as_secs_f64(),
            median_round: median(&mut times),
            best_round: times.first().copied().unwrap_or(f64::INFINITY),
            round_bytes: round,
            bytes_per_cpu_second: bytes / cpu.as_secs_f64(),
            stream,
            memory_stream,
        })
    }
}

fn best_stream(memory: usize, keys: Option<&BenchKeys>) -> Result<Rate, BenchError> {
    let load = |streams| StreamLoad {
        streams,
        bytes: (1 << 29) / streams,
        memory,
    };
    let mut best = stream::loopback(&load(1), keys)?;
    for streams in [1, 2, 4] {
        best = better(best, stream::loopback(&load(streams), keys)?);
    }
    Ok(best)
}

fn better(one: Rate, other: Rate) -> Rate {
    Rate {
        per_second: one.per_second.max(other.per_second),
        per_cpu_second: one.per_cpu_second.max(other.per_cpu_second),
    }
}
