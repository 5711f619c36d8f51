//! IPv4 networks in CIDR notation: parsing, containment, overlap, division.
//!
//! Only what a VPC plan needs. A block whose host bits are set (`10.0.0.5/16`) is refused, because
//! AWS would silently mask it and the user would read another network than the one that exists.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// A network: an address whose host bits are zero, and a prefix length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cidr {
    base: u32,
    prefix: u8,
}

/// Why a text is not a network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CidrError {
    /// There is no `/`, or what stands around it does not parse.
    #[error(
        "{0:?} is not a CIDR block; write an IPv4 address, a slash and a length, such as 10.0.0.0/16"
    )]
    Form(String),
    /// Bits after the prefix are set.
    #[error("{text} has bits set after the first {prefix}; write {masked}")]
    HostBits {
        /// The text as given.
        text: String,
        /// Its prefix length.
        prefix: u8,
        /// The network that AWS would make of it.
        masked: Cidr,
    },
}

impl Cidr {
    /// The network of `prefix` bits that contains `address`.
    pub(crate) fn around(address: Ipv4Addr, prefix: u8) -> Self {
        Self {
            base: u32::from(address) & mask(prefix),
            prefix,
        }
    }

    /// Prefix length, 0 to 32.
    pub(crate) fn prefix(self) -> u8 {
        self.prefix
    }

    /// Whether this is the whole Internet.
    pub(crate) fn is_world(self) -> bool {
        self.prefix == 0
    }

    /// Number of addresses.
    pub(crate) fn size(self) -> u64 {
        1u64 << (32 - u32::from(self.prefix))
    }

    /// The address `offset` places after the first; `None` when it lies outside.
    pub(crate) fn address(self, offset: u32) -> Option<Ipv4Addr> {
        (u64::from(offset) < self.size()).then(|| Ipv4Addr::from(self.base + offset))
    }

    /// Whether every address of `other` is in this network.
    pub(crate) fn contains(self, other: Self) -> bool {
        self.prefix <= other.prefix && other.base & mask(self.prefix) == self.base
    }

    /// Whether the two share an address.
    pub(crate) fn overlaps(self, other: Self) -> bool {
        self.contains(other) || other.contains(self)
    }

    /// The `index`-th sub-network of `prefix` bits; `None` when there is no such one.
    pub(crate) fn subnet(self, prefix: u8, index: u32) -> Option<Self> {
        if prefix < self.prefix || prefix > 32 {
            return None;
        }
        let count = 1u64 << (prefix - self.prefix);
        let step = 1u64 << (32 - u32::from(prefix));
        (u64::from(index) < count).then(|| Self {
            base: u32::try_from(u64::from(self.base) + u64::from(index) * step)
                .expect("a sub-network starts inside its network"),
            prefix,
        })
    }
}

fn mask(prefix: u8) -> u32 {
    if prefix == 0 {
        0
    } else {
        u32::MAX << (32 - u32::from(prefix.min(32)))
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", Ipv4Addr::from(self.base), self.prefix)
    }
}

impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, CidrError> {
        let form = || CidrError::Form(text.to_owned());
        let (address, prefix) = text.split_once('/').ok_or_else(form)?;
        let address: Ipv4Addr = address.parse().map_err(|_| form())?;
        if prefix.is_empty() || !prefix.bytes().all(|b| b.is_ascii_digit()) {
            return Err(form());
        }
        let prefix: u8 = prefix.parse().map_err(|_| form())?;
        if prefix > 32 {
            return Err(form());
        }
        let masked = Self::around(address, prefix);
        if masked.base != u32::from(address) {
            return Err(CidrError::HostBits {
                text: text.to_owned(),
                prefix,
                masked,
            });
        }
        Ok(masked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    #[test]
    fn parses_and_prints() {
        for text in ["10.0.0.0/16", "0.0.0.0/0", "203.0.113.7/32", "128.0.0.0/1"] {
            assert_eq!(cidr(text).to_string(), text);
        }
    }

    #[test]
    fn refuses_what_is_no_network() {
        for text in [
            "",
            "10.0.0.0",
            "10.0.0/16",
            "10.0.0.0/33",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "::/0",
            "a/8",
        ] {
            assert_eq!(
                text.parse::<Cidr>(),
                Err(CidrError::Form(text.to_owned())),
                "{text}"
            );
        }
        let error = "10.0.0.5/16".parse::<Cidr>().unwrap_err();
        assert!(error.to_string().ends_with("write 10.0.0.0/16"), "{error}");
    }

    #[test]
    fn contains_overlaps_divides() {
        let vpc = cidr("10.0.0.0/16");
        assert!(vpc.contains(cidr("10.0.3.0/24")) && !vpc.contains(cidr("10.1.0.0/24")));
        assert!(cidr("10.0.3.0/24").overlaps(vpc) && !vpc.overlaps(cidr("10.1.0.0/16")));
        assert!(cidr("0.0.0.0/0").contains(vpc) && cidr("0.0.0.0/0").is_world());
        assert_eq!(vpc.subnet(20, 15), Some(cidr("10.0.240.0/20")));
        assert_eq!(vpc.subnet(20, 16), None);
        assert_eq!(vpc.subnet(8, 0), None);
        assert_eq!(
            cidr("255.255.255.0/24").subnet(32, 255),
            Some(cidr("255.255.255.255/32"))
        );
        assert_eq!(vpc.address(10), Some(Ipv4Addr::new(10, 0, 0, 10)));
        assert_eq!(cidr("10.0.0.0/30").address(4), None);
    }
}
