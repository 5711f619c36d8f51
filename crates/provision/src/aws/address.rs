//! The caller's own public address, so that `init` can let in nobody else.

use std::net::Ipv4Addr;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::time::{Duration, timeout};

use super::client::{chain, connector};
use crate::cloud::CloudError;

/// A page of AWS that answers with the address of whoever asks.
const PAGE: &str = "https://checkip.amazonaws.com/";

/// Asks AWS which address we come from.
pub async fn own_address() -> Result<Ipv4Addr, CloudError> {
    let failed = |reason: String| CloudError::Unreachable {
        action: "own address".to_owned(),
        endpoint: PAGE.to_owned(),
        reason,
        connecting: false,
    };
    let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new()).build(connector()?);
    let uri = PAGE
        .parse()
        .map_err(|_| failed("the address of the page is wrong".to_owned()))?;
    let answer = async {
        let response = client
            .get(uri)
            .await
            .map_err(|error| failed(chain(&error)))?;
        let body = Limited::new(response.into_body(), 100).collect().await;
        Ok(body.map_err(|error| failed(error.to_string()))?.to_bytes())
    };
    let bytes = timeout(Duration::from_secs(5), answer)
        .await
        .map_err(|_| failed("no answer in 5 s".to_owned()))??;
    let text = String::from_utf8_lossy(&bytes);
    text.trim()
        .parse()
        .map_err(|_| failed(format!("{:?} is not an IPv4 address", text.trim())))
}
