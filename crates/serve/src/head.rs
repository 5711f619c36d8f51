//! Reads the head of an HTTP/1.1 request strictly: ambiguous heads are refused, because a proxy in front may interpret
//! them differently.

/// The longest head that is accepted, in bytes.
pub(crate) const LONGEST_HEAD: usize = 16 << 10;

/// The most header fields that are accepted.
const MOST_FIELDS: usize = 64;

/// The head of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestHead<'a> {
    /// What is to be done with the path.
    pub method: HttpMethod,
    /// The path, without a query.
    pub path: &'a str,
    /// The body that follows.
    pub body: BodyLength,
    /// Whether the connection is to be used again.
    pub keep: bool,
    /// The name by which the client reached this server.
    pub host: Option<&'a str>,
    /// The field `Authorization`.
    pub authorization: Option<&'a str>,
    /// The client sends the body only after `100 Continue`.
    pub waits: bool,
    /// Length of the head in bytes.
    pub length: usize,
}

/// The methods that are distinguished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpMethod {
    Get,
    /// HEAD: a response without its body.
    Head,
    Post,
    /// Any other.
    Other,
}

/// How long a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyLength {
    /// This many bytes.
    Known(u64),
    /// It comes in chunks, each with its length.
    Chunked,
}

/// Why a request cannot be read: the status, and the reason for a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed {
    /// Status of the response.
    pub status: u16,
    /// What is wrong.
    pub reason: &'static str,
}

fn wrong(reason: &'static str) -> Malformed {
    Malformed {
        status: 400,
        reason,
    }
}

/// The head at the beginning of these bytes; `None` if it is not complete.
pub(crate) fn head(bytes: &[u8]) -> Result<Option<RequestHead<'_>>, Malformed> {
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    let length = match request.parse(bytes) {
        Ok(httparse::Status::Complete(length)) if length <= LONGEST_HEAD => length,
        Ok(httparse::Status::Partial) if bytes.len() < LONGEST_HEAD => return Ok(None),
        Ok(_) => {
            return Err(Malformed {
                status: 431,
                reason: "the head of the request is longer than 16 KiB",
            });
        }
        Err(httparse::Error::TooManyHeaders) => {
            return Err(Malformed {
                status: 431,
                reason: "the request has more than 64 header fields",
            });
        }
        Err(_) => return Err(wrong("this is not a request of HTTP/1.1")),
    };
    let (Some(method), Some(target), Some(version)) =
        (request.method, request.path, request.version)
    else {
        return Err(wrong("this is not a request of HTTP/1.1"));
    };
    let mut head = RequestHead {
        method: match method {
            "GET" => HttpMethod::Get,
            "HEAD" => HttpMethod::Head,
            "POST" => HttpMethod::Post,
            _ => HttpMethod::Other,
        },
        path: path_of(target),
        body: BodyLength::Known(0),
        keep: version == 1,
        host: None,
        authorization: None,
        waits: false,
        length,
    };
    let mut framed = false;
    for field in request.headers.iter() {
        read_field(&mut head, &mut framed, version, field)?;
    }
    if version == 1 && head.host.is_none() {
        return Err(wrong("a request of HTTP/1.1 needs a field Host"));
    }
    Ok(Some(head))
}

fn read_field<'a>(
    head: &mut RequestHead<'a>,
    framed: &mut bool,
    version: u8,
    field: &httparse::Header<'a>,
) -> Result<(), Malformed> {
    let is = |name: &str| field.name.eq_ignore_ascii_case(name);
    let text = || {
        std::str::from_utf8(field.value)
            .map(str::trim)
            .map_err(|_| wrong("a header field is not text"))
    };
    // By length first: most fields of a request are none of these.
    match field.name.len() {
        4 if is("host") => {
            let another = head.host.replace(text()?);
            if another.is_some() {
                return Err(wrong("there are two fields Host"));
            }
        }
        6 if is("expect") => {
            if !text()?.eq_ignore_ascii_case("100-continue") {
                return Err(Malformed {
                    status: 417,
                    reason: "the only valid expectation is 100-continue",
                });
            }
            head.waits = version == 1;
        }
        10 if is("connection") => {
            for option in text()?.split(',').map(str::trim) {
                if option.eq_ignore_ascii_case("close") {
                    head.keep = false;
                } else if option.eq_ignore_ascii_case("keep-alive") && version == 0 {
                    head.keep = true;
                }
            }
        }
        13 if is("authorization") => head.authorization = Some(text()?),
        14 if is("content-length") => {
            let text = text()?;
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let length = text.parse().ok().filter(|_| digits);
            if std::mem::replace(framed, true) {
                return Err(wrong("the length of the body is given twice"));
            }
            head.body = BodyLength::Known(length.ok_or(wrong("Content-Length is not a number"))?);
        }
        17 if is("transfer-encoding") => {
            if std::mem::replace(framed, true) || version == 0 {
                return Err(wrong("the length of the body is given twice"));
            }
            if !text()?.eq_ignore_ascii_case("chunked") {
                return Err(Malformed {
                    status: 501,
                    reason: "the only transfer encoding is chunked",
                });
            }
            head.body = BodyLength::Chunked;
        }
        _ => {}
    }
    Ok(())
}

