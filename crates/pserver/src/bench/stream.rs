//! The throughput of plain TCP and plain TLS on this machine: the references for the dense measurement.

use super::cpu_time;
use super::keys::BenchKeys;
use super::rig::BenchError;
use rustls::StreamOwned;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Instant;

/// Bytes per read or write.
pub(crate) const PIECE: usize = 1 << 20;

/// What a stream carries.
#[derive(Debug, Clone, Copy)]
pub struct StreamLoad {
    /// Connections in parallel.
    pub streams: usize,
    /// Bytes over each of them.
    pub bytes: usize,
    /// Bytes of memory from which it is sent at one end and to which it is received at the other, again and again: a
    /// megabyte stays in the cache, a model does not.
    pub memory: usize,
}

/// Throughput.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Bytes per second.
    pub per_second: f64,
    /// Bytes per second of CPU time of both sides.
    pub per_cpu_second: f64,
}

/// The total throughput of parallel one-way loopback connections, over TLS if there are keys.
pub fn loopback(load: &StreamLoad, keys: Option<&BenchKeys>) -> Result<Rate, BenchError> {
    let mut pairs = Vec::new();
    for _ in 0..load.streams {
        pairs.push(pair(keys).map_err(BenchError::Stream)?);
    }
    // Filled with ones, so that every page exists before the clock starts.
    let buffers = |_| [vec![1_u8; load.memory], vec![1_u8; load.memory]];
    let mut buffers: Vec<[Vec<u8>; 2]> = (0..load.streams).map(buffers).collect();
    let (begun, cpu) = (Instant::now(), cpu_time());
    std::thread::scope(|scope| {
        let threads: Vec<_> = pairs
            .iter_mut()
            .zip(&mut buffers)
            .flat_map(|((sender, receiver), [from, to])| {
                // Streams end after both threads: a socket that closes with unread bytes resets the connection.
                [
                    scope.spawn(|| send(sender, load, from)),
                    scope.spawn(|| receive(receiver, load, to)),
                ]
            })
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().expect("a stream thread does not panic"))
    })
    .map_err(BenchError::Stream)?;
    let bytes = (load.streams * load.bytes) as f64;
    Ok(Rate {
        per_second: bytes / begun.elapsed().as_secs_f64(),
        per_cpu_second: bytes / cpu_time().saturating_sub(cpu).as_secs_f64(),
    })
}

type Sender = Box<dyn Write + Send>;
type Receiver = Box<dyn Read + Send>;

/// Both ends of a connection. With keys these are the streams that rustls offers itself, after their handshake.
fn pair(keys: Option<&BenchKeys>) -> io::Result<(Sender, Receiver)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let sender = TcpStream::connect(listener.local_addr()?)?;
    let (receiver, _) = listener.accept()?;
    let Some(keys) = keys else {
        return Ok((Box::new(sender), Box::new(receiver)));
    };
    let client = keys.client.connection().map_err(io::Error::other)?;
    let server = keys.server.connection().map_err(io::Error::other)?;
    let mut sender = StreamOwned::new(client, sender);
    let mut receiver = StreamOwned::new(server, receiver);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| receiver.conn.complete_io(&mut receiver.sock));
        sender.conn.complete_io(&mut sender.sock)?;
        other.join().expect("a handshake does not panic")
    })?;
    Ok((Box::new(sender), Box::new(receiver)))
}

fn send(stream: &mut Sender, load: &StreamLoad, buffer: &[u8]) -> io::Result<()> {
    for piece in buffer.chunks(PIECE).cycle().take(load.bytes / PIECE) {
        stream.write_all(piece)?;
    }
    Ok(())
}

fn receive(stream: &mut Receiver, load: &StreamLoad, buffer: &mut [u8]) -> io::Result<()> {
    let mut left = load.bytes / PIECE * PIECE;
    let mut at = 0;
    while left > 0 {
        let end = (at + PIECE).min(buffer.len());
        let count = stream.read(&mut buffer[at..end])?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        left -= count;
        at = (at + count) % load.memory;
    }
    Ok(())
}
