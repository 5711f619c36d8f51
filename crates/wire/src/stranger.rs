//! A connection before its hello: non-blocking, so that one thread can serve any number of strangers, and each of them
//! costs no thread and no more memory than a hello needs.

use crate::auth::Token;
use crate::channel::{Channel, json_frame};
use crate::frame::FrameKind;
use crate::handshake::{Greeting, GreetingError};
use crate::message::{Code, Hello, Refusal};
use crate::stream::{self, Stream};
use crate::tls::{self, ServerTls};
use rustls::ServerConnection;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The transport of an accepted connection.
#[derive(Debug)]
pub(crate) enum Accepted {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<ServerConnection>, TcpStream),
}

/// A connection whose other side has not proved yet that it belongs to the job.
#[derive(Debug)]
pub struct Stranger {
    transport: Accepted,
    peer: String,
    /// The connection's name; empty until the TLS handshake is done.
    name: String,
    greeting: Greeting,
    /// What is still to be sent.
    out: Vec<u8>,
}

/// A stranger that has become a member.
#[derive(Debug)]
pub struct Greeted {
    /// Its connection; reads and writes block from now on.
    pub channel: Channel,
    /// The server's random number.
    pub nonce: String,
    /// Its first frame, whose proof is right.
    pub hello: Hello,
}

