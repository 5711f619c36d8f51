//! Makes connections of one trainer: dial, greet, commands.

use super::config::{Config, Error};
use super::{Fault, error_chain};
use crate::auth;
use crate::channel::Channel;
use crate::frame::Kind;
use crate::handshake::greet;
use crate::ids::Epoch;
use crate::message::{Command, Hello, Role};
use crate::recovery::Report;
use crate::shard::table_hash;
use crate::spec::JobSpec;
use crate::stream::{Dial, Stream};

/// All that is needed to connect to the servers of the job.
#[derive(Debug)]
pub(super) struct Dialer {
    pub(super) config: Config,
    instance: u64,
    servers_hash: u64,
    job_hash: u64,
    job: String,
    shapes: u64,
}

impl Dialer {
    pub(super) fn new(config: Config, spec: &JobSpec) -> Self {
        let list: Vec<String> = config.servers.iter().map(|server| server.text()).collect();
        Self {
            instance: auth::instance(),
            servers_hash: table_hash(&list.join(",")) >> 11,
            job_hash: spec.fingerprint() >> 11,
            job: spec.job.clone(),
            shapes: spec.shapes() >> 11,
            config,
        }
    }

    pub(super) fn server_name(&self, server: u32) -> String {
        self.config.servers[server as usize].text()
    }

    /// A greeted connection to port number `port` (0..) of a server.
    pub(super) fn connect(
        &self,
        server: u32,
        port: u32,
        role: Role,
        epoch: Epoch,
    ) -> Result<(Channel, Report), Fault> {
        let address = &self.config.servers[server as usize];
        let number = address.port + port as u16;
        let dial = Dial {
            timeout: self.config.timing.dial,
            tls: self.config.tls.clone(),
            local: self.config.local_sockets,
        };
        let stream = Stream::connect(&address.host, number, &dial).map_err(|cause| {
            Fault::Lost(format!(
                "server {}:{number} cannot be reached: {cause}",
                address.host
            ))
        })?;
        let timed = stream
            .set_read_timeout(Some(self.config.timing.silence))
            .and_then(|()| stream.set_write_timeout(Some(self.config.timing.stall)));
        timed.map_err(|cause| Fault::Lost(cause.to_string()))?;
        let mut channel = Channel::new(stream);
        channel.name_peer(format!("{}:{number}", address.host));
        let report = greet(
            &mut channel,
            &self.config.token,
            self.hello(server, role, epoch),
        )?;
        Ok((channel, report))
    }

    fn hello(&self, server: u32, role: Role, epoch: Epoch) -> Hello {
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
            epoch,
        }
    }

    /// Sends one command to one server and waits for the answer.
    pub(super) fn command(
        &self,
        server: u32,
        epoch: Epoch,
        command: &Command,
    ) -> Result<Report, Fault> {
        let (mut channel, _) = self.connect(server, 0, Role::Command, epoch)?;
        let wait = self.config.timing.stall;
        channel
            .stream()
            .set_read_timeout(Some(wait))
            .map_err(|cause| Fault::Lost(cause.to_string()))?;
        channel.send(Kind::Command, command)?;
        Ok(channel.expect(Kind::Report)?)
    }

    /// A wait that came to its end.
    pub(super) fn timed_out(&self, waits_for: String, seconds: u64) -> Error {
        Error::TimedOut { seconds, waits_for }
    }

    /// An error's whole story, for people.
    pub(super) fn story(fault: &Fault) -> String {
        match fault {
            Fault::Lost(text) => text.clone(),
            Fault::Final(error) => error_chain(error),
        }
    }
}
