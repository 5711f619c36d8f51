//! Probes of a pod: `/healthz` (the node works), `/readyz` (its server can be used), `/status` (what it does, as JSON).

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::event::Role;
use crate::status::Status;

/// A node that has not moved for this long hangs: even the longest wait looks around more often.
const HANGS: Duration = Duration::from_secs(60);

/// How long a request may take to arrive: one that dawdles keeps the next from being heard.
const REQUEST: Duration = Duration::from_secs(2);

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

    /// Answers probes on all addresses in a thread of its own, until the process ends.
    pub fn serve(&self, port: u16) -> io::Result<u16> {
        let listener = listen(port)?;
        let port = listener.local_addr()?.port();
        let health = self.clone();
        thread::Builder::new()
            .name("health".to_owned())
            .spawn(move || {
                for stream in listener.incoming().flatten() {
                    // A probe that goes away is no trouble of ours.
                    drop(health.answer(stream));
                }
            })?;
        Ok(port)
    }

    fn answer(&self, mut stream: TcpStream) -> io::Result<()> {
        let path = request_path(&mut stream)?;
        let (status, body) = self.page(&path, Instant::now());
        let length = body.len();
        write!(
            stream,
            "HTTP/1.0 {status}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n{body}"
        )
    }

    fn page(&self, path: &str, now: Instant) -> (&'static str, String) {
        self.with(|state| {
            let still = now.saturating_duration_since(state.moved);
            match path {
                "/healthz" if still > HANGS => (
                    "503 Service Unavailable",
                    format!("no move for {} s: {}\n", still.as_secs(), state.shown.does),
                ),
                "/healthz" => ("200 OK", "ok\n".to_owned()),
                "/readyz" if !state.shown.ready => {
                    ("503 Service Unavailable", format!("{}\n", state.shown.does))
                }
                "/readyz" => ("200 OK", "ready\n".to_owned()),
                "/status" => (
                    "200 OK",
                    serde_json::to_string(&state.shown).unwrap_or_default() + "\n",
                ),
                _ => (
                    "404 Not Found",
                    "there are /healthz, /readyz and /status\n".to_owned(),
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

/// Reads a request of somebody who may be slow, but not for long, and answers the path that it wants.
pub(super) fn request_path(stream: &mut TcpStream) -> io::Result<String> {
    stream.set_read_timeout(Some(REQUEST))?;
    stream.set_write_timeout(Some(REQUEST))?;
    let begun = Instant::now();
    let mut request = Vec::new();
    let mut buffer = [0; 1024];
    let is_whole = |request: &[u8]| request.windows(4).any(|window| window == b"\r\n\r\n");
    while !is_whole(&request) && request.len() < 8192 && begun.elapsed() < REQUEST {
        match stream.read(&mut buffer)? {
            0 => break,
            count => request.extend_from_slice(&buffer[..count]),
        }
    }
    Ok(path(&request).to_owned())
}

/// The path of a GET request.
fn path(request: &[u8]) -> &str {
    let line = request
        .split(|byte| *byte == b'\r')
        .next()
        .unwrap_or_default();
    let text = std::str::from_utf8(line).unwrap_or_default();
    text.strip_prefix("GET ")
        .and_then(|rest| rest.split([' ', '?']).next())
        .unwrap_or_default()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// What a page of this host answers.
    pub fn get(port: u16, path: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

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
        let (status, body) =
            health.page("/healthz", Instant::now() + HANGS + Duration::from_secs(2));
        assert_eq!(status, "503 Service Unavailable");
        assert!(body.contains("waiting"), "{body}");
    }

    #[test]
    fn nonsense_is_not_found() {
        for request in [&b""[..], b"\xff\xff", b"POST /healthz HTTP/1.0", b"GET"] {
            assert_eq!(path(request), "");
        }
    }
}
