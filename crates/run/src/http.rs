//! A very small web server for probes and metrics: one thread, a few pages of text, and no client can exhaust it.
//!
//! A request head has [`TIME`] to arrive and at most [`LARGEST`] bytes. There is room for [`ROOM`] connections; when it
//! is used up, the oldest connection is closed. So idle, slow and broken clients cannot block a probe, and no page
//! needs a new thread, which a process limit could refuse. Many clients together get at most [`SHARE`] of a core, and
//! connections on which nothing was sent stay in the kernel for some seconds.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::{Duration, Instant};
use words::budget::CpuBudget;

/// From the connection to the last byte of the response.
const TIME: Duration = Duration::from_secs(2);
/// Bytes of a request head.
const LARGEST: usize = 8192;
/// Most bytes that are read of another process's page; our own pages are smaller.
const LARGEST_PAGE: u64 = 16 << 20;
/// Connections at a time.
const ROOM: usize = 128;
/// Connections that may wait to be accepted: a flood of strangers must not crowd out a probe.
const BACKLOG: i32 = 4096;
/// The part of a core that the thread may use for long: what strangers use is taken from the job.
const SHARE: f64 = 0.02;
/// Processor time that the thread may use without a rest after it was idle, so that probes and pages need not wait.
const BURST: Duration = Duration::from_millis(250);
/// Longest rest of the thread: after an expensive page, a probe must not wait longer.
const LONGEST_REST: Duration = Duration::from_millis(100);
/// The pause before the thread looks again when half of its room is taken: then clients come all the time, and waking for
/// each of them would interrupt the job more than it helps a probe.
const PAUSE: Duration = Duration::from_millis(50);
/// Processor time after which the thread stops accepting new clients and serves those it has.
const TURN: Duration = Duration::from_millis(1);
/// How long the thread waits when nothing happens.
const TICK: Duration = Duration::from_millis(200);

/// A GET request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HttpRequest {
    /// The path without its query; empty if the request is not a GET.
    pub path: String,
    /// The name by which the client reached this server.
    pub host: Option<String>,
}

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpResponse {
    /// The status line's code and words.
    pub status: &'static str,
    /// The content type.
    pub kind: &'static str,
    /// The content.
    pub body: String,
}

impl HttpResponse {
    /// A page of plain text.
    pub fn text(status: &'static str, body: impl Into<String>) -> Self {
        Self {
            status,
            kind: "text/plain; version=0.0.4",
            body: body.into(),
        }
    }
}

/// Whether the name in a request's `Host` header is one of this machine. A page of another site can direct a browser to a
/// loopback port (DNS rebinding), but then the header has the name of that site.
pub fn is_loopback_name(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(""),
        None => host.split(':').next().unwrap_or(""),
    };
    let address = name.parse::<IpAddr>();
    name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

/// Serves until the process ends, in a thread of its own. `answer` must not take long: all other clients wait for it.
pub fn serve(
    name: &str,
    listener: TcpListener,
    answer: impl Fn(&HttpRequest) -> HttpResponse + Send + 'static,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    rustix::net::listen(&listener, BACKLOG)?;
    await_words(&listener);
    let mut server = Server {
        listener,
        clients: VecDeque::new(),
        answer: Box::new(answer),
    };
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            let mut budget = CpuBudget::new(BURST);
            let (mut clock, mut before) = (Instant::now(), used());
            loop {
                let ready = server.wait();
                server.turn(&ready);
                let (now, after) = (Instant::now(), used());
                let debt = budget.spend(after - before, now - clock, SHARE);
                let rest = debt.max(pause(server.clients.len()));
                thread::sleep(rest.min(LONGEST_REST));
                (clock, before) = (now, after);
            }
        })?;
    Ok(())
}

/// Tells the kernel to hand over a client as soon as it has sent something, others only after some seconds.
#[cfg(target_os = "linux")]
fn await_words(listener: &TcpListener) {
    let seconds: libc::c_int = TIME.as_secs() as libc::c_int;
    // rustix does not have this option.
    // SAFETY: the pointer and the length describe `seconds`, which lives until the call returns. A system without the
    // option hands clients over sooner, and they wait in this process.
    unsafe {
        libc::setsockopt(
            listener.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            (&raw const seconds).cast(),
            size_of_val(&seconds) as libc::socklen_t,
        );
    }
}

