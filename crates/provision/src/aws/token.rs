//! The token that clients present to an EKS cluster: a signed request that anyone may replay for a
//! quarter of an hour, and that says who the caller is.

use std::time::{Duration, SystemTime};

use aws_sigv4::http_request::{
    SignableBody, SignableRequest, SignatureLocation, SigningSettings, sign,
};
use aws_sigv4::sign::v4;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::client::Aws;
use crate::cloud::CloudError;

/// How long EKS accepts a token, less a minute.
const LIFETIME: Duration = Duration::from_secs(14 * 60);

impl Aws {
    /// An `ExecCredential` for the cluster `name`.
    pub async fn exec_credential(&self, name: &str, now: SystemTime) -> Result<Value, CloudError> {
        let token = self.token(name, now).await?;
        let expires = OffsetDateTime::from(now + LIFETIME);
        Ok(json!({
            "apiVersion": "client.authentication.k8s.io/v1",
            "kind": "ExecCredential",
            "status": {
                "token": token,
                "expirationTimestamp": expires.replace_nanosecond(0).unwrap_or(expires).format(&Rfc3339).unwrap_or_default(),
            },
        }))
    }

    async fn token(&self, name: &str, now: SystemTime) -> Result<String, CloudError> {
        let unreadable = |reason: String| CloudError::Unreadable {
            action: "sts:GetCallerIdentity".to_owned(),
            reason,
        };
        let host = format!(
            "{}/?Action=GetCallerIdentity&Version=2011-06-15",
            self.endpoint("sts")?
        );
        let identity = self.credentials().await?.into();
        let mut settings = SigningSettings::default();
        settings.signature_location = SignatureLocation::QueryParams;
        settings.expires_in = Some(Duration::from_secs(60));
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region(self.region())
            .name("sts")
            .time(now)
            .settings(settings)
            .build()
            .map_err(|error| unreadable(error.to_string()))?
            .into();
        let headers = std::iter::once(("x-k8s-aws-id", name));
        let signable = SignableRequest::new("GET", &host, headers, SignableBody::Bytes(&[]))
            .map_err(|error| unreadable(error.to_string()))?;
        let (instructions, _) = sign(signable, &params)
            .map_err(|error| unreadable(error.to_string()))?
            .into_parts();
        let mut request = hyper::Request::builder()
            .uri(&host)
            .body(())
            .map_err(|error| unreadable(error.to_string()))?;
        instructions.apply_to_request_http1x(&mut request);
        Ok(format!(
            "k8s-aws-v1.{}",
            URL_SAFE_NO_PAD.encode(request.uri().to_string())
        ))
    }
}
