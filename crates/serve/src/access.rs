//! Access to the server: on loopback for every program of the machine, elsewhere only with the token.

use ring::digest::{SHA256, digest};

/// Which requests are allowed.
#[derive(Debug)]
pub enum ClientAccess {
    /// Requests with a loopback name as their host, so that pages of other sites cannot direct a browser here.
    Loopback,
    /// Requests with this bearer token.
    Token(String),
}

impl ClientAccess {
    /// Whether a request with these fields is allowed.
    pub fn allows(&self, host: Option<&str>, authorization: Option<&str>) -> bool {
        match self {
            ClientAccess::Loopback => host.is_none_or(is_loopback_name),
            ClientAccess::Token(token) => authorization
                .and_then(|text| text.strip_prefix("Bearer "))
                .is_some_and(|given| same(token, given.trim())),
        }
    }
}

fn is_loopback_name(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(""),
        None => host.split(':').next().unwrap_or(""),
    };
    name.eq_ignore_ascii_case("localhost")
        || name
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

/// Compares two texts in a time that does not reveal how many characters are equal.
fn same(a: &str, b: &str) -> bool {
    let hash = |text: &str| digest(&SHA256, text.as_bytes());
    let (a, b) = (hash(a), hash(b));
    let pairs = a.as_ref().iter().zip(b.as_ref());
    pairs.fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_loopback_or_the_token_are_asked_for() {
        let named = |host| ClientAccess::Loopback.allows(Some(host), None);
        assert!(named("127.0.0.1:8000"));
        assert!(named("localhost"));
        assert!(!named("evil.example"));
        let token = ClientAccess::Token("secret".into());
        let sent = |text| token.allows(Some("anything"), Some(text));
        assert!(sent("Bearer secret"));
        assert!(!sent("Bearer secre"));
        assert!(!token.allows(None, None));
    }
}
