//! The secrets of one job: the token, and keys so that its nodes can trust each other.
//!
//! Each job has a certificate authority of its own, whose key is never stored, so it can sign nothing
//! else. All nodes share one certificate, for servers and clients, because they are one program run by
//! one user.

use std::io;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use k8s_openapi::api::core::v1::Secret;
use ring::digest::{Context, SHA256};
use run::local::token;

/// A name in every server's certificate, whatever its host is called.
pub use words::process::SERVER_NAME;

/// What goes into the job's Secret.
#[derive(Clone)]
pub struct Credentials {
    /// Shared secret of all processes.
    pub token: String,
    /// Keys, if the traffic is to be encrypted.
    pub tls: Option<Tls>,
}

/// PEM texts.
#[derive(Clone)]
pub struct Tls {
    /// The job's certificate authority.
    pub authority: String,
    /// The certificate of all nodes.
    pub certificate: String,
    /// Private key of the certificate.
    pub key: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credentials(hidden)")
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls(hidden)")
    }
}

/// Why there are no credentials.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the variants are documented")]
pub enum CredentialsError {
    /// The system's random number generator failed.
    #[error("read random numbers for the job's token")]
    Random(#[source] io::Error),
    /// A certificate could not be made.
    #[error("make the certificates of job {job}")]
    Certificate {
        job: String,
        #[source]
        source: rcgen::Error,
    },
}

impl Credentials {
    /// The credentials in a Secret; `None` if one of those that the job needs is missing.
    pub fn of(secret: &Secret, tls: bool) -> Option<Self> {
        let data = secret.data.as_ref()?;
        let text = |key: &str| String::from_utf8(data.get(key)?.0.clone()).ok();
        let keys = || {
            Some(Tls {
                authority: text("ca.crt")?,
                certificate: text("tls.crt")?,
                key: text("tls.key")?,
            })
        };
        let tls = if tls { Some(keys()?) } else { None };
        Some(Self {
            token: text("token")?,
            tls,
        })
    }

    /// A hash that distinguishes two generations of keys and reveals neither.
    pub fn fingerprint(&self) -> String {
        let mut sum = Context::new(&SHA256);
        sum.update(self.token.as_bytes());
        if let Some(tls) = &self.tls {
            sum.update(tls.authority.as_bytes());
        }
        let bytes = sum.finish();
        let first = bytes.as_ref().iter().take(8);
        first.map(|byte| format!("{byte:02x}")).collect()
    }

    /// Creates new credentials for a job, with certificates if `tls`.
    pub fn generate(job: &str, namespace: &str, tls: bool) -> Result<Self, CredentialsError> {
        let token = token::generate().map_err(CredentialsError::Random)?;
        let failed = |source| CredentialsError::Certificate {
            job: job.to_owned(),
            source,
        };
        let tls = if tls {
            Some(make_keys(job, namespace).map_err(failed)?)
        } else {
            None
        };
        Ok(Self { token, tls })
    }
}

fn make_keys(job: &str, namespace: &str) -> Result<Tls, rcgen::Error> {
    let mut authority = CertificateParams::default();
    authority
        .distinguished_name
        .push(DnType::CommonName, format!("canoe job {job}"));
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let authority_key = KeyPair::generate()?;
    let authority_pem = authority.self_signed(&authority_key)?.pem();
    let issuer = Issuer::new(authority, authority_key);

    let names = [
        SERVER_NAME.to_owned(),
        job.to_owned(),
        format!("*.{job}"),
        format!("*.{job}.{namespace}.svc"),
    ];
    let mut node = CertificateParams::new(names)?;
    node.distinguished_name
        .push(DnType::CommonName, format!("node of {job}"));
    node.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    node.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let certificate = node.signed_by(&key, &issuer)?.pem();
    Ok(Tls {
        authority: authority_pem,
        certificate,
        key: key.serialize_pem(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{JobFile, Volume};

    #[test]
    fn every_job_gets_its_own() {
        let one = Credentials::generate("ctr", "default", true).unwrap();
        let other = Credentials::generate("ctr", "default", true).unwrap();
        assert_ne!(one.token, other.token);
        let (one, other) = (one.tls.unwrap(), other.tls.unwrap());
        assert_ne!(one.key, other.key);
        assert!(one.authority.starts_with("-----BEGIN CERTIFICATE-----"));
        assert!(one.key.contains("PRIVATE KEY"));
        assert!(
            Credentials::generate("ctr", "default", false)
                .unwrap()
                .tls
                .is_none()
        );
    }

    #[test]
    fn a_secret_gives_its_keys_back() {
        let made = Credentials::generate("ctr", "default", true).unwrap();
        let job = JobFile::new("ctr", Volume::default());
        let secret: Secret = serde_json::from_value(crate::objects::secret(&job, &made)).unwrap();
        let read = Credentials::of(&secret, true).unwrap();
        assert_eq!(
            (&read.token, read.fingerprint()),
            (&made.token, made.fingerprint())
        );
        assert_eq!(read.tls.unwrap().key, made.tls.as_ref().unwrap().key);
        let other = Credentials::generate("ctr", "default", true).unwrap();
        assert_ne!(other.fingerprint(), made.fingerprint());
        assert!(!made.fingerprint().contains(&made.token));
        let without = Credentials { tls: None, ..made };
        let secret = serde_json::from_value(crate::objects::secret(&job, &without)).unwrap();
        assert!(Credentials::of(&secret, true).is_none());
        assert!(Credentials::of(&secret, false).is_some());
        assert!(Credentials::of(&Secret::default(), false).is_none());
    }

    #[test]
    fn secrets_do_not_get_into_messages() {
        let credentials = Credentials::generate("ctr", "default", true).unwrap();
        assert_eq!(format!("{credentials:?}"), "Credentials(hidden)");
    }
}
