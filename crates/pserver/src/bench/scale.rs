//! The time of a step on 10 to 1,000 nodes, computed from measured costs: a simulation of messages, processors and
//! network cards. Pure: the same settings give the same times.
//!
//! Every node has a trainer and a server, as `canoe run` and a job on Kubernetes start them. In a step each trainer
//! computes, then sends every server that holds part of the model ([`holders`]) its part of the gradients. A server that has heard all trainers applies them and
//! replies to each with its part of the values. A message takes processor time at both ends, time on the card of both
//! hosts, and the latency between them; a lost one is sent again after a pause. Who needs a card or a core that is busy
//! waits for it, first come, first served.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use wire::{ShardMap, Topology};
use words::random::SplitMix64;

/// What the hosts and the program cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepCosts {
    /// Seconds of CPU time of a pair of trainer and server per step, without the bytes of the model; half at each end.
    pub pair: f64,
    /// Seconds of CPU time per byte of a push or a pull; half at each end.
    pub byte: f64,
    /// Seconds of CPU time per byte of a gradient that a server sums and applies.
    pub apply: f64,
    /// Cores of a host.
    pub cores: usize,
}

/// The network between hosts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepNetwork {
    /// Seconds from one host to another.
    pub latency: f64,
    /// Bytes per second of a host's card, in each direction.
    pub bandwidth: f64,
    /// Share of messages that are lost once.
    pub loss: f64,
    /// Seconds until a lost message is sent again.
    pub resend: f64,
}

/// The job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepJob {
    /// Trainers and servers.
    pub nodes: usize,
    /// Servers that hold part of the model.
    pub holders: usize,
    /// Hosts that the nodes are on; as many as nodes on a cluster.
    pub hosts: usize,
    /// Bytes that a trainer pushes per step, and as many that it pulls.
    pub bytes: f64,
    /// Seconds that a trainer computes per step on one core.
    pub compute: f64,
    /// How much this differs from trainer to trainer, as a share: evenly between 0 and this much longer.
    pub uneven: f64,
}

/// A resource of a host that one message at a time uses.
#[derive(Debug, Clone, Copy, Default)]
struct Queue {
    free: f64,
}

impl Queue {
    /// Uses the resource from `now` on, once it is free, for some seconds; returns when that ends.
    fn serve(&mut self, now: f64, seconds: f64) -> f64 {
        self.free = self.free.max(now) + seconds;
        self.free
    }
}

#[derive(Debug)]
struct Host {
    cores: Vec<Queue>,
    sends: Queue,
    receives: Queue,
}

impl Host {
    fn new(cores: usize) -> Self {
        Self {
            cores: vec![Queue::default(); cores.max(1)],
            sends: Queue::default(),
            receives: Queue::default(),
        }
    }

    /// Computes on the core that is free first.
    fn compute(&mut self, now: f64, seconds: f64) -> f64 {
        let core = self
            .cores
            .iter_mut()
            .min_by(|a, b| a.free.total_cmp(&b.free));
        core.expect("a host has a core").serve(now, seconds)
    }
}

/// What happens next to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// Its sender has something to send.
    Send,
    /// It leaves the sender's host.
    Leave,
    /// It arrives at the receiver's host.
    Arrive,
    /// It is received.
    Receive,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    /// Nanoseconds, so that events have an order.
    at: u64,
    stage: Stage,
    /// To a server or back.
    push: bool,
    trainer: usize,
    server: usize,
}

/// How many of so many nodes hold part of a dense model of so many bytes.
pub fn holders(nodes: usize, bytes: f64) -> usize {
    let nodes = nodes as u32;
    let topology = Topology {
        servers: nodes,
        ports: 1,
        sparse_ports: 0,
    };
    let values = (bytes / 4.0) as u64;
    let model = super::rig::table("model", values, 1, false, &optim::Rule::sgd(1.0));
    ShardMap::new(&[model], &topology, nodes).holders() as usize
}

/// The time of a step in seconds.
pub fn step(costs: &StepCosts, network: &StepNetwork, job: &StepJob) -> f64 {
    Simulation::new(costs, network, job).run()
}

struct Simulation<'a> {
    costs: &'a StepCosts,
    network: &'a StepNetwork,
    job: &'a StepJob,
    hosts: Vec<Host>,
    events: BinaryHeap<Reverse<Event>>,
    draw: SplitMix64,
    /// Pushes that each server still waits for.
    missing: Vec<usize>,
}

const NANO: f64 = 1e9;

impl<'a> Simulation<'a> {
    fn new(costs: &'a StepCosts, network: &'a StepNetwork, job: &'a StepJob) -> Self {
        Self {
            costs,
            network,
            job,
            hosts: (0..job.hosts.max(1))
                .map(|_| Host::new(costs.cores))
                .collect(),
            events: BinaryHeap::new(),
            draw: SplitMix64(1),
            missing: vec![job.nodes; job.holders],
        }
    }

    fn host(&mut self, node: usize) -> &mut Host {
        let count = self.hosts.len();
        &mut self.hosts[node % count]
    }

    fn plan(&mut self, at: f64, event: Event) {
        let at = (at * NANO).round() as u64;
        self.events.push(Reverse(Event { at, ..event }));
    }

    fn run(mut self) -> f64 {
        let nodes = self.job.nodes;
        for trainer in 0..nodes {
            let seconds = self.job.compute * (1.0 + self.job.uneven * uniform(&mut self.draw));
            let done = self.host(trainer).compute(0.0, seconds);
            for turn in 0..self.job.holders {
                // As the client does: trainers begin at different servers.
                let server = (trainer + turn) % self.job.holders;
                self.plan(done, push(Stage::Send, trainer, server));
            }
        }
        let mut end = 0;
        while let Some(Reverse(event)) = self.events.pop() {
            end = end.max(event.at);
            self.happen(event);
        }
        end as f64 / NANO
    }

