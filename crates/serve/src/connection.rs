//! A client's connection: a state machine that never waits.
//!
//! One thread at a time owns a connection: first the one that was notified of new bytes, then the one that computes its
//! request. Events that arrive meanwhile are noted, and handled when the owner releases the connection. So no thread
//! waits for another.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;
use words::lock::Mutex;

use crate::chunks::BodyChunks;
use crate::head::{BodyLength, HttpMethod, Malformed, RequestHead, head};
use crate::reply::{JSON, ReplyHead, error_body, write_reply};
use crate::routes::Target;
use crate::transport::{ArrivedBytes, ClientTransport, Outgoing};

/// Time for a head to arrive, from the connection or its first byte on; also for a handshake of TLS.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Time for a body to arrive.
const BODY_TIME: Duration = Duration::from_secs(60);
/// Time for a client to take a response.
const REPLY_TIME: Duration = Duration::from_secs(60);
/// Time between two requests.
const IDLE_TIME: Duration = Duration::from_secs(120);
/// A response that is sent before the end of the request is lost if the connection is closed at once. So the rest of the
/// request is read for this time, and discarded.
const LINGER_TIME: Duration = Duration::from_secs(5);
const LINGER_BYTES: usize = 64 << 20;
/// Bodies up to this size are not counted against the memory limit.
const SMALL_BODY: usize = 16 << 10;

/// What a connection needs from the server.
pub trait Handler {
    /// The parsed samples of a request.
    type Samples;
    /// Decides what a request is for.
    fn target(&mut self, head: &RequestHead<'_>) -> Target;
    /// The largest body, in bytes.
    fn largest_body(&self) -> usize;
    /// Reserves memory for a body; returns whether there is enough.
    fn reserve(&mut self, bytes: usize) -> bool;
    /// Releases reserved memory.
    fn release(&mut self, bytes: usize);
    /// The samples of a body; or the response, if nothing is to be computed.
    fn samples(&mut self, body: &[u8]) -> Result<Self::Samples, EarlyResponse>;
    /// Responds to a request that computes nothing.
    fn page(&mut self, target: Target) -> PageBody;
    /// A response with this status is about to be sent.
    fn replied(&mut self, target: Target, status: u16);
    /// The time, as HTTP writes it.
    fn date(&mut self) -> &str;
    /// Milliseconds since the server began, not very precise.
    fn now(&self) -> u64;
    /// Whether the server is about to end.
    fn ending(&self) -> bool;
}

/// A response to a request from which nothing is computed, as JSON.
pub struct EarlyResponse {
    /// The HTTP status.
    pub status: u16,
    /// A JSON document.
    pub body: Vec<u8>,
}

/// What a page consists of.
pub struct PageBody {
    /// Its content type.
    pub kind: &'static str,
    /// The body.
    pub text: Vec<u8>,
}

impl PageBody {
    pub(crate) fn new(kind: &'static str, text: impl Into<Vec<u8>>) -> Self {
        let text = text.into();
        Self { kind, text }
    }
}

/// The result of driving a connection.
#[derive(Debug)]
pub(crate) enum Driven<S> {
    /// It waits for its client.
    Waits,
    /// A request is to be computed; the caller owns the connection until it calls [`ClientConnection::reply`].
    Predict(S),
    /// It has ended.
    Closed,
}

const FREE: u8 = 0;
const OWNED: u8 = 1;
/// Owned, and events have arrived since.
const OWNED_AND_NEWS: u8 = 2;

/// One TCP connection, plain or with TLS, and the requests on it.
pub struct ClientConnection {
    /// Key of the connection in the server's table.
    pub key: usize,
    stream: TcpStream,
    owner: AtomicU8,
    /// When it ends unless something happens, in milliseconds; `u64::MAX`: never.
    deadline: AtomicU64,
    /// Nothing of a request has arrived.
    idle: AtomicBool,
    state: Mutex<ConnectionState>,
}

struct ConnectionState {
    transport: ClientTransport,
    input: Vec<u8>,
    out: Outgoing,
    stage: Stage,
    deadline: u64,
    /// All bytes have been read since the last event.
    drained: bool,
    /// The client may have closed its side, so a short read does not mean that the socket is empty.
    closing: bool,
}

/// The parts of a request's head that are needed later.
#[derive(Debug, Clone, Copy)]
struct Incoming {
    target: Target,
    keep: bool,
    bodiless: bool,
    reserved: usize,
}

enum Stage {
    /// Between two requests.
    Idle,
    /// In a head, or before the first one: TLS may still be negotiated.
    Head,
    /// The head has this many bytes, head and body together that many.
    Body(Incoming, usize, usize),
    /// A body in chunks, as far as it has arrived.
    Chunked(Incoming, BodyChunks, Vec<u8>),
    /// The request is computed.
    Computing(Incoming),
    /// The response is being sent; then the connection stays, or ends.
    Replying { keep: bool },
    /// The response has been sent; at most this many more bytes are read and discarded.
    Lingering(usize),
}

impl Stage {
    /// How long a client may leave a connection in this stage.
    fn time(&self) -> Option<Duration> {
        match self {
            Stage::Idle => Some(IDLE_TIME),
            Stage::Head => Some(HEAD_TIME),
            Stage::Body(..) | Stage::Chunked(..) => Some(BODY_TIME),
            Stage::Computing(_) => None,
            Stage::Replying { .. } => Some(REPLY_TIME),
            Stage::Lingering(_) => Some(LINGER_TIME),
        }
    }
}

enum Step<S> {
    Wait,
    Predict(S),
}

/// The connection must be closed: the client has closed it, it failed, or its deadline has passed.
struct Ended;

impl From<io::Error> for Ended {
    fn from(_: io::Error) -> Self {
        Ended
    }
}

fn later(now: u64, time: Duration) -> u64 {
    now + time.as_millis() as u64
}

impl ClientConnection {
    /// A connection that was just accepted.
    pub fn new(key: usize, stream: TcpStream, transport: ClientTransport, now: u64) -> Self {
        let deadline = later(now, HEAD_TIME);
        Self {
            key,
            stream,
            owner: AtomicU8::new(FREE),
            deadline: AtomicU64::new(deadline),
            idle: AtomicBool::new(true),
            state: Mutex::new(ConnectionState {
                transport,
                input: Vec::new(),
                out: Outgoing::default(),
                stage: Stage::Head,
                deadline,
                drained: false,
                closing: false,
            }),
        }
    }

