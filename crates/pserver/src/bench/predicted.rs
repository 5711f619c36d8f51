//! Is the simulation of a step ([`super::scale`]) right? Measures what a pair and a byte cost, predicts the steps of
//! several numbers of nodes on this machine, and runs them: real servers, and trainers that compute nothing.

use super::rig::{BenchError, Transport};
use super::scale::{StepCosts, StepJob, StepNetwork, holders, step};
use super::wide::{Wide, WideResult};

/// What is compared.
#[derive(Debug, Clone)]
pub struct Predicted {
    /// Numbers of nodes.
    pub nodes: Vec<usize>,
    /// Values of the model.
    pub values: u64,
    /// Steps that are timed, for each number.
    pub steps: u32,
    /// TCP or TLS.
    pub transport: Transport,
}

/// A step as it was predicted and as it was.
#[derive(Debug, Clone, Copy)]
pub struct PredictedStep {
    /// Number of trainers, and of servers.
    pub nodes: usize,
    /// How many of them hold part of the model.
    pub holders: usize,
    /// Seconds, predicted.
    pub predicted: f64,
    /// Seconds, measured.
    pub real: f64,
    /// Seconds of CPU time, predicted.
    pub predicted_cpu: f64,
    /// Seconds of CPU time, measured.
    pub cpu: f64,
}

/// The costs that were measured, and the steps.
#[derive(Debug, Clone)]
pub struct PredictedResult {
    /// Seconds of CPU time of a trainer, apart from its exchanges.
    pub trainer: f64,
    /// Seconds of CPU time of a pair.
    pub pair: f64,
    /// Seconds of CPU time per byte pushed or pulled, with its part of the sum and the update.
    pub byte: f64,
    /// Cores that this process had: fewer than there are, if others work, too.
    pub cores: f64,
    /// One per number of nodes.
    pub steps: Vec<PredictedStep>,
}

/// Nodes of the measurements that the costs are taken from.
const NODES: usize = 4;
/// Values of their models: one on one server, one on a few, one on all.
const MODELS: [u64; 3] = [1_000, 20_000, 1_000_000];
/// They have so many times the steps of the others, because their steps are short and everything follows from them.
const LONGER: u32 = 5;

/// What a step costs in CPU time, in seconds.
#[derive(Debug, Clone, Copy)]
struct MeasuredCosts {
    trainer: f64,
    /// Of a pair of trainer and server that exchange anything.
    pair: f64,
    /// Of a byte that is pushed or pulled.
    byte: f64,
}

impl MeasuredCosts {
    /// The costs that explain the CPU times of steps of these terms.
    fn of(terms: [[f64; 3]; 3], cpu: [f64; 3]) -> Self {
        let with = |column: usize| {
            let mut other = terms;
            for (row, cpu) in other.iter_mut().zip(cpu) {
                row[column] = cpu;
            }
            determinant(&other) / determinant(&terms)
        };
        // The small ones are as large as the noise: none is negative.
        let [trainer, pair, byte] = [0, 1, 2].map(|column| with(column).max(0.0));
        Self {
            trainer,
            pair,
            byte,
        }
    }

    fn total(&self, [trainers, pairs, bytes]: [f64; 3]) -> f64 {
        trainers * self.trainer + pairs * self.pair + bytes * self.byte
    }
}

/// Trainers, pairs that exchange anything, and bytes of a step.
fn terms(nodes: usize, values: u64) -> [f64; 3] {
    let bytes = values as f64 * 4.0;
    let pairs = nodes * holders(nodes, bytes);
    [nodes as f64, pairs as f64, nodes as f64 * 2.0 * bytes]
}

fn determinant([a, b, c]: &[[f64; 3]; 3]) -> f64 {
    let minor = |i: usize, j: usize| b[i] * c[j] - b[j] * c[i];
    a[0] * minor(1, 2) - a[1] * minor(0, 2) + a[2] * minor(0, 1)
}

impl Predicted {
    /// Measures.
    pub fn run(&self) -> Result<PredictedResult, BenchError> {
        let mut measured = [0.0; 3];
        for (cpu, values) in measured.iter_mut().zip(MODELS) {
            *cpu = self::cpu(&self.wide(NODES, values, LONGER)?, NODES);
        }
        let costs = MeasuredCosts::of(MODELS.map(|values| terms(NODES, values)), measured);
        let mut steps = Vec::new();
        let mut cores = Vec::new();
        for nodes in &self.nodes {
            let real = self.wide(*nodes, self.values, 1)?;
            let cpu = cpu(&real, *nodes);
            cores.push(cpu / real.step);
            let holders = holders(*nodes, self.values as f64 * 4.0);
            steps.push(PredictedStep {
                nodes: *nodes,
                holders,
                predicted: 0.0,
                real: real.step,
                predicted_cpu: costs.total(terms(*nodes, self.values)),
                cpu,
            });
        }
        // As many as the processes got while they were busy.
        let cores = cores.into_iter().fold(0.0, f64::max);
        for known in &mut steps {
            known.predicted = self.predict(&costs, cores, known.nodes);
        }
        Ok(PredictedResult {
            trainer: costs.trainer,
            pair: costs.pair,
            byte: costs.byte,
            cores,
            steps,
        })
    }

    /// The step of so many nodes on one host. Cores that others use half of the time are cores that take twice as long.
    fn predict(&self, measured: &MeasuredCosts, available: f64, nodes: usize) -> f64 {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let slower = cores as f64 / available.min(cores as f64);
        let costs = StepCosts {
            pair: measured.pair * slower,
            byte: measured.byte * slower,
            apply: 0.0,
            cores,
        };
        let network = StepNetwork {
            latency: 0.0,
            bandwidth: f64::INFINITY,
            loss: 0.0,
            resend: 0.0,
        };
        let bytes = self.values as f64 * 4.0;
        let job = StepJob {
            nodes,
            holders: holders(nodes, bytes),
            hosts: 1,
            bytes,
            compute: measured.trainer * slower,
            uneven: 0.0,
        };
        step(&costs, &network, &job)
    }

    fn wide(&self, nodes: usize, values: u64, times: u32) -> Result<WideResult, BenchError> {
        Wide {
            trainers: nodes as u32,
            servers: nodes as u32,
            steps: self.steps * times,
            values,
            transport: self.transport,
        }
        .run()
    }
}

/// Seconds of CPU time of a step of so many nodes.
fn cpu(result: &WideResult, nodes: usize) -> f64 {
    result.cpu_per_pair * (nodes * nodes) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_those_that_explain_what_was_measured() {
        let wanted = MeasuredCosts {
            trainer: 30e-6,
            pair: 12e-6,
            byte: 0.3e-9,
        };
        let all = MODELS.map(|values| terms(NODES, values));
        let got = MeasuredCosts::of(all, all.map(|one| wanted.total(one)));
        for (got, wanted) in [
            (got.trainer, wanted.trainer),
            (got.pair, wanted.pair),
            (got.byte, wanted.byte),
        ] {
            assert!((got / wanted - 1.0).abs() < 1e-6, "{got} {wanted}");
        }
    }

    #[test]
    fn costs_and_steps_are_measured() {
        let predicted = Predicted {
            nodes: vec![2, 3],
            values: 2_000,
            steps: 3,
            transport: Transport::Tcp,
        };
        let result = predicted.run().unwrap();
        assert_eq!(result.steps.len(), 2);
        assert!(result.steps.iter().all(|s| s.real > 0.0 && s.holders == 1));
    }
}
