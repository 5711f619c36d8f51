//! What plain TCP moves on this machine: the yardstick for the dense measurement.

use super::cpu_time;
use super::rig::BenchError;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Instant;

/// Bytes of a read or write.
const PIECE: usize = 1 << 20;

/// How fast bytes moved.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Bytes a second.
    pub per_second: f64,
    /// Bytes for each second of CPU time of both sides.
    pub per_cpu_second: f64,
}

/// What `streams` parallel one-way loopback connections move together.
pub fn loopback(streams: usize, bytes_each: usize) -> Result<Rate, BenchError> {
    let run = || {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let mut pairs = Vec::new();
        for _ in 0..streams {
            let sender = TcpStream::connect(address)?;
            let (receiver, _) = listener.accept()?;
            pairs.push((sender, receiver));
        }
        let (begun, cpu) = (Instant::now(), cpu_time());
        std::thread::scope(|scope| {
            let threads: Vec<_> = pairs
                .into_iter()
                .flat_map(|(sender, receiver)| {
                    [
                        scope.spawn(move || send(sender, bytes_each)),
                        scope.spawn(move || receive(receiver, bytes_each)),
                    ]
                })
                .collect();
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().expect("a stream thread does not panic"))
        })?;
        let bytes = (streams * bytes_each) as f64;
        Ok(Rate {
            per_second: bytes / begun.elapsed().as_secs_f64(),
            per_cpu_second: bytes / cpu_time().saturating_sub(cpu).as_secs_f64(),
        })
    };
    run().map_err(BenchError::Stream)
}

fn send(mut stream: TcpStream, bytes: usize) -> std::io::Result<()> {
    let buffer = vec![1_u8; PIECE];
    for _ in 0..bytes / PIECE {
        stream.write_all(&buffer)?;
    }
    Ok(())
}

fn receive(mut stream: TcpStream, bytes: usize) -> std::io::Result<()> {
    let mut buffer = vec![0_u8; PIECE];
    let mut left = bytes / PIECE * PIECE;
    while left > 0 {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        left -= count;
    }
    Ok(())
}