    /// The socket.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// When it ends unless something happens.
    pub fn deadline(&self) -> u64 {
        self.deadline.load(Ordering::Relaxed)
    }

    /// Whether nothing of a request has arrived.
    pub(crate) fn is_idle(&self) -> bool {
        self.idle.load(Ordering::Relaxed)
    }

    /// Closes the connection in any state; its owner detects it.
    pub fn cut(&self) {
        // It may have ended already.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Closes the connection after the requests that have already arrived.
    pub(crate) fn wind_up(&self) {
        let _ = self.stream.shutdown(Shutdown::Read);
    }

    /// Handles an event of the socket. `None` if another thread owns the connection and will handle it.
    pub(crate) fn news<H: Handler>(
        &self,
        handler: &mut H,
        closing: bool,
    ) -> Option<Driven<H::Samples>> {
        loop {
            let taken = self.change(FREE, OWNED);
            match taken {
                Ok(_) => break,
                Err(OWNED) if self.change(OWNED, OWNED_AND_NEWS).is_err() => {}
                Err(_) => return None,
            }
        }
        let mut state = self.state.lock();
        state.drained = false;
        state.closing |= closing;
        Some(self.drive(&mut state, handler))
    }

    fn change(&self, from: u8, to: u8) -> Result<u8, u8> {
        self.owner
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
    }

    /// Sends the response of a request that was computed, by its owner.
    pub(crate) fn reply<H: Handler>(
        &self,
        handler: &mut H,
        status: u16,
        body: &[u8],
    ) -> Driven<H::Samples> {
        let mut state = self.state.lock();
        if let Stage::Computing(incoming) = state.stage {
            state.reply(handler, incoming, status, JSON, None, body);
        }
        self.drive(&mut state, handler)
    }

    /// Makes all possible progress, and releases the connection when it has to wait.
    fn drive<H: Handler>(
        &self,
        state: &mut ConnectionState,
        handler: &mut H,
    ) -> Driven<H::Samples> {
        loop {
            let step = state.advance(&self.stream, handler);
            self.deadline.store(state.deadline, Ordering::Relaxed);
            let idle = matches!(state.stage, Stage::Idle | Stage::Head) && state.input.is_empty();
            self.idle.store(idle, Ordering::Relaxed);
            match step {
                Ok(Step::Predict(samples)) => return Driven::Predict(samples),
                Ok(Step::Wait) if self.change(OWNED, FREE).is_ok() => return Driven::Waits,
                Ok(Step::Wait) => {
                    self.owner.store(OWNED, Ordering::Release);
                    state.drained = false;
                    state.closing = true;
                }
                Err(Ended) => {
                    state.give_back(handler);
                    return Driven::Closed;
                }
            }
        }
    }
}

impl ConnectionState {
    fn enter(&mut self, stage: Stage, now: u64) {
        self.deadline = stage.time().map_or(u64::MAX, |time| later(now, time));
        self.stage = stage;
    }

