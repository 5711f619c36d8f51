//! Runs a node: prepares it, starts its processes, watches them, and returns the exit code.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::discover::PodSource;
use super::environment::{self, Environment, EnvironmentError};
use super::farewell::Farewell;
use super::finish::{self, Markers, code};
use super::health::Health;
use super::metrics::Scrape;
use super::patience::GaveUp;
use super::prepare::PreparedNode;
use super::stage::StageError;
use super::work::NodeWork;
use crate::event::JobEvent;
use crate::local::layout::LayoutError;
use crate::local::machine::{RunLimits, ServersEnd};
use crate::local::restart::RestartPolicy;
use crate::local::supervisor::supervise;
use crate::local::workdir::WorkdirError;
use crate::local::{RunEnd, Shutdown, SupervisorOptions};
use crate::node::pod::Discovery;
use words::process::Role;

/// How a node is started.
#[derive(Debug, Clone)]
pub struct NodeStart {
    /// The canoe binary.
    pub program: PathBuf,
    /// All environment variables.
    pub variables: BTreeMap<String, String>,
    /// How peers are found.
    pub discovery: Discovery,
    /// Arguments after the node's own: `--config`, and flags for the trainer.
    pub arguments: Vec<String>,
    /// Where Kubernetes puts the service account.
    pub account_dir: PathBuf,
    /// Lists the pods of the job, for `podlist`.
    pub pods: Arc<dyn PodSource>,
    /// The port for probes; 0 for any free port.
    pub health_port: u16,
    /// The port for the metrics of both processes; 0 for none.
    pub metrics_port: u16,
    /// How long to wait for peers, for the shard, and for all trainers to join.
    pub patience: Duration,
    /// From SIGTERM to SIGKILL; less than the pod's own grace period.
    pub grace: Duration,
}

