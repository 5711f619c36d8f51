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
    /// Nodes.
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
    /// Seconds of CPU time of a pair.
    pub pair: f64,
    /// Seconds of CPU time per byte pushed or pulled, with its part of the sum and the update.
    pub byte: f64,
    /// Cores that this process had: fewer than there are, if others work, too.
    pub cores: f64,
    /// The steps.
    pub steps: Vec<PredictedStep>,
}

/// Nodes of the measurements that the costs are taken from.
const NODES: usize = 4;
/// Values of the two models that they are taken from.
const SMALL: u64 = 1_000;
const LARGE: u64 = 1_000_000;

impl Predicted {
    /// Measures.
    pub fn run(&self) -> Result<PredictedResult, BenchError> {
        let (small, large) = (self.wide(NODES, SMALL)?, self.wide(NODES, LARGE)?);
        // CPU time of a step = pairs * pair + bytes * byte, twice.
        let terms = |values: u64| {
            let bytes = values as f64 * 4.0;
            let pairs = (NODES * holders(NODES, bytes)) as f64;
            (pairs, NODES as f64 * 2.0 * bytes)
        };
        let ((p1, b1), (p2, b2)) = (terms(SMALL), terms(LARGE));
        let (c1, c2) = (cpu(&small, NODES), cpu(&large, NODES));
        let pair = (c1 * b2 - c2 * b1) / (p1 * b2 - p2 * b1);
        let byte = (c2 - p2 * pair) / b2;
        let mut steps = Vec::new();
        let mut cores = Vec::new();
        for nodes in &self.nodes {
            let real = self.wide(*nodes, self.values)?;
            let cpu = cpu(&real, *nodes);
            cores.push(cpu / real.step);
            let holders = holders(*nodes, self.values as f64 * 4.0);
            steps.push(PredictedStep {
                nodes: *nodes,
                holders,
                predicted: 0.0,
                real: real.step,
                predicted_cpu: (nodes * holders) as f64 * pair
                    + *nodes as f64 * 2.0 * self.values as f64 * 4.0 * byte,
                cpu,
            });
        }
        // As many as the processes got while they were busy.
        let cores = cores.into_iter().fold(0.0, f64::max);
        for known in &mut steps {
            known.predicted = self.predict((pair, byte), cores, known.nodes);
        }
        Ok(PredictedResult {
            pair,
            byte,
            cores,
            steps,
        })
    }

    /// The step of so many nodes on one host. Cores that others use half of the time are cores that take twice as long.
    fn predict(&self, (pair, byte): (f64, f64), available: f64, nodes: usize) -> f64 {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let slower = cores as f64 / available.min(cores as f64);
        let costs = StepCosts {
            pair: pair * slower,
            byte: byte * slower,
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
            compute: 0.0,
            uneven: 0.0,
        };
        step(&costs, &network, &job)
    }

    fn wide(&self, nodes: usize, values: u64) -> Result<WideResult, BenchError> {
        Wide {
            trainers: nodes as u32,
            servers: nodes as u32,
            steps: self.steps,
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
