//! Who signs: credentials are looked up once and kept until shortly before they expire.
//!
//! A profile may run a program or assume a role; both take time, and a service counts them. So one look-up
//! serves all requests of a command, also those that are made at the same time.

use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_credential_types::provider::{
    ProvideCredentials as _, SharedCredentialsProvider, error::CredentialsError,
};
use tokio::sync::Mutex;

use super::web::chain;
use crate::cloud::CloudError;

/// So long before they expire, credentials are looked up anew.
const EARLY: Duration = Duration::from_secs(5 * 60);

pub(super) struct AwsIdentity {
    provider: Option<SharedCredentialsProvider>,
    known: Mutex<Option<Credentials>>,
    /// The profile that the environment names.
    profile: Option<String>,
}

impl AwsIdentity {
    pub(super) fn new(
        provider: Option<SharedCredentialsProvider>,
        profile: Option<String>,
    ) -> Self {
        Self {
            provider,
            known: Mutex::new(None),
            profile,
        }
    }

    /// Credentials for a request that is signed now.
    pub(super) async fn get(&self, now: SystemTime) -> Result<Credentials, CloudError> {
        let mut known = self.known.lock().await;
        if let Some(credentials) = known.as_ref().filter(|old| lasts(old.expiry(), now, EARLY)) {
            return Ok(credentials.clone());
        }
        match self.look_up().await {
            Ok(fresh) => {
                *known = Some(fresh.clone());
                Ok(fresh)
            }
            // The old ones are good for a few more minutes.
            Err(error) => match known.as_ref() {
                Some(old) if lasts(old.expiry(), now, Duration::ZERO) => Ok(old.clone()),
                _ => Err(error),
            },
        }
    }

    /// Drops credentials that a service has refused.
    pub(super) async fn forget(&self) {
        *self.known.lock().await = None;
    }

    async fn look_up(&self) -> Result<Credentials, CloudError> {
        let Some(provider) = &self.provider else {
            let reason = "no source of credentials is configured";
            return Err(CloudError::Credentials(reason.to_owned()));
        };
        let found = provider.provide_credentials().await;
        found.map_err(|error| CloudError::Credentials(words(&error, self.profile.as_deref())))
    }
}

/// Why there are no credentials. That no place has any is said in a line, not in one for each place.
fn words(error: &CredentialsError, profile: Option<&str>) -> String {
    if matches!(error, CredentialsError::CredentialsNotLoaded(_)) {
        if let Some(profile) = profile {
            return format!(
                "AWS_PROFILE names the profile {profile:?}, which does not exist or has none (`aws configure list-profiles` lists \
                 those that exist), and none are in the environment, a web identity, or the role of this machine"
            );
        }
        return "none are in the environment, a profile, a web identity, or the role of this machine".to_owned();
    }
    chain(error)
}

/// Whether credentials are good for longer than `spare`. Those without an end are.
fn lasts(expiry: Option<SystemTime>, now: SystemTime, spare: Duration) -> bool {
    expiry.is_none_or(|expiry| now + spare < expiry)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use aws_credential_types::provider::{ProvideCredentials, future};

    use super::*;

    /// Seven lines named every provider of the SDK that was not enabled.
    #[test]
    fn that_there_are_no_credentials_is_one_line() {
        let nothing = CredentialsError::not_loaded("Attempted:\n  Environment: not enabled");
        let said = words(&nothing, None);
        assert!(
            !said.contains('\n') && said.contains("environment"),
            "{said}"
        );
        let named = words(&nothing, Some("nosuch"));
        assert!(
            named.contains("AWS_PROFILE names the profile \"nosuch\""),
            "{named}"
        );
        let wrong = words(
            &CredentialsError::invalid_configuration("profile x has no region"),
            None,
        );
        assert!(wrong.contains("profile x has no region"), "{wrong}");
    }

    /// Counts how often it is asked; each answer expires after `life`.
    #[derive(Debug, Clone)]
    struct Source {
        asked: Arc<AtomicU32>,
        life: Option<Duration>,
        answers: u32,
    }

    impl ProvideCredentials for Source {
        fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
        where
            Self: 'a,
        {
            let number = self.asked.fetch_add(1, Ordering::SeqCst);
            if number >= self.answers {
                let error = CredentialsError::not_loaded("the program failed");
                return future::ProvideCredentials::ready(Err(error));
            }
            let expiry = self.life.map(|life| SystemTime::UNIX_EPOCH + life);
            let key = format!("key{number}");
            let credentials = Credentials::new(key, "secret", None, expiry, "test");
            future::ProvideCredentials::ready(Ok(credentials))
        }
    }

    fn identity(life: Option<u64>, answers: u32) -> (AwsIdentity, Arc<AtomicU32>) {
        let asked = Arc::new(AtomicU32::new(0));
        let source = Source {
            asked: asked.clone(),
            life: life.map(Duration::from_secs),
            answers,
        };
        let provider = SharedCredentialsProvider::new(source);
        (AwsIdentity::new(Some(provider), None), asked)
    }

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    /// Each of 75 requests ran the profile's program.
    #[tokio::test]
    async fn many_requests_look_up_once() {
        for life in [None, Some(3600)] {
            let (identity, asked) = identity(life, 9);
            for _ in 0..75 {
                identity.get(at(10)).await.unwrap();
            }
            assert_eq!(asked.load(Ordering::SeqCst), 1);
        }
    }

    #[tokio::test]
    async fn shortly_before_the_end_they_are_looked_up_anew() {
        let (identity, asked) = identity(Some(1000), 9);
        identity.get(at(0)).await.unwrap();
        identity.get(at(699)).await.unwrap();
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        identity.get(at(700)).await.unwrap();
        assert_eq!(asked.load(Ordering::SeqCst), 2);
        identity.forget().await;
        identity.get(at(0)).await.unwrap();
        assert_eq!(asked.load(Ordering::SeqCst), 3);
    }

    #[tokio::test]
    async fn a_source_that_fails_is_no_loss_while_the_old_ones_are_good() {
        let (identity, _) = identity(Some(1000), 1);
        identity.get(at(0)).await.unwrap();
        assert!(identity.get(at(900)).await.is_ok());
        assert!(identity.get(at(1000)).await.is_err());
    }
}
