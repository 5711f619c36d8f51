//! Names of images, as Docker reads them: `python` is `docker.io/library/python:latest`.

use std::fmt::{self, Display, Formatter};

use crate::ImageError;

/// A registry, a repository there, and a tag or a digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// Host, with a port if it is not the usual one.
    pub registry: String,
    /// Such as `library/python`.
    pub repository: String,
    /// Tag, or digest with `sha256:`.
    pub version: String,
}

const DOCKER: &str = "docker.io";

impl Reference {
    /// Reads a name.
    pub fn parse(text: &str) -> Result<Self, ImageError> {
        let wrong = || ImageError::Reference(text.to_owned());
        let (name, digest) = match text.split_once('@') {
            Some((name, digest)) => (name, Some(digest)),
            None => (text, None),
        };
        let (registry, path) = match name.split_once('/') {
            Some((host, path)) if host.contains(['.', ':']) || host == "localhost" => (host, path),
            _ => (DOCKER, name),
        };
        let (repository, tag) = match path.rsplit_once(':') {
            Some((repository, tag)) => (repository, Some(tag)),
            None => (path, None),
        };
        let repository = match registry {
            DOCKER if !repository.contains('/') => format!("library/{repository}"),
            _ => repository.to_owned(),
        };
        let is_part = |part: &str| {
            let letters = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
            let allowed = |letter: char| letters(letter) || "-._".contains(letter);
            part.starts_with(letters) && part.ends_with(letters) && part.chars().all(allowed)
        };
        let is_tag = |tag: &str| {
            let allowed = |letter: char| letter.is_ascii_alphanumeric() || "-._".contains(letter);
            !tag.is_empty() && tag.len() <= 128 && tag.chars().all(allowed)
        };
        let is_digest = |digest: &str| {
            let digits = digest.strip_prefix("sha256:").unwrap_or_default();
            let is_digit = |digit: u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
            digits.len() == 64 && digits.bytes().all(is_digit)
        };
        let is_right = repository.split('/').all(is_part)
            && tag.is_none_or(is_tag)
            && digest.is_none_or(is_digest);
        if !is_right {
            return Err(wrong());
        }
        Ok(Self {
            registry: registry.to_owned(),
            repository,
            version: digest.or(tag).unwrap_or("latest").to_owned(),
        })
    }

    /// The host that speaks the protocol.
    pub fn host(&self) -> &str {
        match self.registry.as_str() {
            DOCKER => "registry-1.docker.io",
            other => other,
        }
    }

    /// The region of a registry of AWS.
    pub fn ecr_region(&self) -> Option<&str> {
        let rest = self.registry.split_once(".dkr.ecr.")?.1;
        rest.split_once(".amazonaws.com").map(|(region, _)| region)
    }
}

impl Display for Reference {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mark = if self.version.starts_with("sha256:") {
            '@'
        } else {
            ':'
        };
        write!(
            f,
            "{}/{}{mark}{}",
            self.registry, self.repository, self.version
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_docker_reads_them() {
        let read = |text: &str| Reference::parse(text).unwrap().to_string();
        assert_eq!(read("python"), "docker.io/library/python:latest");
        assert_eq!(
            read("python:3.13-slim"),
            "docker.io/library/python:3.13-slim"
        );
        assert_eq!(read("me/canoe:1"), "docker.io/me/canoe:1");
        assert_eq!(read("localhost:5000/a/b"), "localhost:5000/a/b:latest");
        let digest = format!("r.example/x@sha256:{}", "a".repeat(64));
        assert_eq!(read(&digest), digest);
        for wrong in [
            "",
            "UPPER/x",
            "a b",
            "x@sha256:12",
            "x:",
            "r.example/",
            "-x",
        ] {
            assert!(Reference::parse(wrong).is_err(), "{wrong}");
        }
        let upper = format!("x@sha256:{}", "A".repeat(64));
        assert!(Reference::parse(&upper).is_err());
        let ecr = Reference::parse("123456789012.dkr.ecr.eu-west-1.amazonaws.com/canoe").unwrap();
        assert_eq!(ecr.ecr_region(), Some("eu-west-1"));
        assert_eq!(
            Reference::parse("python").unwrap().host(),
            "registry-1.docker.io"
        );
    }
}
