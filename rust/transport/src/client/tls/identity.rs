//! Trust in a certificate of a server that is itself in the CA bundle, as Go has it.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

/// Verifies as `inner` does. If only the authority is missing, the certificate itself may be in the bundle.
#[derive(Debug)]
pub(super) struct ByIdentity {
    pub(super) inner: Arc<dyn ServerCertVerifier>,
    pub(super) bundle: Arc<[CertificateDer<'static>]>,
    pub(super) check_name: bool,
}

impl ServerCertVerifier for ByIdentity {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let inner = &self.inner;
        let verified =
            inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        let Err(error) = verified else {
            return verified;
        };
        let is_known = || self.bundle.iter().any(|known| **known == **end_entity);
        if !is_of_the_authority(&error) || !is_known() {
            return Err(error);
        }
        if self.check_name {
            verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// Return whether it is about who signed. The times of the certificate are verified before.
fn is_of_the_authority(error: &Error) -> bool {
    use CertificateError as C;
    match error {
        Error::InvalidCertificate(
            C::UnknownIssuer
            | C::BadSignature
            | C::UnsupportedSignatureAlgorithmContext { .. }
            | C::UnsupportedSignatureAlgorithmForPublicKeyContext { .. },
        ) => true,
        Error::InvalidCertificate(C::Other(other)) => {
            format!("{other:?}").contains("CaUsedAsEndEntity")
        }
        _ => false,
    }
}
