//! TLS by rustls: the servers show a certificate, and ask for one when given an authority for clients.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use std::sync::Arc;

/// Why keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A PEM text holds no usable certificate or key.
    #[error("{what} is not usable PEM")]
    Pem {
        /// Which of the texts.
        what: &'static str,
        /// The cause.
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    /// A PEM text holds nothing.
    #[error("{what} holds no certificate")]
    Empty {
        /// Which of the texts.
        what: &'static str,
    },
    /// Certificate and key do not fit, or the name is wrong.
    #[error("set up TLS")]
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

/// The server's side.
#[derive(Debug, Clone)]
pub struct ServerTls(Arc<ServerConfig>);

impl ServerTls {
    /// A server with `identity`; with `clients_authority` (PEM) only clients with a certificate of it are served.
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

    pub(crate) fn connection(&self) -> Result<ServerConnection, rustls::Error> {
        ServerConnection::new(self.0.clone())
    }
}

/// The client's side.
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

    pub(crate) fn connection(&self) -> Result<ClientConnection, rustls::Error> {
        ClientConnection::new(self.config.clone(), self.name.clone())
    }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
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
