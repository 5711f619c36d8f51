//! The distribution protocol: manifests and blobs of one repository.

use std::cell::RefCell;
use std::io::{self, Read};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use ureq::http::{Request, Response};
use ureq::{Agent, Body, SendBody};

use crate::digest::Counted;
use crate::login::Login;
use crate::manifest::{ACCEPT, Blob};
use crate::{ImageError, Reference, digest};

/// A connection on which nothing arrives for this long counts as broken.
const SILENCE: Duration = Duration::from_secs(60);
/// Most bytes of a manifest, configuration or error that are read.
const LONGEST: u64 = 4 << 20;

/// A client of one repository, with the user's login.
pub struct Repository {
    reference: Reference,
    login: Option<Login>,
    /// What we may do: `pull`, or `pull,push`.
    actions: &'static str,
    agent: Agent,
    /// The header that the registry accepts, once it has said which.
    authorization: RefCell<Option<String>>,
}

/// One request.
struct Call<'a> {
    method: &'static str,
    url: String,
    headers: Vec<(&'static str, String)>,
    body: &'a dyn Fn() -> Result<SendBody<'static>, ImageError>,
    what: String,
}

fn nothing() -> Result<SendBody<'static>, ImageError> {
    Ok(SendBody::none())
}

impl Repository {
    /// A repository that is read, or written too.
    pub fn new(reference: Reference, login: Option<Login>, is_written: bool) -> Self {
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(5)
            .timeout_connect(Some(SILENCE))
            .timeout_recv_response(Some(SILENCE))
            .timeout_per_read(Some(SILENCE))
            .build();
        Self {
            reference,
            login,
            actions: if is_written { "pull,push" } else { "pull" },
            agent: agent.into(),
            authorization: RefCell::new(None),
        }
    }

    /// Its name.
    pub fn reference(&self) -> &Reference {
        &self.reference
    }

    /// The base of all URLs. As with Docker, registries on this machine are reached by plain HTTP.
    fn base(&self) -> String {
        let host = self.reference.host();
        let name = host.split(':').next().unwrap_or(host);
        let is_here = name == "localhost" || name.starts_with("127.");
        let scheme = if is_here { "http" } else { "https" };
        format!("{scheme}://{host}")
    }

    fn url(&self, rest: &str) -> String {
        format!("{}/v2/{}/{rest}", self.base(), self.reference.repository)
    }

    /// The manifest of a tag or a digest, checked if it is a digest.
    pub fn manifest(&self, version: &str) -> Result<Vec<u8>, ImageError> {
        let what = format!("get the manifest {version} of {}", self.reference);
        let response = self.send(&Call {
            method: "GET",
            url: self.url(&format!("manifests/{version}")),
            headers: vec![("accept", ACCEPT.to_owned())],
            body: &nothing,
            what: what.clone(),
        })?;
        let bytes = self.bytes(response, &what)?;
        let got = digest::of(&bytes);
        if version.starts_with("sha256:") && got != version {
            return Err(ImageError::Damaged {
                what: format!("the manifest of {}", self.reference),
                got,
                want: version.to_owned(),
            });
        }
        Ok(bytes)
    }

    /// The digest that the repository's tag stands for now, of all its architectures together.
    pub fn digest(&self) -> Result<String, ImageError> {
        let manifest = self.manifest(&self.reference.version)?;
        Ok(digest::of(&manifest))
    }

    /// A reader of a blob; the caller compares digests.
    pub fn open(&self, blob: &Blob) -> Result<Counted<Box<dyn Read + Send>>, ImageError> {
        let response = self.send(&Call {
            method: "GET",
            url: self.url(&format!("blobs/{}", blob.digest)),
            headers: Vec::new(),
            body: &nothing,
            what: format!("get a layer of {}", self.reference),
        })?;
        let reader: Box<dyn Read + Send> = Box::new(response.into_body().into_reader());
        Ok(Counted::new(Box::new(reader.take(blob.size))))
    }

