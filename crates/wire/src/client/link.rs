//! Opens the connections of one trainer: dial, handshake, commands.

use super::Fault;
use super::config::{Error, SessionConfig};
use crate::auth;
use crate::channel::Channel;
use crate::frame::FrameKind;
use crate::handshake::greet;
use crate::ids::Generation;
use crate::message::{Command, ConnectionRole, Hello};
use crate::recovery::ServerReport;
use crate::shard::table_hash;
use crate::shard_map::ShardMap;
use crate::spec::JobSpec;
use crate::stream::{ConnectError, Dial, Stream};
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

/// For connecting to an address that was written down. If nobody is there any more, a packet to it may get no reply at all, and its
/// successor is to be found soon.
const DIAL_KNOWN: Duration = Duration::from_secs(1);

/// Everything that is needed to connect to the servers of the job.
#[derive(Debug)]
pub(super) struct Dialer {
    pub(super) config: SessionConfig,
    instance: u64,
    servers_hash: u64,
    job_hash: u64,
    job: String,
    shapes: u64,
    /// Which servers hold what.
    pub(super) map: ShardMap,
}

impl Dialer {
    pub(super) fn new(config: SessionConfig, spec: &JobSpec) -> Self {
        let list: Vec<String> = config.servers.iter().map(|server| server.text()).collect();
        Self {
            instance: auth::instance(),
            servers_hash: table_hash(&list.join(",")) >> 11,
            job_hash: spec.fingerprint() >> 11,
            job: spec.job.clone(),
            shapes: spec.shapes() >> 11,
            map: ShardMap::new(&spec.tables, &config.topology(), config.trainers),
            config,
        }
    }

    pub(super) fn server_name(&self, server: u32) -> String {
        self.config.servers[server as usize].text()
    }

    /// A connection to port index `port` (from 0) of a server, after the handshake.
    pub(super) fn connect(
        &self,
        server: u32,
        port: u32,
        role: ConnectionRole,
        epoch: Generation,
    ) -> Result<(Channel, ServerReport), Fault> {
        let address = &self.config.servers[server as usize];
        let number = address.port + port as u16;
        let hello = self.hello(server, role, epoch);
        let book = self.config.addresses.as_ref();
        if let Some(known) = book.and_then(|book| book.find(&address.host)) {
            let known = SocketAddr::new(known, number);
            let name = format!("{} ({known})", address.host);
            let stream = Stream::connect_at(known, DIAL_KNOWN, &self.dial());
            match self.greet(name, stream, hello.clone()) {
                Err(fault) if is_named(&address.host, known) => return Err(fault),
                // The pod that was there is gone. Whoever has its address now is not asked about this job.
                Err(_) => {}
                done => return done,
            }
        }
        let name = format!("{}:{number}", address.host);
        let stream = Stream::connect(&address.host, number, &self.dial());
        self.greet(name, stream, hello)
    }

    fn dial(&self) -> Dial {
        Dial {
            timeout: self.config.timing.dial,
            tls: self.config.tls.clone(),
            local: self.config.local_sockets,
        }
    }

    /// The handshake with a server.
    fn greet(
        &self,
        name: String,
        stream: Result<Stream, ConnectError>,
        hello: Hello,
    ) -> Result<(Channel, ServerReport), Fault> {
        let stream = stream.map_err(|cause| match cause {
            ConnectError::Unreachable(cause) => {
                Fault::Lost(format!("server {name} cannot be reached: {cause}"))
            }
            ConnectError::Hopeless(text) => Fault::Final(Error::Rejected {
                server: name.clone(),
                text,
            }),
        })?;
        let timed = stream
            .set_read_timeout(Some(self.config.timing.silence))
            .and_then(|()| stream.set_write_timeout(Some(self.config.timing.stall)));
        timed.map_err(|cause| Fault::Lost(cause.to_string()))?;
        let mut channel = Channel::new(stream);
        channel.name_peer(name);
        let report = greet(&mut channel, &self.config.token, hello)?;
        // The server begins to count after its welcome, too.
        channel.stream().meter().reset();
        Ok((channel, report))
    }

    fn hello(&self, server: u32, role: ConnectionRole, epoch: Generation) -> Hello {
        Hello {
            nonce: String::new(),
            proof: String::new(),
            role,
            trainer: self.config.trainer,
            instance: self.instance,
            trainers: self.config.trainers,
            topology: self.config.topology(),
            server,
            servers_hash: self.servers_hash,
            job_hash: self.job_hash,
            job: self.job.clone(),
            shapes: self.shapes,
            holders: self.map.holders(),
            map: self.map.fingerprint(),
            epoch,
        }
    }

    /// A connection to a server for commands.
    pub(super) fn command_line(&self, server: u32, epoch: Generation) -> Result<Channel, Fault> {
        let (channel, _) = self.connect(server, 0, ConnectionRole::Command, epoch)?;
        let wait = self.config.timing.stall;
        channel
            .stream()
            .set_read_timeout(Some(wait))
            .map_err(|cause| Fault::Lost(cause.to_string()))?;
        Ok(channel)
    }

    /// Sends one command to one server, over a connection of its own, and waits for the reply.
    pub(super) fn command(
        &self,
        server: u32,
        epoch: Generation,
        command: &Command,
    ) -> Result<ServerReport, Fault> {
        ask(&mut self.command_line(server, epoch)?, command)
    }

    /// The error for a wait that reached its time limit.
    pub(super) fn timed_out(&self, waits_for: String, seconds: u64) -> Error {
        Error::TimedOut { seconds, waits_for }
    }

    /// An error with all its causes, for people.
    pub(super) fn story(fault: &Fault) -> String {
        match fault {
            Fault::Lost(text) => text.clone(),
            Fault::Final(error) => words::causes::chain(error),
        }
    }
}

/// Sends a command and waits for the reply.
pub(super) fn ask(line: &mut Channel, command: &Command) -> Result<ServerReport, Fault> {
    line.send(FrameKind::Command, command)?;
    Ok(line.expect(FrameKind::Report)?)
}

/// Whether the name of a host stands for this address.
fn is_named(host: &str, address: SocketAddr) -> bool {
    let named = (host, address.port()).to_socket_addrs();
    named.is_ok_and(|mut named| named.any(|named| named == address))
}