/// Why a stranger is sent away.
#[derive(Debug, thiserror::Error)]
pub enum StrangerError {
    /// The connection broke, or the stranger closed it after it had sent something.
    #[error("the connection broke")]
    Io(#[source] io::Error),
    /// The stranger closed the connection without sending anything, as scanners and probes do.
    #[error("it closed the connection without sending anything")]
    Left,
    /// The TLS handshake failed.
    #[error("TLS handshake failed")]
    Tls(#[source] rustls::Error),
    /// Its first frame is not accepted.
    #[error(transparent)]
    Greeting(#[from] GreetingError),
}

impl Stranger {
    /// Accepts a TCP connection from a listener of [`stream::listen_tcp`] that does not block.
    pub fn accept(listener: &TcpListener, tls: Option<&ServerTls>) -> io::Result<Self> {
        let (tcp, address) = stream::accept_tcp(listener)?;
        let peer = address.map_or_else(|| "a stranger".to_owned(), |ip| ip.to_string());
        match tls {
            None => {
                let name = stream::TCP_NAME.to_owned();
                Ok(Self::new(Accepted::Tcp(tcp), peer, name))
            }
            Some(tls) => {
                let connection = tls.connection().map_err(io::Error::other)?;
                let transport = Accepted::Tls(Box::new(connection), tcp);
                Ok(Self::new(transport, peer, String::new()))
            }
        }
    }

    /// An accepted unix connection; refused if another user is at the other end.
    pub fn unix(unix: UnixStream) -> io::Result<Self> {
        let user = stream::trusted_user(&unix)?;
        unix.set_nonblocking(true)?;
        let name = stream::unix_connection_name(user);
        Ok(Self::new(
            Accepted::Unix(unix),
            "this host".to_owned(),
            name,
        ))
    }

    fn new(transport: Accepted, peer: String, name: String) -> Self {
        let (greeting, out) = Greeting::new();
        Self {
            transport,
            peer,
            name,
            greeting,
            out,
        }
    }

    /// The other side's address, for messages.
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// The descriptor to wait for.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        match &self.transport {
            Accepted::Tcp(tcp) | Accepted::Tls(_, tcp) => tcp.as_fd(),
            Accepted::Unix(unix) => unix.as_fd(),
        }
    }

    /// Whether something waits until it can be written.
    pub fn wants_to_write(&self) -> bool {
        match &self.transport {
            Accepted::Tls(connection, _) => connection.wants_write(),
            _ => !self.out.is_empty(),
        }
    }

    /// Reads and writes what is possible without waiting. Returns the hello when it has arrived and its proof is right.
    /// An error that is returned has already been sent to the other side.
    pub fn proceed(&mut self, token: &Token) -> Result<Option<Hello>, StrangerError> {
        let done = match &mut self.transport {
            Accepted::Tcp(tcp) => plain(tcp, &mut self.greeting, &mut self.out, token, &self.name),
            Accepted::Unix(unix) => {
                plain(unix, &mut self.greeting, &mut self.out, token, &self.name)
            }
            Accepted::Tls(connection, tcp) => secured(
                connection,
                tcp,
                &mut self.greeting,
                &mut self.out,
                token,
                &mut self.name,
            ),
        };
        if let Err(StrangerError::Greeting(error)) = &done {
            self.tell(&error.frame());
        }
        done
    }

    /// Tries once to send a last frame.
    fn tell(&mut self, frame: &[u8]) {
        // The connection is closed whether or not the stranger receives the reason.
        let _ = match &mut self.transport {
            Accepted::Tcp(tcp) => tcp.write(frame).map(|_| ()),
            Accepted::Unix(unix) => unix.write(frame).map(|_| ()),
            Accepted::Tls(connection, tcp) => connection
                .writer()
                .write(frame)
                .and_then(|_| connection.write_tls(tcp).map(|_| ())),
        };
    }

    /// Call it when the stranger's time is over. One without TLS waits in vain for the challenge of a server with TLS:
    /// it gets an error that says so.
    pub fn expire(&mut self) {
        if let Accepted::Tls(_, tcp) = &mut self.transport
            && self.name.is_empty()
            && self.greeting.is_untouched()
        {
            let refusal = Refusal {
                code: Code::Denied,
                text: "this server speaks TLS only; start the trainers with --tls_ca, --tls_cert and --tls_key"
                    .to_owned(),
            };
            let _ = tcp.write(&json_frame(FrameKind::Error, &refusal, 0));
        }
    }

    /// Closes the connection with a reset, so that the kernel keeps no state for it, as it would after an orderly close.
    pub fn dismiss(self) {
        if let Accepted::Tcp(tcp) | Accepted::Tls(_, tcp) = &self.transport {
            // Without it, the connection closes in order.
            let _ = rustix::net::sockopt::set_socket_linger(tcp, Some(Duration::ZERO));
        }
    }

    /// A member's connection, after [`Stranger::proceed`] has returned its hello.
    pub fn into_member(self, hello: Hello) -> io::Result<Greeted> {
        match &self.transport {
            Accepted::Tcp(tcp) | Accepted::Tls(_, tcp) => tcp.set_nonblocking(false)?,
            Accepted::Unix(unix) => unix.set_nonblocking(false)?,
        }
        Ok(Greeted {
            channel: Channel::greeted(Stream::accepted(self.transport, self.name)),
            nonce: self.greeting.nonce().to_owned(),
            hello,
        })
    }
}

fn would_block(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

fn left(greeting: &Greeting) -> StrangerError {
    if greeting.is_untouched() {
        StrangerError::Left
    } else {
        StrangerError::Io(io::ErrorKind::UnexpectedEof.into())
    }
}

fn broke(error: io::Error, greeting: &Greeting) -> StrangerError {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => left(greeting),
        _ => StrangerError::Io(error),
    }
}

fn plain(
    stream: &mut (impl Read + Write),
    greeting: &mut Greeting,
    out: &mut Vec<u8>,
    token: &Token,
    name: &str,
) -> Result<Option<Hello>, StrangerError> {
    while !out.is_empty() {
        match stream.write(out) {
            Ok(count) => drop(out.drain(..count)),
            Err(error) if would_block(&error) => return Ok(None),
            Err(error) => return Err(broke(error, greeting)),
        }
    }
    let mut buffer = [0; 4096];
    loop {
        let want = greeting.wants().min(buffer.len());
        match stream.read(&mut buffer[..want]) {
            Ok(0) => return Err(left(greeting)),
            Ok(count) => {
                if let Some(hello) = greeting.take(&buffer[..count], token, name)? {
                    return Ok(Some(hello));
                }
            }
            Err(error) if would_block(&error) => return Ok(None),
            Err(error) => return Err(broke(error, greeting)),
        }
    }
}

fn secured(
    connection: &mut ServerConnection,
    tcp: &mut TcpStream,
    greeting: &mut Greeting,
    out: &mut Vec<u8>,
    token: &Token,
    name: &mut String,
) -> Result<Option<Hello>, StrangerError> {
    let mut buffer = [0; 4096];
    loop {
        while connection.wants_write() {
            match connection.write_tls(tcp) {
                Ok(_) => {}
                Err(error) if would_block(&error) => return Ok(None),
                Err(error) => return Err(broke(error, greeting)),
            }
        }
        if !connection.is_handshaking() {
            if name.is_empty() {
                let export = |secret| connection.export_keying_material(secret, tls::LABEL, None);
                *name = tls::connection_name(export).map_err(StrangerError::Io)?;
            }
            if !out.is_empty() {
                connection
                    .writer()
                    .write_all(out)
                    .map_err(StrangerError::Io)?;
                out.clear();
                continue;
            }
            let want = greeting.wants().min(buffer.len());
            match connection.reader().read(&mut buffer[..want]) {
                Ok(0) => return Err(left(greeting)),
                Ok(count) => {
                    match greeting.take(&buffer[..count], token, name)? {
                        Some(hello) => return Ok(Some(hello)),
                        None => continue,
                    };
                }
                Err(error) if would_block(&error) => {}
                Err(error) => return Err(broke(error, greeting)),
            }
        }
        match connection.read_tls(tcp) {
            Ok(0) => return Err(left(greeting)),
            Ok(_) => {
                if let Err(error) = connection.process_new_packets() {
                    // The alert that tells the other side.
                    let _ = connection.write_tls(tcp);
                    return Err(StrangerError::Tls(error));
                }
            }
            Err(error) if would_block(&error) => return Ok(None),
            Err(error) => return Err(broke(error, greeting)),
        }
    }
}
