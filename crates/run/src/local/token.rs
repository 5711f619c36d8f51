//! The job's shared secret, from the kernel's random number generator.

use std::fs::File;
use std::io::{self, Read};

/// 32 random bytes as 64 hexadecimal digits.
pub fn generate() -> io::Result<String> {
    let mut bytes = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    #[test]
    fn tokens_are_long_and_differ() {
        let (one, other) = (super::generate().unwrap(), super::generate().unwrap());
        assert_eq!(one.len(), 64);
        assert_ne!(one, other);
    }
}
