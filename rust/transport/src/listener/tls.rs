//! The certificate of a listener, which may be replaced while it serves.

use std::sync::Arc;

use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::sign::SingleCertAndKey;
use tokio_rustls::TlsAcceptor;

use crate::client::TlsError;
use crate::client::tls::{identity, provider};

/// TLS 1.2 and 1.3 with the current certificate. Handshakes that have begun continue with the one before.
#[derive(Default)]
pub struct ServerTls(Mutex<Option<TlsAcceptor>>);

impl ServerTls {
    /// Use a certificate, with the chain that follows it, and its key, both as PEM, for new connections.
    ///
    /// # Errors
    /// One of them is invalid, or they do not belong together; the current ones stay.
    pub fn replace(&self, certificate: &[u8], key: &[u8]) -> Result<(), TlsError> {
        let identity = SingleCertAndKey::from(identity(certificate, key)?);
        let mut config = ServerConfig::builder_with_provider(provider().clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::of_certificate(error.to_string()))?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(identity));
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        *self.0.lock() = Some(Arc::new(config).into());
        Ok(())
    }

    pub(super) fn acceptor(&self) -> Option<TlsAcceptor> {
        self.0.lock().clone()
    }
}
