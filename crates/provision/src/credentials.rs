//! The TLS assets of a self-managed cluster: one authority and five pairs.
//!
//! | pair | subject | used as | for |
//! |---|---|---|---|
//! | `ca` | kube-ca | authority | signs the others; the controller signs node certificates with it |
//! | `apiserver` | kube-apiserver | server | names: `kubernetes…`, external name, first service address, controller |
//! | `worker` | kube-worker, group of joining nodes | client | asks for a certificate of its own, nothing more |
//! | `admin` | kubernetes-admin, `system:masters` | client | people |
//! | `etcd` | etcd | server and client | etcd's own port, and its peers |
//! | `etcd-client` | etcd-client | client | API server to etcd |
//!
//! Keys are ECDSA P-256: small enough that all of a controller's assets fit into user data. The
//! authority lives ten years, the others one.

use std::net::IpAddr;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose as Usage, IsCa, Issuer, KeyPair, KeyUsagePurpose as KeyUsage,
    PKCS_ECDSA_P256_SHA256, SanType,
};
use time::{Duration, OffsetDateTime};

use crate::node::controller_node;
use crate::spec::ClusterSpec;

/// Days that the authority is valid.
pub(crate) const CA_DAYS: i64 = 3650;
/// Days that every other certificate is valid.
pub(crate) const CERTIFICATE_DAYS: i64 = 365;

/// The pairs besides the authority, in the order in which they are made.
pub const PAIRS: [&str; 5] = ["apiserver", "worker", "admin", "etcd", "etcd-client"];

/// A certificate and its key, as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Pair {
    /// Such as `apiserver`; the files are `NAME.pem` and `NAME-key.pem`.
    pub name: String,
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

impl std::fmt::Debug for Pair {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Pair")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Why the assets could not be made.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the variants are documented")]
pub enum TlsPairError {
    /// A key or certificate could not be made.
    #[error("make the TLS pair {name}")]
    Make {
        /// Which pair.
        name: String,
        #[source]
        source: rcgen::Error,
    },
    /// The given authority cannot be used.
    #[error(
        "read the certificate authority; ca.pem and ca-key.pem must be PEM and belong together"
    )]
    Authority(#[source] rcgen::Error),
}

/// Days from `now` until a certificate expires; negative when it has.
pub fn days_left(certificate: &str, now: OffsetDateTime) -> Option<i64> {
    let (_, pem) = x509_parser::pem::parse_x509_pem(certificate.as_bytes()).ok()?;
    let end = pem.parse_x509().ok()?.validity().not_after.to_datetime();
    Some((end - now).whole_days() - i64::from(end < now))
}

fn making(name: &str) -> impl FnOnce(rcgen::Error) -> TlsPairError {
    let name = name.to_owned();
    move |source| TlsPairError::Make { name, source }
}

/// Makes a new authority, valid from `now`.
pub fn authority(spec: &ClusterSpec, now: OffsetDateTime) -> Result<Pair, TlsPairError> {
    let mut params = subject("kube-ca", Some(&spec.name));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![
        KeyUsage::KeyCertSign,
        KeyUsage::CrlSign,
        KeyUsage::DigitalSignature,
    ];
    valid(&mut params, now, CA_DAYS);
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(making("ca"))?;
    let certificate = params.self_signed(&key).map_err(making("ca"))?;
    Ok(Pair {
        name: "ca".to_owned(),
        certificate: certificate.pem(),
        key: key.serialize_pem(),
    })
}

/// Makes the pairs of [`PAIRS`], signed by `authority`, valid from `now`.
pub fn pairs(
    spec: &ClusterSpec,
    authority: &Pair,
    now: OffsetDateTime,
) -> Result<Vec<Pair>, TlsPairError> {
    let key = KeyPair::from_pem(&authority.key).map_err(TlsPairError::Authority)?;
    let issuer =
        Issuer::from_ca_cert_pem(&authority.certificate, key).map_err(TlsPairError::Authority)?;
    PAIRS
        .iter()
        .map(|name| {
            let mut params = request(spec, name)?;
            valid(&mut params, now, CERTIFICATE_DAYS);
            params.use_authority_key_identifier_extension = true;
            let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(making(name))?;
            let certificate = params.signed_by(&key, &issuer).map_err(making(name))?;
            Ok(Pair {
                name: (*name).to_owned(),
                certificate: certificate.pem(),
                key: key.serialize_pem(),
            })
        })
        .collect()
}

