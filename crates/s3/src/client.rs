//! The requests: list, read, write. Blocking; a client may be used by several threads.

use std::io::{self, Read};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, SystemTime};

use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SigningSettings,
    UriPathNormalizationMode, sign,
};
use aws_sigv4::sign::v4;
use ureq::http::{Request, Response};
use ureq::{Agent, SendBody};

use crate::address::{Endpoint, query};
use crate::error::S3Error;
use crate::identity::S3Identity;
use crate::location::Location;
use crate::response;

/// A connection on which nothing arrives for this long counts as broken.
const SILENCE: Duration = Duration::from_secs(60);
/// How often a request is sent if the server is too busy or does not reply.
const ATTEMPTS: u32 = 5;
/// Pause before the second attempt; doubled each time.
const PAUSE: Duration = Duration::from_millis(200);
/// Most bytes of an XML document that are read.
const LONGEST: u64 = 16 << 20;
/// Larger objects are sent in parts of this size, so that a broken connection repeats only one part. S3 allows parts of
/// up to 5 GiB.
const PART: u64 = 64 << 20;
/// The header in which the client stores the SHA-256 of an object's content.
const SHA256: &str = "x-amz-meta-sha256";

/// An object, as a listing shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its key.
    pub key: String,
    /// Its length in bytes.
    pub size: u64,
    /// Its entity tag, without quotes: the MD5 of small, unencrypted objects.
    pub etag: String,
}

/// An object that is being read.
pub struct ObjectReader {
    /// Its version.
    pub etag: String,
    /// Bytes of the whole object.
    pub size: u64,
    /// Whether the entity tag is the MD5 of the content.
    pub is_md5: bool,
    body: Box<dyn Read + Send>,
}

/// The metadata of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectHead {
    /// The SHA-256 that it was written with, as [`Client::write`] got it.
    pub sha256: Option<String>,
}

impl Read for ObjectReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.body.read(buffer)
    }
}

/// A request that failed.
struct FailedCall {
    error: S3Error,
    /// The region of the bucket, if the store named it.
    region: Option<String>,
}

/// A client of one store, with the user's credentials.
pub struct Client {
    identity: S3Identity,
    endpoint: Mutex<Endpoint>,
    agent: Agent,
}

/// Names and values.
type Headers = Vec<(&'static str, String)>;

/// One request.
struct Call<'a> {
    method: &'static str,
    location: &'a Location,
    query: String,
    headers: Headers,
    body: &'a [u8],
}

