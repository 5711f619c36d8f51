//! Downloads over HTTP, attempt after attempt.

use std::io::Read;
use std::thread;
use std::time::Duration;

use ureq::Agent;
use ureq::http::{HeaderMap, Response, StatusCode, header};

use super::partial::Partial;
use super::{Arrived, FetchError, Patience};

/// Brings the rest of the file; returns how many bytes had been there before.
///
/// Without a validator a part is only taken up if a checksum will tell whether old and new bytes fit (`checked`).
pub(super) fn download(
    url: &str,
    partial: &mut Partial,
    checked: bool,
    patience: Patience,
    progress: &dyn Fn(Arrived),
) -> Result<u64, FetchError> {
    let agent: Agent = Agent::config_builder()
        .http_status_as_error(false)
        .timeout_connect(Some(patience.silence))
        .timeout_recv_response(Some(patience.silence))
        .timeout_per_read(Some(patience.silence))
        .build()
        .into();
    if partial.validator().is_none() && !checked {
        partial.restart(None)?;
    }
    let had = partial.length();
    let (mut fruitless, mut best) = (0, had);
    loop {
        let broken = match attempt(&agent, url, partial, progress) {
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
fn pause(fruitless: u32, patience: Patience) -> Duration {
    patience.pause.saturating_mul(1 << (fruitless - 1).min(16))
}

/// Why an attempt ended.
enum Stop {
    /// Trying again is worth it.
    Broken(Broken),
    /// It is not.
    Final(FetchError),
}

struct Broken {
    cause: Box<dyn std::error::Error + Send + Sync>,
    /// The wait that the server asked for.
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
    let total = match interpret(&response, partial.length()) {
        Answer::Whole { total } => {
            partial.restart(validator(response.headers()))?;
            total
        }
        Answer::Rest { total } => total,
        Answer::Complete => return Ok(()),
        Answer::Unusable => {
            partial.restart(None)?;
            return Err(broken(
                "the server answered with another part of the file than asked for",
            ));
        }
        Answer::Later { wait } => {
            let cause = format!("the server answered {}", response.status()).into();
            return Err(Stop::Broken(Broken { cause, wait }));
        }
        Answer::No => {
            return Err(Stop::Final(FetchError::Status {
                url: url.to_owned(),
                status: response.status().as_u16(),
            }));
        }
    };
    receive(response, partial, total, progress)
}

/// Writes what comes until the end.
fn receive(
    response: Response<ureq::Body>,
    partial: &mut Partial,
    total: Option<u64>,
    progress: &dyn Fn(Arrived),
) -> Result<(), Stop> {
    let mut body = response.into_body().into_reader();
    let mut piece = vec![0; 1 << 18];
    loop {
        let read = body.read(&mut piece).map_err(broken)?;
        if read == 0 {
            break;
        }
        partial.append(&piece[..read])?;
        progress(Arrived {
            bytes: partial.length(),
            total,
        });
    }
    match total {
        Some(total) if total != partial.length() => Err(broken(format!(
            "the connection ended after {} of {total} bytes",
            partial.length()
        ))),
        _ => Ok(()),
    }
}

/// What an answer means for someone who has some bytes already.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    /// The file from its start.
    Whole { total: Option<u64> },
    /// The missing bytes.
    Rest { total: Option<u64> },
    /// Nothing is missing.
    Complete,
    /// A range that does not fit.
    Unusable,
    /// Not now.
    Later { wait: Option<Duration> },
    /// Never.
    No,
}

fn interpret<B>(response: &Response<B>, have: u64) -> Answer {
    let headers = response.headers();
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    match response.status() {
        StatusCode::OK => Answer::Whole {
            total: text(header::CONTENT_LENGTH).and_then(|length| length.parse().ok()),
        },
        StatusCode::PARTIAL_CONTENT => {
            match text(header::CONTENT_RANGE).and_then(parse_content_range) {
                Some((Some(start), total)) if start == have => Answer::Rest { total },
                _ => Answer::Unusable,
            }
        }
        StatusCode::RANGE_NOT_SATISFIABLE => {
            match text(header::CONTENT_RANGE).and_then(parse_content_range) {
                Some((None, Some(total))) if total == have => Answer::Complete,
                _ => Answer::Unusable,
            }
        }
        status
            if status == StatusCode::TOO_MANY_REQUESTS
                || status == StatusCode::REQUEST_TIMEOUT
                || status.is_server_error() =>
        {
            let seconds = text(header::RETRY_AFTER).and_then(|seconds| seconds.parse().ok());
            Answer::Later {
                wait: seconds.map(Duration::from_secs),
            }
        }
        _ => Answer::No,
    }
}

/// `bytes 5-9/10`, `bytes 5-9/*` or `bytes */10`: the start and the total, where stated.
fn parse_content_range(text: &str) -> Option<(Option<u64>, Option<u64>)> {
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
    Some((start, total))
}

/// A name of this version that `If-Range` accepts: a strong entity tag, or else the date.
fn validator(headers: &HeaderMap) -> Option<String> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    text(header::ETAG)
        .filter(|tag| !tag.starts_with("W/"))
        .or_else(|| text(header::LAST_MODIFIED))
        .map(str::to_owned)
}

/// Failures of the network may pass; a wrong address or certificate does not.
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
        assert_eq!(
            parse_content_range("bytes 5-9/10"),
            Some((Some(5), Some(10)))
        );
        assert_eq!(parse_content_range("bytes 5-9/*"), Some((Some(5), None)));
        assert_eq!(parse_content_range("bytes */10"), Some((None, Some(10))));
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
    fn answers_are_understood() {
        let answer = |status: u16, headers: &[(&str, &str)], have: u64| {
            let mut builder = Response::builder().status(status);
            for (name, value) in headers {
                builder = builder.header(*name, *value);
            }
            interpret(&builder.body(()).unwrap(), have)
        };
        assert_eq!(
            answer(200, &[("content-length", "7")], 3),
            Answer::Whole { total: Some(7) }
        );
        assert_eq!(
            answer(206, &[("content-range", "bytes 3-6/7")], 3),
            Answer::Rest { total: Some(7) }
        );
        assert_eq!(
            answer(206, &[("content-range", "bytes 0-6/7")], 3),
            Answer::Unusable
        );
        assert_eq!(answer(206, &[], 3), Answer::Unusable);
        assert_eq!(
            answer(416, &[("content-range", "bytes */7")], 7),
            Answer::Complete
        );
        assert_eq!(
            answer(416, &[("content-range", "bytes */7")], 9),
            Answer::Unusable
        );
        assert_eq!(
            answer(503, &[("retry-after", "2")], 0),
            Answer::Later {
                wait: Some(Duration::from_secs(2))
            }
        );
        assert_eq!(answer(429, &[], 0), Answer::Later { wait: None });
        assert_eq!(answer(404, &[], 0), Answer::No);
        assert_eq!(answer(403, &[], 5), Answer::No);
    }

    #[test]
    fn pauses_double() {
        let patience = Patience {
            pause: Duration::from_millis(10),
            ..Patience::default()
        };
        assert_eq!(pause(1, patience), Duration::from_millis(10));
        assert_eq!(pause(4, patience), Duration::from_millis(80));
    }
}
