//! A byte stream between two processes: TCP, a unix socket when both are on one host, or TLS over TCP.
//!
//! A server that listens on TCP also listens, in the abstract namespace of the same network, on the unix name
//! `canoe/ADDRESS:PORT` (`*` for all addresses). A client first connects by TCP; when both ends turn out to have the same address it moves to the
//! unix socket, which carries the same bytes for about half the work, and descriptors of [shared memory](crate::shared).
//! TLS stays on TCP.

use crate::tls::{ClientTls, ServerTls};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use rustls::{ClientConnection, ServerConnection, StreamOwned};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixListener, UnixStream};
use std::time::Duration;

/// A connected stream.
#[derive(Debug)]
pub enum Stream {
    /// Plain TCP.
    Tcp(TcpStream),
    /// A unix socket on the same host.
    Unix(UnixStream),
    /// TLS, client side.
    TlsClient(Box<StreamOwned<ClientConnection, TcpStream>>),
    /// TLS, server side.
    TlsServer(Box<StreamOwned<ServerConnection, TcpStream>>),
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
    /// Wakes whoever reads; what is being written still arrives.
    pub fn stop_reading(&self) {
        let _ = match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Read),
            Self::Unix(stream) => stream.shutdown(Shutdown::Read),
        };
    }

    /// Wakes whoever reads or writes, with an error or the end of the stream.
    pub fn stop(&self) {
        // An error means that the stream is gone already, which is what was wanted.
        let _ = match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Self::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

/// Descriptors that one message may carry.
const DESCRIPTORS: usize = 2;

/// How to connect.
#[derive(Debug, Clone)]
pub struct Dial {
    /// For the whole of connecting to one address.
    pub timeout: Duration,
    /// TLS, when the job uses it.
    pub tls: Option<ClientTls>,
    /// Use a unix socket to a server on the same host.
    pub local: bool,
}

impl Stream {
    /// Connects to a host name or address and a port.
    pub fn connect(host: &str, port: u16, dial: &Dial) -> io::Result<Self> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in (host, port).to_socket_addrs()? {
            match Self::connect_to(address, dial) {
                Ok(stream) => return Ok(stream),
                Err(cause) => last = cause,
            }
        }
        Err(last)
    }

    fn connect_to(address: SocketAddr, dial: &Dial) -> io::Result<Self> {
        let tcp = TcpStream::connect_timeout(&address, dial.timeout)?;
        tcp.set_nodelay(true)?;
        if let Some(tls) = &dial.tls {
            let connection = tls.connection().map_err(io::Error::other)?;
            tcp.set_read_timeout(Some(dial.timeout))?;
            let mut stream = StreamOwned::new(connection, tcp);
            while stream.conn.is_handshaking() {
                stream.conn.complete_io(&mut stream.sock)?;
            }
            stream.sock.set_read_timeout(None)?;
            return Ok(Self::TlsClient(Box::new(stream)));
        }
        if dial.local
            && same_host(&tcp)?
            && let Some(unix) = connect_unix(address)
        {
            return Ok(Self::unix(unix));
        }
        Ok(Self::Tcp(tcp))
    }

    /// Takes a connected unix socket.
    pub fn unix(stream: UnixStream) -> Self {
        widen(&stream);
        Self::Unix(stream)
    }

    /// Takes an accepted TCP stream; with TLS the handshake is done here.
    pub fn accept(tcp: TcpStream, tls: Option<&ServerTls>, timeout: Duration) -> io::Result<Self> {
        tcp.set_nodelay(true)?;
        let Some(tls) = tls else {
            return Ok(Self::Tcp(tcp));
        };
        let connection = tls.connection().map_err(io::Error::other)?;
        tcp.set_read_timeout(Some(timeout))?;
        let mut stream = StreamOwned::new(connection, tcp);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        stream.sock.set_read_timeout(None)?;
        Ok(Self::TlsServer(Box::new(stream)))
    }

    /// A handle to end the stream from another thread.
    pub fn stopper(&self) -> io::Result<Stopper> {
        Ok(match self {
            Self::Tcp(stream) => Stopper::Tcp(stream.try_clone()?),
            Self::Unix(stream) => Stopper::Unix(stream.try_clone()?),
            Self::TlsClient(stream) => Stopper::Tcp(stream.sock.try_clone()?),
            Self::TlsServer(stream) => Stopper::Tcp(stream.sock.try_clone()?),
        })
    }

    /// How long a read may wait; `None`: until the stream is stopped.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_read_timeout(timeout),
            Self::Unix(stream) => stream.set_read_timeout(timeout),
            Self::TlsClient(stream) => stream.sock.set_read_timeout(timeout),
            Self::TlsServer(stream) => stream.sock.set_read_timeout(timeout),
        }
    }

    /// How long a write may wait.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_write_timeout(timeout),
            Self::Unix(stream) => stream.set_write_timeout(timeout),
            Self::TlsClient(stream) => stream.sock.set_write_timeout(timeout),
            Self::TlsServer(stream) => stream.sock.set_write_timeout(timeout),
        }
    }

    /// Whether both ends are on one host, and can share memory.
    pub fn is_local(&self) -> bool {
        matches!(self, Self::Unix(_))
    }

    /// Sends one byte that carries descriptors; only over a unix socket.
    pub fn send_descriptors(&self, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let Self::Unix(stream) = self else {
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
        let Self::Unix(stream) = self else {
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

    /// The other side's address as text, for messages.
    pub fn peer(&self) -> String {
        let tcp = match self {
            Self::Tcp(stream) => stream,
            Self::Unix(_) => return "this host".to_owned(),
            Self::TlsClient(stream) => &stream.sock,
            Self::TlsServer(stream) => &stream.sock,
        };
        tcp.peer_addr()
            .map_or_else(|_| "a peer that is gone".to_owned(), |a| a.ip().to_string())
    }
}

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buf),
            Self::Unix(stream) => stream.read(buf),
            Self::TlsClient(stream) => stream.read(buf),
            Self::TlsServer(stream) => stream.read(buf),
        }
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read_vectored(bufs),
            Self::Unix(stream) => stream.read_vectored(bufs),
            Self::TlsClient(stream) => stream.read_vectored(bufs),
            Self::TlsServer(stream) => stream.read_vectored(bufs),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(buf),
            Self::Unix(stream) => stream.write(buf),
            Self::TlsClient(stream) => stream.write(buf),
            Self::TlsServer(stream) => stream.write(buf),
        }
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write_vectored(bufs),
            Self::Unix(stream) => stream.write_vectored(bufs),
            Self::TlsClient(stream) => stream.write_vectored(bufs),
            Self::TlsServer(stream) => stream.write_vectored(bufs),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.flush(),
            Self::Unix(stream) => stream.flush(),
            Self::TlsClient(stream) => stream.flush(),
            Self::TlsServer(stream) => stream.flush(),
        }
    }
}

