//! Probes of a pod: `/healthz` (the node works), `/readyz` (its server can be used), `/status` (what it does, as JSON).

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::http::{self, HttpResponse};
use words::process::Role;
use words::status::Status;

/// A node that has not moved for this long hangs: even the longest wait looks around more often.
const HANGS: Duration = Duration::from_secs(60);

/// What a node says about itself; `canoe job status` reads it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    /// Its id, once it has one.
    pub node: Option<u32>,
    /// What it does, for people.
    pub does: String,
    /// Whether its server can be used.
    pub ready: bool,
    /// Where its trainer is.
    pub trainer: Option<Status>,
    /// Where its server is.
    pub pserver: Option<Status>,
    /// Times that this node's server went back to a snapshot.
    pub roll_backs: u32,
}

/// What the probes see. Clones share it.
#[derive(Debug, Clone)]
pub struct Health(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    moved: Instant,
    shown: NodeStatus,
}

impl Health {
    /// A node that has just begun.
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(State {
            moved: Instant::now(),
            shown: NodeStatus {
                does: "starting".to_owned(),
                ..NodeStatus::default()
            },
        })))
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        // A panic elsewhere does not make the few plain values wrong.
        act(&mut self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// The node does something.
    pub fn moves(&self) {
        self.with(|state| state.moved = Instant::now());
    }

    /// What it does, for people.
    pub fn does(&self, what: &str) {
        self.with(|state| (state.moved, state.shown.does) = (Instant::now(), what.to_owned()));
    }

    /// Whether its server can be used.
    pub fn ready(&self, ready: bool) {
        self.with(|state| state.shown.ready = ready);
    }

    /// The node knows its id.
    pub fn is_node(&self, id: u32) {
        self.with(|state| state.shown.node = Some(id));
    }

    /// Where one of its processes is.
    pub fn progress(&self, role: Role, status: Status) {
        self.with(|state| match role {
            Role::Trainer => state.shown.trainer = Some(status),
            Role::Pserver => state.shown.pserver = Some(status),
        });
    }

    /// Its server restored a snapshot.
    pub fn rolled_back(&self) {
        self.with(|state| state.shown.roll_backs += 1);
    }

    /// Answers probes on all addresses in a thread of its own, until the process ends.
    pub fn serve(&self, port: u16) -> io::Result<u16> {
        let listener = listen(port)?;
        let port = listener.local_addr()?.port();
        let health = self.clone();
        http::serve("health", listener, move |request| {
            health.page(&request.path, Instant::now())
        })?;
        Ok(port)
    }

    fn page(&self, path: &str, now: Instant) -> HttpResponse {
        const NOT_NOW: &str = "503 Service Unavailable";
        self.with(|state| {
            let still = now.saturating_duration_since(state.moved);
            let does = &state.shown.does;
            match path {
                "/healthz" if still > HANGS => {
                    let seconds = still.as_secs();
                    HttpResponse::text(NOT_NOW, format!("no progress for {seconds} s: {does}\n"))
                }
                "/healthz" => HttpResponse::text("200 OK", "ok\n"),
                "/readyz" if !state.shown.ready => HttpResponse::text(NOT_NOW, format!("{does}\n")),
                "/readyz" => HttpResponse::text("200 OK", "ready\n"),
                "/status" => {
                    let text = serde_json::to_string(&state.shown).unwrap_or_default();
                    HttpResponse::text("200 OK", text + "\n")
                }
                _ => HttpResponse::text(
                    "404 Not Found",
                    "this server has /healthz, /readyz and /status\n",
                ),
            }
        })
    }
}

impl Default for Health {
    fn default() -> Self {
        Self::new()
    }
}

/// Asks the node on this machine for its status: what `canoe node --show_status` prints.
pub fn ask(port: u16) -> io::Result<String> {
    let limit = Duration::from_secs(5);
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, limit)?;
    stream.set_read_timeout(Some(limit))?;
    stream.write_all(b"GET /status HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    stream.take(1 << 20).read_to_string(&mut answer)?;
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body);
    body.map(str::to_owned)
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Listens on all addresses: of both kinds, if the machine has both.
pub(super) fn listen(port: u16) -> io::Result<TcpListener> {
    let any = |address| TcpListener::bind(SocketAddr::new(address, port));
    any(IpAddr::V6(Ipv6Addr::UNSPECIFIED)).or_else(|_| any(IpAddr::V4(Ipv4Addr::UNSPECIFIED)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::tests::get;

    #[test]
    fn probes_see_what_the_node_does() {
        let health = Health::new();
        let port = health.serve(0).unwrap();
        assert!(get(port, "/healthz").starts_with("HTTP/1.0 200"));
        health.does("copying the shard");
        let answer = get(port, "/readyz");
        assert!(
            answer.starts_with("HTTP/1.0 503") && answer.ends_with("copying the shard\n"),
            "{answer}"
        );
        health.ready(true);
        assert!(get(port, "/readyz?x=1").starts_with("HTTP/1.0 200"));
        assert!(get(port, "/other").starts_with("HTTP/1.0 404"));
        health.is_node(2);
        let trainer = Status {
            batch: Some(7),
            ..Status::default()
        };
        health.progress(Role::Trainer, trainer.clone());
        let shown: NodeStatus = serde_json::from_str(&ask(port).unwrap()).unwrap();
        assert_eq!((shown.node, shown.trainer), (Some(2), Some(trainer)));
    }

    #[test]
    fn a_node_that_hangs_is_not_healthy() {
        let health = Health::new();
        health.does("waiting");
        let page = health.page("/healthz", Instant::now() + HANGS + Duration::from_secs(2));
        assert_eq!(page.status, "503 Service Unavailable");
        assert!(page.body.contains("waiting"), "{page:?}");
    }
}