    /// Reads, parses and sends until the connection has to wait.
    fn advance<H: Handler>(
        &mut self,
        stream: &TcpStream,
        handler: &mut H,
    ) -> Result<Step<H::Samples>, Ended> {
        loop {
            if !self.transport.write(stream, &mut self.out)? {
                return Ok(Step::Wait);
            }
            let now = handler.now();
            let moved = match &mut self.stage {
                Stage::Idle if self.input.is_empty() => false,
                Stage::Idle => {
                    self.enter(Stage::Head, now);
                    true
                }
                Stage::Head => self.begin(handler),
                Stage::Body(incoming, from, until) if self.input.len() >= *until => {
                    let (incoming, body) = (*incoming, *from..*until);
                    let whole = std::mem::take(&mut self.input);
                    let found = self.understood(handler, incoming, &whole[body.clone()]);
                    self.input = whole;
                    self.forget(body.end);
                    if let Some(samples) = found {
                        return Ok(Step::Predict(samples));
                    }
                    true
                }
                Stage::Body(..) => false,
                Stage::Chunked(incoming, chunks, body) => {
                    let (incoming, most) = (*incoming, handler.largest_body());
                    match chunks.read(&self.input, body, most) {
                        Err(error) => {
                            self.refuse(handler, incoming, error);
                            true
                        }
                        Ok(used) => {
                            let complete = chunks.complete().then(|| std::mem::take(body));
                            self.forget(used);
                            let Some(body) = complete else {
                                if self.more(stream, handler)? {
                                    continue;
                                }
                                return Ok(Step::Wait);
                            };
                            if let Some(samples) = self.understood(handler, incoming, &body) {
                                return Ok(Step::Predict(samples));
                            }
                            true
                        }
                    }
                }
                // Only its owner continues.
                Stage::Computing(_) => return Ok(Step::Wait),
                Stage::Replying { keep: true } => {
                    self.enter(Stage::Idle, now);
                    true
                }
                Stage::Replying { keep: false } => {
                    self.transport.finish(stream);
                    self.enter(Stage::Lingering(LINGER_BYTES), now);
                    true
                }
                Stage::Lingering(left) => {
                    *left = left.checked_sub(self.input.len()).ok_or(Ended)?;
                    self.input.clear();
                    false
                }
            };
            if !moved && !self.more(stream, handler)? {
                return Ok(Step::Wait);
            }
        }
    }

    /// Reads; returns whether something has arrived.
    fn more<H: Handler>(&mut self, stream: &TcpStream, handler: &H) -> Result<bool, Ended> {
        if self.drained {
            return Ok(false);
        }
        let most = match &self.stage {
            Stage::Body(_, _, until) => until - self.input.len(),
            _ => usize::MAX,
        };
        match self.transport.read(stream, &mut self.input, most)? {
            ArrivedBytes::Some => Ok(true),
            ArrivedBytes::Last => {
                self.drained = !self.closing;
                Ok(true)
            }
            ArrivedBytes::Nothing => {
                self.drained = true;
                // When the server ends, it closes connections without a request.
                match (&self.stage, handler.ending()) {
                    (Stage::Idle, true) => Err(Ended),
                    _ => Ok(false),
                }
            }
            ArrivedBytes::End => Err(Ended),
        }
    }