    fn happen(&mut self, event: Event) {
        let now = event.at as f64 / NANO;
        let bytes = self.job.bytes / self.job.holders as f64;
        let work = self.costs.pair / 4.0 + bytes * self.costs.byte / 2.0;
        let (from, to) = match event.push {
            true => (event.trainer, event.server),
            false => (event.server, event.trainer),
        };
        let count = self.hosts.len();
        // Nodes of one host need no card.
        let near = from % count == to % count;
        let (card, latency, loss) = match near {
            true => (0.0, 0.0, 0.0),
            false => (
                bytes / self.network.bandwidth,
                self.network.latency,
                self.network.loss,
            ),
        };
        match event.stage {
            Stage::Send => {
                let sent = self.host(from).compute(now, work);
                self.plan(
                    sent,
                    Event {
                        stage: Stage::Leave,
                        ..event
                    },
                );
            }
            Stage::Leave => {
                let left = self.host(from).sends.serve(now, card);
                let lost = uniform(&mut self.draw) < loss;
                let pause = if lost { self.network.resend } else { 0.0 };
                self.plan(
                    left + latency + pause,
                    Event {
                        stage: Stage::Arrive,
                        ..event
                    },
                );
            }
            Stage::Arrive => {
                let arrived = self.host(to).receives.serve(now, card);
                let received = self.host(to).compute(arrived, work);
                self.plan(
                    received,
                    Event {
                        stage: Stage::Receive,
                        ..event
                    },
                );
            }
            Stage::Receive if event.push => self.pushed(now, event.server),
            Stage::Receive => {}
        }
    }

    /// A server has received a push.
    fn pushed(&mut self, now: f64, server: usize) {
        self.missing[server] -= 1;
        if self.missing[server] > 0 {
            return;
        }
        let pushed = self.job.bytes * self.job.nodes as f64 / self.job.holders as f64;
        let applied = pushed * self.costs.apply;
        let done = self.host(server).compute(now, applied);
        for trainer in 0..self.job.nodes {
            let reply = Event {
                push: false,
                ..push(Stage::Send, trainer, server)
            };
            self.plan(done, reply);
        }
    }
}

/// A number from 0 to 1.
fn uniform(draw: &mut SplitMix64) -> f64 {
    (draw.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

fn push(stage: Stage, trainer: usize, server: usize) -> Event {
    Event {
        at: 0,
        stage,
        push: true,
        trainer,
        server,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: StepCosts = StepCosts {
        pair: 40e-6,
        byte: 0.5e-9,
        apply: 0.5e-9,
        cores: 2,
    };
    const NETWORK: StepNetwork = StepNetwork {
        latency: 100e-6,
        bandwidth: 1.25e9,
        loss: 0.0,
        resend: 0.2,
    };

    fn job(nodes: usize) -> StepJob {
        StepJob {
            nodes,
            holders: nodes,
            hosts: nodes,
            bytes: 1e6,
            compute: 0.01,
            uneven: 0.0,
        }
    }

    #[test]
    fn a_step_takes_at_least_what_it_computes_and_sends() {
        let alone = step(&COSTS, &NETWORK, &job(1));
        assert!(alone > 0.01 && alone < 0.012, "{alone}");
        let two = step(&COSTS, &NETWORK, &job(2));
        assert!(two > alone + 2.0 * NETWORK.latency, "{two}");
    }

    #[test]
    fn the_cost_of_pairs_grows_with_the_nodes_of_a_host_and_with_their_square_on_one_host() {
        let bare = StepCosts {
            byte: 0.0,
            apply: 0.0,
            ..COSTS
        };
        let idle = |nodes, hosts| StepJob {
            nodes,
            holders: nodes,
            hosts,
            compute: 0.0,
            bytes: 0.0,
            ..job(nodes)
        };
        let one = |nodes| step(&bare, &NETWORK, &idle(nodes, 1));
        let expected = 32.0 * 32.0 * COSTS.pair / COSTS.cores as f64;
        assert!((one(32) / expected - 1.0).abs() < 0.1, "{}", one(32));
        let spread = |nodes| step(&bare, &NETWORK, &idle(nodes, nodes)) - 2.0 * NETWORK.latency;
        let growth = spread(400) / spread(100);
        assert!((3.5..4.5).contains(&growth), "{growth}");
    }

    #[test]
    fn a_small_model_on_some_nodes_takes_less_than_on_one_or_on_all() {
        let small = |holders| StepJob {
            holders,
            bytes: 240e3,
            compute: 0.0,
            ..job(200)
        };
        let chosen = holders(200, 240e3);
        assert_eq!(chosen, 28);
        let (few, all) = (
            step(&COSTS, &NETWORK, &small(chosen)),
            step(&COSTS, &NETWORK, &small(200)),
        );
        assert!(few < all, "{few} {all}");
        let one = step(&COSTS, &NETWORK, &small(1));
        assert!(few < 0.5 * one, "{few} {one}");
    }

    #[test]
    fn loss_and_uneven_trainers_only_make_it_longer() {
        let plain = step(&COSTS, &NETWORK, &job(20));
        let lossy = StepNetwork {
            loss: 0.01,
            ..NETWORK
        };
        assert!(step(&COSTS, &lossy, &job(20)) >= plain + 0.19);
        let uneven = StepJob {
            uneven: 0.5,
            ..job(20)
        };
        let longer = step(&COSTS, &NETWORK, &uneven) - plain;
        assert!((0.003..0.006).contains(&longer), "{longer}");
    }
}
