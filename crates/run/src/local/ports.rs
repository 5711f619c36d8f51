//! Free loopback ports, reserved until the process starts. They are below those that the kernel assigns to outgoing
//! connections, because such a connection could otherwise use the port of a server that is being restarted.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::net::{Ipv4Addr, TcpListener};

/// How many attempts to find a run of neighbouring ports.
const ATTEMPTS: usize = 200;
/// The first port that is tried; many well-known ones are below it.
const LOWEST: u16 = 10_240;
/// First port of the kernel's range for outgoing connections, unless the system says otherwise.
const USUAL_RANGE: u16 = 32_768;

/// Neighbouring ports, held by open listeners until this is dropped.
#[derive(Debug)]
pub struct Reservation {
    first: u16,
    _listeners: Vec<TcpListener>,
}

impl Reservation {
    /// Reserves `count` neighbouring ports; at least one.
    pub fn new(count: u16) -> io::Result<Self> {
        neighbours(count)
    }

    /// The first of the ports.
    pub fn first(&self) -> u16 {
        self.first
    }
}

/// Whether a process listens on one of the ports. Tested by binding, so no connection is made.
pub fn taken(first: u16, count: u16) -> bool {
    (first..first.saturating_add(count))
        .any(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_err())
}

/// This port if no process listens on it, otherwise another free one.
pub(crate) fn free_or_other(port: u16) -> u16 {
    match taken(port, 1) {
        // Without any free port, the process that cannot listen says so.
        true => Reservation::new(1).map_or(port, |other| other.first()),
        false => port,
    }
}

/// The first port that outgoing connections may get.
fn range_start(setting: &str) -> u16 {
    let first = setting.split_whitespace().next();
    first
        .and_then(|port| port.parse().ok())
        .unwrap_or(USUAL_RANGE)
}

/// A free port: first any below the kernel's range, in the end whichever the kernel assigns.
fn any_port(attempt: usize, count: u16) -> io::Result<TcpListener> {
    let setting = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    let end = range_start(&setting.unwrap_or_default()).saturating_sub(count);
    if attempt < ATTEMPTS / 2 && end > LOWEST {
        let draw = RandomState::new().hash_one(attempt) % u64::from(end - LOWEST);
        return TcpListener::bind((Ipv4Addr::LOCALHOST, LOWEST + draw as u16));
    }
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
}

fn port_of(listener: &TcpListener) -> io::Result<u16> {
    Ok(listener.local_addr()?.port())
}

fn neighbours(count: u16) -> io::Result<Reservation> {
    let mut last_error = io::Error::from(io::ErrorKind::AddrInUse);
    for attempt in 0..ATTEMPTS {
        let first = match any_port(attempt, count) {
            Ok(first) => first,
            Err(error) => {
                last_error = error;
                continue;
            }
        };
        let start = port_of(&first)?;
        let rest = (1..count).map(|offset| {
            let port = start
                .checked_add(offset)
                .ok_or(io::ErrorKind::AddrNotAvailable)?;
            TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        });
        match rest.collect::<io::Result<Vec<_>>>() {
            Ok(rest) => {
                return Ok(Reservation {
                    first: start,
                    _listeners: std::iter::once(first).chain(rest).collect(),
                });
            }
            Err(error) => last_error = error,
        }
    }
    Err(last_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_range_is_read_or_guessed() {
        assert_eq!(range_start("15000\t61000\n"), 15_000);
        assert_eq!(range_start(""), USUAL_RANGE);
        assert_eq!(range_start("all of them"), USUAL_RANGE);
    }

    /// A trainer was started three times with a port that another job had taken just before, and its job ended.
    #[test]
    fn a_port_that_another_process_has_taken_is_replaced() {
        let reservation = Reservation::new(1).unwrap();
        let port = reservation.first();
        let other = free_or_other(port);
        assert!(other != port && !taken(other, 1));
        drop(reservation);
        assert_eq!(free_or_other(port), port);
    }

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