    /// Reads a head; returns whether that changed anything.
    fn begin<H: Handler>(&mut self, handler: &mut H) -> bool {
        let nobody = Incoming {
            target: Target::Refused(400, "", None),
            keep: false,
            bodiless: false,
            reserved: 0,
        };
        let head = match head(&self.input) {
            Ok(None) => return false,
            Ok(Some(head)) => head,
            Err(error) => {
                self.refuse(handler, nobody, error);
                return true;
            }
        };
        let mut incoming = Incoming {
            target: handler.target(&head),
            keep: head.keep && !handler.ending(),
            bodiless: head.method == HttpMethod::Head,
            reserved: 0,
        };
        let (from, waits) = (head.length, head.waits);
        let most = handler.largest_body();
        let (size, chunked) = match head.body {
            BodyLength::Known(size) => (usize::try_from(size).unwrap_or(usize::MAX), false),
            BodyLength::Chunked => (most, true),
        };
        if let Target::Refused(status, reason, allow) = incoming.target {
            // The rest of the request is not read, so the connection cannot be used again.
            incoming.keep &= size == 0 && !chunked;
            self.forget(from);
            self.reply(handler, incoming, status, JSON, allow, &error_body(reason));
            return true;
        }
        if size > most {
            let reason = "the body is larger than this server accepts";
            let status = 413;
            self.refuse(handler, incoming, Malformed { status, reason });
            return true;
        }
        if size > SMALL_BODY {
            if !handler.reserve(size) {
                let reason = "too many requests at once; try again later";
                let status = 503;
                self.refuse(handler, incoming, Malformed { status, reason });
                return true;
            }
            incoming.reserved = size;
        }
        let now = handler.now();
        let complete = !chunked && self.input.len() >= from + size;
        if chunked {
            self.forget(from);
            self.enter(
                Stage::Chunked(incoming, BodyChunks::default(), Vec::new()),
                now,
            );
        } else {
            let missing = (from + size).saturating_sub(self.input.len());
            self.input.reserve_exact(missing);
            self.enter(Stage::Body(incoming, from, from + size), now);
        }
        if waits && !complete {
            let text = b"HTTP/1.1 100 Continue\r\n\r\n";
            self.out.bytes.extend_from_slice(text);
        }
        true
    }

    /// Handles a complete request: replies to it, or returns its samples to be computed.
    fn understood<H: Handler>(
        &mut self,
        handler: &mut H,
        incoming: Incoming,
        body: &[u8],
    ) -> Option<H::Samples> {
        if incoming.target != Target::Predict {
            let page = handler.page(incoming.target);
            self.reply(handler, incoming, 200, page.kind, None, &page.text);
            return None;
        }
        match handler.samples(body) {
            Ok(samples) => {
                self.give_back(handler);
                let incoming = Incoming {
                    reserved: 0,
                    ..incoming
                };
                self.enter(Stage::Computing(incoming), 0);
                Some(samples)
            }
            Err(early) => {
                self.reply(handler, incoming, early.status, JSON, None, &early.body);
                None
            }
        }
    }

    /// Replies to a request that cannot be read to its end.
    fn refuse<H: Handler>(&mut self, handler: &mut H, incoming: Incoming, error: Malformed) {
        let incoming = Incoming {
            keep: false,
            ..incoming
        };
        let body = match error.status {
            413 => {
                let most = handler.largest_body();
                error_body(&format!(
                    "{}: at most {most} bytes, and `canoe serve --largest-body` changes that",
                    error.reason
                ))
            }
            _ => error_body(error.reason),
        };
        self.reply(handler, incoming, error.status, JSON, None, &body);
        self.input.clear();
    }

    fn reply<H: Handler>(
        &mut self,
        handler: &mut H,
        incoming: Incoming,
        status: u16,
        kind: &'static str,
        allow: Option<&str>,
        body: &[u8],
    ) {
        self.give_back(handler);
        let keep = incoming.keep && !handler.ending();
        handler.replied(incoming.target, status);
        let head = ReplyHead {
            status,
            kind,
            keep,
            bodiless: incoming.bodiless,
            date: handler.date(),
        };
        write_reply(&mut self.out.bytes, head, allow, body);
        self.enter(Stage::Replying { keep }, handler.now());
    }

    /// Releases the memory of the present request.
    fn give_back<H: Handler>(&mut self, handler: &mut H) {
        if let Stage::Body(incoming, ..) | Stage::Chunked(incoming, ..) = &mut self.stage {
            handler.release(std::mem::take(&mut incoming.reserved));
        }
    }

    /// The first bytes have been used.
    fn forget(&mut self, count: usize) {
        if count >= self.input.len() {
            self.input.clear();
        } else {
            self.input.drain(..count);
        }
        self.input.shrink_to(SMALL_BODY);
    }
}
