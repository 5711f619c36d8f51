//! A node from its first moment to its exit code.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::api::ApiServer;
use super::discover::{self, Peers};
use super::environment::{self, Environment, EnvironmentError};
use super::finish::{self, Markers, code};
use super::health::Health;
use super::patience::{GaveUp, NotYet, Patience};
use super::plan::{Arguments, NodePlan};
use super::stage::{self, StageError};
use crate::event::{JobEvent, ProcessId, Role};
use crate::k8s::job::Discovery;
use crate::local::child::Log;
use crate::local::layout::{self, LayoutError, Wish};
use crate::local::machine::{Limits, ServersEnd};
use crate::local::plan::Command;
use crate::local::ports::Reservation;
use crate::local::restart::RestartPolicy;
use crate::local::supervisor::supervise;
use crate::local::work::Work;
use crate::local::workdir::{self, WorkdirError};
use crate::local::{End, Options, Shutdown};

/// How a node is started.
#[derive(Debug, Clone)]
pub struct Start {
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
    /// Where probes are answered; 0 for any free port.
    pub health_port: u16,
    /// How long to wait for peers, and for the shard.
    pub patience: Duration,
    /// From SIGTERM to SIGKILL; less than the pod's own grace period.
    pub grace: Duration,
}

/// Why a node ended before its processes ran.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// Variables.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// A wait.
    #[error(transparent)]
    GaveUp(#[from] GaveUp),
    /// No configuration.
    #[error("find the configuration")]
    Config(#[source] LayoutError),
    /// Copying.
    #[error(transparent)]
    Stage(#[from] StageError),
    /// Working directory.
    #[error(transparent)]
    Workdir(#[from] WorkdirError),
    /// The secret.
    #[error("read the job's token {path}")]
    Token {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The volume cannot be written.
    #[error(
        "write to the job's folder on the volume, {path}; it must be writable for user {}",
        crate::k8s::objects::USER
    )]
    Volume {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Threads, ports.
    #[error("start the node")]
    System(#[source] io::Error),
}

impl NodeError {
    /// The exit code that tells the Job what to do.
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
    start: &Start,
    shutdown: &Shutdown,
    emit: &mut dyn FnMut(JobEvent),
) -> Result<End, NodeError> {
    let environment = Environment::read(&start.variables, start.discovery)?;
    let health = Health::new();
    health
        .serve(IpAddr::V4(Ipv4Addr::UNSPECIFIED), start.health_port)
        .map_err(NodeError::System)?;
    let node = Node {
        start,
        environment,
        health,
        shutdown,
    };
    let plan = node.prepare(emit)?;
    let options = Options {
        limits: Limits {
            grace: start.grace,
            restart: Some(RestartPolicy {
                limit: 3,
                ..RestartPolicy::default()
            }),
            servers_end: ServersEnd::WhenDone,
            ..Limits::default()
        },
        lines: true,
        ..Options::default()
    };
    let markers = Markers::new(plan.output(), plan.environment.nodes, &plan.token);
    markers
        .withdraw(plan.peers.own)
        .map_err(|source| NodeError::Volume {
            path: plan.node_dir(),
            source,
        })?;
    let mut work = NodeWork {
        plan,
        markers,
        last_look: None,
        health: node.health.clone(),
    };
    node.health.does("training");
    let end = supervise(&mut work, &options, shutdown, &mut |_, event| {
        node.watch(&event);
        emit(event);
    });
    end.map_err(NodeError::System)
}

struct Node<'a> {
    start: &'a Start,
    environment: Environment,
    health: Health,
    shutdown: &'a Shutdown,
}

impl Node<'_> {
    fn prepare(&self, emit: &mut dyn FnMut(JobEvent)) -> Result<NodePlan, NodeError> {
        let environment = &self.environment;
        let arguments = Arguments::sort(&self.start.arguments);
        let token = self.token()?;
        let peers = self.find_peers(emit)?;
        self.say(
            emit,
            format!(
                "node {} of {}: {}",
                peers.own,
                environment.nodes,
                peers.hosts.join(", ")
            ),
        );
        let node_dir = environment
            .job_dir()
            .join("output")
            .join(format!("node_{}", peers.own));
        fs::create_dir_all(&node_dir).map_err(|source| NodeError::Volume {
            path: node_dir,
            source,
        })?;
        let wish = Wish {
            config: arguments.config,
            config_dir: Some(PathBuf::from(".")),
        };
        let config = layout::find_config(&environment.config_dir, &wish)
            .map_err(NodeError::Config)?
            .1;
        let shard = self.wait_for_shard(peers.own, emit)?;
        let directory = self.stage(&shard, emit)?;
        let status_ports = self.status_ports().map_err(NodeError::System)?;
        Ok(NodePlan {
            program: self.start.program.clone(),
            tls: environment
                .secret_dir
                .as_ref()
                .is_some_and(|folder| folder.join("tls.key").exists()),
            environment: environment.clone(),
            peers,
            config,
            trainer_flags: arguments.trainer_flags,
            directory,
            token,
            status_ports,
        })
    }

    fn say(&self, emit: &mut dyn FnMut(JobEvent), what: String) {
        self.health.does(&what);
        emit(JobEvent::Preparing { what });
    }

    fn wait<T>(
        &self,
        what: &str,
        emit: &mut dyn FnMut(JobEvent),
        mut condition: impl FnMut() -> Result<T, NotYet>,
    ) -> Result<T, GaveUp> {
        let health = &self.health;
        let mut tell = |text: String| {
            health.does(&text);
            emit(JobEvent::Preparing { what: text });
        };
        Patience::new(self.start.patience).wait(what, self.shutdown, &mut tell, || {
            health.moves();
            condition()
        })
    }

    fn token(&self) -> Result<String, NodeError> {
        if let Some(token) = self.start.variables.get(crate::local::plan::TOKEN_VARIABLE) {
            return Ok(token.clone());
        }
        let folder = self
            .environment
            .secret_dir
            .clone()
            .unwrap_or_else(|| PathBuf::from(crate::k8s::objects::SECRET_PATH));
        let path = folder.join("token");
        let token =
            fs::read_to_string(&path).map_err(|source| NodeError::Token { path, source })?;
        Ok(token.trim().to_owned())
    }

    fn find_peers(&self, emit: &mut dyn FnMut(JobEvent)) -> Result<Peers, NodeError> {
        let environment = &self.environment;
        let nodes = environment.nodes;
        match &environment.peers {
            environment::Peers::Indexed { index } => {
                let peers = discover::indexed(&environment.job_name, nodes, *index);
                self.wait("the names of all nodes", emit, || {
                    resolve(&peers.hosts, environment.port)
                })?;
                Ok(peers)
            }
            environment::Peers::Podlist {
                host,
                port,
                namespace,
                own_ip,
            } => {
                let api = ApiServer {
                    host: host.clone(),
                    port: *port,
                    account_dir: self.start.account_dir.clone(),
                    timeout: Duration::from_secs(10),
                };
                Ok(self.wait("the pods of the job", emit, || {
                    let pods = api.pods(namespace, &environment.job_name)?;
                    discover::rank(&pods, nodes, own_ip).map_err(NotYet::Later)
                })?)
            }
        }
    }

    /// The shard may still be in the making: the data job puts it there in one step.
    fn wait_for_shard(
        &self,
        own: u32,
        emit: &mut dyn FnMut(JobEvent),
    ) -> Result<PathBuf, NodeError> {
        let job = self.environment.job_dir();
        let places = [
            job.join("data").join(own.to_string()),
            job.join(own.to_string()).join("data"),
        ];
        Ok(self.wait("the data shard of this node", emit, || {
            let found = places.iter().find(|place| place.is_dir()).cloned();
            let [one, other] = &places;
            found.ok_or_else(|| {
                NotYet::Later(format!(
                    "neither {} nor {} exists",
                    one.display(),
                    other.display()
                ))
            })
        })?)
    }

    /// Copies shard and configuration to local disk and makes the working directory.
    fn stage(&self, shard: &Path, emit: &mut dyn FnMut(JobEvent)) -> Result<PathBuf, NodeError> {
        let local = &self.environment.work_dir;
        let (data, config) = (local.join("data"), local.join("config"));
        let mut told = Instant::now();
        let mut tell = |progress: stage::Progress| {
            self.health.moves();
            if told.elapsed() > Duration::from_secs(5) {
                told = Instant::now();
                self.say(
                    emit,
                    format!(
                        "copying the shard: {} of {} bytes",
                        progress.done, progress.total
                    ),
                );
            }
        };
        stage::copy_folder(shard, &data, &mut tell)?;
        stage::copy_folder(&self.environment.config_dir, &config, &mut tell)?;
        let directory = local.join("node");
        workdir::prepare(&directory, &config, &data)?;
        Ok(directory)
    }

    fn status_ports(&self) -> io::Result<(u16, u16)> {
        let (server, trainer) = (Reservation::new(1)?, Reservation::new(1)?);
        Ok((server.first(), trainer.first()))
    }

    fn watch(&self, event: &JobEvent) {
        match event {
            JobEvent::Ready { process } if process.role == Role::Pserver => self.health.ready(true),
            JobEvent::Died { process, .. } if process.role == Role::Pserver => {
                self.health.ready(false)
            }
            JobEvent::Waits {
                process,
                reason: Some(reason),
            } => self.health.does(&format!("{process} waits for {reason}")),
            JobEvent::Progress { process, status } if process.role == Role::Trainer => {
                let (pass, batch) = (status.pass.unwrap_or(0), status.batch.unwrap_or(0));
                self.health
                    .does(&format!("training: pass {pass}, batch {batch}"));
            }
            _ => {}
        }
    }
}

/// Whether all names have addresses. A pod's name is there as soon as the pod has an address.
fn resolve(hosts: &[String], port: u16) -> Result<(), NotYet> {
    let missing: Vec<&str> = hosts
        .iter()
        .filter(|host| {
            (host.as_str(), port)
                .to_socket_addrs()
                .map_or(true, |mut found| found.next().is_none())
        })
        .map(String::as_str)
        .collect();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(NotYet::Later(format!(
            "no address yet for {}",
            missing.join(", ")
        )))
    }
}

/// The two processes of a node.
struct NodeWork {
    plan: NodePlan,
    markers: Markers,
    last_look: Option<(Instant, Vec<u32>)>,
    health: Health,
}

/// The volume is looked at this often for the markers of the others.
const LOOK: Duration = Duration::from_millis(500);

impl Work for NodeWork {
    fn processes(&self) -> Vec<ProcessId> {
        vec![
            ProcessId::pserver(self.plan.peers.own),
            ProcessId::trainer(self.plan.peers.own),
        ]
    }

    fn command(&mut self, process: ProcessId) -> Command {
        self.plan.command(process.role)
    }

    fn log(&self, process: ProcessId) -> PathBuf {
        self.plan.node_dir().join(match process.role {
            Role::Pserver => "server.log",
            Role::Trainer => "train.log",
        })
    }

    fn status_port(&self, process: ProcessId) -> u16 {
        match process.role {
            Role::Pserver => self.plan.status_ports.0,
            Role::Trainer => self.plan.status_ports.1,
        }
    }

    /// A node's ports are the same everywhere and known to all: it cannot move.
    fn port_taken(&self, _process: ProcessId) -> bool {
        false
    }

    fn move_ports(&mut self, _process: ProcessId) -> io::Result<()> {
        Err(io::ErrorKind::AddrInUse.into())
    }

    /// The log of the pod that this one replaces is what people will ask for.
    fn first_log(&self) -> Log {
        Log::Append
    }

    fn alive(&mut self) {
        self.health.moves();
    }

    fn trainer_finished(&mut self, process: ProcessId) -> io::Result<()> {
        self.markers.leave(process.node)
    }

    fn servers_wait_for(&mut self) -> Option<String> {
        let is_fresh = self
            .last_look
            .as_ref()
            .is_some_and(|(at, _)| at.elapsed() < LOOK);
        if !is_fresh {
            self.last_look = Some((Instant::now(), self.markers.missing()));
        }
        let missing = &self.last_look.as_ref()?.1;
        let names: Vec<String> = missing
            .iter()
            .map(|node| format!("trainer {node}"))
            .collect();
        (!names.is_empty()).then(|| names.join(", "))
    }
}

/// The code of a node that ended like this.
pub fn exit_code(result: &Result<End, NodeError>) -> u8 {
    match result {
        Ok(end) => finish::exit_code(end),
        Err(error) => error.exit_code(),
    }
}
