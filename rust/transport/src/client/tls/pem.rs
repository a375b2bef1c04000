//! Certificates and keys as PEM.

use rustls::RootCertStore;
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::{Error as PemError, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::config::provider;
use super::{Part, TlsError, words};

fn error(part: Part, text: impl Into<String>) -> TlsError {
    TlsError {
        part,
        text: text.into(),
    }
}

/// Read a CA bundle, and return its entries too. Those that cannot be used are noted, unless there is no other.
pub(super) fn roots(
    bundle: &[u8],
    notes: &mut Vec<String>,
) -> Result<(RootCertStore, Vec<CertificateDer<'static>>), TlsError> {
    let (mut roots, mut entries) = (RootCertStore::empty(), Vec::new());
    for (index, entry) in CertificateDer::pem_slice_iter(bundle).enumerate() {
        let added = match entry {
            Ok(entry) => {
                entries.push(entry.clone());
                roots.add(entry).map_err(|error| words::of_tls(&error).0)
            }
            Err(error) => Err(error.to_string()),
        };
        if let Err(text) = added {
            notes.push(format!("certificate {} cannot be used: {text}", index + 1));
        }
    }
    if roots.is_empty() {
        let text = notes.drain(..).next();
        let text = text.unwrap_or_else(|| "no PEM certificate in it".to_owned());
        return Err(error(Part::Ca, text));
    }
    Ok((roots, entries))
}

/// Read a certificate with those that follow it, and its key.
pub(crate) fn identity(cert: &[u8], key: &[u8]) -> Result<CertifiedKey, TlsError> {
    let chain: Result<Vec<_>, PemError> = CertificateDer::pem_slice_iter(cert).collect();
    let chain = chain.map_err(|problem| error(Part::Cert, problem.to_string()))?;
    if chain.is_empty() {
        return Err(error(Part::Cert, "no PEM certificate in it"));
    }
    let key = private_key(key)?;
    CertifiedKey::from_der(chain, key, provider()).map_err(|problem| match problem {
        rustls::Error::InconsistentKeys(_) => {
            error(Part::Key, "the key does not belong to the certificate")
        }
        rustls::Error::InvalidCertificate(_) => error(Part::Cert, words::of_tls(&problem).0),
        _ => error(
            Part::Key,
            "not supported: use RSA of 2,048 to 8,192 bits, ECDSA with P-256 or P-384, or Ed25519",
        ),
    })
}

fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    let text = String::from_utf8_lossy(pem);
    if text.contains("BEGIN ENCRYPTED PRIVATE KEY") || text.contains("Proc-Type: 4,ENCRYPTED") {
        return Err(error(
            Part::Key,
            "encrypted: pass phrases are not supported; decrypt it with `openssl pkey`",
        ));
    }
    PrivateKeyDer::from_pem_slice(pem).map_err(|problem| match problem {
        PemError::NoItemsFound => error(Part::Key, "no PEM private key in it"),
        // Its text could quote the key.
        _ => error(Part::Key, "invalid PEM"),
    })
}
