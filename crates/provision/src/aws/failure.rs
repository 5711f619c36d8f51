//! Reads the errors of every protocol, and clocks that differ.

use std::time::{Duration, SystemTime};

use roxmltree::Document;
use serde_json::Value;

use super::query::find;
use super::web::WebResponse;
use crate::cloud::CloudError;

/// Clocks that differ by more than this make AWS refuse signatures; it allows five minutes.
const MOST_SKEW: Duration = Duration::from_secs(4 * 60);

/// What a response with a bad status says.
pub(super) fn read(action: &str, answer: &WebResponse) -> CloudError {
    let body = String::from_utf8_lossy(&answer.body);
    let in_body = FailureBody::of(&body);
    let header = answer.error_type.as_deref().map(bare);
    let named = header.filter(|code| !code.is_empty());
    let named = named.unwrap_or(&in_body.code);
    let code = if named.is_empty() {
        unnamed(answer.status)
    } else {
        named.to_owned()
    };
    CloudError::Refused {
        action: action.to_owned(),
        status: answer.status,
        code,
        message: in_body.message,
    }
}

/// `com.amazonaws.kms#Throttling:http://…` is `Throttling`.
fn bare(name: &str) -> &str {
    let name = name.split(':').next().unwrap_or_default();
    name.rsplit('#').next().unwrap_or_default().trim()
}

/// What the body says; empty where it says nothing.
#[derive(Default)]
struct FailureBody {
    code: String,
    message: String,
}

impl FailureBody {
    /// Reads JSON or XML.
    fn of(body: &str) -> Self {
        if let Ok(value) = serde_json::from_str::<Value>(body) {
            let text = |keys: &[&str]| {
                let found = keys.iter().find_map(|key| value[*key].as_str());
                found.unwrap_or_default().to_owned()
            };
            return Self {
                code: bare(&text(&["__type", "code", "Code", "ErrorCode"])).to_owned(),
                message: text(&["message", "Message", "errorMessage"]),
            };
        }
        let Ok(document) = Document::parse(body) else {
            return Self::default();
        };
        let text = |name: &str| {
            let found = find(document.root_element(), name).and_then(|node| node.text());
            found.unwrap_or_default().trim().to_owned()
        };
        Self {
            code: text("Code"),
            message: text("Message"),
        }
    }
}

/// A code for a response that names none: from a proxy, or to a request without a body.
fn unnamed(status: u16) -> String {
    match status {
        403 => "AccessDenied".to_owned(),
        404 => "NotFound".to_owned(),
        429 => "TooManyRequests".to_owned(),
        other => format!("HTTP {other}"),
    }
}

/// By how many seconds the server's clock is ahead of ours, if that is why it refused.
pub(super) fn skew(error: &CloudError, date: Option<SystemTime>, now: SystemTime) -> Option<i64> {
    if !error.is_about_time() {
        return None;
    }
    let date = date?;
    let (ahead, difference) = match date.duration_since(now) {
        Ok(difference) => (1, difference),
        Err(error) => (-1, error.duration()),
    };
    if difference < MOST_SKEW {
        return None;
    }
    Some(ahead * i64::try_from(difference.as_secs()).unwrap_or(i64::MAX))
}

/// Our time, corrected by what [`skew`] found.
pub(super) fn corrected(now: SystemTime, skew: i64) -> SystemTime {
    let difference = Duration::from_secs(skew.unsigned_abs());
    let moved = if skew < 0 {
        now.checked_sub(difference)
    } else {
        now.checked_add(difference)
    };
    moved.unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(status: u16, header: Option<&str>, body: &str) -> CloudError {
        let answer = WebResponse {
            status,
            date: None,
            error_type: header.map(str::to_owned),
            body: body.to_owned().into(),
        };
        read("a", &answer)
    }

    #[test]
    fn errors_of_every_protocol() {
        let xml = r#"<ErrorResponse xmlns="x"><Error><Type>Sender</Type><Code>ValidationError</Code>
            <Message>Stack with id demo does not exist</Message></Error></ErrorResponse>"#;
        assert!(error(400, None, xml).is_missing());
        let ec2 = "<Response><Errors><Error><Code>UnauthorizedOperation</Code><Message>no</Message></Error></Errors></Response>";
        assert!(error(403, None, ec2).is_denied());
        let json = r#"{"__type":"com.amazonaws.kms#ThrottlingException","message":"slow down"}"#;
        assert!(error(400, None, json).is_temporary());
        assert!(error(503, None, "<html>oops").is_temporary());
        assert!(error(404, None, "").is_missing());
        let expired = "<Error><Code>ExpiredToken</Code><Message>old</Message></Error>";
        assert!(error(400, None, expired).is_expired());
    }

    /// A region that an account has not enabled does not know its credentials: signing in again did not help.
    #[test]
    fn a_region_that_is_not_enabled_is_thought_of() {
        for code in [
            "InvalidClientTokenId",
            "UnrecognizedClientException",
            "OptInRequired",
        ] {
            let advice = error(403, Some(code), "{}").advice();
            assert!(advice.contains("not enabled the region") && advice.contains("sign in again"));
        }
        let expired = error(403, Some("ExpiredTokenException"), "{}").advice();
        assert!(!expired.contains("region"), "{expired}");
    }

    /// EKS and EFS name the error in a header only; an expired token looked like a missing permission.
    #[test]
    fn the_header_names_the_error() {
        let body = r#"{"message":"The security token included in the request is expired"}"#;
        let url =
            "ExpiredTokenException:http://internal.amazon.com/coral/com.amazon.coral.service/";
        for header in [
            "ExpiredTokenException",
            url,
            "aws.auth#ExpiredTokenException",
        ] {
            let error = error(403, Some(header), body);
            assert!(error.is_expired() && !error.is_denied(), "{error:?}");
            assert!(
                error.advice().contains("sign in again"),
                "{}",
                error.advice()
            );
        }
        let server = error(500, Some("ServerException"), r#"{"message":"oops"}"#);
        assert!(server.is_temporary());
    }

    #[test]
    fn a_wrong_clock_is_seen_and_corrected() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let late = error(
            403,
            None,
            "<Error><Code>RequestTimeTooSkewed</Code></Error>",
        );
        let hour = Duration::from_secs(3600);
        assert_eq!(skew(&late, Some(now + hour), now), Some(3600));
        assert_eq!(skew(&late, Some(now - hour), now), Some(-3600));
        assert_eq!(corrected(now, -3600), now - hour);
        assert_eq!(corrected(now, 3600), now + hour);
        assert_eq!(skew(&late, Some(now + Duration::from_secs(30)), now), None);
        assert_eq!(skew(&late, None, now), None);
        let denied = error(403, None, "<Error><Code>AccessDenied</Code></Error>");
        assert_eq!(skew(&denied, Some(now + hour), now), None);
        assert!(late.advice().contains("clock"), "{}", late.advice());
        for (code, message) in [
            (
                "InvalidSignatureException",
                "Signature expired: 20260101T000000Z is now earlier than",
            ),
            ("SignatureDoesNotMatch", "Signature not yet current"),
            ("RequestExpired", "Request has expired."),
            (
                "AuthFailure",
                "AWS was not able to validate the provided access credentials",
            ),
        ] {
            let body = format!("<E><Code>{code}</Code><Message>{message}</Message></E>");
            let refused = error(400, None, &body);
            assert_eq!(skew(&refused, Some(now + hour), now), Some(3600), "{code}");
        }
    }
}
