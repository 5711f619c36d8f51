//! Keys for measurements over TLS: an authority, and one certificate for servers and trainers.

use super::rig::BenchError;
use wire::tls::{ClientTls, Identity, SERVER_NAME, ServerTls};

/// What both ends of the connections of a job need.
#[derive(Debug, Clone)]
pub struct BenchKeys {
    /// The authority's certificate, as PEM text.
    pub authority: String,
    /// A certificate of the authority and its key.
    pub identity: Identity,
    pub(crate) server: ServerTls,
    pub(crate) client: ClientTls,
}

impl BenchKeys {
    /// New keys.
    pub fn new() -> Result<Self, BenchError> {
        let (authority, identity) = issue().map_err(failed)?;
        let server = ServerTls::new(&identity, Some(&authority)).map_err(failed)?;
        let client = ClientTls::new(&authority, SERVER_NAME, Some(&identity)).map_err(failed)?;
        Ok(Self {
            authority,
            identity,
            server,
            client,
        })
    }
}

fn failed(cause: impl std::error::Error + Send + Sync + 'static) -> BenchError {
    BenchError::BenchKeys(Box::new(cause))
}

fn issue() -> Result<(String, Identity), rcgen::Error> {
    let key = rcgen::KeyPair::generate()?;
    let mut params = rcgen::CertificateParams::new(Vec::new())?;
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = params.self_signed(&key)?.pem();
    let issuer = rcgen::Issuer::new(params, key);
    let own = rcgen::KeyPair::generate()?;
    let params = rcgen::CertificateParams::new(vec![SERVER_NAME.to_owned()])?;
    let identity = Identity {
        certificates: params.signed_by(&own, &issuer)?.pem(),
        key: own.serialize_pem(),
    };
    Ok((authority, identity))
}
