//! The URL of a request: pure.
//!
//! AWS wants the bucket in the host name; other servers, and buckets with dots (whose certificates would not fit), have it in the path.

use crate::location::Location;

/// A server and the region that requests are signed for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// A server other than AWS's.
    pub own: Option<String>,
    pub region: String,
}

impl Endpoint {
    /// For messages.
    pub(crate) fn name(&self) -> String {
        match &self.own {
            Some(url) => url.clone(),
            None => format!("AWS ({})", self.region),
        }
    }

    /// The URL of a bucket's object, or of the bucket if the key is empty. `query` is encoded already.
    pub(crate) fn url(&self, location: &Location, query: &str) -> String {
        let (bucket, key) = (&location.bucket, encode(&location.key, true));
        let mark = if query.is_empty() { "" } else { "?" };
        let suffix = if self.region.starts_with("cn-") {
            "amazonaws.com.cn"
        } else {
            "amazonaws.com"
        };
        match &self.own {
            Some(url) => format!("{}/{bucket}/{key}{mark}{query}", url.trim_end_matches('/')),
            None if bucket.contains('.') => {
                format!(
                    "https://s3.{}.{suffix}/{bucket}/{key}{mark}{query}",
                    self.region
                )
            }
            None => format!(
                "https://{bucket}.s3.{}.{suffix}/{key}{mark}{query}",
                self.region
            ),
        }
    }
}

/// Percent-encodes as S3 signs it: everything but letters, digits and `-._~`; slashes stay in keys.
pub(crate) fn encode(text: &str, keep_slash: bool) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'/' if keep_slash => encoded.push('/'),
            b'-' | b'.' | b'_' | b'~' => encoded.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => encoded.push(char::from(byte)),
            byte => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// A query of these pairs, in the order in which it is signed.
pub(crate) fn query(pairs: &[(&str, &str)]) -> String {
    let mut pairs: Vec<String> = pairs
        .iter()
        .map(|(key, value)| format!("{}={}", encode(key, false), encode(value, false)))
        .collect();
    pairs.sort();
    pairs.join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_in_the_host_of_aws_and_in_the_path_of_others() {
        let at = |own: Option<&str>, region: &str, text: &str| {
            let endpoint = Endpoint {
                own: own.map(str::to_owned),
                region: region.to_owned(),
            };
            endpoint.url(&Location::parse(text).unwrap(), "")
        };
        assert_eq!(
            at(None, "eu-west-1", "s3://data/a b.txt"),
            "https://data.s3.eu-west-1.amazonaws.com/a%20b.txt"
        );
        assert_eq!(
            at(None, "cn-north-1", "s3://my.data/x"),
            "https://s3.cn-north-1.amazonaws.com.cn/my.data/x"
        );
        assert_eq!(
            at(Some("http://127.0.0.1:9000/"), "us-east-1", "s3://data/x/y"),
            "http://127.0.0.1:9000/data/x/y"
        );
    }

    #[test]
    fn queries_are_sorted_and_encoded() {
        assert_eq!(
            query(&[("prefix", "a/b c"), ("list-type", "2"), ("uploads", "")]),
            "list-type=2&prefix=a%2Fb%20c&uploads="
        );
        assert_eq!(encode("ä+&", true), "%C3%A4%2B%26");
    }
}
