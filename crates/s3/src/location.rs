//! Addresses of objects: `s3://bucket/key`.

use std::fmt::{self, Display, Formatter};

/// A bucket and a key, or the beginning of keys.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Location {
    /// Name without `s3://`.
    pub bucket: String,
    /// The key, without a slash in front. Empty, or with a slash at its end, it is a prefix.
    pub key: String,
}

/// What every such address begins with.
pub(crate) const SCHEME: &str = "s3://";

impl Location {
    /// Reads an address; `None` if it is no `s3://…`, or has no bucket.
    pub fn parse(text: &str) -> Option<Self> {
        let (bucket, key) = match text.strip_prefix(SCHEME)?.split_once('/') {
            Some((bucket, key)) => (bucket, key),
            None => (text.strip_prefix(SCHEME)?, ""),
        };
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-._".contains(letter);
        let is_bucket = !bucket.is_empty() && bucket.chars().all(is_plain);
        is_bucket.then(|| Self {
            bucket: bucket.to_owned(),
            key: key.trim_start_matches('/').to_owned(),
        })
    }

    /// Whether it names a folder of objects.
    pub fn is_prefix(&self) -> bool {
        self.key.is_empty() || self.key.ends_with('/')
    }

    /// The object of this name below the prefix.
    pub fn join(&self, name: &str) -> Self {
        let slash = if self.is_prefix() { "" } else { "/" };
        Self {
            bucket: self.bucket.clone(),
            key: format!("{}{slash}{name}", self.key),
        }
    }

    /// The last part of the key.
    pub fn name(&self) -> &str {
        self.key.rsplit('/').next().unwrap_or_default()
    }
}

impl Display for Location {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.bucket, self.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        let file = Location::parse("s3://my-data/reviews/train.txt").unwrap();
        assert_eq!(
            (file.bucket.as_str(), file.key.as_str()),
            ("my-data", "reviews/train.txt")
        );
        assert_eq!((file.name(), file.is_prefix()), ("train.txt", false));
        assert_eq!(file.to_string(), "s3://my-data/reviews/train.txt");
        for folder in ["s3://b", "s3://b/", "s3://b/a/"] {
            assert!(Location::parse(folder).unwrap().is_prefix(), "{folder}");
        }
        let folder = Location::parse("s3://b/a/").unwrap();
        assert_eq!(folder.join("x/y").to_string(), "s3://b/a/x/y");
        let folder = Location::parse("s3://b/a").unwrap();
        assert_eq!(folder.join("x").to_string(), "s3://b/a/x");
        for wrong in ["https://b/a", "s3://", "s3:///a", "s3://a b/c", "s3:/b"] {
            assert_eq!(Location::parse(wrong), None, "{wrong}");
        }
    }
}
