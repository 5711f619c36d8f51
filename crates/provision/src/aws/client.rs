//! Signs a request, sends it, and tries again when that can help.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::SystemTime;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SigningSettings, sign,
};
use aws_sigv4::sign::v4;
use aws_types::service_config::ServiceConfigKey;
use bytes::Bytes;
use hyper::{Method, Request};
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::time::sleep;

use super::endpoint::{self, HostKind};
use super::failure::{self, corrected, skew};
use super::identity::AwsIdentity;
use super::retry::{Budget, may_try, pause};
use super::settings::AwsSettings;
use super::web::{NoResponse, Web};
use crate::cloud::CloudError;

/// A signed-request client for one region.
pub struct Aws {
    web: Web,
    config: SdkConfig,
    region: String,
    identity: AwsIdentity,
    budget: Budget,
    /// Seconds that AWS's clock is ahead of ours, as far as it has complained.
    skew: AtomicI64,
}

/// A request before it is signed.
pub(super) struct Call<'a> {
    /// Such as `cloudformation:DescribeStacks`, for messages.
    pub action: &'a str,
    /// Signing name, which is also the host's first label.
    pub service: &'a str,
    pub method: Method,
    /// Path and query, percent-encoded.
    pub path: String,
    /// Headers beside the standard ones.
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

/// A response with a good status.
pub(super) struct AwsReply {
    pub body: Bytes,
}

/// A try that failed, and what the server's clock said.
struct Failure {
    error: CloudError,
    date: Option<SystemTime>,
}

impl From<CloudError> for Failure {
    fn from(error: CloudError) -> Self {
        Self { error, date: None }
    }
}

impl Aws {
    /// Loads credentials and endpoint as every AWS tool does: environment, profile, SSO, role, metadata.
    pub async fn connect(region: &str, settings: &AwsSettings) -> Result<Self, CloudError> {
        let web = Web::new(settings)?;
        let mut loader = aws_config::defaults(BehaviorVersion::latest())
            .region(Region::new(region.to_owned()))
            .http_client(Web::for_credentials(settings)?);
        if let Some(fips) = settings.fips {
            loader = loader.use_fips(fips);
        }
        if let Some(dual_stack) = settings.dual_stack {
            loader = loader.use_dual_stack(dual_stack);
        }
        let config = loader.load().await;
        Ok(Self {
            web,
            identity: AwsIdentity::new(config.credentials_provider(), settings.profile.clone()),
            config,
            region: region.to_owned(),
            budget: Budget::full(),
            skew: AtomicI64::new(0),
        })
    }

    /// The region that requests go to.
    pub fn region(&self) -> &str {
        &self.region
    }

    /// Credentials for a request that is signed now.
    pub(super) async fn credentials(&self) -> Result<Credentials, CloudError> {
        self.identity.get(SystemTime::now()).await
    }

    /// What AWS's clock says, as far as we know.
    pub(super) fn now(&self) -> SystemTime {
        corrected(SystemTime::now(), self.skew.load(Ordering::Relaxed))
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
    pub(super) fn endpoint(&self, service: &str) -> Result<String, CloudError> {
        if let Some(url) = self.given_endpoint(service) {
            return endpoint::given(&url);
        }
        let kind = HostKind {
            fips: self.config.use_fips().unwrap_or(false),
            dual_stack: self.config.use_dual_stack().unwrap_or(false),
        };
        endpoint::url(service, &self.region, kind)
    }

    /// Sends a call, again while that may help: with our clock corrected, with new credentials, or later.
    pub(super) async fn send(&self, call: Call<'_>) -> Result<AwsReply, CloudError> {
        let (mut made, mut adjusted, mut renewed) = (0, false, false);
        loop {
            made += 1;
            let Failure { error, date } = match self.send_once(&call).await {
                Ok(reply) => {
                    self.budget.reward();
                    return Ok(reply);
                }
                Err(failure) => failure,
            };
            let found = skew(&error, date, self.now()).filter(|_| !adjusted);
            if let Some(found) = found {
                adjusted = true;
                self.skew.fetch_add(found, Ordering::Relaxed);
            } else if error.is_expired() && !renewed {
                renewed = true;
                self.identity.forget().await;
            } else if may_try(&error, made) && self.budget.spend() {
                sleep(pause(made, random())).await;
            } else {
                return Err(error);
            }
        }
    }

    async fn send_once(&self, call: &Call<'_>) -> Result<AwsReply, Failure> {
        let endpoint = self.endpoint(call.service)?;
        let request = self.signed(call, &endpoint).await?;
        let answer =
            self.web
                .send(request)
                .await
                .map_err(
                    |NoResponse { reason, connecting }| CloudError::Unreachable {
                        action: call.action.to_owned(),
                        endpoint: endpoint.clone(),
                        reason,
                        connecting,
                    },
                )?;
        if (200..300).contains(&answer.status) {
            return Ok(AwsReply { body: answer.body });
        }
        Err(Failure {
            error: failure::read(call.action, &answer),
            date: answer.date,
        })
    }

    async fn signed(&self, call: &Call<'_>, endpoint: &str) -> Result<Request<Bytes>, CloudError> {
        let unreadable = |reason: String| CloudError::Unreadable {
            action: call.action.to_owned(),
            reason,
        };
        let uri = format!("{endpoint}{}", call.path);
        let identity = self.credentials().await?.into();
        let mut settings = SigningSettings::default();
        if call.service == "s3" {
            settings.percent_encoding_mode = PercentEncodingMode::Single;
            settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
        }
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region(endpoint::signing_region(call.service, &self.region))
            .name(call.service)
            .time(self.now())
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
        let body = Bytes::from(call.body.clone());
        let mut request = builder
            .body(body)
            .map_err(|error| unreadable(error.to_string()))?;
        instructions.apply_to_request_http1x(&mut request);
        Ok(request)
    }
}

/// From 0 to 1, so that clients that failed together do not come back together.
fn random() -> f64 {
    let mut bytes = [0; 4];
    // Without random numbers the pause is as long as it may be.
    match SystemRandom::new().fill(&mut bytes) {
        Ok(()) => f64::from(u32::from_ne_bytes(bytes)) / f64::from(u32::MAX),
        Err(_) => 1.0,
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
