//! Probes of a pod: `/healthz` (the node works), `/readyz` (its server can be used), `/status` (what it does, as JSON).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};
use words::lock::Mutex;

use serde::{Deserialize, Serialize};

use crate::display::text;
use crate::http::{self, HttpResponse};
use words::process::Role;
use words::status::Status;

/// A node without progress for this long hangs: even the longest wait reports progress more often.
const HANGS: Duration = Duration::from_secs(60);

/// What a node says about itself; `canoe job status` reads it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    /// Its id, once it has one.
    pub node: Option<u32>,
    /// The present activity, for people.
    pub does: String,
    /// Whether its server can be used.
    pub ready: bool,
    /// The last status of its trainer.
    pub trainer: Option<Status>,
    /// The last status of its server.
    pub pserver: Option<Status>,
    /// How often this node's server was restored from a snapshot.
    pub roll_backs: u32,
}

/// What the probes see. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Health(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    moved: Instant,
    shown: NodeStatus,
    /// Its trainer has finished; only its server is still needed, by other nodes.
    finished: bool,
}

impl Health {
    /// A node that has just begun.
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(State {
            moved: Instant::now(),
            shown: NodeStatus {
                does: "starting".to_owned(),
                ..NodeStatus::default()
            },
            finished: false,
        })))
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        // A panic in another thread cannot leave these few plain values inconsistent.
        act(&mut self.0.lock())
    }

    /// Call it regularly while the node makes progress: `/healthz` fails without it.
    pub(crate) fn moves(&self) {
        self.with(|state| state.moved = Instant::now());
    }

    /// Sets the present activity, for people.
    pub(crate) fn does(&self, what: &str) {
        self.with(|state| (state.moved, state.shown.does) = (Instant::now(), what.to_owned()));
    }

    /// Whether its server can be used.
    pub(crate) fn ready(&self, ready: bool) {
        self.with(|state| state.shown.ready = ready);
    }

    /// Sets the id of the node, which it has just found out.
    pub(crate) fn is_node(&self, id: u32) {
        self.with(|state| state.shown.node = Some(id));
    }

    /// Sets the status of one of its processes.
    pub(crate) fn progress(&self, role: Role, status: Status) {
        self.with(|state| {
            let shown = &mut state.shown;
            match role {
                Role::Trainer => shown.trainer = Some(status),
                Role::Pserver => shown.pserver = Some(status),
            }
            let does = occupation(shown.trainer.as_ref(), shown.pserver.as_ref());
            if let Some(does) = does.filter(|_| !state.finished) {
                (state.moved, shown.does) = (Instant::now(), does);
            }
        });
    }

    /// Sets whether its trainer has finished.
    pub(crate) fn finished(&self, finished: bool) {
        self.with(|state| {
            state.finished = finished;
            if finished {
                (state.moved, state.shown.does) = (Instant::now(), "finished".to_owned());
            }
        });
    }

    /// The node has finished and keeps its server for these other nodes.
    pub(crate) fn stays_for(&self, others: &str) {
        self.with(|state| {
            if state.finished {
                state.shown.does = format!("finished; {}", text::wait(others));
            }
        });
    }

    /// One of its processes has ended: removes its last status.
    pub(crate) fn lost(&self, role: Role) {
        self.with(|state| match role {
            Role::Trainer => state.shown.trainer = None,
            Role::Pserver => {
                state.shown.pserver = None;
                state.shown.ready = false;
            }
        });
    }

    /// Its server restored a snapshot.
    pub(crate) fn rolled_back(&self) {
        self.with(|state| state.shown.roll_backs += 1);
    }

    /// Replies to probes on all addresses in a thread of its own, until the process ends.
    pub(crate) fn serve(&self, port: u16) -> io::Result<u16> {
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

/// The activity of a node, from the status of its processes. The trainer's comes first: it knows every server, but a
/// server knows only which trainers are not connected to it, and these are all trainers while another server is away.
fn occupation(trainer: Option<&Status>, pserver: Option<&Status>) -> Option<String> {
    if let Some(trainer) = trainer {
        let (pass, batch) = (trainer.pass.unwrap_or(0), trainer.batch.unwrap_or(0));
        return Some(match trainer.waits_for.as_str() {
            "" if trainer.pass.is_none() => "the trainer starts".to_owned(),
            "" => format!("training: pass {pass}, batch {batch}"),
            reason => text::wait(reason),
        });
    }
    let reason = pserver.map(|pserver| pserver.waits_for.as_str())?;
    (!reason.is_empty()).then(|| format!("server: {}", text::wait(reason)))
}

/// Requests the status of the node on this machine, for `canoe node --show_status`.
pub fn ask(port: u16) -> io::Result<String> {
    http::get_local(port, "/status", Duration::from_secs(5))
}

/// Listens on all addresses, IPv6 and IPv4 if the machine has both.
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
    fn what_a_node_does_is_what_its_processes_say_now() {
        let health = Health::new();
        let does = || health.with(|state| state.shown.does.clone());
        let trainer = |batch, waits_for: &str| Status {
            pass: Some(1),
            batch: Some(batch),
            waits_for: waits_for.to_owned(),
            ..Status::default()
        };
        let server = |waits_for: &str| Status {
            waits_for: waits_for.to_owned(),
            ..Status::default()
        };
        health.progress(
            Role::Pserver,
            server("waits for trainer 0, 1, 2 to connect (3 s)"),
        );
        assert_eq!(does(), "server: waits for trainer 0, 1, 2 to connect (3 s)");
        health.progress(Role::Trainer, Status::default());
        assert_eq!(does(), "the trainer starts");
        health.progress(Role::Trainer, trainer(60, ""));
        assert_eq!(does(), "training: pass 1, batch 60");
        let away = "server job-2.job:7164 cannot be reached: connection refused (4 s)";
        health.progress(Role::Trainer, trainer(60, away));
        let server_says = server("waits for trainer 0, 1 to connect (4 s)");
        health.progress(Role::Pserver, server_says.clone());
        assert_eq!(
            does(),
            format!("waits: {away}"),
            "not the trainers that wait, too"
        );
        health.progress(Role::Trainer, trainer(60, ""));
        assert_eq!(does(), "training: pass 1, batch 60", "no longer");
        health.progress(Role::Pserver, server_says);
        assert_eq!(does(), "training: pass 1, batch 60");
        health.lost(Role::Trainer);
        health.progress(
            Role::Pserver,
            server("waits for trainer 0 to connect (1 s)"),
        );
        assert_eq!(does(), "server: waits for trainer 0 to connect (1 s)");
        health.stays_for("trainer 1");
        assert_eq!(does(), "server: waits for trainer 0 to connect (1 s)");
        health.finished(true);
        health.stays_for("trainer 1, trainer 2");
        health.progress(Role::Trainer, trainer(70, ""));
        assert_eq!(does(), "finished; waits for trainer 1, trainer 2");
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
