//! A response as bytes.

/// Only what the page itself contains is loaded or run.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; \
    connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'";

/// Type of a JSON response.
pub(crate) const JSON: &str = "application/json";

/// The fields of a response's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReplyHead<'a> {
    /// Status code.
    pub status: u16,
    /// Content type.
    pub kind: &'static str,
    /// The connection can be used again.
    pub keep: bool,
    /// The request was HEAD: the body is left out.
    pub bodiless: bool,
    /// The time, in the form that HTTP wants.
    pub date: &'a str,
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        413 => "Content Too Large",
        417 => "Expectation Failed",
        422 => "Unprocessable Content",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        _ => "Other",
    }
}

/// Appends a response.
pub(crate) fn write_reply(
    out: &mut Vec<u8>,
    head: ReplyHead<'_>,
    allow: Option<&str>,
    body: &[u8],
) {
    let mut put = |texts: &[&str]| {
        for text in texts {
            out.extend_from_slice(text.as_bytes());
        }
    };
    put(&["HTTP/1.1 "]);
    number(head.status.into(), &mut put);
    put(&[" ", reason(head.status), "\r\ncontent-type: ", head.kind]);
    put(&["\r\ncontent-length: "]);
    number(body.len() as u64, &mut put);
    put(&["\r\ndate: ", head.date, "\r\ncontent-security-policy: "]);
    put(&[POLICY]);
    put(&["\r\nx-content-type-options: nosniff\r\nx-frame-options: DENY\r\n"]);
    if head.status == 503 {
        put(&["retry-after: 1\r\n"]);
    }
    if head.status == 401 {
        put(&["www-authenticate: Bearer\r\n"]);
    }
    if let Some(methods) = allow {
        put(&["allow: ", methods, "\r\n"]);
    }
    if !head.keep {
        put(&["connection: close\r\n"]);
    }
    put(&["\r\n"]);
    if !head.bodiless {
        out.extend_from_slice(body);
    }
}

fn number(value: u64, put: &mut impl FnMut(&[&str])) {
    put(&[itoa::Buffer::new().format(value)]);
}

/// The body of a refusal.
pub(crate) fn error_body(text: &str) -> Vec<u8> {
    serde_json::json!({ "error": text })
        .to_string()
        .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_has_its_length_and_says_whether_the_connection_stays() {
        let head = ReplyHead {
            status: 503,
            kind: JSON,
            keep: false,
            bodiless: false,
            date: "now",
        };
        let mut out = Vec::new();
        write_reply(&mut out, head, None, b"{}");
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("HTTP/1.1 503 Service Unavailable\r\n"));
        assert!(text.ends_with("\r\nretry-after: 1\r\nconnection: close\r\n\r\n{}"));
        assert!(text.contains("\r\ncontent-length: 2\r\n"));
        let mut out = Vec::new();
        let keep = ReplyHead {
            status: 405,
            keep: true,
            bodiless: true,
            ..head
        };
        write_reply(&mut out, keep, Some("POST"), b"{}");
        let text = String::from_utf8(out).unwrap();
        assert!(text.ends_with("\r\nallow: POST\r\n\r\n"), "{text}");
        assert!(text.contains("\r\ncontent-length: 2\r\n"));
    }
}