/// Bytes that a unix socket may hold; TCP sizes its buffers itself, unix sockets keep a small default.
const UNIX_BUFFER: libc::c_int = 4 << 20;

/// Gives a unix socket large buffers, so that large payloads need few changes between the processes.
fn widen(stream: &UnixStream) {
    let size = UNIX_BUFFER;
    for option in [libc::SO_SNDBUF, libc::SO_RCVBUF] {
        // SAFETY: the descriptor is open, and the option's value is an int of the length given. Failure only means
        // that the buffer keeps its size.
        unsafe {
            libc::setsockopt(
                stream.as_raw_fd(),
                libc::SOL_SOCKET,
                option,
                (&raw const size).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            );
        }
    }
}

/// A listening port on one address.
pub fn listen_tcp(address: IpAddr, port: u16) -> io::Result<TcpListener> {
    TcpListener::bind((address, port))
}

/// The unix twin of a TCP port, for clients on the same host.
pub fn listen_unix(address: IpAddr, port: u16) -> io::Result<UnixListener> {
    let any = address.is_unspecified();
    UnixListener::bind_addr(&unix_name((!any).then_some(address), port)?)
}

/// Connects to the unix twin of a port and hangs up, to wake a listener that is to end.
pub fn knock(address: IpAddr, port: u16) {
    drop(connect_unix(SocketAddr::new(address, port)));
}

fn connect_unix(address: SocketAddr) -> Option<UnixStream> {
    [Some(address.ip()), None].into_iter().find_map(|ip| {
        let name = unix_name(ip, address.port()).ok()?;
        UnixStream::connect_addr(&name).ok()
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
