//! Finds out from the machine's message why an image cannot be pulled.

use super::reason::PullFailure;

/// The reason in a message. While a machine pauses between two tries, older kubelets report only the pause; then the
/// event has the reason. `secret`: a secret that is named for the registry and does not exist.
pub(super) fn failure(
    image: &str,
    message: &str,
    from_event: Option<&str>,
    secret: Option<String>,
) -> PullFailure {
    let known = read(image, message).or_else(|| read(image, from_event?));
    match (known, secret) {
        (Some(PullFailure::Login | PullFailure::UnknownOrLogin), Some(secret)) => {
            PullFailure::NoSecret(secret)
        }
        (Some(known), _) => known,
        (None, _) => PullFailure::Other(from_event.unwrap_or(message).to_owned()),
    }
}

/// A name without a registry means Docker Hub, whatever its user meant.
fn has_registry(image: &str) -> bool {
    image
        .split_once('/')
        .is_some_and(|(first, _)| first.contains(['.', ':']) || first == "localhost")
}

fn read(image: &str, message: &str) -> Option<PullFailure> {
    let lower = message.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    if has(&["pull qps exceeded"]) {
        return Some(PullFailure::MachinePauses);
    }
    if has(&["no space left on device", "disk quota exceeded"]) {
        return Some(PullFailure::DiskFull);
    }
    if has(&["http response to https client"]) {
        return Some(PullFailure::PlainHttp);
    }
    if has(&["x509:", "certificate"]) {
        return Some(PullFailure::Certificate);
    }
    if has(&[
        "429 too many",
        "toomanyrequests",
        "too many requests",
        "status code 429",
        "rate limit",
    ]) {
        return Some(PullFailure::Limited);
    }
    if has(&[
        "no match for platform",
        "no matching manifest",
        "no image found in image index",
    ]) {
        return Some(PullFailure::Platform);
    }
    if has(&[
        "no such host",
        "timeout",
        "deadline exceeded",
        "connection refused",
        "connection reset",
        "no route to host",
        "network is unreachable",
        "server misbehaving",
        "unexpected eof",
    ]) || lower.ends_with(": eof")
    {
        return Some(PullFailure::Unreachable);
    }
    if has(&[
        "500 internal",
        "502 bad gateway",
        "503 service",
        "504 gateway",
        "registryunavailable",
    ]) {
        return Some(PullFailure::ServerFails);
    }
    if has(&["short-name", "unqualified-search"]) {
        return Some(PullFailure::NoRegistry);
    }
    let is_unknown = has(&[
        "not found",
        "manifest unknown",
        "name unknown",
        "does not exist",
    ]);
    let is_denied = has(&[
        "denied",
        "unauthorized",
        "authentication",
        "403 forbidden",
        "authorization failed",
    ]);
    // Docker Hub returns "denied" for images that it does not have.
    if (is_unknown || has(&["denied"])) && !has_registry(image) {
        return Some(PullFailure::NoRegistry);
    }
    match (is_unknown, is_denied) {
        (true, true) => Some(PullFailure::UnknownOrLogin),
        (true, false) => Some(PullFailure::Unknown),
        (false, true) => Some(PullFailure::Login),
        (false, false) => None,
    }
}
