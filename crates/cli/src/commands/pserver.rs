//! `canoe pserver`: one parameter server, with v1's flags.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use launch::local::{Shutdown, on_announcement};
use pserver::{Config, Outcome, Server, nics};
use trainer::log::{Level, Log};
use watch::metrics::{Exposition, Kind};

use crate::console::Console;
use crate::exit::Exit;
use crate::flags::Flags;
use crate::record;
use crate::security;
use crate::status_page::{self, Pages};
use crate::v1_flags::{COMMON, PSERVER};

/// How long a server of a finished job waits for trainers to hang up.
const LINGER: Duration = Duration::from_secs(5);

/// Runs a server with the arguments behind `canoe pserver`.
pub fn run(args: &[String]) -> anyhow::Result<Exit> {
    let flags = match Flags::parse(&[COMMON, PSERVER], args) {
        Ok(flags) => flags,
        Err(error) => {
            eprintln!("canoe pserver: {error}");
            return Ok(Exit::Usage);
        }
    };
    if flags.bool("help") {
        println!(
            "canoe pserver: one parameter server. Flags, with their defaults:\n\n{}",
            flags.help()
        );
        return Ok(Exit::Success);
    }
    if flags.bool("version") {
        println!("{}", crate::VERSION);
        return Ok(Exit::Success);
    }
    let console = Arc::new(Mutex::new(Console::default()));
    let say = move |level: Level, text: &str| {
        let mut console = console.lock().unwrap_or_else(PoisonError::into_inner);
        console.line(level, "ParameterServerController.cpp:80", text);
    };
    say(
        Level::Info,
        &format!("commandline: canoe pserver {}", args.join(" ")),
    );
    for warning in flags.warnings() {
        say(Level::Warning, &warning);
    }
    let log = move |level: pserver::Level, text: &str| {
        let level = match level {
            pserver::Level::Info => Level::Info,
            pserver::Level::Warning => Level::Warning,
            pserver::Level::Error => Level::Error,
        };
        say(level, text);
    };
    if let Some(text) = security::just_finished(&flags)? {
        log(pserver::Level::Info, &text);
        return Ok(Exit::Success);
    }
    let server = Arc::new(Server::start(config(&flags)?, Arc::new(log))?);
    // Before the page is there: who sees it may send signals.
    end_on_signals(&server)?;
    if let Ok(port @ 1..) = u16::try_from(flags.int("status_port")) {
        let id = flags.int("server_id");
        status_page::serve(
            port,
            Arc::new(ServerPages {
                id,
                server: server.clone(),
            }),
        )?;
    }
    let record = begin_record(&flags, args, &server)?;
    let outcome = server.wait();
    if outcome == Outcome::Finished {
        security::mark_finished(&flags)?;
    }
    drop(record);
    server.linger(LINGER);
    server.shutdown();
    Ok(match outcome {
        Outcome::Finished | Outcome::Stopped => Exit::Success,
        Outcome::Failed(reason) => {
            eprintln!("canoe pserver: the job has failed: {reason}");
            Exit::Failure
        }
    })
}

/// The record of this server, if somebody wants one.
fn begin_record(
    flags: &Flags,
    args: &[String],
    server: &Arc<Server>,
) -> anyhow::Result<Option<record::server::ServerRecord>> {
    let node = u32::try_from(flags.int("server_id")).unwrap_or(0);
    let Some(folder) = record::folder(flags.text("record_dir"), None, node)? else {
        return Ok(None);
    };
    let mut start = record::start(
        watch::record::Role::Pserver,
        node,
        &security::run_name(&security::token()?),
        args,
    );
    start.trainers = u32::try_from(flags.int("num_gradient_servers")).unwrap_or(1);
    start.status_port = u16::try_from(flags.int("status_port"))
        .ok()
        .filter(|port| *port > 0);
    record::server::begin(&folder, start, server.clone()).map(Some)
}

fn config(flags: &Flags) -> anyhow::Result<Config> {
    let count = |name: &str| {
        let value = flags.int(name);
        u32::try_from(value).map_err(|_| anyhow::anyhow!("--{name}={value}: it cannot be negative"))
    };
    let snapshots = PathBuf::from(flags.text("snapshot_dir"));
    Ok(Config {
        addresses: nics::addresses(flags.text("nics"))?,
        port: u16::try_from(flags.int("port")).context("--port: 0 to 65535 is expected")?,
        ports: count("ports_num")?,
        sparse_ports: count("ports_num_for_sparse")?,
        trainers: count("num_gradient_servers")?,
        token: security::token()?,
        tls: security::server_tls(flags)?,
        snapshots: (!snapshots.as_os_str().is_empty()).then_some(snapshots),
        silence: Duration::from_secs_f64(flags.float("peer_timeout").max(1.0)),
        stall: Duration::from_secs(3600),
        log_period: u64::from(count("log_period_server")?),
        local_sockets: true,
    })
}

/// Ctrl-C and termination end the server in order: snapshots that are under way are finished. SIGUSR1 says that the end
/// is near: the server asks for a snapshot of all servers.
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
    id: i64,
    server: Arc<Server>,
}

impl Pages for ServerPages {
    fn status(&self) -> serde_json::Value {
        let report = self.server.report();
        serde_json::json!({
            "role": "pserver",
            "id": self.id,
            "pass": report.status.pass,
            "step": report.status.step,
            "waits_for": report.status.waits_for,
            "phase": report.phase,
            "snapshot_step": report.snapshots.last(),
            "snapshot_wanted": report.wanted,
            "snapshot_on_all": self.server.stable(),
            "done": report.phase == wire::recovery::Phase::Finished,
        })
    }

    fn metrics(&self) -> String {
        let mut memory = Exposition::default();
        memory
            .metric(
                "canoe_pserver_memory_bytes",
                Kind::Gauge,
                "Memory in use by the server.",
            )
            .value(&[], record::heart::memory() as f64);
        self.server.metrics() + &memory.into_text()
    }
}