/// Why a node ended before its processes ran.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the variants are documented")]
pub enum NodeError {
    /// An environment variable is missing or wrong.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// A wait for other nodes, the data shard or the API server ended without success.
    #[error(transparent)]
    GaveUp(#[from] GaveUp),
    /// There is no configuration, or there are several to choose from.
    #[error("find the configuration")]
    Config(#[source] LayoutError),
    /// The shard or the configuration could not be copied to local disk.
    #[error(transparent)]
    Stage(#[from] StageError),
    /// The working directory could not be made.
    #[error(transparent)]
    Workdir(#[from] WorkdirError),
    /// The file with the job's token cannot be read.
    #[error("read the job's token {path}")]
    Token {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The job's folder on the volume cannot be written.
    #[error(
        "write to the job's folder on the volume, {path}; it must be writable for user {}",
        crate::node::pod::USER
    )]
    Volume {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A thread cannot be started, or a port for probes or metrics is in use.
    #[error("start the node")]
    System(#[source] io::Error),
}

impl NodeError {
    /// The exit code, from which the Job decides whether another pod may help.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Environment(_) => code::USAGE,
            Self::Config(_) | Self::GaveUp(GaveUp::Hopeless { .. }) => code::CONFIG,
            Self::GaveUp(GaveUp::Ended { .. }) => code::TERMINATED,
            _ => code::TEMPORARY,
        }
    }
}

/// Runs the node. Returns how its processes ended; [`finish::exit_code`] has the code for it.
pub fn run(
    start: &NodeStart,
    shutdown: &Shutdown,
    emit: &mut dyn FnMut(JobEvent),
) -> Result<RunEnd, NodeError> {
    let environment = Environment::read(&start.variables, start.discovery)?;
    let health = Health::new();
    health.serve(start.health_port).map_err(NodeError::System)?;
    let scrape = Scrape::default();
    if start.metrics_port > 0 {
        let served = scrape.serve(&environment.job_name, start.metrics_port);
        served.map_err(NodeError::System)?;
    }
    let token = token(start, &environment)?;
    let output = environment.job_dir().join("output");
    let node = PreparedNode {
        start,
        markers: &Markers::new(output, environment.nodes, &token),
        environment,
        health,
        scrape,
        shutdown,
        token,
    };
    loop {
        if let NodeEnd::Over(end) = live(&node, emit)? {
            return Ok(end);
        }
        node.say(emit, "the pods of the job have changed".to_owned());
    }
}

/// How the processes of a node ended.
enum NodeEnd {
    /// The node ends too.
    Over(RunEnd),
    /// The pods have changed, and ids with them: the node starts again from the beginning.
    Anew,
}

/// Finds peers, copies, and runs the processes until they end or the pods change.
fn live(node: &PreparedNode, emit: &mut dyn FnMut(JobEvent)) -> Result<NodeEnd, NodeError> {
    if node.markers.is_over() {
        return Ok(node.came_late(emit));
    }
    let plan = match node.prepare(emit) {
        Err(_) if node.markers.is_over() => return Ok(node.came_late(emit)),
        prepared => prepared?,
    };
    let own = plan.peers.own;
    node.health.is_node(own);
    let volume = |source| NodeError::Volume {
        path: plan.node_dir(),
        source,
    };
    node.scrape.of(plan.status_pages());
    node.markers.withdraw(own).map_err(volume)?;
    let roll_call = node.roll_call(&plan.peers).map_err(NodeError::System)?;
    let leaving = Shutdown::new();
    let farewell = Rc::new(RefCell::new(Farewell::default()));
    let mut work = NodeWork::new(node, plan, roll_call, leaving.clone(), farewell.clone());
    node.health.does("training");
    let end = supervise(
        &mut work,
        &options(node.start.grace),
        &leaving,
        &mut |_, event| {
            match &event {
                JobEvent::Progress { process, status } if process.role == Role::Pserver => {
                    farewell.borrow_mut().server(status);
                }
                JobEvent::Died { process, .. } if process.role == Role::Pserver => {
                    farewell.borrow_mut().server_died();
                }
                _ => {}
            }
            node.watch(&event);
            emit(event);
        },
    );
    let end = end.map_err(NodeError::System)?;
    node.health.ready(false);
    if node.markers.is_over() {
        // The job has finished, however this node's own processes ended: other nodes need not wait for this one.
        drop(node.markers.leave(own));
        return Ok(NodeEnd::Over(RunEnd::Succeeded));
    }
    let anew = node.shutdown.requests() == 0 && end != RunEnd::Succeeded && work.pods_change(&end);
    Ok(if anew {
        NodeEnd::Anew
    } else {
        NodeEnd::Over(end)
    })
}

impl PreparedNode<'_> {
    /// The job was finished before this pod began.
    fn came_late(&self, emit: &mut dyn FnMut(JobEvent)) -> NodeEnd {
        self.say(emit, "the job has already finished".to_owned());
        if let environment::Peers::Indexed { index } = self.environment.peers {
            // Without the marker, the other nodes wait until their time limit.
            drop(self.markers.leave(index));
        }
        NodeEnd::Over(RunEnd::Succeeded)
    }
}

fn options(grace: Duration) -> SupervisorOptions {
    SupervisorOptions {
        limits: RunLimits {
            // The other half of the grace period is for the snapshot.
            grace: grace / 2,
            restart: Some(RestartPolicy {
                limit: 3,
                ..RestartPolicy::default()
            }),
            servers_end: ServersEnd::WhenDone,
            ..RunLimits::default()
        },
        lines: true,
        ..SupervisorOptions::default()
    }
}

/// The job's token: from the environment or from the Secret.
pub fn token(start: &NodeStart, environment: &Environment) -> Result<String, NodeError> {
    if let Some(token) = start.variables.get(crate::local::plan::TOKEN_VARIABLE) {
        return Ok(token.clone());
    }
    let folder = environment
        .secret_dir
        .clone()
        .unwrap_or_else(|| PathBuf::from(crate::node::pod::SECRET_PATH));
    let path = folder.join("token");
    let token = fs::read_to_string(&path).map_err(|source| NodeError::Token { path, source })?;
    Ok(token.trim().to_owned())
}

/// The exit code of a node with this result.
pub fn exit_code(result: &Result<RunEnd, NodeError>) -> u8 {
    match result {
        Ok(end) => finish::exit_code(end),
        Err(error) => error.exit_code(),
    }
}
