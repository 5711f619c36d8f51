//! TLS with rustls: servers present a certificate, and require one from clients if they have an authority for clients.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use std::io;
use std::sync::Arc;

/// Why certificates or keys cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the variants are documented")]
pub enum TlsError {
    /// A PEM text holds no usable certificate or key.
    #[error("{what} is not usable PEM")]
    Pem {
        /// Which text: certificates, key or authority.
        what: &'static str,
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    /// A PEM text contains no certificate or key.
    #[error("{what} holds no certificate")]
    Empty {
        /// Which text: certificates, key or authority.
        what: &'static str,
    },
    /// Certificate and key do not match, or the name is not valid.
    #[error("certificate, key and authority do not fit together")]
    Setup(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// A certificate chain and its key, as PEM text.
#[derive(Clone)]
pub struct Identity {
    /// The chain, own certificate first.
    pub certificates: String,
    /// The private key.
    pub key: String,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Identity(hidden)")
    }
}

/// Settings of the server's side.
#[derive(Debug, Clone)]
pub struct ServerTls(Arc<ServerConfig>);

impl ServerTls {
    /// A server with `identity`. With `clients_authority` (PEM), only clients with a certificate of it are served.
    pub fn new(identity: &Identity, clients_authority: Option<&str>) -> Result<Self, TlsError> {
        let builder = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(setup)?;
        let builder = match clients_authority {
            None => builder.with_no_client_auth(),
            Some(pem) => {
                let roots = Arc::new(roots(pem)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider())
                    .build()
                    .map_err(setup)?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let (chain, key) = parts(identity)?;
        let config = builder.with_single_cert(chain, key).map_err(setup)?;
        Ok(Self(Arc::new(config)))
    }

    /// The settings of rustls, for servers of other protocols.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.0.clone()
    }

    /// The server's end of a new connection.
    pub fn connection(&self) -> Result<ServerConnection, rustls::Error> {
        ServerConnection::new(self.0.clone())
    }
}

/// Settings of the client's side.
#[derive(Debug, Clone)]
pub struct ClientTls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl ClientTls {
    /// A client that trusts `authority` (PEM), expects servers to be certified for `server_name`, and shows
    /// `identity` when asked.
    pub fn new(
        authority: &str,
        server_name: &str,
        identity: Option<&Identity>,
    ) -> Result<Self, TlsError> {
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(setup)?
            .with_root_certificates(roots(authority)?);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let (chain, key) = parts(identity)?;
                builder.with_client_auth_cert(chain, key).map_err(setup)?
            }
        };
        let name = ServerName::try_from(server_name.to_owned()).map_err(setup)?;
        Ok(Self {
            config: Arc::new(config),
            name,
        })
    }

    /// The client's end of a new connection.
    pub fn connection(&self) -> Result<ClientConnection, rustls::Error> {
        ClientConnection::new(self.config.clone(), self.name.clone())
    }
}

/// Sets the proofs of a connection apart from other uses of its secret.
pub(crate) const LABEL: &[u8] = b"EXPORTER-canoe-connection";

/// The name of a TLS connection: a secret that only its two ends can compute, so a proof that contains it is worth
/// nothing on another connection.
pub(crate) fn connection_name(
    export: impl FnOnce([u8; 32]) -> Result<[u8; 32], rustls::Error>,
) -> io::Result<String> {
    let secret = export([0; 32]).map_err(io::Error::other)?;
    Ok(format!("tls {}", crate::auth::hex(&secret)))
}

/// What is wrong and what to do, if a handshake failed for a reason that another attempt cannot change; otherwise `None`.
pub(crate) fn hopeless(error: &io::Error) -> Option<String> {
    use rustls::{CertificateError as Certificate, Error};
    let error = error.get_ref()?.downcast_ref::<Error>()?;
    let other_end = match error {
        Error::InvalidCertificate(certificate) => match certificate {
            Certificate::UnknownIssuer | Certificate::BadSignature => {
                "the server's certificate is not signed by the authority of --tls_ca; make the certificates of servers \
                 and trainers with the same authority"
                    .to_owned()
            }
            Certificate::NotValidForName | Certificate::NotValidForNameContext { .. } => format!(
                "the server's certificate is not made for the name that trainers expect: the certificate of every \
                 server needs the subject alternative name DNS:{SERVER_NAME}"
            ),
            Certificate::Expired | Certificate::ExpiredContext { .. } => {
                "the server's certificate has expired; make a new one (or set the clock of this machine)".to_owned()
            }
            Certificate::NotValidYet | Certificate::NotValidYetContext { .. } => {
                "the server's certificate is not valid yet; set the clocks of both machines".to_owned()
            }
            other => format!("the server's certificate is refused: {other}"),
        },
        Error::AlertReceived(alert) => format!(
            "the server refuses the TLS connection ({alert:?}): it wants a certificate of the trainer that is signed by \
             the authority of its --tls_ca and has not expired; give --tls_cert and --tls_key"
        ),
        Error::InvalidMessage(_) => {
            "the server does not speak TLS; start it with --tls_cert and --tls_key, or the trainers without --tls_ca"
                .to_owned()
        }
        Error::PeerIncompatible(why) => format!("the server has no TLS version or cipher in common: {why:?}"),
        _ => return None,
    };
    Some(other_end)
}

pub use words::process::SERVER_NAME;

/// rustls's own choice of ciphers, in another order: AES with 128 bits before 256, because it is faster and no weaker in
/// practice. The client's order decides.
fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    let mut provider = rustls::crypto::ring::default_provider();
    let slower = |suite: &rustls::SupportedCipherSuite| {
        suite.suite() != rustls::CipherSuite::TLS13_AES_128_GCM_SHA256
    };
    provider.cipher_suites.sort_by_key(slower);
    Arc::new(provider)
}

fn setup(cause: impl std::error::Error + Send + Sync + 'static) -> TlsError {
    TlsError::Setup(Box::new(cause))
}

fn roots(pem: &str) -> Result<RootCertStore, TlsError> {
    let what = "the certificate authority";
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|source| TlsError::Pem { what, source })?;
        store.add(certificate).map_err(setup)?;
    }
    if store.is_empty() {
        return Err(TlsError::Empty { what });
    }
    Ok(store)
}

type Parts = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn parts(identity: &Identity) -> Result<Parts, TlsError> {
    let what = "the certificate";
    let chain = CertificateDer::pem_slice_iter(identity.certificates.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|source| TlsError::Pem { what, source })?;
    if chain.is_empty() {
        return Err(TlsError::Empty { what });
    }
    let key =
        PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).map_err(|source| TlsError::Pem {
            what: "the private key",
            source,
        })?;
    Ok((chain, key))
}
