//! A byte stream between two processes: TCP, a unix socket when both are on one host, or TLS over TCP.
//!
//! A server that listens on TCP also listens, in the abstract namespace of the same network, on the unix name
//! `canoe/ADDRESS:PORT` (`*` for all addresses). A client first connects by TCP. When both ends have the same address,
//! it switches to the unix socket, which carries the same bytes for about half the work, and can pass descriptors of
//! [shared memory](crate::shared). TLS stays on TCP. Both ends of a unix socket check the user at the other end.

use crate::ahead::Buffered;
use crate::lines::Traffic;
use crate::stranger::Accepted;
use crate::tls::{self, ClientTls};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, sockopt,
};
use rustls::{ClientConnection, ServerConnection, StreamOwned};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// A connected stream.
#[derive(Debug)]
pub struct Stream {
    inner: Inner,
    /// What identifies the connection to both ends.
    name: String,
    meter: Arc<ByteMeter>,
    /// The socket wakes a reader, or a poll, when it has this many bytes.
    pub(crate) woken_at: usize,
}

#[derive(Debug)]
enum Inner {
    Tcp(TcpStream),
    Unix(UnixStream),
    TlsClient(Box<StreamOwned<ClientConnection, Buffered>>),
    TlsServer(Box<StreamOwned<ServerConnection, Buffered>>),
}

/// Counts the bytes of a stream, for other threads.
#[derive(Debug, Default)]
pub struct ByteMeter {
    sent: AtomicU64,
    received: AtomicU64,
    reading: AtomicBool,
}

impl ByteMeter {
    /// What has passed since [`ByteMeter::reset`].
    pub fn traffic(&self) -> Traffic {
        // `reading` first: bytes that arrive in between make a stream that waits look busy, not the other way round.
        let reading = self.reading.load(Ordering::Acquire);
        Traffic {
            reading,
            sent: self.sent.load(Ordering::Acquire),
            received: self.received.load(Ordering::Acquire),
        }
    }

    /// Whether this end waits for bytes without a thread that reads.
    pub fn set_reading(&self, reading: bool) {
        self.reading.store(reading, Ordering::Release);
    }

    /// Begins to count again.
    pub fn reset(&self) {
        self.sent.store(0, Ordering::Release);
        self.received.store(0, Ordering::Release);
    }
}

/// Ends a stream from another thread.
#[derive(Debug)]
pub enum Stopper {
    /// Of a TCP stream.
    Tcp(TcpStream),
    /// Of a unix stream.
    Unix(UnixStream),
}