#[cfg(not(target_os = "linux"))]
fn await_words(_listener: &TcpListener) {}

/// Processor time of this thread.
fn used() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// How long the thread rests at least with so many clients.
fn pause(clients: usize) -> Duration {
    if 2 * clients >= ROOM {
        PAUSE
    } else {
        Duration::ZERO
    }
}

struct Client {
    stream: TcpStream,
    since: Instant,
    input: Vec<u8>,
    /// The response, once there is one, and how much of it has been sent.
    output: Option<(Vec<u8>, usize)>,
}

struct Server {
    listener: TcpListener,
    /// The oldest connection comes first.
    clients: VecDeque<Client>,
    answer: Box<dyn Fn(&HttpRequest) -> HttpResponse + Send>,
}

impl Server {
    /// Waits until a socket is ready. Returns whether the listener is, then whether each client is.
    fn wait(&self) -> Vec<bool> {
        let mut all = vec![PollFd::new(&self.listener, PollFlags::IN)];
        all.extend(self.clients.iter().map(|client| {
            let awaited = match client.output {
                Some(_) => PollFlags::OUT,
                None => PollFlags::IN,
            };
            PollFd::new(&client.stream, awaited)
        }));
        // A signal ends the wait early; then nothing is ready.
        let _ = poll(&mut all, Timespec::try_from(TICK).ok().as_ref());
        all.iter().map(|one| !one.revents().is_empty()).collect()
    }

    fn turn(&mut self, ready: &[bool]) {
        let now = Instant::now();
        let mut left = VecDeque::with_capacity(self.clients.len());
        for (at, mut client) in std::mem::take(&mut self.clients).into_iter().enumerate() {
            let stays = match ready.get(at + 1) {
                Some(true) => client.proceed(&self.answer),
                _ => true,
            };
            if stays && now.duration_since(client.since) < TIME {
                left.push_back(client);
            }
        }
        self.clients = left;
        if ready.first() == Some(&true) {
            self.accept();
        }
    }

    fn accept(&mut self) {
        let end = used() + TURN;
        while used() < end {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(_) => {
                    // No descriptors are left: the connection of the oldest client is closed first.
                    if self.clients.pop_front().is_none() {
                        thread::sleep(TICK);
                    }
                    return;
                }
            };
            if self.clients.len() >= ROOM {
                self.clients.pop_front();
            }
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            let mut client = Client {
                stream,
                since: Instant::now(),
                input: Vec::new(),
                output: None,
            };
            if client.proceed(&self.answer) {
                self.clients.push_back(client);
            }
        }
    }
}

impl Client {
    /// Reads and writes what is possible without waiting; false when the client has been served or has closed.
    fn proceed(&mut self, answer: &dyn Fn(&HttpRequest) -> HttpResponse) -> bool {
        if self.output.is_none() && !self.read() {
            return false;
        }
        if self.output.is_none()
            && let Some(request) = parse(&self.input)
        {
            self.output = Some((render(&answer(&request)), 0));
        }
        self.write()
    }

    fn read(&mut self) -> bool {
        let mut buffer = [0; 2048];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return false,
                Ok(count) => self.input.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(_) => return false,
            }
            if self.input.len() >= LARGEST || is_whole(&self.input) {
                return true;
            }
        }
    }

    fn write(&mut self) -> bool {
        let Some((bytes, sent)) = &mut self.output else {
            return true;
        };
        while *sent < bytes.len() {
            match self.stream.write(&bytes[*sent..]) {
                Ok(0) => return false,
                Ok(count) => *sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(_) => return false,
            }
        }
        false
    }
}

fn is_whole(input: &[u8]) -> bool {
    input.windows(4).any(|window| window == b"\r\n\r\n")
}

