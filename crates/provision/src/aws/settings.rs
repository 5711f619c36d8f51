//! What the environment says about the way to AWS. The program reads it for this crate.

use std::path::PathBuf;

/// How AWS is reached. The default goes straight to the ordinary hosts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AwsSettings {
    /// Proxy for requests over TLS, which is all of them but those to stand-ins.
    pub https_proxy: Option<String>,
    /// Proxy for requests in the clear.
    pub http_proxy: Option<String>,
    /// Hosts and networks that are reached without a proxy, separated by commas.
    pub no_proxy: Option<String>,
    /// Hosts with validated cryptography; the profile decides when this says nothing.
    pub fips: Option<bool>,
    /// Hosts with IPv6 addresses; the profile decides when this says nothing.
    pub dual_stack: Option<bool>,
    /// The profile that is asked for by name, for messages: `aws-config` reads it itself.
    pub profile: Option<String>,
    /// Certificates to trust instead of the system's, as PEM.
    pub ca_bundle: Option<PathBuf>,
}

impl AwsSettings {
    /// Reads variables as every AWS tool does; `get` gives the value of one. Small letters win for proxies,
    /// as in curl.
    pub fn read(get: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| get(name).filter(|value| !value.is_empty());
        let proxy = |name: &str| set(&name.to_ascii_lowercase()).or_else(|| set(name));
        let switch = |name: &str| set(name).map(|value| value.eq_ignore_ascii_case("true"));
        Self {
            https_proxy: proxy("HTTPS_PROXY"),
            http_proxy: proxy("HTTP_PROXY"),
            no_proxy: proxy("NO_PROXY"),
            fips: switch("AWS_USE_FIPS_ENDPOINT"),
            dual_stack: switch("AWS_USE_DUALSTACK_ENDPOINT"),
            profile: set("AWS_PROFILE"),
            ca_bundle: set("AWS_CA_BUNDLE").map(PathBuf::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_variables_are_understood() {
        let read = |pairs: &[(&str, &str)]| {
            AwsSettings::read(|name| {
                let found = pairs.iter().find(|(key, _)| *key == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(read(&[]), AwsSettings::default());
        assert_eq!(
            read(&[("HTTPS_PROXY", ""), ("AWS_CA_BUNDLE", "")]),
            AwsSettings::default()
        );
        let all = read(&[
            ("HTTPS_PROXY", "http://p:1"),
            ("http_proxy", "http://q:2"),
            ("HTTP_PROXY", "http://r:3"),
            ("NO_PROXY", "localhost,.internal"),
            ("AWS_USE_FIPS_ENDPOINT", "TRUE"),
            ("AWS_USE_DUALSTACK_ENDPOINT", "false"),
            ("AWS_PROFILE", "work"),
            ("AWS_CA_BUNDLE", "/ca.pem"),
        ]);
        assert_eq!(all.https_proxy.as_deref(), Some("http://p:1"));
        assert_eq!(all.http_proxy.as_deref(), Some("http://q:2"));
        assert_eq!(all.no_proxy.as_deref(), Some("localhost,.internal"));
        assert_eq!((all.fips, all.dual_stack), (Some(true), Some(false)));
        assert_eq!(all.profile.as_deref(), Some("work"));
        assert_eq!(all.ca_bundle, Some(PathBuf::from("/ca.pem")));
    }
}