impl Stopper {
    /// Wakes a blocked reader; data that is being written still arrives.
    pub fn stop_reading(&self) {
        let _ = match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Read),
            Self::Unix(stream) => stream.shutdown(Shutdown::Read),
        };
    }

    /// Wakes a blocked reader or writer, with an error or the end of the stream.
    pub fn stop(&self) {
        // An error means that the stream is already closed, which is the goal.
        let _ = match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Self::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

/// Bytes that are encrypted before they are written.
const TLS_WRITTEN: usize = 256 << 10;

/// Most descriptors that one message may carry.
const DESCRIPTORS: usize = 2;

/// How to connect.
#[derive(Debug, Clone)]
pub struct Dial {
    /// Time limit for connecting to one address.
    pub timeout: Duration,
    /// Set when the job uses TLS.
    pub tls: Option<ClientTls>,
    /// Use a unix socket if the server is on the same host.
    pub local: bool,
}

/// Why a stream could not be connected.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The server cannot be reached now.
    #[error(transparent)]
    Unreachable(#[from] io::Error),
    /// The TLS handshake failed for a reason that another attempt cannot change, such as a wrong certificate.
    #[error("{0}")]
    Hopeless(String),
}

impl Stream {
    fn new(inner: Inner, name: String) -> Self {
        Self {
            inner,
            name,
            meter: Arc::default(),
            woken_at: 1,
        }
    }

    /// Connects to a host name or address and a port.
    pub fn connect(host: &str, port: u16, dial: &Dial) -> Result<Self, ConnectError> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in (host, port).to_socket_addrs()? {
            match Self::connect_at(address, dial.timeout, dial) {
                Err(ConnectError::Unreachable(cause)) => last = cause,
                done => return done,
            }
        }
        Err(last.into())
    }

    /// Connects to an address, which has this long to reply at all.
    pub(crate) fn connect_at(
        address: SocketAddr,
        limit: Duration,
        dial: &Dial,
    ) -> Result<Self, ConnectError> {
        Self::connect_to(address, limit, dial).map_err(|cause| match tls::hopeless(&cause) {
            Some(text) => ConnectError::Hopeless(text),
            None => ConnectError::Unreachable(cause),
        })
    }

    fn connect_to(address: SocketAddr, limit: Duration, dial: &Dial) -> io::Result<Self> {
        let tcp = TcpStream::connect_timeout(&address, limit)?;
        tcp.set_nodelay(true)?;
        keep_alive(&tcp);
        if let Some(tls) = &dial.tls {
            let mut connection = tls.connection().map_err(io::Error::other)?;
            connection.set_buffer_limit(Some(TLS_WRITTEN));
            tcp.set_read_timeout(Some(dial.timeout))?;
            let mut stream = StreamOwned::new(connection, Buffered::new(tcp));
            while stream.conn.is_handshaking() {
                stream.conn.complete_io(&mut stream.sock)?;
            }
            stream.sock.tcp.set_read_timeout(None)?;
            let name = tls::connection_name(|out| {
                stream.conn.export_keying_material(out, tls::LABEL, None)
            })?;
            return Ok(Self::new(Inner::TlsClient(Box::new(stream)), name));
        }
        if dial.local
            && same_host(&tcp)?
            && let Some(unix) = connect_unix(address)
        {
            return Ok(Self::unix(unix, own_user()));
        }
        Ok(Self::new(Inner::Tcp(tcp), TCP_NAME.to_owned()))
    }

    /// A unix socket whose client is this user.
    fn unix(stream: UnixStream, client: u32) -> Self {
        widen(&stream);
        Self::new(Inner::Unix(stream), unix_connection_name(client))
    }

    /// The server's end of a stranger's connection, after its hello.
    pub(crate) fn accepted(inner: Accepted, name: String) -> Self {
        let inner = match inner {
            Accepted::Tcp(tcp) => Inner::Tcp(tcp),
            Accepted::Unix(unix) => {
                widen(&unix);
                Inner::Unix(unix)
            }
            Accepted::Tls(mut connection, tcp) => {
                connection.set_buffer_limit(Some(TLS_WRITTEN));
                let stream = StreamOwned::new(*connection, Buffered::new(tcp));
                Inner::TlsServer(Box::new(stream))
            }
        };
        Self::new(inner, name)
    }

    /// A text about the connection that both ends see, for proofs: with TLS a secret that only the two ends know, on a
    /// unix socket the client's user as the kernel reports it. Plain TCP has nothing of this kind.
    pub fn name(&self) -> String {
        self.name.clone()
    }

    /// The counter of its bytes.
    pub fn meter(&self) -> &Arc<ByteMeter> {
        &self.meter
    }

    /// A handle to end the stream from another thread.
    pub fn stopper(&self) -> io::Result<Stopper> {
        Ok(match &self.inner {
            Inner::Tcp(stream) => Stopper::Tcp(stream.try_clone()?),
            Inner::Unix(stream) => Stopper::Unix(stream.try_clone()?),
            Inner::TlsClient(stream) => Stopper::Tcp(stream.sock.tcp.try_clone()?),
            Inner::TlsServer(stream) => Stopper::Tcp(stream.sock.tcp.try_clone()?),
        })
    }

    /// How long a read may block; `None`: until the stream is stopped.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match &self.inner {
            Inner::Tcp(stream) => stream.set_read_timeout(timeout),
            Inner::Unix(stream) => stream.set_read_timeout(timeout),
            Inner::TlsClient(stream) => stream.sock.tcp.set_read_timeout(timeout),
            Inner::TlsServer(stream) => stream.sock.tcp.set_read_timeout(timeout),
        }
    }

    /// How long a write may block; `None`: until the stream is stopped.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match &self.inner {
            Inner::Tcp(stream) => stream.set_write_timeout(timeout),
            Inner::Unix(stream) => stream.set_write_timeout(timeout),
            Inner::TlsClient(stream) => stream.sock.tcp.set_write_timeout(timeout),
            Inner::TlsServer(stream) => stream.sock.tcp.set_write_timeout(timeout),
        }
    }

    /// At least this many bytes are sent to this end, whatever it does: the next read may wait until many of them have
    /// arrived, which saves waking the reader for every packet.
    pub(crate) fn await_bytes(&mut self, due: u64) {
        let (tcp, due) = match &self.inner {
            Inner::Tcp(tcp) => (tcp, due),
            Inner::Unix(_) => return,
            Inner::TlsClient(stream) => (&stream.sock.tcp, stream.sock.outstanding(due)),
            Inner::TlsServer(stream) => (&stream.sock.tcp, stream.sock.outstanding(due)),
        };
        let wake_at = wake_at(due);
        if wake_at != self.woken_at && set_low_water(tcp, wake_at).is_ok() {
            self.woken_at = wake_at;
        }
    }

    /// Whether both ends are on one host and can share memory.
    pub fn is_local(&self) -> bool {
        matches!(self.inner, Inner::Unix(_))
    }

    /// Sends one byte that carries descriptors; only over a unix socket.
    pub fn send_descriptors(&self, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let Inner::Unix(stream) = &self.inner else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let byte = [IoSlice::new(&[0])];
        rustix::net::sendmsg(stream, &byte, &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Receives what [`Stream::send_descriptors`] sent.
    pub fn receive_descriptors(&self) -> io::Result<Vec<OwnedFd>> {
        let Inner::Unix(stream) = &self.inner else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let mut into = [IoSliceMut::new(&mut byte)];
        let got = rustix::net::recvmsg(stream, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC)?;
        if got.bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut descriptors = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        Ok(descriptors)
    }

    /// Whether bytes have been received that nobody has read yet: the kernel no longer reports them.
    pub fn has_bytes(&mut self) -> bool {
        let (plain, ahead) = match &mut self.inner {
            Inner::Tcp(_) | Inner::Unix(_) => return false,
            Inner::TlsClient(stream) => (stream.conn.process_new_packets(), &stream.sock),
            Inner::TlsServer(stream) => (stream.conn.process_new_packets(), &stream.sock),
        };
        // The next read returns the error.
        ahead.has_bytes() || plain.map_or(true, |state| state.plaintext_bytes_to_read() > 0)
    }

    /// The other side's address as text, for messages.
    pub fn peer(&self) -> String {
        let tcp = match &self.inner {
            Inner::Tcp(stream) => stream,
            Inner::Unix(_) => return "this host".to_owned(),
            Inner::TlsClient(stream) => &stream.sock.tcp,
            Inner::TlsServer(stream) => &stream.sock.tcp,
        };
        tcp.peer_addr()
            .map_or_else(|_| "a peer that is gone".to_owned(), |a| a.ip().to_string())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.inner {
            Inner::Tcp(stream) => stream.as_fd(),
            Inner::Unix(stream) => stream.as_fd(),
            Inner::TlsClient(stream) => stream.sock.tcp.as_fd(),
            Inner::TlsServer(stream) => stream.sock.tcp.as_fd(),
        }
    }
}

impl Stream {
    fn reading(&mut self, read: impl FnOnce(&mut Inner) -> io::Result<usize>) -> io::Result<usize> {
        self.meter.reading.store(true, Ordering::Release);
        let got = read(&mut self.inner);
        self.meter.reading.store(false, Ordering::Release);
        if let Ok(count) = got {
            let count = count as u64;
            self.meter.received.fetch_add(count, Ordering::AcqRel);
        }
        got
    }

    fn writing(
        &mut self,
        write: impl FnOnce(&mut Inner) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let put = write(&mut self.inner);
        if let Ok(count) = put {
            self.meter.sent.fetch_add(count as u64, Ordering::AcqRel);
        }
        put
    }
}

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.reading(|inner| match inner {
            Inner::Tcp(stream) => stream.read(buf),
            Inner::Unix(stream) => stream.read(buf),
            Inner::TlsClient(stream) => stream.read(buf),
            Inner::TlsServer(stream) => stream.read(buf),
        })
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.reading(|inner| match inner {
            Inner::Tcp(stream) => stream.read_vectored(bufs),
            Inner::Unix(stream) => stream.read_vectored(bufs),
            Inner::TlsClient(stream) => stream.read_vectored(bufs),
            Inner::TlsServer(stream) => stream.read_vectored(bufs),
        })
    }
}

