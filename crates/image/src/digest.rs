//! SHA-256 in the notation of registries, of bytes and of the contents of a reader.

use std::io::{self, Read};

use ring::digest::{Context, SHA256};

fn shown(context: Context) -> String {
    let sum = context.finish();
    let digits = sum.as_ref().iter().map(|byte| format!("{byte:02x}"));
    format!("sha256:{}", digits.collect::<String>())
}

/// `sha256:…` of bytes.
pub fn of(bytes: &[u8]) -> String {
    let mut context = Context::new(&SHA256);
    context.update(bytes);
    shown(context)
}

/// A reader that computes the digest of the bytes that were read from it.
pub struct Counted<R> {
    inner: R,
    context: Context,
}

impl<R: Read> Counted<R> {
    /// Nothing has passed yet.
    pub fn new(inner: R) -> Self {
        Self {
            inner,
            context: Context::new(&SHA256),
        }
    }

    /// `sha256:…` of everything that has passed.
    pub fn digest(self) -> String {
        shown(self.context)
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.context.update(&buffer[..count]);
        Ok(count)
    }
}