/// The request, once its head is complete or has reached the length limit.
fn parse(input: &[u8]) -> Option<HttpRequest> {
    if !is_whole(input) && input.len() < LARGEST {
        return None;
    }
    let text = String::from_utf8_lossy(input);
    let mut lines = text.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let path = first
        .strip_prefix("GET ")
        .and_then(|rest| rest.split([' ', '?']).next());
    let host = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_host = name.eq_ignore_ascii_case("host");
        is_host.then(|| value.trim().to_owned())
    });
    Some(HttpRequest {
        path: path.unwrap_or_default().to_owned(),
        host,
    })
}

fn render(page: &HttpResponse) -> Vec<u8> {
    let HttpResponse { status, kind, body } = page;
    let length = body.len();
    format!(
        "HTTP/1.0 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
    .into_bytes()
}

/// The body of a page that a process of this machine serves. `limit`: for the connection, and for every wait after it.
///
/// Only for pages of our own processes, which are short, on loopback, and end with the connection.
pub(crate) fn get_local(port: u16, path: &str, limit: Duration) -> io::Result<String> {
    let address = (Ipv4Addr::LOCALHOST, port).into();
    let mut stream = TcpStream::connect_timeout(&address, limit)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    write!(
        stream,
        "GET {path} HTTP/1.0\r\nHost: localhost\r\nAccept: */*\r\n\r\n"
    )?;
    let mut response = String::new();
    stream.take(LARGEST_PAGE).read_to_string(&mut response)?;
    let is_ok = response.starts_with("HTTP/1.") && response.get(8..12) == Some(" 200");
    match response.split_once("\r\n\r\n") {
        Some((_, body)) if is_ok => Ok(body.to_owned()),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Requests a page from this host.
    pub(crate) fn get(port: u16, path: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn start() -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let answer = |request: &HttpRequest| match request.path.as_str() {
            "/long" => HttpResponse::text("200 OK", "x".repeat(3 << 20)),
            path => HttpResponse::text("200 OK", format!("{path} of {:?}", request.host)),
        };
        serve("pages", listener, answer).unwrap();
        port
    }

    #[test]
    fn idle_and_slow_clients_keep_nobody_waiting() {
        let port = start();
        let connect = |_| TcpStream::connect(("127.0.0.1", port)).unwrap();
        let mut idle: Vec<TcpStream> = (0..3 * ROOM).map(connect).collect();
        for (at, stream) in idle.iter_mut().enumerate() {
            // Those that were sent away do not hear it any more.
            let _ = stream.write(&b"GET / HTTP/1.0\r\nA: "[..at % 20]);
        }
        for _ in 0..6 {
            let answer = get(port, "/healthz");
            assert!(
                answer.ends_with("/healthz of Some(\"localhost\")"),
                "{answer}"
            );
        }
    }

    #[test]
    fn a_long_page_arrives_whole_and_a_long_head_is_answered() {
        let port = start();
        assert!(get(port, "/long").len() > 3 << 20);
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.write_all(b"GET /x HTTP/1.0\r\n").unwrap();
        stream.write_all(&vec![b'a'; LARGEST]).unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.0 200");
    }

    #[test]
    fn a_crowd_is_looked_at_now_and_then_and_a_probe_at_once() {
        assert_eq!(pause(1), Duration::ZERO);
        assert_eq!(pause(ROOM), PAUSE);
        assert!(PAUSE < LONGEST_REST);
    }

    #[test]
    fn nonsense_has_no_path_and_other_names_are_not_this_machine() {
        for request in ["\r\n\r\n", "POST / HTTP/1.0\r\n\r\n", "GET\r\n\r\n"] {
            assert_eq!(parse(request.as_bytes()).unwrap(), HttpRequest::default());
        }
        assert_eq!(parse(b"GET / HTTP/1.0\r\n"), None);
        for (host, own) in [
            ("127.0.0.1:7272", true),
            ("localhost:1", true),
            ("[::1]:80", true),
            ("evil.example:7272", false),
            ("127.0.0.1.evil.example", false),
        ] {
            assert_eq!(is_loopback_name(host), own, "{host}");
        }
    }
}
