//! A small model, many trainers and servers: what a pair of trainer and server costs per step, in CPU time, threads and
//! memory. The servers are real ones; the trainers compute nothing.

use super::cpu_time;
use super::rig::{BenchError, Rig, Transport, table};
use optim::Rule;
use std::time::Instant;
use wire::{Encoding, TableId};

/// Size of the measurement.
#[derive(Debug, Clone, Copy)]
pub struct Wide {
    /// Number of trainers.
    pub trainers: u32,
    /// Number of servers.
    pub servers: u32,
    /// Steps that are timed.
    pub steps: u32,
    /// Values of the model: a large table, and two small ones.
    pub values: u64,
    /// TCP, TLS or unix sockets.
    pub transport: Transport,
}

/// Results of the measurement.
#[derive(Debug, Clone, Copy)]
pub struct WideResult {
    /// Seconds of CPU time of a step for each pair of trainer and server.
    pub cpu_per_pair: f64,
    /// Seconds of a step.
    pub step: f64,
    /// Seconds until all trainers had joined.
    pub joined: f64,
    /// Threads of servers and trainers while they train.
    pub threads: u64,
    /// Servers that hold part of the model: the others exchange nothing with trainers in a step.
    pub holders: u32,
    /// Bytes of memory that servers and trainers took.
    pub memory: u64,
}

/// Values of a model of logistic regression over 30,000 words, and of two small layers.
pub const SMALL_MODEL: u64 = 60_132;

/// Values of the small tables.
const LAYERS: [u64; 2] = [128, 2];

/// Steps before the clock starts.
const WARM: u32 = 3;

impl Wide {
    /// Measures.
    pub fn run(&self) -> Result<WideResult, BenchError> {
        let memory = status("VmRSS:") << 10;
        let rule = Rule::sgd(1.0);
        let large = self.values.saturating_sub(LAYERS.iter().sum()).max(1);
        let lens = [large, LAYERS[0], LAYERS[1]];
        let model = lens.iter().enumerate();
        let specs = model.map(|(at, len)| table(&format!("w{at}"), *len, 1, false, &rule));
        let how = (self.transport, Encoding::F32);
        let rig = Rig::start(self.servers, self.trainers, how, specs.collect())?;
        let holders = rig.holders();
        let needed = descriptors(self.trainers, self.servers, holders);
        let allowed = allow_descriptors();
        if needed > allowed {
            return Err(BenchError::Descriptors { needed, allowed });
        }
        let begun = Instant::now();
        let results = rig.train(|_, session| {
            session.reduce(&mut [])?;
            let joined = begun.elapsed();
            let mut values: Vec<Vec<f32>> =
                lens.iter().map(|len| vec![1.0; *len as usize]).collect();
            let gradients = values.clone();
            let (mut started, mut cpu) = (Instant::now(), cpu_time());
            for step in 0..WARM + self.steps {
                if step == WARM {
                    session.reduce(&mut [])?;
                    (started, cpu) = (Instant::now(), cpu_time());
                }
                session.start_batch(1);
                for (table, gradient) in (0..).zip(&gradients) {
                    session.push_dense(TableId(table), gradient, None)?;
                }
                session.finish_batch(0.0)?;
                let into = (0..).map(TableId).zip(&mut values);
                let mut into: Vec<_> = into.map(|(id, v)| (id, v.as_mut_slice())).collect();
                session.wait_values(&mut into)?;
            }
            session.reduce(&mut [])?;
            let spent = (started.elapsed(), cpu_time().saturating_sub(cpu));
            let own = (status("Threads:"), status("VmRSS:") << 10);
            Ok((joined, spent, own, values[0][0]))
        })?;
        let wanted = -f64::from((WARM + self.steps) * self.trainers);
        if let Some((.., wrong)) = results.iter().find(|(.., v)| f64::from(*v) != wanted) {
            return Err(BenchError::Wrong(format!(
                "a value is {wrong}, not {wanted}"
            )));
        }
        let threads = results.iter().map(|(_, _, own, _)| own.0).max();
        let (joined, spent, own, _) = results[0];
        let pairs = f64::from(self.trainers) * f64::from(self.servers);
        let steps = f64::from(self.steps);
        Ok(WideResult {
            cpu_per_pair: spent.1.as_secs_f64() / steps / pairs,
            step: spent.0.as_secs_f64() / steps,
            joined: joined.as_secs_f64(),
            threads: threads.unwrap_or(0),
            holders,
            memory: own.1.saturating_sub(memory),
        })
    }
}

/// A number in the kernel's report about this process.
fn status(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Raises the limit of open files as far as the system lets this process, and returns it.
fn allow_descriptors() -> u64 {
    use rustix::process::{Resource, Rlimit, setrlimit};
    for most in [1_u64 << 20, 1 << 18, 1 << 16] {
        let limit = Rlimit {
            current: Some(most),
            maximum: Some(most),
        };
        // If it fails, the limit stays.
        if setrlimit(Resource::Nofile, limit).is_ok() {
            return most;
        }
    }
    crate::gate::descriptors()
}

/// Descriptors of so many trainers and servers in one process: both ends of each connection, and a second handle of those
/// that another thread may have to end.
fn descriptors(trainers: u32, servers: u32, holders: u32) -> u64 {
    let (trainers, servers) = (u64::from(trainers), u64::from(servers));
    trainers * (3 * servers + 4 * u64::from(holders)) + 16 * servers + 64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_pairs_are_measured_over_every_transport() {
        for transport in [Transport::Unix, Transport::Tcp, Transport::Tls] {
            let wide = Wide {
                trainers: 3,
                servers: 2,
                steps: 2,
                values: SMALL_MODEL,
                transport,
            };
            let result = wide.run().unwrap();
            assert!(result.threads > 3, "{result:?}");
        }
    }
}
