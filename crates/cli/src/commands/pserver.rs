//! `canoe pserver`: one parameter server, with v1's flags.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use words::lock::Mutex;

use anyhow::Context;
use pserver::snapshot::Flush;
use pserver::{Server, ServerConfig, ServerOutcome, nics};
use run::local::{Shutdown, on_announcement};
use trainer::log::{Level, Log, Topic};
use words::metrics::{Exposition, MetricKind};
use words::process::Role;
use words::status::Status;

use crate::console::Console;
use crate::exit::Exit;
use crate::flags::Flags;
use crate::gflags::GFLAGS;
use crate::record;
use crate::record::notes::Notes;
use crate::run_checks;
use crate::security::{self, Reach};
use crate::status_page::{self, Pages};
use crate::v1;
use crate::v1_flags::{COMMON, PSERVER};

/// How long a server of a finished job waits for trainers to disconnect or, if it was restarted, to ask.
const LINGER: Duration = Duration::from_secs(5);

/// Runs a server with the arguments after `canoe pserver`.
pub(crate) fn run(args: &[String]) -> anyhow::Result<Exit> {
    let flags = match Flags::parse(&[COMMON, PSERVER, GFLAGS], args) {
        Ok(flags) => flags,
        Err(error) => {
            eprintln!("{}: {error}", v1::typed("pserver"));
            return Ok(Exit::Usage);
        }
    };
    if flags.bool("help") {
        println!(
            "canoe pserver: one parameter server. Flags, with their defaults:\n\n{}",
            flags.help(crate::display::help_width())
        );
        return Ok(Exit::Success);
    }
    if flags.bool("version") {
        println!("{}", crate::VERSION);
        return Ok(Exit::Success);
    }
    let console = Arc::new(Mutex::new(Console::default()));
    let notes = Arc::new(Notes::default());
    let noted = notes.clone();
    let say = move |level: Level, text: &str| {
        if level == Level::Error {
            noted.add(text);
        }
        let mut console = console.lock();
        console.line(level, Topic::Server, text);
    };
    say(
        Level::Info,
        &format!("commandline: canoe pserver {}", args.join(" ")),
    );
    for warning in flags.warnings() {
        say(Level::Warning, &warning);
    }
    if let Some(text) = security::just_finished(&flags)? {
        say(Level::Info, &text);
        // If it cannot start, trainers cannot be notified of the end.
        if let Ok(server) = Server::start(config(&flags)?, Arc::new(say)) {
            server.announce_end(LINGER);
            server.shutdown();
        }
        return Ok(Exit::Success);
    }
    let log = Arc::new(say);
    let server = Arc::new(Server::start(config(&flags)?, log.clone())?);
    // Signals are handled before the status page is served, because readers of the page may send them.
    end_on_signals(&server)?;
    if let Ok(port @ 1..) = u16::try_from(flags.int("status_port")) {
        let base = Status {
            role: Some(Role::Pserver),
            node: u32::try_from(flags.int("server_id")).unwrap_or(0),
            pid: std::process::id(),
            ..Status::default()
        };
        let server = server.clone();
        status_page::serve(port, Arc::new(ServerPages { base, server }))?;
    }
    let record = begin_record(&flags, args, &server, notes)?;
    let outcome = server.wait();
    if outcome == ServerOutcome::Finished
        && let Err(error) = security::mark_finished(&flags)
    {
        // The model is saved. A restarted process would only wait for servers that have ended.
        let text = format!("the job has finished, but: {error:#}");
        log(Level::Warning, &text);
    }
    drop(record);
    server.linger(LINGER);
    server.shutdown();
    Ok(match outcome {
        ServerOutcome::Finished | ServerOutcome::Stopped => Exit::Success,
        ServerOutcome::Failed(reason) => {
            eprintln!("canoe pserver: the job has failed: {reason}");
            Exit::Failure
        }
    })
}