impl Write for Stream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.writing(|inner| match inner {
            Inner::Tcp(stream) => stream.write(buf),
            Inner::Unix(stream) => stream.write(buf),
            Inner::TlsClient(stream) => stream.write(buf),
            Inner::TlsServer(stream) => stream.write(buf),
        })
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.writing(|inner| match inner {
            Inner::Tcp(stream) => stream.write_vectored(bufs),
            Inner::Unix(stream) => stream.write_vectored(bufs),
            // The owned stream of rustls makes one TLS record and one system call per slice.
            Inner::TlsClient(stream) => {
                rustls::Stream::new(&mut stream.conn, &mut stream.sock).write_vectored(bufs)
            }
            Inner::TlsServer(stream) => {
                rustls::Stream::new(&mut stream.conn, &mut stream.sock).write_vectored(bufs)
            }
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.inner {
            Inner::Tcp(stream) => stream.flush(),
            Inner::Unix(stream) => stream.flush(),
            Inner::TlsClient(stream) => stream.flush(),
            Inner::TlsServer(stream) => stream.flush(),
        }
    }
}

/// Bytes for which a reader of a large payload is woken, and for which one of a payload of middle size.
const WOKEN_AT: [usize; 2] = [512 << 10, 64 << 10];

/// When to wake a reader to which `due` bytes are sent. A read that finds a few bytes takes them and then waits for as many
/// as it is woken for, so twice as many must be due.
fn wake_at(due: u64) -> usize {
    let enough = |at: &usize| due >= 2 * *at as u64;
    WOKEN_AT.into_iter().find(enough).unwrap_or(1)
}

