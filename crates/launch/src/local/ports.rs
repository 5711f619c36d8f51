//! Free loopback ports: the kernel names them, and they stay reserved until the process starts.

use std::io;
use std::net::{Ipv4Addr, TcpListener};

/// How often the kernel is asked for a run of neighbouring ports before we give up.
const ATTEMPTS: usize = 200;

/// Neighbouring ports, held by open listeners until this is dropped.
#[derive(Debug)]
pub struct Reservation {
    first: u16,
    _listeners: Vec<TcpListener>,
}

impl Reservation {
    /// Reserves `count` neighbouring ports; at least one.
    pub fn new(count: u16) -> io::Result<Self> {
        let (first, listeners) = neighbours(count)?;
        Ok(Self {
            first,
            _listeners: listeners,
        })
    }

    /// The first of the ports.
    pub fn first(&self) -> u16 {
        self.first
    }
}

/// Whether somebody listens on one of the ports. Asks by binding, so nobody is connected to.
pub fn taken(first: u16, count: u16) -> bool {
    (first..first.saturating_add(count))
        .any(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_err())
}

fn any_port() -> io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
}

fn port_of(listener: &TcpListener) -> io::Result<u16> {
    Ok(listener.local_addr()?.port())
}

fn neighbours(count: u16) -> io::Result<(u16, Vec<TcpListener>)> {
    let mut last_error = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..ATTEMPTS {
        let first = any_port()?;
        let start = port_of(&first)?;
        let rest = (1..count).map(|offset| {
            let port = start
                .checked_add(offset)
                .ok_or(io::ErrorKind::AddrNotAvailable)?;
            TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        });
        match rest.collect::<io::Result<Vec<_>>>() {
            Ok(rest) => return Ok((start, std::iter::once(first).chain(rest).collect())),
            Err(error) => last_error = error,
        }
    }
    Err(last_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_held_until_dropped_and_free_after() {
        let reservation = Reservation::new(4).unwrap();
        let first = reservation.first();
        assert!((first..first + 4).all(|port| taken(port, 1)));
        let other = Reservation::new(4).unwrap();
        assert!(other.first().abs_diff(first) >= 4);
        drop(reservation);
        assert!(!taken(first, 4));
    }
}
