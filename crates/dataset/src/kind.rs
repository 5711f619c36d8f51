//! Detects whether a file is text, which can be divided at its line ends.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Beginning of a file in which a zero byte shows that it is not text.
const LOOK: usize = 1 << 13;

/// First bytes of compressed files and images.
const OTHERS: [&[u8]; 7] = [
    b"\x1f\x8b",
    b"BZh",
    b"\xfd7zXZ",
    b"\x28\xb5\x2f\xfd",
    b"PK\x03\x04",
    b"\x89PNG",
    b"\xff\xd8\xff",
];

/// Whether a file is text, by its beginning.
pub(crate) fn is_text(path: &Path) -> io::Result<bool> {
    let mut start = Vec::new();
    File::open(path)?
        .take(LOOK as u64)
        .read_to_end(&mut start)?;
    Ok(!start.contains(&0) && !OTHERS.iter().any(|other| start.starts_with(other)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressed_files_and_zero_bytes_are_no_text() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for (bytes, text) in [
            (&b"1\tgood\n"[..], true),
            (b"", true),
            (b"\x1f\x8b\x08\x08abc", false),
            (b"a\0b", false),
            ("0\tsch\u{f6}n\n".as_bytes(), true),
        ] {
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(is_text(&path).unwrap(), text, "{bytes:?}");
        }
    }
}
