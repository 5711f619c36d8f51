//! Downloads over HTTP, with several attempts.

use std::io::Read;
use std::thread;
use std::time::Duration;

use ureq::Agent;
use ureq::http::{HeaderMap, Response, StatusCode, header};

use super::partial::Partial;
use super::{Arrived, FetchError, FetchPatience};

fn agent(patience: FetchPatience) -> Agent {
    Agent::config_builder()
        .http_status_as_error(false)
        .timeout_connect(Some(patience.silence))
        .timeout_recv_response(Some(patience.silence))
        .timeout_per_read(Some(patience.silence))
        .build()
        .into()
}

/// The size of a file at an address; `None` if its server does not say, or cannot be reached.
pub(super) fn size(url: &str, patience: FetchPatience) -> Option<u64> {
    let response = agent(patience).head(url).call().ok()?;
    let length = response.headers().get(header::CONTENT_LENGTH)?;
    let plain = !response.headers().contains_key(header::CONTENT_ENCODING);
    (response.status() == StatusCode::OK && plain)
        .then(|| length.to_str().ok()?.parse().ok())
        .flatten()
}

/// Downloads the rest of the file; returns the number of bytes that existed before.
///
/// Without a validator, a partial download is continued only if a checksum will show whether old and new bytes belong
/// to the same version (`checked`).
pub(super) fn download(
    url: &str,
    largest: u64,
    partial: &mut Partial,
    checked: bool,
    patience: FetchPatience,
    progress: &dyn Fn(Arrived),
) -> Result<u64, FetchError> {
    let agent = agent(patience);
    if partial.validator().is_none() && !checked {
        partial.restart(None)?;
    }
    let had = partial.length();
    let (mut fruitless, mut best) = (0, had);
    loop {
        let broken = match attempt(&agent, url, largest, partial, progress) {
            Ok(()) => return Ok(had),
            Err(Stop::Final(error)) => return Err(error),
            Err(Stop::Broken(broken)) => broken,
        };
        fruitless = if partial.length() > best {
            1
        } else {
            fruitless + 1
        };
        best = best.max(partial.length());
        if fruitless >= patience.attempts {
            return Err(FetchError::GaveUp {
                url: url.to_owned(),
                attempts: fruitless,
                bytes: partial.length(),
                source: broken.cause,
            });
        }
        thread::sleep(
            broken
                .wait
                .unwrap_or_else(|| pause(fruitless, patience))
                .min(patience.longest_pause),
        );
    }
}

/// The wait after the `fruitless`th attempt without progress (from 1).
fn pause(fruitless: u32, patience: FetchPatience) -> Duration {
    patience.pause.saturating_mul(1 << (fruitless - 1).min(16))
}

/// Why an attempt ended.
enum Stop {
    /// Another attempt may succeed.
    Broken(Broken),
    /// Another attempt cannot succeed.
    Final(FetchError),
}

struct Broken {
    cause: Box<dyn std::error::Error + Send + Sync>,
    /// The wait that the server requested.
    wait: Option<Duration>,
}

impl From<FetchError> for Stop {
    fn from(error: FetchError) -> Self {
        Self::Final(error)
    }
}