impl Client {
    /// A client with the settings of the environment and the profile.
    pub fn new() -> Result<Self, S3Error> {
        let identity = S3Identity::load()?;
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(SILENCE))
            .timeout_recv_response(Some(SILENCE))
            .timeout_per_read(Some(SILENCE))
            .build()
            .into();
        Ok(Self {
            endpoint: Mutex::new(identity.endpoint()),
            identity,
            agent,
        })
    }

    /// Every object whose key begins with this one, in the order of their keys.
    pub fn list(&self, prefix: &Location) -> Result<Vec<Object>, S3Error> {
        let bucket = Location {
            bucket: prefix.bucket.clone(),
            key: String::new(),
        };
        let mut objects = Vec::new();
        let mut token: Option<String> = None;
        loop {
            let mut pairs = vec![("list-type", "2"), ("prefix", prefix.key.as_str())];
            pairs.extend(token.as_deref().map(|token| ("continuation-token", token)));
            let text = self.text(&Call {
                method: "GET",
                location: &bucket,
                query: query(&pairs),
                headers: Vec::new(),
                body: &[],
            });
            let text = text.map_err(|error| error.about(prefix))?;
            let page = response::page(&text).map_err(|reason| self.strange(prefix, reason))?;
            objects.extend(page.objects);
            match page.next {
                // A server that repeats a page would otherwise be asked for ever.
                Some(next) if token.as_ref() != Some(&next) => token = Some(next),
                Some(_) => {
                    return Err(self.strange(prefix, "it repeats a page of the listing".to_owned()));
                }
                None => break,
            }
        }
        objects.sort_by(|one, other| one.key.cmp(&other.key));
        Ok(objects)
    }

    /// Reads an object from byte `from` on; with `version`, only if it is still that one.
    pub fn read(
        &self,
        location: &Location,
        from: u64,
        version: Option<&str>,
    ) -> Result<ObjectReader, S3Error> {
        let mut headers = Vec::new();
        if from > 0 {
            headers.push(("range", format!("bytes={from}-")));
        }
        headers.extend(version.map(|etag| ("if-match", format!("\"{etag}\""))));
        let response = self.send(&Call {
            method: "GET",
            location,
            query: String::new(),
            headers,
            body: &[],
        })?;
        let text = |name: &str| {
            let value = response.headers().get(name)?;
            value.to_str().ok().map(str::to_owned)
        };
        let length: Option<u64> = text("content-length").and_then(|length| length.parse().ok());
        // Not every server says 206; the header counts.
        let part = text("content-range").and_then(|range| response::range(&range));
        let begins = part.as_ref().map_or(0, |part| part.start);
        if begins > from {
            return Err(self.strange(location, format!("byte {begins} came instead of {from}")));
        }
        let size = part.map(|part| part.total).or(length);
        let size = size.ok_or_else(|| self.strange(location, "no length came".to_owned()))?;
        let etag = text("etag").map(|etag| response::etag(&etag));
        let etag = etag.unwrap_or_default();
        let encryption = text("x-amz-server-side-encryption");
        let is_digest = etag.len() == 32 && etag.bytes().all(|byte| byte.is_ascii_hexdigit());
        Ok(ObjectReader {
            size,
            is_md5: is_digest && encryption.is_none_or(|kind| kind == "AES256"),
            etag,
            body: self.skipped(location, response, from - begins)?,
        })
    }

    /// Skips the first bytes of a reply: a server may send the whole object although a part was requested.
    fn skipped(
        &self,
        location: &Location,
        response: Response<ureq::Body>,
        count: u64,
    ) -> Result<Box<dyn Read + Send>, S3Error> {
        let mut reader = response.into_body().into_reader();
        let skipped = io::copy(&mut reader.by_ref().take(count), &mut io::sink());
        match skipped {
            Ok(skipped) if skipped == count => Ok(Box::new(reader)),
            Ok(_) => {
                Err(self.unreachable(location, &io::Error::from(io::ErrorKind::UnexpectedEof)))
            }
            Err(error) => Err(self.unreachable(location, &error)),
        }
    }

    /// The metadata of an object, without its content; `None` if it does not exist.
    pub fn head(&self, location: &Location) -> Result<Option<ObjectHead>, S3Error> {
        let responded = self.send(&Call {
            method: "HEAD",
            location,
            query: String::new(),
            headers: Vec::new(),
            body: &[],
        });
        match responded {
            Ok(response) => {
                let sum = response.headers().get(SHA256);
                let sum = sum.and_then(|sum| sum.to_str().ok());
                Ok(Some(ObjectHead {
                    sha256: sum.map(str::to_owned),
                }))
            }
            Err(S3Error::NoObject { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes an object, in parts if it is large. It appears when it is complete. If the SHA-256 of its content is known
    /// before, it is stored with the object.
    pub fn write(
        &self,
        location: &Location,
        content: &mut dyn Read,
        size: u64,
        sha256: Option<&str>,
        tell: &dyn Fn(u64),
    ) -> Result<(), WriteError> {
        let headers: Headers = sha256
            .map(|sum| (SHA256, sum.to_owned()))
            .into_iter()
            .collect();
        if size <= PART {
            let bytes = take(content, size)?;
            self.put(location, String::new(), headers, &bytes)?;
            tell(size);
            return Ok(());
        }
        let text = self.text(&Call {
            method: "POST",
            location,
            query: query(&[("uploads", "")]),
            headers,
            body: &[],
        })?;
        let id = response::upload_id(&text).map_err(|reason| self.strange(location, reason))?;
        let ended = self.write_parts(location, &id, content, size, tell);
        if ended.is_err() {
            // Parts of an upload that is not completed cost money.
            let abort = query(&[("uploadId", &id)]);
            drop(self.text(&Call {
                method: "DELETE",
                location,
                query: abort,
                headers: Vec::new(),
                body: &[],
            }));
        }
        ended
    }

    fn write_parts(
        &self,
        location: &Location,
        id: &str,
        content: &mut dyn Read,
        size: u64,
        tell: &dyn Fn(u64),
    ) -> Result<(), WriteError> {
        let mut list = String::from("<CompleteMultipartUpload>");
        let (mut left, mut number) = (size, 1u32);
        while left > 0 {
            let bytes = take(content, left.min(PART))?;
            let part = number.to_string();
            let which = query(&[("partNumber", &part), ("uploadId", id)]);
            let etag = self.put(location, which, Vec::new(), &bytes)?;
            list.push_str(&format!(
                "<Part><PartNumber>{part}</PartNumber><ETag>\"{etag}\"</ETag></Part>"
            ));
            left -= bytes.len() as u64;
            tell(bytes.len() as u64);
            number += 1;
        }
        list.push_str("</CompleteMultipartUpload>");
        let text = self.text(&Call {
            method: "POST",
            location,
            query: query(&[("uploadId", id)]),
            headers: vec![("content-type", "application/xml".to_owned())],
            body: list.as_bytes(),
        })?;
        // S3 may begin its reply with status 200 and then report an error in the body.
        let refusal = response::refusal(&text);
        if refusal.code.is_empty() {
            Ok(())
        } else {
            Err(self.refused(location, 500, refusal).into())
        }
    }

    fn put(
        &self,
        location: &Location,
        query: String,
        headers: Headers,
        body: &[u8],
    ) -> Result<String, S3Error> {
        let response = self.send(&Call {
            method: "PUT",
            location,
            query,
            headers,
            body,
        })?;
        let etag = response.headers().get("etag");
        let etag = etag.and_then(|etag| etag.to_str().ok());
        Ok(etag.map(response::etag).unwrap_or_default())
    }

    fn text(&self, call: &Call<'_>) -> Result<String, S3Error> {
        let response = self.send(call)?;
        read_text(response).map_err(|error| self.unreachable(call.location, &error))
    }

    /// Sends a request, again while another attempt may help; requests for a bucket of another region are sent there.
    fn send(&self, call: &Call<'_>) -> Result<Response<ureq::Body>, S3Error> {
        let (mut attempt, mut pause, mut moved) = (1, PAUSE, false);
        loop {
            let FailedCall { error, region } = match self.send_once(call) {
                Ok(response) => return Ok(response),
                Err(failed) => *failed,
            };
            match region {
                Some(region) if !moved && region != self.endpoint().region => {
                    self.endpoint().region = region;
                    moved = true;
                }
                _ if error.may_pass() && attempt < ATTEMPTS => {
                    thread::sleep(pause);
                    attempt += 1;
                    pause *= 2;
                }
                _ => return Err(error),
            }
        }
    }

    fn send_once(&self, call: &Call<'_>) -> Result<Response<ureq::Body>, Box<FailedCall>> {
        let nowhere = |error: S3Error| FailedCall {
            error,
            region: None,
        };
        let request = self.signed(call).map_err(nowhere)?;
        let response = self
            .agent
            .run(request)
            .map_err(|error| nowhere(self.unreachable(call.location, &error)))?;
        let status = response.status().as_u16();
        if response.status().is_success() {
            return Ok(response);
        }
        let header = response.headers().get("x-amz-bucket-region");
        let region = header.and_then(|region| region.to_str().ok());
        let region = region.map(str::to_owned);
        let body = read_text(response).unwrap_or_default();
        let refusal = response::refusal(&body);
        let region = region.or_else(|| refusal.region.clone());
        let error = self.refused(call.location, status, refusal);
        Err(FailedCall { error, region }.into())
    }

    fn signed(&self, call: &Call<'_>) -> Result<Request<SendBody<'static>>, S3Error> {
        let strange = |reason: String| self.strange(call.location, reason);
        let endpoint = self.endpoint().clone();
        let url = endpoint.url(call.location, &call.query);
        let identity = self.identity.credentials()?.into();
        let mut settings = SigningSettings::default();
        settings.percent_encoding_mode = PercentEncodingMode::Single;
        settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
        settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region(&endpoint.region)
            .name("s3")
            .time(SystemTime::now())
            .settings(settings)
            .build()
            .map_err(|error| strange(error.to_string()))?
            .into();
        let headers = call.headers.iter();
        let headers = headers.map(|(name, value)| (*name, value.as_str()));
        let body = SignableBody::Bytes(call.body);
        let signable = SignableRequest::new(call.method, &url, headers, body)
            .map_err(|error| strange(error.to_string()))?;
        let signed = sign(signable, &params).map_err(|error| strange(error.to_string()))?;
        let (instructions, _) = signed.into_parts();
        let mut builder = Request::builder().method(call.method).uri(&url);
        for (name, value) in &call.headers {
            builder = builder.header(*name, value);
        }
        for (name, value) in instructions.headers() {
            builder = builder.header(name, value);
        }
        let body = if call.body.is_empty() && call.method != "PUT" {
            SendBody::none()
        } else {
            builder = builder.header("content-length", call.body.len());
            SendBody::from_owned_reader(io::Cursor::new(call.body.to_vec()))
        };
        builder
            .body(body)
            .map_err(|error| strange(error.to_string()))
    }

    fn endpoint(&self) -> MutexGuard<'_, Endpoint> {
        match self.endpoint.lock() {
            Ok(endpoint) => endpoint,
            Err(poisoned) => poisoned.into_inner(),
        }
    }

    fn refused(&self, location: &Location, status: u16, said: response::ErrorDocument) -> S3Error {
        let (location, endpoint) = (Box::new(location.clone()), self.endpoint().name());
        let key = self.identity.credentials().map_or(String::new(), |who| {
            who.access_key_id().chars().take(8).collect::<String>() + "…"
        });
        let code = said.code.as_str();
        let wrong_keys = "check the access key and its secret";
        let no_right = "its owner needs s3:ListBucket on the bucket and s3:GetObject or s3:PutObject on its objects";
        match (status, code) {
            (404, "NoSuchBucket") => S3Error::NoBucket { location, endpoint },
            (404, _) => S3Error::NoObject { location },
            (412, _) => S3Error::Changed { location },
            (401 | 403, _) => S3Error::Denied {
                location,
                endpoint,
                key,
                way_out: match code {
                    "InvalidAccessKeyId" | "SignatureDoesNotMatch" => wrong_keys,
                    "ExpiredToken" | "RequestTimeTooSkewed" => "log in again, or set the clock",
                    _ => no_right,
                },
                code: said.code,
                message: said.message,
            },
            _ => S3Error::Refused {
                location,
                endpoint,
                status,
                code: said.code,
                message: said.message,
            },
        }
    }

    fn unreachable(&self, location: &Location, error: &dyn std::error::Error) -> S3Error {
        S3Error::Unreachable {
            location: Box::new(location.clone()),
            endpoint: self.endpoint().name(),
            reason: error.to_string(),
        }
    }

    fn strange(&self, location: &Location, reason: String) -> S3Error {
        S3Error::Strange {
            location: Box::new(location.clone()),
            endpoint: self.endpoint().name(),
            reason,
        }
    }
}

/// Why an object was not written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The store refused the request or could not be reached.
    #[error(transparent)]
    Store(#[from] S3Error),
    /// The content to be written cannot be read.
    #[error("read what is to be written")]
    Content(#[from] io::Error),
}

fn read_text(response: Response<ureq::Body>) -> Result<String, io::Error> {
    let mut text = String::new();
    let reader = response.into_body().into_reader();
    reader.take(LONGEST).read_to_string(&mut text)?;
    Ok(text)
}

/// The next bytes, exactly as many.
fn take(content: &mut dyn Read, count: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    content.take(count).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == count {
        Ok(bytes)
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}