    /// A small blob, checked.
    pub fn small(&self, blob: &Blob) -> Result<Vec<u8>, ImageError> {
        let mut reader = self.open(blob)?;
        let mut bytes = Vec::new();
        let read = reader.by_ref().take(LONGEST).read_to_end(&mut bytes);
        read.map_err(|error| self.unreachable("read a blob", &error))?;
        let got = digest::of(&bytes);
        if got == blob.digest {
            Ok(bytes)
        } else {
            Err(ImageError::Damaged {
                what: format!("a blob of {}", self.reference),
                got,
                want: blob.digest.clone(),
            })
        }
    }

    /// Whether a blob is there.
    pub fn has(&self, digest: &str) -> Result<bool, ImageError> {
        let asked = self.send(&Call {
            method: "HEAD",
            url: self.url(&format!("blobs/{digest}")),
            headers: Vec::new(),
            body: &nothing,
            what: format!("look for a layer in {}", self.reference),
        });
        match asked {
            Ok(_) => Ok(true),
            Err(ImageError::Refused { status: 404, .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Writes a blob with the bytes of the reader that `open` returns, unless the registry can mount it from another of
    /// its repositories (`from`).
    pub fn write(
        &self,
        digest: &str,
        size: u64,
        from: Option<&str>,
        open: &dyn Fn() -> Result<Box<dyn Read + Send>, ImageError>,
    ) -> Result<(), ImageError> {
        let what = format!("push a layer to {}", self.reference);
        let mount = from.map_or(String::new(), |from| format!("?mount={digest}&from={from}"));
        let response = self.send(&Call {
            method: "POST",
            url: self.url(&format!("blobs/uploads/{mount}")),
            headers: vec![("content-length", "0".to_owned())],
            body: &nothing,
            what: what.clone(),
        })?;
        if response.status() == 201 {
            return Ok(());
        }
        let location = response.headers().get("location");
        let location = location.and_then(|location| location.to_str().ok());
        let location = location.ok_or_else(|| ImageError::Strange {
            what: what.clone(),
            reason: "the registry does not return an address for the upload".to_owned(),
        })?;
        let place = if location.starts_with('/') {
            format!("{}{location}", self.base())
        } else {
            location.to_owned()
        };
        let mark = if place.contains('?') { '&' } else { '?' };
        self.send(&Call {
            method: "PUT",
            url: format!("{place}{mark}digest={digest}"),
            headers: vec![
                ("content-type", "application/octet-stream".to_owned()),
                ("content-length", size.to_string()),
            ],
            body: &|| Ok(SendBody::from_owned_reader(open()?)),
            what,
        })?;
        Ok(())
    }

    /// Writes a manifest under a tag or a digest.
    pub fn write_manifest(
        &self,
        version: &str,
        media_type: &str,
        bytes: &[u8],
    ) -> Result<(), ImageError> {
        self.send(&Call {
            method: "PUT",
            url: self.url(&format!("manifests/{version}")),
            headers: vec![
                ("content-type", media_type.to_owned()),
                ("content-length", bytes.len().to_string()),
            ],
            body: &|| Ok(SendBody::from_owned_reader(io::Cursor::new(bytes.to_vec()))),
            what: format!("push the manifest of {}", self.reference),
        })?;
        Ok(())
    }

    /// Sends, with a token if the registry wants one.
    fn send(&self, call: &Call<'_>) -> Result<Response<Body>, ImageError> {
        let mut response = self.send_once(call)?;
        if response.status() == 401 {
            let challenge = response.headers().get("www-authenticate");
            let challenge = challenge.and_then(|value| value.to_str().ok());
            let header = self.authorize(challenge.unwrap_or_default(), call)?;
            self.authorization.replace(Some(header));
            response = self.send_once(call)?;
        }
        let status = response.status().as_u16();
        match status {
            200..300 => Ok(response),
            401 | 403 => Err(self.no_login(call)),
            _ => {
                let body = self.bytes(response, &call.what).unwrap_or_default();
                Err(ImageError::Refused {
                    what: call.what.clone(),
                    registry: self.reference.registry.clone(),
                    status,
                    message: words(&body),
                })
            }
        }
    }

    fn send_once(&self, call: &Call<'_>) -> Result<Response<Body>, ImageError> {
        let mut builder = Request::builder().method(call.method).uri(&call.url);
        for (name, value) in &call.headers {
            builder = builder.header(*name, value);
        }
        if let Some(header) = self.authorization.borrow().as_ref() {
            builder = builder.header("authorization", header);
        }
        let request = builder
            .body((call.body)()?)
            .map_err(|error| ImageError::Strange {
                what: call.what.clone(),
                reason: error.to_string(),
            })?;
        self.agent
            .run(request)
            .map_err(|error| self.unreachable(&call.what, &error))
    }

    /// The header that a challenge asks for.
    fn authorize(&self, challenge: &str, call: &Call<'_>) -> Result<String, ImageError> {
        let basic = self.login.as_ref().map(|login| {
            let pair = format!("{}:{}", login.user, login.password);
            format!("Basic {}", STANDARD.encode(pair))
        });
        let (scheme, rest) = challenge.split_once(' ').unwrap_or((challenge, ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return basic.ok_or_else(|| self.no_login(call));
        }
        let field = |name: &str| parameter(rest, name);
        let realm = field("realm").ok_or_else(|| self.no_login(call))?;
        let scope = format!("repository:{}:{}", self.reference.repository, self.actions);
        let mut request = self.agent.get(&realm).query("scope", &scope);
        if let Some(service) = field("service") {
            request = request.query("service", &service);
        }
        if let Some(basic) = basic {
            request = request.header("authorization", basic);
        }
        let response = request
            .call()
            .map_err(|error| self.unreachable(&call.what, &error))?;
        if !response.status().is_success() {
            return Err(self.no_login(call));
        }
        let bytes = self.bytes(response, &call.what)?;
        let value: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let token = value["token"].as_str().or(value["access_token"].as_str());
        let token = token.ok_or_else(|| self.no_login(call))?;
        Ok(format!("Bearer {token}"))
    }

    fn bytes(&self, response: Response<Body>, what: &str) -> Result<Vec<u8>, ImageError> {
        let mut bytes = Vec::new();
        let reader = response.into_body().into_reader();
        let read = reader.take(LONGEST).read_to_end(&mut bytes);
        read.map_err(|error| self.unreachable(what, &error))?;
        Ok(bytes)
    }

    fn no_login(&self, call: &Call<'_>) -> ImageError {
        ImageError::Login {
            what: call.what.clone(),
            registry: self.reference.registry.clone(),
            has_login: self.login.is_some(),
        }
    }

    fn unreachable(&self, what: &str, error: &dyn std::error::Error) -> ImageError {
        ImageError::Unreachable {
            what: what.to_owned(),
            registry: self.reference.registry.clone(),
            reason: error.to_string(),
        }
    }
}

/// `name="value"` of a challenge.
fn parameter(text: &str, name: &str) -> Option<String> {
    let mut parts = text.split(',').map(str::trim);
    let found = parts.find_map(|part| part.strip_prefix(name)?.strip_prefix('='))?;
    Some(found.trim_matches('"').to_owned())
}

/// The registry's message about a refusal.
fn words(body: &[u8]) -> String {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let first = &value["errors"][0];
    let text = |key: &str| first[key].as_str().unwrap_or_default();
    match (text("code"), text("message")) {
        ("", "") => String::new(),
        (code, message) => format!("{code} {message}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read() {
        let text = r#"realm="https://auth.example/token",service="registry.example""#;
        assert_eq!(
            parameter(text, "realm").as_deref(),
            Some("https://auth.example/token")
        );
        assert_eq!(
            parameter(text, "service").as_deref(),
            Some("registry.example")
        );
        assert_eq!(parameter(text, "scope"), None);
        assert_eq!(
            words(br#"{"errors":[{"code":"NAME_UNKNOWN","message":"not there"}]}"#),
            "NAME_UNKNOWN not there"
        );
        assert_eq!(words(b"<html>"), "");
    }
}
