//! The way out: TLS with the system's certificates or those of a file, through a proxy or not.

use std::time::{Duration, SystemTime};

use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::tls::{Provider, TlsContext, TrustStore};
use aws_smithy_http_client::{Builder, Connector};
use aws_smithy_runtime_api::client::http::{HttpConnector as _, SharedHttpClient};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_types::DateTime;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::date_time::Format;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Limited};
use hyper::Request;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tokio::time::timeout;

use super::settings::AwsSettings;
use crate::cloud::CloudError;

/// The largest response that is read; stack events come in pages of far less.
const MAX_ANSWER: usize = 16 << 20;
/// Time for one try.
const TRY: Duration = Duration::from_secs(60);

/// Sends requests: over TLS through one proxy, in the clear (stand-ins on loopback) through another.
pub(super) struct Web {
    secure: Connector,
    plain: Connector,
}

/// A response, good or bad.
pub(super) struct WebResponse {
    pub status: u16,
    /// What the server's clock said.
    pub date: Option<SystemTime>,
    /// The header in which services of the JSON kinds name an error.
    pub error_type: Option<String>,
    pub body: Bytes,
}

/// No response.
pub(super) struct NoResponse {
    pub reason: String,
    /// No connection came about.
    pub connecting: bool,
}

impl Web {
    pub(super) fn new(settings: &AwsSettings) -> Result<Self, CloudError> {
        let proxy = |url: &Option<String>, secure: bool| proxy(url, secure, settings);
        let certificates = certificates(settings)?;
        Ok(Self {
            secure: connector(&certificates, proxy(&settings.https_proxy, true)?),
            plain: connector(&certificates, proxy(&settings.http_proxy, false)?),
        })
    }

    /// The client with which `aws-config` fetches credentials. It goes the same way; the metadata of a
    /// machine, which is not behind TLS, is never asked through a proxy.
    pub(super) fn for_credentials(settings: &AwsSettings) -> Result<SharedHttpClient, CloudError> {
        let certificates = certificates(settings)?;
        let proxy = proxy(&settings.https_proxy, true, settings)?;
        let builder = Builder::new();
        Ok(builder.build_with_connector_fn(move |_, _| connector(&certificates, proxy.clone())))
    }

    /// Sends one request and reads the response.
    pub(super) async fn send(&self, request: Request<Bytes>) -> Result<WebResponse, NoResponse> {
        let secure = request.uri().scheme_str() != Some("http");
        let connector = if secure { &self.secure } else { &self.plain };
        let request = HttpRequest::try_from(request.map(SdkBody::from))
            .map_err(|error| no_answer(chain(&error)))?;
        let conversation = async {
            let response = connector.call(request).await.map_err(|error| NoResponse {
                connecting: is_connecting(&error),
                reason: chain(&error),
            })?;
            let header = |name: &str| response.headers().get(name).map(str::to_owned);
            let (date, error_type) = (header("date"), header("x-amzn-errortype"));
            let status = response.status().as_u16();
            let body = Limited::new(response.into_body(), MAX_ANSWER).collect();
            let body = body.await.map_err(|error| no_answer(error.to_string()))?;
            Ok(WebResponse {
                status,
                date: date.as_deref().and_then(http_date),
                error_type,
                body: body.to_bytes(),
            })
        };
        timeout(TRY, conversation)
            .await
            .map_err(|_| no_answer("no response within a minute".to_owned()))?
    }
}

fn no_answer(reason: String) -> NoResponse {
    NoResponse {
        reason,
        connecting: false,
    }
}

/// Whether an error is about making the connection: no such host, refused, no route, no proxy.
fn is_connecting(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(client) = error.downcast_ref::<hyper_util::client::legacy::Error>() {
            return client.is_connect();
        }
        next = error.source();
    }
    false
}

fn http_date(text: &str) -> Option<SystemTime> {
    let date = DateTime::from_str(text, Format::HttpDate).ok()?;
    SystemTime::try_from(date).ok()
}

fn proxy(
    url: &Option<String>,
    secure: bool,
    settings: &AwsSettings,
) -> Result<ProxyConfig, CloudError> {
    let Some(url) = url else {
        return Ok(ProxyConfig::disabled());
    };
    let made = if secure {
        ProxyConfig::https(url.as_str())
    } else {
        ProxyConfig::http(url.as_str())
    };
    let name = if secure { "HTTPS_PROXY" } else { "HTTP_PROXY" };
    // The address may hold a password, so it is not repeated.
    let made = made.map_err(|_| {
        CloudError::Settings(format!(
            "{name} is not the address of a proxy; write one such as http://proxy:3128"
        ))
    })?;
    Ok(match &settings.no_proxy {
        Some(rules) => made.no_proxy(rules),
        None => made,
    })
}

fn certificates(settings: &AwsSettings) -> Result<TrustStore, CloudError> {
    let Some(path) = &settings.ca_bundle else {
        return Ok(TrustStore::default());
    };
    let bad = |reason: String| {
        CloudError::Settings(format!("AWS_CA_BUNDLE {}: {reason}", path.display()))
    };
    let pem = std::fs::read(path).map_err(|error| bad(error.to_string()))?;
    let mut count = 0;
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        certificate.map_err(|error| bad(error.to_string()))?;
        count += 1;
    }
    if count == 0 {
        return Err(bad("has no certificate in PEM".to_owned()));
    }
    Ok(TrustStore::empty().with_pem_certificate(pem))
}

fn connector(certificates: &TrustStore, proxy: ProxyConfig) -> Connector {
    let context = TlsContext::builder()
        .with_trust_store(certificates.clone())
        .build()
        .expect("a context is only a list of certificates");
    Connector::builder()
        .tls_provider(Provider::Rustls(CryptoMode::Ring))
        .tls_context(context)
        .proxy_config(proxy)
        .build()
}

/// An error with its causes, in one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_cannot_be_used_are_named() {
        let refused = |settings: AwsSettings| Web::new(&settings).err().unwrap().to_string();
        let text = refused(AwsSettings {
            https_proxy: Some("not a proxy secret".to_owned()),
            ..AwsSettings::default()
        });
        assert!(
            text.contains("HTTPS_PROXY") && !text.contains("secret"),
            "{text}"
        );
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("ca.pem");
        let with = |path: &std::path::Path| AwsSettings {
            ca_bundle: Some(path.to_owned()),
            ..AwsSettings::default()
        };
        assert!(refused(with(&file)).contains("ca.pem"));
        std::fs::write(&file, "nothing").unwrap();
        assert!(refused(with(&file)).contains("no certificate"));
    }

    #[test]
    fn dates_of_servers() {
        let date = http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let seconds = date.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(seconds.as_secs(), 784_111_777);
        assert_eq!(http_date("yesterday"), None);
    }
}
