//! Credentials, region and endpoint, which `aws-config` finds in the environment, the profile or the pod.

use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use aws_config::{BehaviorVersion, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::provider::ProvideCredentials as _;
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_types::service_config::ServiceConfigKey;
use tokio::runtime::Runtime;

use crate::address::Endpoint;
use crate::error::S3Error;

/// Credentials are renewed this long before they expire.
const EARLY: Duration = Duration::from_secs(300);

/// A source of credentials, and the last ones that it returned.
pub(crate) struct S3Identity {
    /// There until it is dropped.
    runtime: Option<Runtime>,
    config: SdkConfig,
    known: Mutex<Option<Credentials>>,
}

impl S3Identity {
    /// Reads environment and profile; credentials are requested later, when they are needed.
    pub(crate) fn load() -> Result<Self, S3Error> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| no_credentials(&error))?;
        let client = Builder::new()
            .tls_provider(Provider::Rustls(CryptoMode::Ring))
            .build_https();
        let loader = aws_config::defaults(BehaviorVersion::latest()).http_client(client);
        let config = runtime.block_on(loader.load());
        Ok(Self {
            runtime: Some(runtime),
            config,
            known: Mutex::new(None),
        })
    }

    /// The endpoint of `AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL` or the profile; AWS's own if none of them names one.
    pub(crate) fn endpoint(&self) -> Endpoint {
        let key = ServiceConfigKey::builder()
            .service_id("S3")
            .env("AWS_ENDPOINT_URL")
            .profile("endpoint_url")
            .build();
        let services = self.config.service_config();
        let own = key
            .ok()
            .and_then(|key| services.and_then(|services| services.load_config(key)))
            .or_else(|| self.config.endpoint_url().map(str::to_owned));
        let region = self.config.region().map(ToString::to_string);
        Endpoint {
            own,
            region: region.unwrap_or_else(|| "us-east-1".to_owned()),
        }
    }

    /// Credentials for a request that is signed now.
    pub(crate) fn credentials(&self) -> Result<Credentials, S3Error> {
        let mut known = match self.known.lock() {
            Ok(known) => known,
            Err(poisoned) => poisoned.into_inner(),
        };
        let is_good = |old: &&Credentials| {
            let expiry = old.expiry();
            expiry.is_none_or(|expiry| SystemTime::now() + EARLY < expiry)
        };
        if let Some(credentials) = known.as_ref().filter(is_good) {
            return Ok(credentials.clone());
        }
        let provider = self.config.credentials_provider();
        let provider = provider.ok_or_else(|| S3Error::NoCredentials {
            reason: "nothing is configured".to_owned(),
        })?;
        let runtime = self.runtime.as_ref().expect("it is not dropped yet");
        let fresh = runtime.block_on(provider.provide_credentials());
        let fresh = fresh.map_err(|error| no_credentials(&error))?;
        *known = Some(fresh.clone());
        Ok(fresh)
    }
}

impl Drop for S3Identity {
    /// Waits for nothing: an asynchronous task may drop it, and may not wait.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn no_credentials(error: &(dyn std::error::Error + 'static)) -> S3Error {
    // What is around the last cause only repeats which part of the client has asked which other.
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    let reason = last.to_string();
    let reason = reason.lines().next().unwrap_or_default().to_owned();
    S3Error::NoCredentials { reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_asynchronous_task_may_drop_it() {
        let identity = S3Identity::load().unwrap();
        let task = tokio::runtime::Builder::new_current_thread().build();
        task.unwrap().block_on(async move { drop(identity) });
    }
}