/// Begins the record of this server, if one is requested.
fn begin_record(
    flags: &Flags,
    args: &[String],
    server: &Arc<Server>,
    notes: Arc<Notes>,
) -> anyhow::Result<Option<record::server::ServerRecord>> {
    let node = u32::try_from(flags.int("server_id")).unwrap_or(0);
    let Some(folder) = record::folder(flags.text("record_dir"), None, node)? else {
        return Ok(None);
    };
    let mut start = record::start(
        Role::Pserver,
        node,
        &security::run_name(&token(flags)?),
        args,
    );
    start.trainers = u32::try_from(flags.int("num_gradient_servers")).unwrap_or(1);
    start.status_port = u16::try_from(flags.int("status_port"))
        .ok()
        .filter(|port| *port > 0);
    record::server::begin(&folder, start, server.clone(), notes).map(Some)
}

/// The job's secret; a server that listens on loopback only needs none in its environment.
fn token(flags: &Flags) -> anyhow::Result<wire::Token> {
    let addresses = nics::addresses(flags.text("nics"))?;
    let hosts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    security::token(Reach::of(hosts.iter().map(String::as_str)))
}

fn config(flags: &Flags) -> anyhow::Result<ServerConfig> {
    let count = |name: &str| {
        let value = flags.int(name);
        u32::try_from(value).map_err(|_| anyhow::anyhow!("--{name}={value}: it cannot be negative"))
    };
    let snapshots = PathBuf::from(flags.text("snapshot_dir"));
    Ok(ServerConfig {
        addresses: nics::addresses(flags.text("nics"))?,
        port: u16::try_from(flags.int("port")).context("--port: 0 to 65535 is expected")?,
        ports: count("ports_num")?,
        sparse_ports: count("ports_num_for_sparse")?,
        trainers: count("num_gradient_servers")?,
        token: token(flags)?,
        tls: security::server_tls(flags)?,
        snapshots: (!snapshots.as_os_str().is_empty()).then_some(snapshots),
        flush: flush(),
        silence: Duration::from_secs_f64(flags.float("peer_timeout").max(1.0)),
        stall: Duration::from_secs(3600),
        log_period: u64::from(count("log_period_server")?),
        local_sockets: true,
    })
}

/// Makes the files of snapshots durable; a run that has lost its folder writes none.
fn flush() -> Flush {
    match run_checks::lease() {
        None => Flush::default(),
        Some(lease) => Flush::guarded(move || lease.check().map_err(io::Error::other)),
    }
}

/// Ctrl-C and SIGTERM end the server in order: snapshots in progress are finished. SIGUSR1 announces that the end
/// is near: the server requests a snapshot of all servers.
fn end_on_signals(server: &Arc<Server>) -> anyhow::Result<()> {
    let announced = Arc::downgrade(server);
    let ends_soon = move || {
        if let Some(server) = announced.upgrade() {
            server.want_snapshot();
        }
    };
    on_announcement(ends_soon).context("watch for signals")?;
    let shutdown = Shutdown::new();
    shutdown.on_signals().context("watch for signals")?;
    let server = Arc::downgrade(server);
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            while shutdown.requests() == 0 {
                std::thread::sleep(Duration::from_millis(50));
            }
            if let Some(server) = server.upgrade() {
                server.shutdown();
            }
        })?;
    Ok(())
}

struct ServerPages {
    base: Status,
    server: Arc<Server>,
}

impl Pages for ServerPages {
    fn status(&self) -> Status {
        record::server::status(&self.server, &self.base)
    }

    fn health(&self) -> Result<(), String> {
        self.server.health()
    }

    fn metrics(&self) -> String {
        let mut memory = Exposition::default();
        memory
            .metric(
                "canoe_pserver_memory_bytes",
                MetricKind::Gauge,
                "Memory in use by the server.",
            )
            .value(&[], record::heart::memory() as f64);
        self.server.metrics() + &memory.into_text()
    }
}