/// The path of a target: without a query, and without scheme and host, which a client may send for a proxy.
fn path_of(target: &str) -> &str {
    let path = match target.split_once("://") {
        Some((scheme, rest)) if scheme.bytes().all(|byte| byte.is_ascii_alphabetic()) => {
            rest.find('/').map_or("/", |at| &rest[at..])
        }
        _ => target,
    };
    path.split(['?', '#']).next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn status(text: &str) -> u16 {
        head(text.as_bytes()).unwrap_err().status
    }

    #[test]
    fn a_head_is_read_when_it_is_complete() {
        let text = "POST /predict?x=1 HTTP/1.1\r\nHost: localhost:7273\r\nContent-Length: 12\r\n\
            authorization: Bearer secret \r\nExpect: 100-continue\r\nAccept: */*\r\n\r\n{}";
        for length in 0..text.len() - 2 {
            assert_eq!(head(&text.as_bytes()[..length]), Ok(None), "{length}");
        }
        let head = head(text.as_bytes()).unwrap().unwrap();
        assert_eq!(
            head,
            RequestHead {
                method: HttpMethod::Post,
                path: "/predict",
                body: BodyLength::Known(12),
                keep: true,
                host: Some("localhost:7273"),
                authorization: Some("Bearer secret"),
                waits: true,
                length: text.len() - 2,
            }
        );
    }

    #[test]
    fn connections_are_kept_as_the_version_says() {
        let keep = |line: &str, fields: &str| {
            head(format!("GET {line}\r\nHost: a\r\n{fields}\r\n").as_bytes())
                .unwrap()
                .unwrap()
                .keep
        };
        assert!(keep("/ HTTP/1.1", ""));
        assert!(!keep("/ HTTP/1.1", "Connection: x, Close\r\n"));
        assert!(!keep("/ HTTP/1.0", ""));
        assert!(keep("/ HTTP/1.0", "Connection: keep-alive\r\n"));
    }

    #[test]
    fn targets_become_paths() {
        for (target, path) in [
            ("/", "/"),
            ("/model?a=/b", "/model"),
            ("http://localhost:80/model?x", "/model"),
            ("http://localhost", "/"),
            ("*", "*"),
        ] {
            assert_eq!(path_of(target), path, "{target}");
        }
    }

    #[test]
    fn what_is_ambiguous_or_endless_is_refused() {
        let post = |fields: &str| format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        for (text, want) in [
            (post("Content-Length: 1\r\nContent-Length: 1\r\n"), 400),
            (post("Content-Length: +1\r\n"), 400),
            (post("Content-Length: \r\n"), 400),
            (post("Content-Length: 99999999999999999999\r\n"), 400),
            (
                post("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"),
                400,
            ),
            (post("Transfer-Encoding: gzip, chunked\r\n"), 501),
            (post("Host: b\r\n"), 400),
            (post("Expect: more\r\n"), 417),
            (post(&"A: b\r\n".repeat(64)), 431),
            (post(&format!("A: {}\r\n", "b".repeat(16 << 10))), 431),
            ("POST / HTTP/1.1\r\n\r\n".to_owned(), 400),
            (
                "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(),
                400,
            ),
            ("POST / HTTP/2.0\r\nHost: a\r\n\r\n".to_owned(), 400),
            ("\u{0}\u{1} garbage\r\n\r\n".to_owned(), 400),
        ] {
            assert_eq!(status(&text), want, "{text:?}");
        }
        assert_eq!(head("A".repeat(20_000).as_bytes()).unwrap_err().status, 431);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = head(&bytes);
            let mut line = b"POST /predict HTTP/1.1\r\nHost: a\r\n".to_vec();
            line.extend(&bytes);
            let _ = head(&line);
        }
    }
}
