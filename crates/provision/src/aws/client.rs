//! Signs a request, sends it, tries again when that can help, and reads errors.

use std::time::{Duration, SystemTime};

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::provider::ProvideCredentials as _;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use aws_types::service_config::ServiceConfigKey;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{Method, Request};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::time::{sleep, timeout};

use crate::cloud::CloudError;

/// The largest answer that is read; stack events come in pages of far less.
const MAX_ANSWER: usize = 16 << 20;
/// Time for one try.
const TRY: Duration = Duration::from_secs(60);
/// Tries before giving up on something temporary.
const TRIES: u32 = 6;
/// Tries when not even a connection comes about: a wrong region or address stays wrong.
const CONNECT_TRIES: u32 = 3;

/// A signed-request client for one region.
pub struct Aws {
    http: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    config: SdkConfig,
    region: String,
    first_pause: Duration,
}

/// A request before it is signed.
pub(super) struct Call<'a> {
    /// Such as `cloudformation:DescribeStacks`, for messages.
    pub action: &'a str,
    /// Signing name, which is also the host's first label.
    pub service: &'a str,
    /// Method.
    pub method: Method,
    /// Path and query, percent-encoded.
    pub path: String,
    /// Headers beside the standard ones.
    pub headers: Vec<(&'static str, String)>,
    /// Body.
    pub body: Vec<u8>,
}

/// An answer with a good status.
pub(super) struct Reply {
    pub body: Bytes,
}

impl Aws {
    /// Loads credentials and endpoint as every AWS tool does: environment, profile, SSO, role, metadata.
    pub async fn connect(region: &str) -> Result<Self, CloudError> {
        let tls = aws_smithy_http_client::tls::Provider::Rustls(
            aws_smithy_http_client::tls::rustls_provider::CryptoMode::Ring,
        );
        let client = aws_smithy_http_client::Builder::new()
            .tls_provider(tls)
            .build_https();
        let config = aws_config::defaults(BehaviorVersion::latest())
            .region(Region::new(region.to_owned()))
            .http_client(client)
            .load()
            .await;
        let http = Client::builder(TokioExecutor::new()).build(connector()?);
        Ok(Self {
            http,
            config,
            region: region.to_owned(),
            first_pause: Duration::from_millis(300),
        })
    }

    /// The region that requests go to.
    pub fn region(&self) -> &str {
        &self.region
    }

    /// Current credentials.
    pub(super) async fn credentials(&self) -> Result<Credentials, CloudError> {
        let Some(provider) = self.config.credentials_provider() else {
            return Err(CloudError::Credentials(
                "no source of credentials is configured".to_owned(),
            ));
        };
        provider
            .provide_credentials()
            .await
            .map_err(|error| CloudError::Credentials(chain(&error)))
    }

    /// `AWS_ENDPOINT_URL_EKS` and the like (or the profile's `services`), else `AWS_ENDPOINT_URL`.
    fn given_endpoint(&self, service: &str) -> Option<String> {
        let key = ServiceConfigKey::builder()
            .service_id(service_id(service))
            .env("AWS_ENDPOINT_URL")
            .profile("endpoint_url")
            .build()
            .ok()?;
        let own = self
            .config
            .service_config()
            .and_then(|load| load.load_config(key));
        own.or_else(|| self.config.endpoint_url().map(str::to_owned))
    }

    /// Where a service is reached.
    pub(super) fn endpoint(&self, service: &str) -> String {
        if let Some(url) = self.given_endpoint(service) {
            return url.trim_end_matches('/').to_owned();
        }
        let suffix = if self.region.starts_with("cn-") {
            "amazonaws.com.cn"
        } else {
            "amazonaws.com"
        };
        match service {
            "iam" | "route53" => format!("https://{service}.{suffix}"),
            other => format!("https://{other}.{}.{suffix}", self.region),
        }
    }

    /// The region that a service's requests are signed for.
    fn signing_region(&self, service: &str) -> &str {
        if ["iam", "route53"].contains(&service) {
            "us-east-1"
        } else {
            &self.region
        }
    }

