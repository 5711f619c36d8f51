//! `canoe bench ps scale`: the time of a step on many hosts, computed from measured costs.

use clap::Args;
use pserver::bench::Transport;
use pserver::bench::predicted::Predicted;
use pserver::bench::scale::{StepCosts, StepJob, StepNetwork, holders, step};

/// What is simulated. The costs are those of one of our measurements; measure yours with `canoe bench ps wide` and
/// `canoe bench ps dense`.
#[derive(Debug, Args)]
pub(super) struct ScaleArgs {
    /// Numbers of nodes, each with a trainer and a server.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "2,8,16,32,64,100,200,500,1000"
    )]
    nodes: Vec<usize>,
    /// Hosts that they share; one for each node if it is not given.
    #[arg(long)]
    hosts: Option<usize>,
    /// Megabytes that a trainer pushes per step, and as many that it pulls.
    #[arg(long, default_value_t = 1.0)]
    model_mb: f64,
    /// Milliseconds that a trainer computes per step.
    #[arg(long, default_value_t = 50.0)]
    compute_ms: f64,
    /// How much longer the slowest trainer computes, as a share.
    #[arg(long, default_value_t = 0.1)]
    uneven: f64,
    /// Microseconds of CPU time of a pair of trainer and server per step.
    #[arg(long, default_value_t = 40.0)]
    pair_us: f64,
    /// Nanoseconds of CPU time per byte pushed or pulled.
    #[arg(long, default_value_t = 0.4)]
    byte_ns: f64,
    /// Nanoseconds of CPU time per byte of a gradient that is summed and applied.
    #[arg(long, default_value_t = 0.3)]
    apply_ns: f64,
    /// Cores of a host.
    #[arg(long, default_value_t = 8)]
    cores: usize,
    /// Gigabits per second of a host's network card.
    #[arg(long, default_value_t = 10.0)]
    gbit: f64,
    /// Microseconds from one host to another.
    #[arg(long, default_value_t = 100.0)]
    latency_us: f64,
    /// Share of messages that are lost once and sent again after 200 ms.
    #[arg(long, default_value_t = 0.0)]
    loss: f64,
    /// Measure the costs on this machine, predict steps of nodes that are all on it and compute nothing, and compare them
    /// with real ones. Uses --nodes (at most 64 of them), --model-mb, and --check-steps.
    #[arg(long)]
    check: bool,
    /// Steps that are measured for each number of nodes.
    #[arg(long, default_value_t = 100, requires = "check")]
    check_steps: u32,
    /// The measurements go over TLS, not plain TCP.
    #[arg(long, requires = "check")]
    tls: bool,
}

/// Seconds until TCP sends a lost message again, if nothing that follows tells it earlier.
const RESEND: f64 = 0.2;

/// More nodes than these, with all their servers, trainers and sockets, are too many for one machine.
const MOST_CHECKED: usize = 64;

/// Simulates a step for each number of nodes.
pub(super) fn run(scale: &ScaleArgs) -> anyhow::Result<serde_json::Value> {
    if scale.check {
        return check(scale);
    }
    Ok(simulate(scale))
}

fn check(scale: &ScaleArgs) -> anyhow::Result<serde_json::Value> {
    let nodes = scale.nodes.iter().copied();
    let predicted = Predicted {
        nodes: nodes.filter(|nodes| *nodes <= MOST_CHECKED).collect(),
        values: (scale.model_mb * 1e6 / 4.0) as u64,
        steps: scale.check_steps,
        transport: if scale.tls {
            Transport::Tls
        } else {
            Transport::Tcp
        },
    };
    let result = predicted.run()?;
    let steps = result.steps.iter().map(|step| {
        serde_json::json!({
            "nodes": step.nodes,
            "holders": step.holders,
            "predicted_ms": 1e3 * step.predicted,
            "real_ms": 1e3 * step.real,
            "error": step.predicted / step.real - 1.0,
            "predicted_cpu_ms": 1e3 * step.predicted_cpu,
            "real_cpu_ms": 1e3 * step.cpu,
            "cpu_error": step.predicted_cpu / step.cpu - 1.0,
        })
    });
    Ok(serde_json::json!({
        "bench": "ps scale check",
        "model_mb": scale.model_mb,
        "trainer_us": 1e6 * result.trainer,
        "pair_us": 1e6 * result.pair,
        "byte_ns": 1e9 * result.byte,
        "cores_available": result.cores,
        "steps": steps.collect::<Vec<_>>(),
    }))
}

fn simulate(scale: &ScaleArgs) -> serde_json::Value {
    let costs = StepCosts {
        pair: scale.pair_us * 1e-6,
        byte: scale.byte_ns * 1e-9,
        apply: scale.apply_ns * 1e-9,
        cores: scale.cores,
    };
    let network = StepNetwork {
        latency: scale.latency_us * 1e-6,
        bandwidth: scale.gbit * 1e9 / 8.0,
        loss: scale.loss,
        resend: RESEND,
    };
    let compute = scale.compute_ms * 1e-3;
    let steps = scale.nodes.iter().map(|nodes| {
        let job = StepJob {
            nodes: *nodes,
            holders: holders(*nodes, scale.model_mb * 1e6),
            hosts: scale.hosts.unwrap_or(*nodes),
            bytes: scale.model_mb * 1e6,
            compute,
            uneven: scale.uneven,
        };
        let seconds = step(&costs, &network, &job);
        serde_json::json!({
            "nodes": nodes,
            "holders": job.holders,
            "step_ms": 1e3 * seconds,
            "share_of_time_computing": compute / seconds,
        })
    });
    serde_json::json!({
        "bench": "ps scale",
        "model_mb": scale.model_mb,
        "compute_ms": scale.compute_ms,
        "steps": steps.collect::<Vec<_>>(),
    })
}
