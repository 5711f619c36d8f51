//! The caller's own public address, so that `init` can let in nobody else.

use std::net::Ipv4Addr;

use bytes::Bytes;
use hyper::Request;
use tokio::time::{Duration, timeout};

use super::settings::AwsSettings;
use super::web::Web;
use crate::cloud::CloudError;

/// A page of AWS that returns the address of whoever asks.
const PAGE: &str = "https://checkip.amazonaws.com/";

/// Asks AWS which address we come from.
pub async fn own_address(settings: &AwsSettings) -> Result<Ipv4Addr, CloudError> {
    let failed = |reason: String| CloudError::Unreachable {
        action: "the page of AWS that says it".to_owned(),
        endpoint: PAGE.to_owned(),
        reason,
        connecting: false,
    };
    let web = Web::new(settings)?;
    let request = Request::get(PAGE)
        .body(Bytes::new())
        .map_err(|error| failed(error.to_string()))?;
    let answer = timeout(Duration::from_secs(5), web.send(request))
        .await
        .map_err(|_| failed("no response within 5 s".to_owned()))?
        .map_err(|no_answer| failed(no_answer.reason))?;
    let text = String::from_utf8_lossy(&answer.body);
    let text: String = text.trim().chars().take(100).collect();
    text.parse()
        .map_err(|_| failed(format!("{text:?} is not an IPv4 address")))
}
