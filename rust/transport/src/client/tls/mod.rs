//! What TLS needs: authorities, the client's certificate and key, and what is verified.

mod config;
mod identity;
mod pem;
pub(super) mod words;

use std::fmt;
use std::sync::Arc;

pub(crate) use config::provider;
pub(super) use config::{Security, system_security};
pub(crate) use pem::identity;
use rustls::RootCertStore;
use rustls::sign::CertifiedKey;
use rustls_pki_types::{CertificateDer, ServerName};

/// What TLS needs, as a whole.
#[derive(Clone)]
pub struct Tls {
    /// Entries of the CA bundle that cannot be used although others can, one line each.
    pub notes: Vec<String>,
    /// None for the system's.
    roots: Option<Arc<RootCertStore>>,
    /// The entries of the CA bundle.
    bundle: Arc<[CertificateDer<'static>]>,
    identity: Option<Arc<CertifiedKey>>,
    verify: bool,
    check_name: bool,
    server_name: Option<ServerName<'static>>,
}

/// Which of the values is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The CA bundle.
    Ca,
    /// The client's certificate.
    Cert,
    /// The client's key.
    Key,
    /// The server's name.
    ServerName,
}

/// An invalid value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsError {
    /// Which one.
    pub part: Part,
    /// What is wrong with it, in one line.
    pub text: String,
}

impl TlsError {
    pub(crate) fn of_certificate(text: String) -> Self {
        let part = Part::Cert;
        Self { part, text }
    }
}

impl Tls {
    /// Read PEM.
    ///
    /// Without `ca` the system's authorities count. Without `verify` nothing is verified, without `check_name` any name
    /// counts. `server_name` is verified, and sent unless it is an address, instead of the host.
    ///
    /// # Errors
    /// A value is invalid.
    pub fn from_pem(
        ca: Option<&[u8]>,
        cert: Option<&[u8]>,
        key: Option<&[u8]>,
        verify: bool,
        check_name: bool,
        server_name: Option<&str>,
    ) -> Result<Self, TlsError> {
        let mut notes = Vec::new();
        let (roots, bundle) = match ca {
            // Without `verify` nobody looks at it.
            Some(bundle) if verify => {
                let (roots, entries) = pem::roots(bundle, &mut notes)?;
                (Some(Arc::new(roots)), entries)
            }
            _ => (None, Vec::new()),
        };
        let error = |part, text: &str| TlsError {
            part,
            text: text.to_owned(),
        };
        let identity = match (cert, key) {
            (Some(cert), Some(key)) => Some(Arc::new(pem::identity(cert, key)?)),
            (None, None) => None,
            (Some(_), None) => {
                return Err(error(Part::Key, "missing, although there is a certificate"));
            }
            (None, Some(_)) => return Err(error(Part::Cert, "missing, although there is a key")),
        };
        let server_name = server_name.map(|name| ServerName::try_from(name.to_owned()));
        let server_name = server_name.transpose();
        Ok(Self {
            notes,
            roots,
            bundle: bundle.into(),
            identity,
            verify,
            check_name,
            server_name: server_name
                .map_err(|_| error(Part::ServerName, "neither a host name nor an IP address"))?,
        })
    }

    /// Return what connections are made with.
    pub(super) fn security(&self) -> Security {
        Security::new(self)
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Tls")
            .field("verify", &self.verify)
            .field("server_name", &self.server_name)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl std::error::Error for TlsError {}
