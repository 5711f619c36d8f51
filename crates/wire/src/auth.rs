//! The job token: both sides prove that they know it, and neither sends it.
//!
//! HMAC-SHA256 keyed with the token over a label and both nonces. The labels keep a proof of one side from
//! being played back as that of the other. A job without a token is not served: the launcher makes one.

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

    /// A new random token as text, to be handed to all processes of a job.
    pub fn random_text() -> String {
        nonce()
    }

    /// The proof of a client for these nonces.
    pub fn client_proof(&self, server_nonce: &str, client_nonce: &str) -> String {
        self.sign("canoe client", server_nonce, client_nonce)
    }

    /// The proof of a server for these nonces.
    pub fn server_proof(&self, server_nonce: &str, client_nonce: &str) -> String {
        self.sign("canoe server", server_nonce, client_nonce)
    }

    /// Whether the client's proof is right; takes the same time for every wrong one.
    pub fn check_client(&self, server_nonce: &str, client_nonce: &str, proof: &str) -> bool {
        self.check("canoe client", server_nonce, client_nonce, proof)
    }

    /// Whether the server's proof is right.
    pub fn check_server(&self, server_nonce: &str, client_nonce: &str, proof: &str) -> bool {
        self.check("canoe server", server_nonce, client_nonce, proof)
    }

    fn key(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &self.0)
    }

    fn sign(&self, label: &str, server: &str, client: &str) -> String {
        hex(hmac::sign(&self.key(), &text(label, server, client)).as_ref())
    }

    fn check(&self, label: &str, server: &str, client: &str, proof: &str) -> bool {
        let Some(bytes) = unhex(proof) else {
            return false;
        };
        hmac::verify(&self.key(), &text(label, server, client), &bytes).is_ok()
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

/// A random number that tells one process from another.
pub fn instance() -> u64 {
    let mut bytes = [0_u8; 8];
    SystemRandom::new()
        .fill(&mut bytes)
        .expect("the operating system gives random bytes");
    // JSON readers of other languages keep 53 bits.
    u64::from_le_bytes(bytes) >> 11
}

fn text(label: &str, server: &str, client: &str) -> Vec<u8> {
    format!("{label}\n{server}\n{client}\n").into_bytes()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
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
    fn only_the_right_token_side_and_nonce_pass() {
        let token = Token::new(b"a long secret").unwrap();
        let other = Token::new(b"another secret").unwrap();
        let (s, c) = (nonce(), nonce());
        let proof = token.client_proof(&s, &c);
        assert!(token.check_client(&s, &c, &proof));
        assert!(!other.check_client(&s, &c, &proof));
        assert!(!token.check_server(&s, &c, &proof));
        assert!(!token.check_client(&nonce(), &c, &proof));
        assert!(!token.check_client(&s, &c, "xyz"));
        assert!(!token.check_client(&s, &c, "ä0"));
    }

    #[test]
    fn a_short_token_is_none() {
        assert!(Token::new(b"short").is_none());
    }
}
