//! Asks processes for their status page, in a thread of its own, and tells when the answer changes.
//!
//! A process counts as ready when its page answers (or a server's log says that it listens). That a data port takes a connection would not be
//! enough: another program may have taken the port first, and would be mistaken for the server.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::event::ProcessId;
use crate::status::Status;

/// A page larger than this is not one of ours.
const LARGEST_PAGE: u64 = 256 * 1024;

/// How often and how long to ask.
#[derive(Debug, Clone)]
pub struct Pace {
    /// Between two rounds while somebody is not ready.
    pub starting: Duration,
    /// Between two rounds after that.
    pub running: Duration,
    /// For one answer.
    pub timeout: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            starting: Duration::from_millis(10),
            running: Duration::from_millis(200),
            timeout: Duration::from_millis(500),
        }
    }
}

/// An answer that is news.
#[derive(Debug)]
pub enum Answer {
    /// The process can be talked to.
    Ready,
    /// Its page, when it differs from the last one.
    Page(Box<Status>),
}

enum Order {
    Watch(ProcessId, u16),
    Forget(ProcessId),
}

struct Watched {
    port: u16,
    ready: bool,
    last: Option<Status>,
}

/// The asking thread. Dropping it ends and joins the thread.
#[derive(Debug)]
pub struct Prober {
    orders: Option<Sender<Order>>,
    thread: Option<JoinHandle<()>>,
}

impl Prober {
    /// Starts the thread; answers go through `send`.
    pub fn start(
        pace: Pace,
        mut send: impl FnMut(ProcessId, Answer) + Send + 'static,
    ) -> io::Result<Self> {
        let (orders, receive) = mpsc::channel();
        let work = move || ask_around(&receive, &pace, &mut send);
        let thread = thread::Builder::new()
            .name("probe".to_owned())
            .spawn(work)?;
        Ok(Self {
            orders: Some(orders),
            thread: Some(thread),
        })
    }

    /// Begins to ask a process that was just started, on the port of its status page.
    pub fn watch(&self, process: ProcessId, port: u16) {
        self.order(Order::Watch(process, port));
    }

    /// Stops asking a process that has ended.
    pub fn forget(&self, process: ProcessId) {
        self.order(Order::Forget(process));
    }

    fn order(&self, order: Order) {
        if let Some(orders) = &self.orders {
            drop(orders.send(order));
        }
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn ask_around(orders: &Receiver<Order>, pace: &Pace, send: &mut dyn FnMut(ProcessId, Answer)) {
    let mut watched: BTreeMap<ProcessId, Watched> = BTreeMap::new();
    loop {
        let all_ready = watched.values().all(|process| process.ready);
        let wait = if all_ready {
            pace.running
        } else {
            pace.starting
        };
        match orders.recv_timeout(wait) {
            Ok(Order::Watch(id, port)) => drop(watched.insert(
                id,
                Watched {
                    port,
                    ready: false,
                    last: None,
                },
            )),
            Ok(Order::Forget(id)) => drop(watched.remove(&id)),
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                for (id, process) in &mut watched {
                    ask(process, pace.timeout, &mut |answer| send(*id, answer));
                }
            }
        }
    }
}

fn ask(process: &mut Watched, timeout: Duration, send: &mut dyn FnMut(Answer)) {
    let body = fetch(process.port, timeout).ok();
    let page = body.and_then(|body| Status::parse(&body).ok());
    if !process.ready && page.is_some() {
        process.ready = true;
        send(Answer::Ready);
    }
    if let Some(page) = page
        && process.last.as_ref() != Some(&page)
    {
        process.last = Some(page.clone());
        send(Answer::Page(Box::new(page)));
    }
}

fn loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// `GET /status` from a loopback port; the body of a 200 answer.
pub fn fetch(port: u16, timeout: Duration) -> io::Result<Vec<u8>> {
    fetch_page(port, "/status", (timeout, LARGEST_PAGE))
}

/// A page from a loopback port, within limits of time and size; the body of a 200 answer.
pub fn fetch_page(port: u16, path: &str, limits: (Duration, u64)) -> io::Result<Vec<u8>> {
    let (timeout, largest) = limits;
    let mut stream = TcpStream::connect_timeout(&loopback(port), timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    write!(
        stream,
        "GET {path} HTTP/1.0\r\nHost: localhost\r\nAccept: */*\r\n\r\n"
    )?;
    let mut answer = Vec::new();
    stream.take(largest).read_to_end(&mut answer)?;
    body(&answer)
        .map(<[u8]>::to_vec)
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The body of an HTTP answer with status 200.
fn body(answer: &[u8]) -> Option<&[u8]> {
    let is_ok = answer.starts_with(b"HTTP/1.") && answer.get(8..12) == Some(b" 200");
    let end_of_head = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    is_ok.then(|| &answer[end_of_head + 4..])
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Serves the given answers, one per connection, then closes.
    fn serve(answers: &'static [&'static str]) -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    stream.read_exact(&mut byte).unwrap();
                    request.extend(byte);
                }
                assert!(request.starts_with(b"GET /status HTTP/1.0\r\n"));
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        port
    }

    #[test]
    fn pages_are_told_when_they_change() {
        let port = serve(&[
            "HTTP/1.1 503 Starting\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n{\"batch\":1}",
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"batch\":1}",
            "HTTP/1.1 200 OK\r\n\r\nnonsense",
            "HTTP/1.1 200 OK\r\n\r\n{\"batch\":2}",
        ]);
        let (send, receive) = mpsc::channel();
        let fast = Pace {
            running: Duration::from_millis(1),
            ..Pace::default()
        };
        let prober = Prober::start(fast, move |id, answer| drop(send.send((id, answer)))).unwrap();
        prober.watch(ProcessId::trainer(0), port);
        let next = || receive.recv_timeout(Duration::from_secs(20)).unwrap().1;
        assert!(matches!(next(), Answer::Ready));
        assert!(matches!(next(), Answer::Page(page) if page.batch == Some(1)));
        assert!(matches!(next(), Answer::Page(page) if page.batch == Some(2)));
    }
}
