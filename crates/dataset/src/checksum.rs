//! Checksums of files, as hexadecimal digits.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::str::FromStr;

use md5::Digest;

/// The digest of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checksum {
    /// The kind that users give and that is shown.
    Sha256([u8; 32]),
    /// For data sets whose publishers provide nothing better: it detects damage, not forgery.
    Md5([u8; 16]),
}

/// A text that is not a checksum.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a SHA-256 checksum (64 hexadecimal digits)")]
pub struct NotAChecksum(String);

impl Checksum {
    /// SHA-256 of everything that was added to the context.
    pub(crate) fn of(content: ring::digest::Context) -> Self {
        let mut digest = [0; 32];
        digest.copy_from_slice(content.finish().as_ref());
        Self::Sha256(digest)
    }

    /// The checksum of a file, of the same kind as `self`.
    pub fn of_same_kind(self, path: &Path) -> io::Result<Self> {
        match self {
            Self::Sha256(_) => sha256(path),
            Self::Md5(_) => md5(path),
        }
    }
}

/// SHA-256 of a file.
pub fn sha256(path: &Path) -> io::Result<Checksum> {
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    read_pieces(path, |piece| context.update(piece))?;
    Ok(Checksum::of(context))
}

/// MD5 of a file; object stores name versions by it.
pub(crate) fn md5(path: &Path) -> io::Result<Checksum> {
    let mut context = md5::Md5::new();
    read_pieces(path, |piece| context.update(piece))?;
    Ok(Checksum::Md5(context.finalize().into()))
}

fn read_pieces(path: &Path, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    let mut file = File::open(path)?;
    let mut piece = vec![0; 1 << 20];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(()),
            read => take(&piece[..read]),
        }
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, digits): (_, &[u8]) = match self {
            Self::Sha256(digits) => ("sha256", digits),
            Self::Md5(digits) => ("md5", digits),
        };
        write!(f, "{name}:")?;
        digits.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Checksum {
    type Err = NotAChecksum;

    /// Parses a SHA-256 checksum, with or without the prefix `sha256:`.
    fn from_str(text: &str) -> Result<Self, NotAChecksum> {
        let digits = text.strip_prefix("sha256:").unwrap_or(text);
        parse_hex(digits)
            .map(Self::Sha256)
            .ok_or_else(|| NotAChecksum(text.to_owned()))
    }
}

/// Exactly `N` bytes in hexadecimal digits.
pub const fn parse_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let text = text.as_bytes();
    if text.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    let mut at = 0;
    while at < N {
        match (digit(text[2 * at]), digit(text[2 * at + 1])) {
            (Some(high), Some(low)) => bytes[at] = high << 4 | low,
            _ => return None,
        }
        at += 1;
    }
    Some(bytes)
}

const fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_the_published_test_values() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "abc").unwrap();
        let sha = sha256(file.path()).unwrap();
        assert_eq!(
            sha.to_string(),
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(sha.to_string().parse(), Ok(sha));
        assert_eq!(
            md5(file.path()).unwrap().to_string(),
            "md5:900150983cd24fb0d6963f7d28e17f72"
        );
    }

    #[test]
    fn other_text_is_refused() {
        for text in ["", "abc", &"g".repeat(64), &"0".repeat(63), &"0".repeat(65)] {
            assert!(text.parse::<Checksum>().is_err(), "{text}");
        }
    }
}