    /// Sends a call, again and again while that may help.
    pub(super) async fn send(&self, call: Call<'_>) -> Result<Reply, CloudError> {
        let mut pause = self.first_pause;
        for attempt in 1.. {
            match self.send_once(&call).await {
                Err(error) if error.is_temporary() && attempt < tries(&error) => {
                    // Jitter by the clock's low digits: enough to keep two clients apart.
                    let low = SystemTime::now()
                        .duration_since(SystemTime::UNIX_EPOCH)
                        .map_or(0, |d| d.subsec_nanos());
                    sleep(pause + pause.mul_f64(f64::from(low % 1000) / 1000.0)).await;
                    pause *= 2;
                }
                other => return other,
            }
        }
        unreachable!("the loop returns at the last attempt")
    }

    async fn send_once(&self, call: &Call<'_>) -> Result<Reply, CloudError> {
        let endpoint = self.endpoint(call.service);
        let unreachable = |reason: String, connecting: bool| CloudError::Unreachable {
            action: call.action.to_owned(),
            endpoint: endpoint.clone(),
            reason,
            connecting,
        };
        let request = self.signed(call, &endpoint).await?;
        let answer = async {
            let response = self
                .http
                .request(request)
                .await
                .map_err(|error| unreachable(chain(&error), error.is_connect()))?;
            let status = response.status();
            let body = Limited::new(response.into_body(), MAX_ANSWER);
            let bytes = body
                .collect()
                .await
                .map_err(|error| unreachable(error.to_string(), false))?
                .to_bytes();
            Ok((status, bytes))
        };
        let (status, body) = timeout(TRY, answer)
            .await
            .map_err(|_| unreachable("no answer within a minute".to_owned(), false))??;
        if status.is_success() {
            return Ok(Reply { body });
        }
        Err(super::query::error(call.action, status.as_u16(), &body))
    }

    async fn signed(
        &self,
        call: &Call<'_>,
        endpoint: &str,
    ) -> Result<Request<Full<Bytes>>, CloudError> {
        let unreadable = |reason: String| CloudError::Unreadable {
            action: call.action.to_owned(),
            reason,
        };
        let uri = format!("{endpoint}{}", call.path);
        let identity = self.credentials().await?.into();
        let mut settings = SigningSettings::default();
        if call.service == "s3" {
            settings.percent_encoding_mode = aws_sigv4::http_request::PercentEncodingMode::Single;
            settings.payload_checksum_kind =
                aws_sigv4::http_request::PayloadChecksumKind::XAmzSha256;
        }
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region(self.signing_region(call.service))
            .name(call.service)
            .time(SystemTime::now())
            .settings(settings)
            .build()
            .map_err(|error| unreadable(error.to_string()))?
            .into();
        let headers = call
            .headers
            .iter()
            .map(|(name, value)| (*name, value.as_str()));
        let signable = SignableRequest::new(
            call.method.as_str(),
            &uri,
            headers,
            SignableBody::Bytes(&call.body),
        )
        .map_err(|error| unreadable(error.to_string()))?;
        let (instructions, _) = sign(signable, &params)
            .map_err(|error| unreadable(error.to_string()))?
            .into_parts();
        let mut builder = Request::builder().method(call.method.clone()).uri(&uri);
        for (name, value) in &call.headers {
            builder = builder.header(*name, value);
        }
        let body = Full::new(Bytes::from(call.body.clone()));
        let mut request = builder
            .body(body)
            .map_err(|error| unreadable(error.to_string()))?;
        instructions.apply_to_request_http1x(&mut request);
        Ok(request)
    }
}

fn tries(error: &CloudError) -> u32 {
    match error {
        CloudError::Unreachable {
            connecting: true, ..
        } => CONNECT_TRIES,
        _ => TRIES,
    }
}

/// The name by which AWS tools know a service's own settings, of its signing name.
fn service_id(service: &str) -> &str {
    match service {
        "elasticfilesystem" => "EFS",
        "elasticloadbalancing" => "Elastic Load Balancing v2",
        "logs" => "CloudWatch Logs",
        "servicequotas" => "Service Quotas",
        "tagging" => "Resource Groups Tagging API",
        "route53" => "Route 53",
        other => other,
    }
}

/// TLS by rustls with the system's certificates; plain HTTP is for `AWS_ENDPOINT_URL` on loopback.
pub(super) fn connector() -> Result<HttpsConnector<HttpConnector>, CloudError> {
    Ok(hyper_rustls::HttpsConnectorBuilder::new()
        .with_provider_and_native_roots(rustls::crypto::ring::default_provider())
        .map_err(|error| CloudError::Credentials(format!("no system certificates: {error}")))?
        .https_or_http()
        .enable_http1()
        .build())
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