fn broken(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Stop {
    Stop::Broken(Broken {
        cause: cause.into(),
        wait: None,
    })
}

fn attempt(
    agent: &Agent,
    url: &str,
    largest: u64,
    partial: &mut Partial,
    progress: &dyn Fn(Arrived),
) -> Result<(), Stop> {
    let mut request = agent.get(url);
    if partial.length() > 0 {
        request = request.header(header::RANGE, format!("bytes={}-", partial.length()));
        if let Some(validator) = partial.validator() {
            request = request.header(header::IF_RANGE, validator);
        }
    }
    let response = request.call().map_err(|error| classify(error, url))?;
    let (have, version) = (partial.length(), partial.validator());
    let total = match interpret(&response, have, version) {
        ResponseMeaning::Whole { total } => {
            partial.restart(validator(response.headers()))?;
            total
        }
        ResponseMeaning::Rest { total } => total,
        ResponseMeaning::Changed => {
            partial.restart(None)?;
            return Err(broken("the file at the source has changed"));
        }
        ResponseMeaning::Complete => return Ok(()),
        ResponseMeaning::Unusable => {
            partial.restart(None)?;
            return Err(broken(
                "the server sent a different part of the file than requested",
            ));
        }
        ResponseMeaning::Later { wait } => {
            let cause = format!("the server replied with {}", response.status()).into();
            return Err(Stop::Broken(Broken { cause, wait }));
        }
        ResponseMeaning::No => {
            return Err(Stop::Final(FetchError::Status {
                url: url.to_owned(),
                status: response.status().as_u16(),
            }));
        }
    };
    receive(response, partial, total, largest, progress)
}

/// Writes the received bytes until the end of the response.
fn receive(
    response: Response<ureq::Body>,
    partial: &mut Partial,
    total: Option<u64>,
    largest: u64,
    progress: &dyn Fn(Arrived),
) -> Result<(), Stop> {
    let too_large = |bytes: u64| {
        Err(Stop::Final(FetchError::TooLarge {
            bytes,
            limit: largest,
        }))
    };
    if let Some(total) = total.filter(|total| *total > largest) {
        return too_large(total);
    }
    let mut body = response.into_body().into_reader();
    let mut piece = vec![0; 1 << 18];
    loop {
        let read = body.read(&mut piece).map_err(broken)?;
        if read == 0 {
            break;
        }
        if partial.length() + read as u64 > largest {
            return too_large(partial.length() + read as u64);
        }
        partial.append(&piece[..read])?;
        progress(Arrived {
            bytes: partial.length(),
            total,
        });
    }
    match total {
        Some(total) if total != partial.length() => Err(broken(format!(
            "the connection was closed after {} of {total} bytes",
            partial.length()
        ))),
        _ => Ok(()),
    }
}

/// What a response means for a download of which some bytes have arrived already.
#[derive(Debug, PartialEq, Eq)]
enum ResponseMeaning {
    /// The file from its start.
    Whole { total: Option<u64> },
    /// The missing bytes.
    Rest { total: Option<u64> },
    /// Nothing is missing.
    Complete,
    /// A range that does not fit.
    Unusable,
    /// The missing bytes of another version of the file.
    Changed,
    /// The server is busy; try again after `wait`.
    Later { wait: Option<Duration> },
    /// The file is not available at this URL.
    No,
}

/// `version`: the server's name for the version of which `have` bytes have arrived.
fn interpret<B>(response: &Response<B>, have: u64, version: Option<&str>) -> ResponseMeaning {
    let headers = response.headers();
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    match response.status() {
        StatusCode::OK => ResponseMeaning::Whole {
            total: text(header::CONTENT_LENGTH).and_then(|length| length.parse().ok()),
        },
        StatusCode::PARTIAL_CONTENT => {
            match text(header::CONTENT_RANGE).and_then(parse_content_range) {
                // A server that ignores If-Range, or a cache in between, may send the rest of another version.
                Some(_) if is_other(version, headers) => ResponseMeaning::Changed,
                Some(range) if range.start == Some(have) => {
                    ResponseMeaning::Rest { total: range.total }
                }
                _ => ResponseMeaning::Unusable,
            }
        }
        StatusCode::RANGE_NOT_SATISFIABLE => {
            match text(header::CONTENT_RANGE).and_then(parse_content_range) {
                Some(ContentRange { start: None, total }) if total == Some(have) => {
                    ResponseMeaning::Complete
                }
                _ => ResponseMeaning::Unusable,
            }
        }
        status
            if status == StatusCode::TOO_MANY_REQUESTS
                || status == StatusCode::REQUEST_TIMEOUT
                || status.is_server_error() =>
        {
            let seconds = text(header::RETRY_AFTER).and_then(|seconds| seconds.parse().ok());
            ResponseMeaning::Later {
                wait: seconds.map(Duration::from_secs),
            }
        }
        _ => ResponseMeaning::No,
    }
}

/// What `Content-Range` states.
#[derive(Debug, PartialEq)]
struct ContentRange {
    start: Option<u64>,
    total: Option<u64>,
}

/// `bytes 5-9/10`, `bytes 5-9/*` or `bytes */10`.
fn parse_content_range(text: &str) -> Option<ContentRange> {
    let (range, total) = text
        .trim()
        .strip_prefix("bytes")?
        .trim_start()
        .split_once('/')?;
    let start = match range {
        "*" => None,
        range => Some(range.split_once('-')?.0.trim().parse().ok()?),
    };
    let total = match total {
        "*" => None,
        total => Some(total.parse().ok()?),
    };
    Some(ContentRange { start, total })
}

/// Whether a response names another version than the one of which a part has arrived.
fn is_other(version: Option<&str>, headers: &HeaderMap) -> bool {
    let Some(version) = version else {
        return false;
    };
    let names = [header::ETAG, header::LAST_MODIFIED];
    let told: Vec<&str> = names
        .iter()
        .filter_map(|name| headers.get(name)?.to_str().ok())
        .collect();
    !told.is_empty() && !told.contains(&version)
}

/// A name of this version that `If-Range` accepts: a strong entity tag, otherwise the date.
fn validator(headers: &HeaderMap) -> Option<String> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    text(header::ETAG)
        .filter(|tag| !tag.starts_with("W/"))
        .or_else(|| text(header::LAST_MODIFIED))
        .map(str::to_owned)
}

