//! What a supervisor needs to know about the processes it runs, and its form for a local run.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::child::Log;
use super::plan::{Command, NodePorts, Plan};
use super::ports::{self, Reservation};
use super::workdir::{self, WorkdirError};
use crate::event::{ProcessId, Role};

/// The processes of a run. The supervisor asks for a command only when it starts one.
pub trait Work {
    /// All of them.
    fn processes(&self) -> Vec<ProcessId>;

    /// The command line of a process. Ports that were held for it are given free.
    fn command(&mut self, process: ProcessId) -> Command;

    /// Its log file.
    fn log(&self, process: ProcessId) -> PathBuf;

    /// The loopback port of its status page.
    fn status_port(&self, process: ProcessId) -> u16;

    /// Whether a server that ended before it was ready ended because a port was taken.
    fn port_taken(&self, process: ProcessId) -> bool;

    /// Finds other ports for a server that nobody has been told about yet.
    fn move_ports(&mut self, process: ProcessId) -> io::Result<()>;

    /// How the log of a process that is started for the first time begins.
    fn first_log(&self) -> Log {
        Log::New
    }

    /// Called whenever the supervisor looks around, several times a second.
    fn alive(&mut self) {}

    /// Asked again and again: a server that is told now that its machine is to end, so that it wants a snapshot.
    fn ends_soon(&mut self) -> Option<ProcessId> {
        None
    }

    /// A trainer has finished.
    fn trainer_finished(&mut self, _process: ProcessId) -> io::Result<()> {
        Ok(())
    }

    /// Asked again and again: whom the servers still have to wait for after the own trainers have
    /// finished; `None` if nobody.
    fn servers_wait_for(&mut self) -> Option<String> {
        None
    }
}

/// Why a local run could not be prepared.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// No folder for a node's logs.
    #[error("create the output folder {path}")]
    Output {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// No working directory.
    #[error(transparent)]
    Workdir(#[from] WorkdirError),
    /// The snapshots of an earlier run cannot be removed.
    #[error("remove the snapshots {path} of an earlier run")]
    Snapshots {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// No free ports.
    #[error("find free loopback ports")]
    Ports(#[source] io::Error),
}

/// The nodes of a local run: a plan and the ports that are held for it.
#[derive(Debug)]
pub struct LocalWork {
    plan: Plan,
    ports: Vec<NodePorts>,
    held: Vec<Held>,
}

#[derive(Debug)]
struct Held {
    server: Option<(Reservation, Reservation)>,
    trainer: Option<Reservation>,
}

impl LocalWork {
    /// Makes folders and links, and reserves ports.
    pub fn prepare(plan: Plan) -> Result<Self, PrepareError> {
        for (node, shard) in (0..).zip(&plan.shards) {
            let path = plan.node_dir(node);
            fs::create_dir_all(&path).map_err(|source| PrepareError::Output { path, source })?;
            workdir::prepare(&plan.work_dir(node), &plan.layout.config_dir, shard)?;
        }
        for node in plan.wishes.nodes..plan.wishes.servers {
            let path = plan.work_dir(node);
            fs::create_dir_all(&path).map_err(|source| PrepareError::Output { path, source })?;
        }
        if !plan.wishes.resume {
            forget_snapshots(&plan.snapshots())?;
        }
        let mut work = Self {
            plan,
            ports: Vec::new(),
            held: Vec::new(),
        };
        for _ in 0..work.plan.wishes.nodes.max(work.plan.wishes.servers) {
            let (server, server_ports) = work.reserve_server().map_err(PrepareError::Ports)?;
            let trainer = Reservation::new(1).map_err(PrepareError::Ports)?;
            work.ports.push(NodePorts {
                trainer_status: trainer.first(),
                ..server_ports
            });
            work.held.push(Held {
                server: Some(server),
                trainer: Some(trainer),
            });
        }
        Ok(work)
    }

    fn reserve_server(&self) -> io::Result<((Reservation, Reservation), NodePorts)> {
        let data = Reservation::new(self.plan.data_ports())?;
        let status = Reservation::new(1)?;
        let ports = NodePorts {
            data: data.first(),
            pserver_status: status.first(),
            trainer_status: 0,
        };
        Ok(((data, status), ports))
    }
}

/// The snapshots of an earlier run are of no use to a new one, and would be mistaken for its own.
fn forget_snapshots(path: &Path) -> Result<(), PrepareError> {
    match fs::remove_dir_all(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(PrepareError::Snapshots {
            path: path.to_owned(),
            source,
        }),
        _ => Ok(()),
    }
}

impl Work for LocalWork {
    fn processes(&self) -> Vec<ProcessId> {
        self.plan.processes()
    }

    fn command(&mut self, process: ProcessId) -> Command {
        let held = &mut self.held[process.node as usize];
        match process.role {
            Role::Pserver => held.server = None,
            Role::Trainer => held.trainer = None,
        }
        self.plan.command(process, &self.ports)
    }

    fn log(&self, process: ProcessId) -> PathBuf {
        self.plan.log(process)
    }

    fn status_port(&self, process: ProcessId) -> u16 {
        let ports = self.ports[process.node as usize];
        match process.role {
            Role::Pserver => ports.pserver_status,
            Role::Trainer => ports.trainer_status,
        }
    }

    fn port_taken(&self, process: ProcessId) -> bool {
        let ports = self.ports[process.node as usize];
        ports::taken(ports.data, self.plan.data_ports()) || ports::taken(ports.pserver_status, 1)
    }

    fn move_ports(&mut self, process: ProcessId) -> io::Result<()> {
        let (server, ports) = self.reserve_server()?;
        let node = process.node as usize;
        self.held[node].server = Some(server);
        self.ports[node] = NodePorts {
            trainer_status: self.ports[node].trainer_status,
            ..ports
        };
        Ok(())
    }
}
