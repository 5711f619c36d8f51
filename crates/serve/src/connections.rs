//! The clients of a server: a bounded number of connections, each with a deadline.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use words::lock::{Mutex, MutexGuard};

use rustls::ServerConfig;

use crate::connection::ClientConnection;
use crate::events::{Events, LISTENER};
use crate::transport::ClientTransport;

/// Connections at a time.
pub(crate) const MOST_CONNECTIONS: usize = 4096;

pub(crate) struct Connections {
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    table: Mutex<ConnectionTable>,
    most: usize,
    /// A client could not be accepted; the next sweep tries again.
    postponed: AtomicBool,
}

#[derive(Default)]
struct ConnectionTable {
    entries: Vec<Option<Arc<ClientConnection>>>,
    free: Vec<usize>,
}

impl ConnectionTable {
    fn count(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    fn all(&self) -> impl Iterator<Item = &Arc<ClientConnection>> {
        self.entries.iter().flatten()
    }
}

impl Connections {
    /// No connections yet; at most `most` are accepted.
    pub(crate) fn new(listener: TcpListener, tls: Option<Arc<ServerConfig>>, most: usize) -> Self {
        Self {
            listener,
            tls,
            table: Mutex::default(),
            most: most.clamp(1, MOST_CONNECTIONS),
            postponed: AtomicBool::new(false),
        }
    }

    fn table(&self) -> MutexGuard<'_, ConnectionTable> {
        self.table.lock()
    }

    /// The listening socket.
    pub(crate) fn listener(&self) -> &TcpListener {
        &self.listener
    }

    /// A connection.
    pub(crate) fn get(&self, key: usize) -> Option<Arc<ClientConnection>> {
        self.table().entries.get(key)?.clone()
    }

    /// Forgets a connection that has ended.
    pub(crate) fn remove(&self, key: usize) {
        let mut table = self.table();
        if let Some(entry) = table.entries.get_mut(key)
            && entry.take().is_some()
        {
            table.free.push(key);
        }
    }

    /// Number of connections.
    pub(crate) fn len(&self) -> usize {
        self.table().count()
    }

    /// Whether there are no connections.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Accepts all clients that wait. If there are too many, the connection that has been idle longest is closed.
    pub(crate) fn accept(&self, events: &Events, now: u64) {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => continue,
                Err(_) => {
                    // Too many open files, for example.
                    self.make_room();
                    self.postponed.store(true, Ordering::Release);
                    return;
                }
            };
            let usable = stream.set_nonblocking(true).is_ok() && stream.set_nodelay(true).is_ok();
            let (true, Ok(transport)) = (usable, ClientTransport::new(self.tls.as_ref())) else {
                continue;
            };
            if self.table().count() >= self.most {
                self.make_room();
            }
            let mut table = self.table();
            if table.count() >= self.most + self.most / 8 {
                // No connection is idle.
                continue;
            }
            let key = match table.free.pop() {
                Some(key) => key,
                None => {
                    table.entries.push(None);
                    table.entries.len() - 1
                }
            };
            let connection = Arc::new(ClientConnection::new(key, stream, transport, now));
            table.entries[key] = Some(connection.clone());
            drop(table);
            if events.add(connection.stream(), key).is_err() {
                self.remove(key);
            }
        }
    }

    /// Closes the idle connection with the earliest deadline.
    fn make_room(&self) {
        let table = self.table();
        let idle = table.all().filter(|connection| connection.is_idle());
        if let Some(oldest) = idle.min_by_key(|connection| connection.deadline()) {
            oldest.cut();
        }
    }

    /// Closes connections whose deadline has passed, and tries again to accept clients.
    pub(crate) fn sweep(&self, events: &Events, now: u64) {
        for connection in self.table().all() {
            if connection.deadline() <= now {
                connection.cut();
            }
        }
        if self.postponed.swap(false, Ordering::AcqRel) {
            // If this fails, the next client brings the event.
            let _ = events.again(&self.listener, LISTENER);
        }
    }

    /// Closes all idle connections; with `at_once` also those in the middle of a request that is not computed yet.
    pub(crate) fn wind_up(&self, at_once: bool) {
        for connection in self.table().all() {
            if connection.is_idle() {
                connection.wind_up();
            } else if at_once && connection.deadline() != u64::MAX {
                connection.cut();
            }
        }
    }
}
