//! What a supervisor must know about the processes that it runs, as a trait, and its implementation for a local run.

use std::fs;
use std::io;
use std::path::PathBuf;

use super::child::ChildOutput;
use super::inputs::ShardFiles;
use super::layout::JobData;
use super::listed::ListedError;
use super::plan::{NodePorts, ProcessCommand, RunPlan, SHARD_FILES_VARIABLE};
use super::ports::{self, Reservation};
use super::workdir::{self, WorkdirError};
use words::process::{ProcessId, Role};

/// The processes of a run. The supervisor requests a command only when it starts one.
pub(crate) trait RunProcesses {
    fn processes(&self) -> Vec<ProcessId>;

    /// The command line of a process. Ports that were reserved for it are released.
    fn command(&mut self, process: ProcessId) -> ProcessCommand;

    /// Its log file.
    fn log(&self, process: ProcessId) -> PathBuf;

    /// The output folder, in which the processes keep their record.
    fn output(&self) -> PathBuf;

    /// Whether a server that ended before it was ready ended because a port was in use.
    fn port_taken(&self, process: ProcessId) -> bool;

    /// Finds other ports for a server, which no other process knows yet.
    fn move_ports(&mut self, process: ProcessId) -> io::Result<()>;

    /// How the log of a process that is started for the first time begins.
    fn first_log(&self) -> ChildOutput {
        ChildOutput::New
    }

    /// Called whenever the supervisor checks for requests, several times per second.
    fn alive(&mut self) {}

    /// Called repeatedly: returns a server that must now be notified that its machine is about to end, so that it
    /// requests a snapshot.
    fn ends_soon(&mut self) -> Option<ProcessId> {
        None
    }

    /// Called when a trainer of this run has finished.
    fn trainer_finished(&mut self, _process: ProcessId) -> io::Result<()> {
        Ok(())
    }

    /// Called repeatedly after this run's own trainers have finished: the nodes that the servers still have to wait
    /// for, as text; `None` if there are none.
    fn servers_wait_for(&mut self) -> Option<String> {
        None
    }
}

/// Why a local run could not be prepared.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// The folder for a node's logs cannot be created.
    #[error("create the output folder {path}")]
    Output {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A working directory cannot be created.
    #[error(transparent)]
    Workdir(#[from] WorkdirError),
    /// The data of a node cannot be read.
    #[error("note the data files in {path}")]
    Shard {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// Data that a list names cannot be divided.
    #[error(transparent)]
    Listed(#[from] ListedError),
    /// There are no free ports, or their search failed.
    #[error("find free loopback ports")]
    Ports(#[source] io::Error),
}

/// The nodes of a local run: a plan and the ports that are reserved for it.
#[derive(Debug)]
pub(crate) struct LocalWork {
    plan: RunPlan,
    ports: Vec<NodePorts>,
    held: Vec<Held>,
}

#[derive(Debug)]
struct Held {
    server: Option<ServerReservation>,
    trainer: Option<Reservation>,
}

/// The ports of a server, held.
#[derive(Debug)]
struct ServerReservation {
    data: Reservation,
    status: Reservation,
}

impl ServerReservation {
    /// The ports of its node.
    fn ports(&self, trainer_status: u16) -> NodePorts {
        NodePorts {
            data: self.data.first(),
            pserver_status: self.status.first(),
            trainer_status,
        }
    }
}

/// Where the data files of a node are listed, for its trainer.
fn shard_list(plan: &RunPlan, node: u32) -> PathBuf {
    plan.node_dir(node).join("data-files.json")
}

impl LocalWork {
    /// Creates folders and links, and reserves ports.
    pub(crate) fn prepare(plan: RunPlan) -> Result<Self, PrepareError> {
        let nodes = plan.options.nodes;
        for node in 0..nodes {
            let path = plan.node_dir(node);
            fs::create_dir_all(&path).map_err(|source| PrepareError::Output { path, source })?;
            let (work, layout) = (plan.work_dir(node), &plan.layout);
            if let JobData::Listed(listed) = &plan.layout.data {
                workdir::prepare_listed(&work, &layout.config_dir, &listed.base)?;
                listed.write(&work, node, nodes)?;
            } else if let Some(shard) = plan.shards.get(node as usize) {
                workdir::prepare(&work, &layout.job, &layout.config_dir, shard)?;
                let list = shard_list(&plan, node);
                let noted = ShardFiles::of(shard).and_then(|files| files.write(&list));
                noted.map_err(|source| PrepareError::Shard {
                    path: shard.clone(),
                    source,
                })?;
            }
        }
        for node in plan.options.nodes..plan.options.servers {
            let path = plan.work_dir(node);
            fs::create_dir_all(&path).map_err(|source| PrepareError::Output { path, source })?;
        }
        let mut work = Self {
            plan,
            ports: Vec::new(),
            held: Vec::new(),
        };
        for _ in 0..work.plan.options.nodes.max(work.plan.options.servers) {
            let server = work.reserve_server().map_err(PrepareError::Ports)?;
            let trainer = Reservation::new(1).map_err(PrepareError::Ports)?;
            work.ports.push(server.ports(trainer.first()));
            work.held.push(Held {
                server: Some(server),
                trainer: Some(trainer),
            });
        }
        Ok(work)
    }

    fn reserve_server(&self) -> io::Result<ServerReservation> {
        Ok(ServerReservation {
            data: Reservation::new(self.plan.data_ports())?,
            status: Reservation::new(1)?,
        })
    }
}

impl RunProcesses for LocalWork {
    fn processes(&self) -> Vec<ProcessId> {
        self.plan.processes()
    }

    fn command(&mut self, process: ProcessId) -> ProcessCommand {
        let held = &mut self.held[process.node as usize];
        match process.role {
            Role::Pserver => held.server = None,
            Role::Trainer => {
                held.trainer = None;
                // Only this trainer knows the port, so it may be another one at every start.
                let status = &mut self.ports[process.node as usize].trainer_status;
                *status = ports::free_or_other(*status);
            }
        }
        let mut command = self.plan.command(process, &self.ports);
        if process.role == Role::Trainer && !self.plan.shards.is_empty() {
            let list = shard_list(&self.plan, process.node).display().to_string();
            command
                .environment
                .insert(SHARD_FILES_VARIABLE.to_owned(), list);
        }
        command
    }

    fn log(&self, process: ProcessId) -> PathBuf {
        self.plan.log(process)
    }

    fn output(&self) -> PathBuf {
        self.plan.layout.output()
    }

    fn port_taken(&self, process: ProcessId) -> bool {
        let ports = self.ports[process.node as usize];
        ports::taken(ports.data, self.plan.data_ports()) || ports::taken(ports.pserver_status, 1)
    }

    fn move_ports(&mut self, process: ProcessId) -> io::Result<()> {
        let server = self.reserve_server()?;
        let node = process.node as usize;
        self.ports[node] = server.ports(self.ports[node].trainer_status);
        self.held[node].server = Some(server);
        Ok(())
    }
}
