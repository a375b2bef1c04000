//! What rustls is configured with, and the verifiers for those who want less verified.

use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::server::ParsedCertificate;
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::Tls;
use super::identity::ByIdentity;

/// Return the cryptography. It is handed over, and never installed for the process.
pub(crate) fn provider() -> &'static Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    PROVIDER.get_or_init(|| {
        #[cfg(feature = "aws-lc-rs")]
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        #[cfg(not(feature = "aws-lc-rs"))]
        let provider = rustls::crypto::ring::default_provider();
        Arc::new(provider)
    })
}

/// What connections are made with.
#[derive(Clone)]
pub(in super::super) struct Security {
    /// Or why there is none.
    pub(in super::super) config: Result<Arc<ClientConfig>, String>,
    /// Instead of the host.
    pub(in super::super) server_name: Option<ServerName<'static>>,
}

impl Security {
    pub(super) fn new(tls: &Tls) -> Self {
        Self {
            config: config(tls).map(Arc::new),
            server_name: tls.server_name.clone(),
        }
    }
}

/// Return what connections to proxies are made with: the system's authorities, and no certificate.
pub(in super::super) fn system_security() -> Security {
    static SYSTEM: OnceLock<Security> = OnceLock::new();
    let system = || {
        Security::new(&Tls {
            notes: Vec::new(),
            roots: None,
            bundle: Arc::new([]),
            identity: None,
            verify: true,
            check_name: true,
            server_name: None,
        })
    };
    SYSTEM.get_or_init(system).clone()
}

fn system_roots() -> Result<Arc<RootCertStore>, String> {
    static ROOTS: OnceLock<Result<Arc<RootCertStore>, String>> = OnceLock::new();
    let load = || {
        let mut roots = RootCertStore::empty();
        let loaded = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(loaded.certs);
        if roots.is_empty() {
            let why = loaded.errors.first();
            let why = why.map_or_else(String::new, |error| format!(" ({error})"));
            return Err(format!("this system has no CA certificates{why}"));
        }
        Ok(Arc::new(roots))
    };
    ROOTS.get_or_init(load).clone()
}

fn config(tls: &Tls) -> Result<ClientConfig, String> {
    let provider = provider();
    let algorithms = provider.signature_verification_algorithms;
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let verifier: Arc<dyn ServerCertVerifier> = if tls.verify {
        let roots = match &tls.roots {
            Some(roots) => roots.clone(),
            None => system_roots()?,
        };
        if tls.check_name {
            WebPkiServerVerifier::builder_with_provider(roots, provider.clone())
                .build()
                .map_err(|error| error.to_string())?
        } else {
            Arc::new(Lenient {
                roots: Some(roots),
                algorithms,
            })
        }
    } else {
        Arc::new(Lenient {
            roots: None,
            algorithms,
        })
    };
    let verifier = if tls.bundle.is_empty() {
        verifier
    } else {
        Arc::new(ByIdentity {
            inner: verifier,
            bundle: tls.bundle.clone(),
            check_name: tls.check_name,
        })
    };
    let builder = builder
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let mut config = match &tls.identity {
        Some(identity) => {
            let identity = SingleCertAndKey::from(identity.clone());
            builder.with_client_cert_resolver(Arc::new(identity))
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Verifies who signed the certificate, but not for which name; without roots it verifies nothing.
#[derive(Debug)]
struct Lenient {
    roots: Option<Arc<RootCertStore>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Lenient {
    /// Return what `verify` says. A signature by a key that anybody may have made proves nothing.
    fn verified(
        &self,
        verify: impl FnOnce() -> Result<HandshakeSignatureValid, Error>,
    ) -> Result<HandshakeSignatureValid, Error> {
        match self.roots {
            Some(_) => verify(),
            None => Ok(HandshakeSignatureValid::assertion()),
        }
    }
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(roots) = &self.roots {
            let (certificate, all) = (
                ParsedCertificate::try_from(end_entity)?,
                self.algorithms.all,
            );
            verify_server_cert_signed_by_trust_anchor(
                &certificate,
                roots,
                intermediates,
                now,
                all,
            )?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.algorithms;
        self.verified(|| verify_tls12_signature(message, certificate, signature, known))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.algorithms;
        self.verified(|| verify_tls13_signature(message, certificate, signature, known))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
