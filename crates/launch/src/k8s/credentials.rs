//! The secrets of one job: the token, and keys so that its nodes can trust each other.
//!
//! Each job has a certificate authority of its own, whose key is thrown away at once: nothing else
//! can ever be signed by it. All nodes share one certificate, because they are one program run by
//! one user; it is good for servers and clients alike.

use std::io;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use crate::local::token;

/// A name in every server's certificate, whatever its host is called.
pub const SERVER_NAME: &str = "pserver";

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
    /// Its key.
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
pub enum CredentialsError {
    /// The system gave no random numbers.
    #[error("read random numbers for the job's token")]
    Random(#[source] io::Error),
    /// A certificate could not be made.
    #[error("make the certificates of job {job}")]
    Certificate {
        /// The job.
        job: String,
        /// Why.
        #[source]
        source: rcgen::Error,
    },
}

impl Credentials {
    /// Makes new ones for a job; with keys if `tls`.
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
    fn secrets_do_not_get_into_messages() {
        let credentials = Credentials::generate("ctr", "default", true).unwrap();
        assert_eq!(format!("{credentials:?}"), "Credentials(hidden)");
    }
}
