//! Prepares a node: finds the other nodes, copies the shard to local disk, and makes the plan of its processes.

use std::fs;
use std::io;
use std::net::ToSocketAddrs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::addresses;
use super::discover::{self, Peers, PodsOptions};
use super::environment::{self, Environment};
use super::finish::Markers;
use super::health::Health;
use super::metrics::Scrape;
use super::own_output;
use super::patience::{GaveUp, NotYet, WaitLimits};
use super::plan::{Arguments, NodePlan, StatusPorts};
use super::rollcall::{Agreement, RollCall};
use super::run::{NodeError, NodeStart};
use super::stage;
use crate::event::JobEvent;
use crate::local::Shutdown;
use crate::local::layout::{self, FolderOptions};
use crate::local::ports::Reservation;
use crate::local::workdir;
use words::process::Role;

/// A node before its processes run.
pub(super) struct PreparedNode<'a> {
    pub start: &'a NodeStart,
    pub environment: Environment,
    pub health: Health,
    pub scrape: Scrape,
    pub shutdown: &'a Shutdown,
    pub token: String,
    pub markers: &'a Markers,
}

impl PreparedNode<'_> {
    pub(super) fn prepare(&self, emit: &mut dyn FnMut(JobEvent)) -> Result<NodePlan, NodeError> {
        let environment = &self.environment;
        let arguments = Arguments::sort(&self.start.arguments);
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
        let options = FolderOptions {
            config: arguments.config,
            config_dir: Some(PathBuf::from(".")),
            ..FolderOptions::default()
        };
        let config = layout::find_config(&environment.config_dir, &options);
        let config = config.map_err(NodeError::Config)?.file;
        let shard = self.wait_for_shard(peers.own, emit)?;
        let directory = self.stage(&shard, peers.own, emit)?;
        let status_ports = self.status_ports().map_err(NodeError::System)?;
        let mut environment = environment.clone();
        if !has_interface(&environment.nic) {
            let what = format!(
                "there is no network interface {}; the server listens on all",
                environment.nic
            );
            self.say(emit, what);
            environment.nic.clear();
        }
        Ok(NodePlan {
            program: self.start.program.clone(),
            tls: environment
                .secret_dir
                .as_ref()
                .is_some_and(|folder| folder.join("tls.key").exists()),
            environment,
            config,
            trainer_flags: arguments.trainer_flags,
            directory,
            token: self.token.clone(),
            peers,
            status_ports,
            patience: self.start.patience,
        })
    }

    pub(super) fn say(&self, emit: &mut dyn FnMut(JobEvent), what: String) {
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
        let mut limits = WaitLimits::new(self.start.patience);
        if matches!(self.environment.peers, environment::Peers::Podlist { .. }) {
            // Every try is a request to the API server.
            limits.longest_pause = Duration::from_secs(2);
        }
        limits.wait(what, self.shutdown, &mut tell, || {
            health.moves();
            if self.markers.is_over() {
                return Err(NotYet::Never(
                    "the job finished without this node".to_owned(),
                ));
            }
            condition()
        })
    }

    fn addresses(&self) -> PathBuf {
        let output = self.environment.job_dir().join("output");
        addresses::folder(&output, &self.token)
    }

    fn find_peers(&self, emit: &mut dyn FnMut(JobEvent)) -> Result<Peers, NodeError> {
        let environment = &self.environment;
        let nodes = environment.nodes;
        match &environment.peers {
            environment::Peers::Indexed { index } => {
                let peers = discover::indexed(&environment.job_name, nodes, *index);
                if *index == 0 {
                    let moved = self.begin_output().map_err(|source| NodeError::Volume {
                        path: environment.job_dir().join("output"),
                        source,
                    })?;
                    if let Some(text) = moved {
                        self.say(emit, text);
                    }
                } else {
                    self.wait("node 0, which prepares the output folder", emit, || {
                        self.output_has_begun()
                    })?;
                }
                let folder = self.addresses();
                if let Some(own) = environment.own_address {
                    let host = &peers.hosts[*index as usize];
                    // Without the address on the volume, the other nodes find this pod by its DNS name.
                    if let Err(cause) = addresses::write(&folder, host, own) {
                        self.say(
                            emit,
                            format!("this pod's address cannot be written to the volume: {cause}"),
                        );
                    }
                }
                self.wait("the names of all nodes", emit, || {
                    resolve(&peers.hosts, environment.port, &folder)
                })?;
                Ok(peers)
            }
            environment::Peers::Podlist { .. } => {
                let list = self.lister();
                let agreement = Agreement::new(environment.job_dir().join("output"), &self.token);
                let mut moved = None;
                let peers = self.wait("the pods of the job", emit, || {
                    let peers = list()?;
                    if peers.own == 0 {
                        let begun = self.begin_output();
                        let begun = begun.map_err(|error| NotYet::Later(error.to_string()))?;
                        moved = begun.or(moved.take());
                    }
                    self.output_has_begun()?;
                    agreement.reached(&peers).map(|()| peers)
                })?;
                if let Some(text) = moved {
                    self.say(emit, text);
                }
                Ok(peers)
            }
        }
    }

    /// Moves results of an earlier run aside: node 0 does it before any node writes.
    fn begin_output(&self) -> io::Result<Option<String>> {
        let output = self.environment.job_dir().join("output");
        let flags = Arguments::sort(&self.start.arguments).trainer_flags;
        let keep = own_output::starts_from(&flags, &output);
        let moved = own_output::begin(&output, &self.token, keep)?;
        Ok(moved.map(|moved| format!("results of an earlier run are now in {}", moved.display())))
    }

    /// Whether node 0 has prepared the output folder; the other nodes wait for it.
    fn output_has_begun(&self) -> Result<(), NotYet> {
        let output = self.environment.job_dir().join("output");
        match own_output::is_of(&output, &self.token) {
            true => Ok(()),
            false => Err(NotYet::Later("it has not done so yet".to_owned())),
        }
    }

    /// Asks the API server for the pods of the job and ranks them.
    fn lister(&self) -> impl Fn() -> Result<Peers, NotYet> + Send + use<> {
        let environment = self.environment.clone();
        let account_dir = self.start.account_dir.clone();
        let source = self.start.pods.clone();
        move || {
            let environment::Peers::Podlist {
                host,
                port,
                namespace,
                own_ip,
            } = &environment.peers
            else {
                return Err(NotYet::Never("pods are found by their index".to_owned()));
            };
            let pods = source.pods(&PodsOptions {
                host: host.clone(),
                port: *port,
                namespace: namespace.clone(),
                job: environment.job_name.clone(),
                account_dir: account_dir.clone(),
            })?;
            discover::rank(&pods, environment.nodes, own_ip).map_err(NotYet::Later)
        }
    }

    /// With `podlist`: starts the thread that compares the present pods with these nodes.
    pub(super) fn roll_call(&self, peers: &Peers) -> io::Result<Option<RollCall>> {
        match self.environment.peers {
            environment::Peers::Indexed { .. } => Ok(None),
            environment::Peers::Podlist { .. } => {
                RollCall::start(peers.clone(), self.lister()).map(Some)
            }
        }
    }

    /// Waits for the shard, which the data job may still be writing; it appears on the volume by one rename.
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
            if let Some(place) = found.as_ref().filter(|place| is_empty(place)) {
                return Err(NotYet::Later(format!("{} is empty", place.display())));
            }
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
    fn stage(
        &self,
        shard: &Path,
        own: u32,
        emit: &mut dyn FnMut(JobEvent),
    ) -> Result<PathBuf, NodeError> {
        let local = &self.environment.work_dir;
        // By id: with `podlist` a node may get another one.
        let (data, config) = (local.join(format!("data-{own}")), local.join("config"));
        let mut told = Instant::now();
        let mut tell = |progress: stage::CopyProgress| {
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
        workdir::prepare(&directory, &self.environment.job_dir(), &config, &data)?;
        Ok(directory)
    }

    fn status_ports(&self) -> io::Result<StatusPorts> {
        let (server, trainer) = (Reservation::new(1)?, Reservation::new(1)?);
        Ok(StatusPorts {
            server: server.first(),
            trainer: trainer.first(),
        })
    }

    pub(super) fn watch(&self, event: &JobEvent) {
        match event {
            JobEvent::Ready { process } if process.role == Role::Pserver => self.health.ready(true),
            JobEvent::Died { process, .. } => self.health.lost(process.role),
            JobEvent::Started { process, .. } if process.role == Role::Trainer => {
                self.health.finished(false)
            }
            JobEvent::Ended { process } if process.role == Role::Trainer => {
                self.health.finished(true)
            }
            JobEvent::Waits {
                process,
                reason: Some(reason),
            } if process.role == Role::Pserver => self.health.stays_for(reason),
            JobEvent::Recorded {
                event: words::event::Event::Recovery { restored: true, .. },
                ..
            } => self.health.rolled_back(),
            JobEvent::Progress { process, status } => {
                self.health.progress(process.role, status.clone());
            }
            _ => {}
        }
    }
}

/// Whether all of these interfaces exist: their names differ between clusters. Addresses are also allowed.
fn has_interface(nics: &str) -> bool {
    nics.split(',').all(|nic| {
        nic.is_empty()
            || nic.parse::<std::net::IpAddr>().is_ok()
            || Path::new("/sys/class/net").join(nic).exists()
    })
}

/// A folder that cannot be read does not count as empty: the copy reports the error.
fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}

/// Whether all nodes have addresses, on the volume or by their names.
fn resolve(hosts: &[String], port: u16, folder: &Path) -> Result<(), NotYet> {
    let missing: Vec<&str> = hosts
        .iter()
        .filter(|host| addresses::find(folder, host).is_none())
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
