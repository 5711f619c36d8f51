//! From v1's `--nics` (names of interfaces) to the addresses to listen on.

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::net::{IpAddr, Ipv4Addr};

/// Why interfaces cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the variants are documented")]
pub enum NicError {
    /// There is no interface of this name with an IPv4 address.
    #[error("network interface {name:?} has no address here; there are: {present}")]
    Unknown {
        name: String,
        /// The interfaces that exist.
        present: String,
    },
    /// The system call that lists interfaces failed.
    #[error("the network interfaces cannot be listed")]
    List,
}

/// The IPv4 addresses of a comma-separated list of interfaces; an empty list means all addresses.
pub fn addresses(nics: &str) -> Result<Vec<IpAddr>, NicError> {
    let names: Vec<&str> = nics
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .collect();
    if names.is_empty() {
        return Ok(vec![IpAddr::V4(Ipv4Addr::UNSPECIFIED)]);
    }
    let present = interfaces().ok_or(NicError::List)?;
    let mut found = Vec::new();
    for name in names {
        let own: Vec<IpAddr> = present
            .iter()
            .filter(|(have, _)| have == name)
            .map(|(_, ip)| *ip)
            .collect();
        if own.is_empty() {
            let list: BTreeSet<&str> = present.iter().map(|(have, _)| have.as_str()).collect();
            let present = list.into_iter().collect::<Vec<_>>().join(", ");
            return Err(NicError::Unknown {
                name: name.to_owned(),
                present,
            });
        }
        found.extend(own);
    }
    Ok(found)
}

fn interfaces() -> Option<Vec<(String, IpAddr)>> {
    let mut list: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: getifaddrs writes a list head to the given place and returns 0, or changes nothing.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return None;
    }
    let mut found = Vec::new();
    let mut next = list;
    while !next.is_null() {
        // SAFETY: `next` is a node of the list that getifaddrs made and that is freed below.
        let node = unsafe { &*next };
        next = node.ifa_next;
        if node.ifa_addr.is_null() || node.ifa_name.is_null() {
            continue;
        }
        // SAFETY: the name is a C string that lives as long as the list.
        let name = unsafe { CStr::from_ptr(node.ifa_name) }
            .to_string_lossy()
            .into_owned();
        // SAFETY: the address is not null; its family says how to read it.
        if i32::from(unsafe { (*node.ifa_addr).sa_family }) == libc::AF_INET {
            // SAFETY: an address of this family is a sockaddr_in.
            let address = unsafe { &*node.ifa_addr.cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr));
            found.push((name, IpAddr::V4(ip)));
        }
    }
    // SAFETY: the list comes from getifaddrs and is not used after this.
    unsafe { libc::freeifaddrs(list) };
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_has_its_address() {
        assert_eq!(addresses("lo"), Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]));
        assert_eq!(addresses(""), Ok(vec![IpAddr::V4(Ipv4Addr::UNSPECIFIED)]));
    }

    #[test]
    fn an_unknown_interface_is_named_beside_the_real_ones() {
        let error = addresses("xgbe77").unwrap_err().to_string();
        assert!(error.contains("xgbe77") && error.contains("lo"), "{error}");
    }
}