/// The kernel wakes the reader of a socket when this many bytes have arrived, or as many as its buffer takes, or the
/// stream ends.
fn set_low_water(tcp: &TcpStream, bytes: usize) -> io::Result<()> {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    // SAFETY: the descriptor is open, and the option's value is an int of the length given.
    let done = unsafe {
        libc::setsockopt(
            tcp.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVLOWAT,
            (&raw const bytes).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Buffer size of a unix socket in bytes. TCP sizes its buffers itself; unix sockets keep a small default.
const UNIX_BUFFER: usize = 4 << 20;

/// Gives a unix socket large buffers, so that large payloads need few context switches.
fn widen(stream: &UnixStream) {
    // Failure only means that a buffer keeps its size.
    let _ = sockopt::set_socket_send_buffer_size(stream, UNIX_BUFFER);
    let _ = sockopt::set_socket_recv_buffer_size(stream, UNIX_BUFFER);
}

/// Connections that may wait to be accepted: a flood of strangers must not crowd out a trainer.
const BACKLOG: i32 = 4096;

/// A listening port on one address. Accepted connections inherit its options, so they cost no system calls per stranger.
pub fn listen_tcp(address: IpAddr, port: u16) -> io::Result<TcpListener> {
    let listener = TcpListener::bind((address, port))?;
    sockopt::set_tcp_nodelay(&listener, true)?;
    keep_alive(&listener);
    rustix::net::listen(&listener, BACKLOG)?;
    Ok(listener)
}

/// Accepts a connection whose reads and writes do not block, and returns the address at its other end.
pub(crate) fn accept_tcp(listener: &TcpListener) -> io::Result<(TcpStream, Option<IpAddr>)> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (socket, address) = rustix::net::acceptfrom_with(listener, flags)?;
    let address = address.and_then(|address| SocketAddr::try_from(address).ok());
    Ok((TcpStream::from(socket), address.map(|address| address.ip())))
}

/// The name of a plain TCP connection, which has nothing of its own that both ends see.
pub(crate) const TCP_NAME: &str = "tcp";

/// The name of a unix connection whose client is this user.
pub(crate) fn unix_connection_name(client: u32) -> String {
    format!("unix {client}")
}

/// The user of this process.
pub(crate) fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The user at the other end of a unix socket, according to the kernel; an error unless it is our own user or root.
pub(crate) fn trusted_user(stream: &UnixStream) -> io::Result<u32> {
    let user = peer_user(stream)?;
    if user == own_user() || user == 0 {
        return Ok(user);
    }
    let text = format!("the socket belongs to user {user}, this process to another one");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

#[cfg(target_os = "linux")]
fn peer_user(stream: &UnixStream) -> io::Result<u32> {
    Ok(sockopt::socket_peercred(stream)?.uid.as_raw())
}

#[cfg(not(target_os = "linux"))]
fn peer_user(_stream: &UnixStream) -> io::Result<u32> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Has the kernel detect a peer whose machine is gone, on a connection that is idle for long.
pub(crate) fn keep_alive(tcp: &impl AsFd) {
    use rustix::net::sockopt;
    // Heartbeats detect the same later, so a system without these options only loses time.
    let _ = sockopt::set_socket_keepalive(tcp, true)
        .and_then(|()| sockopt::set_tcp_keepidle(tcp, Duration::from_secs(5)))
        .and_then(|()| sockopt::set_tcp_keepintvl(tcp, Duration::from_secs(2)))
        .and_then(|()| sockopt::set_tcp_keepcnt(tcp, 3));
}

/// The unix socket that belongs to a TCP port, for clients on the same host.
pub fn listen_unix(address: IpAddr, port: u16) -> io::Result<UnixListener> {
    let any = address.is_unspecified();
    UnixListener::bind_addr(&unix_name((!any).then_some(address), port)?)
}

fn connect_unix(address: SocketAddr) -> Option<UnixStream> {
    [Some(address.ip()), None].into_iter().find_map(|ip| {
        let name = unix_name(ip, address.port()).ok()?;
        let stream = UnixStream::connect_addr(&name).ok()?;
        // An abstract name belongs to the first process that binds it, so clients check the user behind it.
        trusted_user(&stream).ok().map(|_| stream)
    })
}

fn same_host(tcp: &TcpStream) -> io::Result<bool> {
    Ok(tcp.local_addr()?.ip() == tcp.peer_addr()?.ip())
}

#[cfg(target_os = "linux")]
fn unix_name(address: Option<IpAddr>, port: u16) -> io::Result<UnixAddr> {
    UnixAddr::from_abstract_name(match address {
        Some(address) => format!("canoe/{address}:{port}"),
        None => format!("canoe/*:{port}"),
    })
}

#[cfg(not(target_os = "linux"))]
fn unix_name(_address: Option<IpAddr>, _port: u16) -> io::Result<UnixAddr> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "no abstract unix sockets here",
    ))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::tls::{Identity, SERVER_NAME, ServerTls};
    use std::net::Ipv4Addr;

    /// Both ends of a connection over TCP.
    pub(crate) fn tcp_pair() -> (Stream, Stream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let one = connect(&listener, None);
        let (tcp, _) = listener.accept().unwrap();
        (one, Stream::accepted(Accepted::Tcp(tcp), String::new()))
    }

    /// Both ends of a connection over TLS.
    pub(crate) fn tls_pair() -> (Stream, Stream) {
        let (authority, identity) = issue().unwrap();
        let client = ClientTls::new(&authority, SERVER_NAME, None).unwrap();
        let server = ServerTls::new(&identity, None).unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        std::thread::scope(|scope| {
            let one = scope.spawn(|| connect(&listener, Some(client)));
            let (mut tcp, _) = listener.accept().unwrap();
            let mut connection = server.connection().unwrap();
            while connection.is_handshaking() {
                connection.complete_io(&mut tcp).unwrap();
            }
            let accepted = Accepted::Tls(Box::new(connection), tcp);
            let other = Stream::accepted(accepted, String::new());
            (one.join().unwrap(), other)
        })
    }

    fn connect(listener: &TcpListener, tls: Option<ClientTls>) -> Stream {
        let dial = Dial {
            timeout: Duration::from_secs(180),
            tls,
            local: false,
        };
        let port = listener.local_addr().unwrap().port();
        Stream::connect("127.0.0.1", port, &dial).unwrap()
    }

    fn issue() -> Result<(String, Identity), rcgen::Error> {
        let key = rcgen::KeyPair::generate()?;
        let mut params = rcgen::CertificateParams::new(Vec::new())?;
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let authority = params.self_signed(&key)?.pem();
        let issuer = rcgen::Issuer::new(params, key);
        let own = rcgen::KeyPair::generate()?;
        let params = rcgen::CertificateParams::new(vec![SERVER_NAME.to_owned()])?;
        let identity = Identity {
            certificates: params.signed_by(&own, &issuer)?.pem(),
            key: own.serialize_pem(),
        };
        Ok((authority, identity))
    }

    #[test]
    fn slices_leave_together_over_tls() {
        let (mut one, mut other) = tls_pair();
        let (small, slices) = ([7_u8; 1000], 40);
        let count = one.write_vectored(&[IoSlice::new(&small); 40]).unwrap();
        assert_eq!(count, slices * small.len());
        let mut got = vec![0; count];
        other.read_exact(&mut got).unwrap();
        assert_eq!(got, vec![7; count]);
    }

    #[test]
    fn a_reader_is_never_woken_for_more_than_is_sent() {
        let [large, middle] = WOKEN_AT.map(|at| at as u64);
        for due in [0, 1, 2 * middle - 1] {
            assert_eq!(wake_at(due), 1);
        }
        for (due, at) in [
            (2 * middle, middle),
            (2 * large - 1, middle),
            (2 * large, large),
        ] {
            assert_eq!(wake_at(due) as u64, at);
        }
    }
}