/// Network failures may be temporary; a wrong URL or certificate is not.
fn classify(error: ureq::Error, url: &str) -> Stop {
    match error {
        ureq::Error::Io(_)
        | ureq::Error::Timeout(_)
        | ureq::Error::HostNotFound
        | ureq::Error::ConnectionFailed
        | ureq::Error::Protocol(_) => broken(error),
        error => Stop::Final(FetchError::Request {
            url: url.to_owned(),
            source: Box::new(error),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_ranges_are_read() {
        let range = |start, total| Some(ContentRange { start, total });
        let parse = parse_content_range;
        assert_eq!(parse("bytes 5-9/10"), range(Some(5), Some(10)));
        assert_eq!(parse("bytes 5-9/*"), range(Some(5), None));
        assert_eq!(parse("bytes */10"), range(None, Some(10)));
        for wrong in [
            "",
            "bytes",
            "bytes 5-9",
            "items 5-9/10",
            "bytes x-9/10",
            "bytes 5-9/y",
        ] {
            assert_eq!(parse_content_range(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn responses_are_understood() {
        let answer = |status: u16, headers: &[(&str, &str)], have: u64| {
            let mut builder = Response::builder().status(status);
            for (name, value) in headers {
                builder = builder.header(*name, *value);
            }
            interpret(&builder.body(()).unwrap(), have, Some("\"v1\""))
        };
        let range = ("content-range", "bytes 3-6/7");
        for (tag, wanted) in [
            ("\"v1\"", ResponseMeaning::Rest { total: Some(7) }),
            ("\"v2\"", ResponseMeaning::Changed),
            ("W/\"v1\"", ResponseMeaning::Changed),
        ] {
            assert_eq!(answer(206, &[range, ("etag", tag)], 3), wanted, "{tag}");
        }
        assert_eq!(
            answer(200, &[("content-length", "7")], 3),
            ResponseMeaning::Whole { total: Some(7) }
        );
        assert_eq!(
            answer(206, &[("content-range", "bytes 3-6/7")], 3),
            ResponseMeaning::Rest { total: Some(7) }
        );
        assert_eq!(
            answer(206, &[("content-range", "bytes 0-6/7")], 3),
            ResponseMeaning::Unusable
        );
        assert_eq!(answer(206, &[], 3), ResponseMeaning::Unusable);
        assert_eq!(
            answer(416, &[("content-range", "bytes */7")], 7),
            ResponseMeaning::Complete
        );
        assert_eq!(
            answer(416, &[("content-range", "bytes */7")], 9),
            ResponseMeaning::Unusable
        );
        assert_eq!(
            answer(503, &[("retry-after", "2")], 0),
            ResponseMeaning::Later {
                wait: Some(Duration::from_secs(2))
            }
        );
        assert_eq!(answer(429, &[], 0), ResponseMeaning::Later { wait: None });
        assert_eq!(answer(404, &[], 0), ResponseMeaning::No);
        assert_eq!(answer(403, &[], 5), ResponseMeaning::No);
    }

    #[test]
    fn pauses_double() {
        let patience = FetchPatience {
            pause: Duration::from_millis(10),
            ..FetchPatience::default()
        };
        assert_eq!(pause(1, patience), Duration::from_millis(10));
        assert_eq!(pause(4, patience), Duration::from_millis(80));
    }
}
