//! The job token: both sides prove that they know it, and neither sends it.
//!
//! HMAC-SHA256 keyed with the token over a label, both nonces and the name of the connection
//! ([`crate::stream::Stream::name`]). The labels keep a proof of one side from being replayed as that of the other; the
//! name keeps it from being relayed over another connection. A job without a token is not served: the runner creates
//! one.

use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use std::fmt;
use std::sync::Arc;

/// A shared secret of all processes of a job.
#[derive(Clone)]
pub struct Token(Arc<[u8]>);

impl Token {
    /// A token from its bytes. At least 8 bytes, or `None`.
    pub fn new(secret: &[u8]) -> Option<Self> {
        (secret.len() >= 8).then(|| Self(secret.into()))
    }

    /// A new random token as text, to be passed to all processes of a job.
    pub fn random_text() -> String {
        nonce()
    }

    /// A name of the job that does not reveal the token.
    pub fn name(&self) -> String {
        let text = b"canoe client\nname\nof this run\n";
        hex(hmac::sign(&self.key(), text).as_ref())
    }

    /// The proof of a client.
    pub(crate) fn client_proof(&self, meeting: &ProofContext<'_>) -> String {
        self.sign("canoe client", meeting)
    }

    /// The proof of a server.
    pub(crate) fn server_proof(&self, meeting: &ProofContext<'_>) -> String {
        self.sign("canoe server", meeting)
    }

    /// Whether the client's proof is right. Takes the same time for every wrong one.
    pub(crate) fn check_client(&self, meeting: &ProofContext<'_>, proof: &str) -> bool {
        self.check("canoe client", meeting, proof)
    }

    /// Whether the server's proof is right.
    pub(crate) fn check_server(&self, meeting: &ProofContext<'_>, proof: &str) -> bool {
        self.check("canoe server", meeting, proof)
    }

    fn key(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &self.0)
    }

    fn sign(&self, label: &str, meeting: &ProofContext<'_>) -> String {
        hex(hmac::sign(&self.key(), &meeting.text(label)).as_ref())
    }

    fn check(&self, label: &str, meeting: &ProofContext<'_>, proof: &str) -> bool {
        let Some(bytes) = unhex(proof) else {
            return false;
        };
        hmac::verify(&self.key(), &meeting.text(label), &bytes).is_ok()
    }
}

/// What a proof is about: one connection, and the random numbers of both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProofContext<'a> {
    /// The name of the connection.
    pub connection: &'a str,
    /// The server's random number.
    pub server: &'a str,
    /// The client's random number.
    pub client: &'a str,
}

impl ProofContext<'_> {
    fn text(&self, label: &str) -> Vec<u8> {
        let Self {
            connection,
            server,
            client,
        } = self;
        format!("{label}\n{server}\n{client}\n{connection}\n").into_bytes()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(hidden)")
    }
}

/// 32 random bytes in hexadecimal.
pub fn nonce() -> String {
    let mut bytes = [0_u8; 32];
    SystemRandom::new()
        .fill(&mut bytes)
        .expect("the operating system gives random bytes");
    hex(&bytes)
}

/// A random number that distinguishes one process from another.
pub fn instance() -> u64 {
    let mut bytes = [0_u8; 8];
    SystemRandom::new()
        .fill(&mut bytes)
        .expect("the operating system gives random bytes");
    // JSON parsers of other languages keep only 53 bits.
    u64::from_le_bytes(bytes) >> 11
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: [u8; 16] = *b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|b| [b >> 4, b & 15]);
    digits
        .map(|digit| char::from(DIGITS[usize::from(digit)]))
        .collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || !text.len().is_multiple_of(2) {
        return None;
    }
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_right_token_side_connection_and_nonce_pass() {
        let token = Token::new(b"a long secret").unwrap();
        let other = Token::new(b"another secret").unwrap();
        let (s, c) = (nonce(), nonce());
        let meeting = ProofContext {
            connection: "unix 1000",
            server: &s,
            client: &c,
        };
        let proof = token.client_proof(&meeting);
        assert!(token.check_client(&meeting, &proof));
        assert!(!other.check_client(&meeting, &proof));
        assert!(!token.check_server(&meeting, &proof));
        let later = nonce();
        let replayed = ProofContext {
            server: &later,
            ..meeting
        };
        assert!(!token.check_client(&replayed, &proof));
        let relayed = ProofContext {
            connection: "unix 1001",
            ..meeting
        };
        assert!(
            !token.check_client(&relayed, &proof),
            "over another user's socket"
        );
        assert!(!token.check_client(&meeting, "xyz"));
        assert!(!token.check_client(&meeting, "ä0"));
    }

    #[test]
    fn a_short_token_is_none() {
        assert!(Token::new(b"short").is_none());
    }
}
