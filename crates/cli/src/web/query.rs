//! The part of an address after the question mark.

use std::collections::BTreeMap;

/// Names and values, decoded; the last of equal names counts.
#[derive(Debug, Default)]
pub(super) struct Query(BTreeMap<String, String>);

impl Query {
    /// Reads `a=1&b=x%20y`.
    pub(super) fn parse(text: &str) -> Query {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(value))
        });
        Query(pairs.collect())
    }

    /// A value, empty if it is missing.
    pub(super) fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// A value that is a number.
    pub(super) fn number<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.text(name).parse().ok()
    }
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        rest = others;
        let hex = (*first == b'%')
            .then(|| others.get(..2))
            .flatten()
            .and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        match (first, hex) {
            (_, Some(byte)) => {
                bytes.push(byte);
                rest = &others[2..];
            }
            (b'+', None) => bytes.push(b' '),
            (byte, None) => bytes.push(*byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_decoded() {
        let query = Query::parse("a=1&b=x%20y+z%2&c&a=2&d=%e4%b8");
        assert_eq!(query.number::<u32>("a"), Some(2));
        assert_eq!(query.text("b"), "x y z%2");
        assert_eq!((query.text("c"), query.text("e")), ("", ""));
        assert_eq!(query.text("d"), "\u{fffd}");
    }
}
