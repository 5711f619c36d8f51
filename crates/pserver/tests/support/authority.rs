//! Certificates for tests.

use wire::tls::Identity;

/// A certificate authority.
pub(crate) struct Authority {
    pub pem: String,
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            pem,
            issuer: rcgen::Issuer::new(params, key),
        }
    }

    pub(crate) fn issue(&self, name: &str) -> Identity {
        self.issue_until(name, 4000)
    }

    /// A certificate that is valid until the beginning of a year.
    pub(crate) fn issue_until(&self, name: &str, year: i32) -> Identity {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Identity {
            certificates: certificate.pem(),
            key: key.serialize_pem(),
        }
    }
}