fn request(spec: &ClusterSpec, name: &str) -> Result<CertificateParams, TlsPairError> {
    let mut params = match name {
        "apiserver" => subject("kube-apiserver", None),
        "worker" => subject(
            "kube-worker",
            Some("system:bootstrappers:kubeadm:default-node-token"),
        ),
        "admin" => subject("kubernetes-admin", Some("system:masters")),
        other => subject(other, None),
    };
    params.key_usages = vec![KeyUsage::DigitalSignature];
    params.extended_key_usages = match name {
        "apiserver" => vec![Usage::ServerAuth],
        "etcd" => vec![Usage::ServerAuth, Usage::ClientAuth],
        _ => vec![Usage::ClientAuth],
    };
    params.subject_alt_names = alternative_names(spec, name).map_err(making(name))?;
    Ok(params)
}

fn alternative_names(spec: &ClusterSpec, name: &str) -> Result<Vec<SanType>, rcgen::Error> {
    let address = |text: String| {
        SanType::IpAddress(
            text.parse::<IpAddr>()
                .expect("addresses are computed from checked networks"),
        )
    };
    let mut names = Vec::new();
    let mut hosts: Vec<String> = Vec::new();
    match name {
        "apiserver" => {
            for host in ["kubernetes", "kubernetes.default", "kubernetes.default.svc"] {
                hosts.push(host.to_owned());
            }
            hosts.push("kubernetes.default.svc.cluster.local".to_owned());
            hosts.push(controller_node(spec));
            hosts.extend(spec.external_name().map(str::to_owned));
            names.push(address(spec.api_service_ip()));
            names.push(address(spec.controller_ip()));
        }
        "etcd" => {
            hosts.push("localhost".to_owned());
            hosts.push(controller_node(spec));
            names.push(address("127.0.0.1".to_owned()));
            names.push(address("::1".to_owned()));
            names.push(address(spec.controller_ip()));
        }
        _ => {}
    }
    for host in hosts {
        names.push(SanType::DnsName(host.try_into()?));
    }
    Ok(names)
}

fn subject(common_name: &str, organization: Option<&str>) -> CertificateParams {
    let mut params = CertificateParams::default();
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    if let Some(organization) = organization {
        name.push(DnType::OrganizationName, organization);
    }
    params.distinguished_name = name;
    params
}

/// Valid from an hour ago, because clocks differ.
fn valid(params: &mut CertificateParams, now: OffsetDateTime, days: i64) {
    params.not_before = now - Duration::hours(1);
    params.not_after = now + Duration::days(days);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::ControlPlaneMode;

    fn spec() -> ClusterSpec {
        let mut spec = ClusterSpec::new("demo", "us-west-2");
        spec.control_plane.mode = ControlPlaneMode::SelfManaged;
        spec.dns.external_name = Some("paddle.example.com".to_owned());
        spec
    }

    #[test]
    fn makes_every_pair_and_prints_no_key() {
        let now = OffsetDateTime::now_utc();
        let ca = authority(&spec(), now).unwrap();
        let made = pairs(&spec(), &ca, now).unwrap();
        assert_eq!(
            made.iter()
                .map(|pair| pair.name.as_str())
                .collect::<Vec<_>>(),
            PAIRS
        );
        for pair in made.iter().chain([&ca]) {
            assert!(pair.certificate.starts_with("-----BEGIN CERTIFICATE-----"));
            assert!(pair.key.starts_with("-----BEGIN PRIVATE KEY-----"));
            assert!(!format!("{pair:?}").contains("PRIVATE"));
        }
    }

    #[test]
    fn expiry_is_counted_in_whole_days() {
        let now = OffsetDateTime::now_utc();
        let ca = authority(&spec(), now).unwrap().certificate;
        let left = days_left(&ca, now).unwrap();
        assert!((CA_DAYS - 2..=CA_DAYS).contains(&left), "{left}");
        assert!(days_left(&ca, now + Duration::days(CA_DAYS + 2)).unwrap() < 0);
        assert_eq!(days_left("nonsense", now), None);
    }

    #[test]
    fn a_foreign_key_is_no_authority() {
        let now = OffsetDateTime::now_utc();
        let mut ca = authority(&spec(), now).unwrap();
        ca.key = "nonsense".to_owned();
        assert!(matches!(
            pairs(&spec(), &ca, now),
            Err(TlsPairError::Authority(_))
        ));
    }

    /// What KMS takes in one call.
    #[test]
    fn assets_fit_where_they_have_to_go() {
        let now = OffsetDateTime::now_utc();
        let ca = authority(&spec(), now).unwrap();
        let mut assets = crate::node::Assets::default();
        for pair in pairs(&spec(), &ca, now).unwrap().iter().chain([&ca]) {
            for (name, text) in [
                (format!("{}.pem", pair.name), &pair.certificate),
                (format!("{}-key.pem", pair.name), &pair.key),
            ] {
                assert!(text.len() <= 4096, "{name} has {} bytes", text.len());
                let mut cipher = text.clone().into_bytes();
                cipher.extend([0; 170]); // what KMS adds
                assets.insert(&name, cipher);
            }
        }
        assert!(assets.missing().is_empty());
    }
}
