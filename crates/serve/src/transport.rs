//! Bytes to and from a client without waiting: over plain TCP, or through TLS.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustix::buffer::spare_capacity;
use rustls::{ServerConfig, ServerConnection};

/// Bytes of buffer that are reserved for a read.
const ROOM: usize = 8 << 10;
const LEAST_ROOM: usize = 512;

/// How bytes travel.
pub enum ClientTransport {
    /// As they are.
    Plain,
    /// Encrypted.
    Tls(Box<ServerConnection>),
}

/// What a read found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArrivedBytes {
    /// Bytes; there may be more.
    Some,
    /// Bytes, and the socket was emptied.
    Last,
    /// Nothing yet.
    Nothing,
    /// The client sends nothing more.
    End,
}

/// Bytes that are to be sent.
#[derive(Debug, Default)]
pub struct Outgoing {
    /// All of a response.
    pub bytes: Vec<u8>,
    sent: usize,
}

impl Outgoing {
    /// Largest buffer that is kept for the next response, in bytes.
    const KEPT: usize = 16 << 10;

    fn rest(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    fn advance(&mut self, count: usize) {
        self.sent += count;
        if self.sent == self.bytes.len() {
            self.sent = 0;
            self.bytes.clear();
            self.bytes.shrink_to(Self::KEPT);
        }
    }
}

impl ClientTransport {
    /// A connection that was just accepted.
    pub fn new(tls: Option<&Arc<ServerConfig>>) -> Result<Self, rustls::Error> {
        Ok(match tls {
            None => ClientTransport::Plain,
            Some(config) => ClientTransport::Tls(Box::new(ServerConnection::new(config.clone())?)),
        })
    }

    /// Appends what has arrived, at most `most` bytes at a time or a record of TLS.
    pub fn read(
        &mut self,
        stream: &TcpStream,
        input: &mut Vec<u8>,
        most: usize,
    ) -> io::Result<ArrivedBytes> {
        match self {
            ClientTransport::Plain => {
                input.reserve(most.clamp(LEAST_ROOM, ROOM));
                let room = input.capacity() - input.len();
                match rustix::io::read(stream, spare_capacity(input)) {
                    Ok(0) => Ok(ArrivedBytes::End),
                    Ok(count) if count < room => Ok(ArrivedBytes::Last),
                    Ok(_) => Ok(ArrivedBytes::Some),
                    Err(rustix::io::Errno::AGAIN) => Ok(ArrivedBytes::Nothing),
                    Err(rustix::io::Errno::INTR) => Ok(ArrivedBytes::Some),
                    Err(error) => Err(error.into()),
                }
            }
            ClientTransport::Tls(tls) => {
                let mut socket = stream;
                match tls.read_tls(&mut socket) {
                    Ok(0) => return Ok(ArrivedBytes::End),
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        return Ok(ArrivedBytes::Nothing);
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                        return Ok(ArrivedBytes::Some);
                    }
                    Err(error) => return Err(error),
                }
                let state = tls.process_new_packets();
                let state = state.map_err(|error| {
                    // The TLS alert tells the client the reason, if it still reads.
                    let _ = tls.write_tls(&mut socket);
                    io::Error::new(io::ErrorKind::InvalidData, error)
                })?;
                let start = input.len();
                input.resize(start + state.plaintext_bytes_to_read(), 0);
                tls.reader().read_exact(&mut input[start..])?;
                match state.peer_has_closed() && input.len() == start {
                    true => Ok(ArrivedBytes::End),
                    false => Ok(ArrivedBytes::Some),
                }
            }
        }
    }

    /// Sends as much as the client takes; returns whether that is all.
    pub fn write(&mut self, stream: &TcpStream, out: &mut Outgoing) -> io::Result<bool> {
        let mut socket = stream;
        loop {
            let written = match self {
                ClientTransport::Plain if out.rest().is_empty() => return Ok(true),
                ClientTransport::Plain => socket.write(out.rest()).map(|count| out.advance(count)),
                ClientTransport::Tls(tls) if tls.wants_write() => {
                    tls.write_tls(&mut socket).map(drop)
                }
                ClientTransport::Tls(_) if out.rest().is_empty() => return Ok(true),
                ClientTransport::Tls(tls) => tls
                    .writer()
                    .write(out.rest())
                    .map(|count| out.advance(count)),
            };
            match written {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Tells the client that nothing more will be sent.
    pub fn finish(&mut self, stream: &TcpStream) {
        if let ClientTransport::Tls(tls) = self {
            tls.send_close_notify();
            let mut socket = stream;
            // If the client is gone or slow, it detects the end of the connection instead.
            let _ = tls.write_tls(&mut socket);
        }
        let _ = stream.shutdown(std::net::Shutdown::Write);
    }
}
