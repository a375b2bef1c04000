//! Certificates, and servers that show them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use ctrlhost_transport::client::{Client, Settings, Tls};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::server::WebPkiClientVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::{Got, Server, answer_all, ok};

/// An authority.
pub struct Authority {
    pub issuer: Issuer<'static, KeyPair>,
    pub pem: String,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    /// Return a certificate and its key as PEM.
    pub fn issue(&self, params: &CertificateParams) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    pub fn named(&self, names: &[&str]) -> (String, String) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        self.issue(&CertificateParams::new(names).unwrap())
    }

    /// Return values that trust this authority alone.
    pub fn tls(&self) -> Tls {
        tls(&self.pem, None)
    }

    /// Return a configuration for 127.0.0.1.
    pub fn config(&self) -> ServerConfig {
        config(&self.named(&["127.0.0.1"]))
    }
}

pub fn tls(ca: &str, identity: Option<(&str, &str)>) -> Tls {
    let cert = identity.map(|(cert, _)| cert.as_bytes());
    let key = identity.map(|(_, key)| key.as_bytes());
    Tls::from_pem(Some(ca.as_bytes()), cert, key, true, true, None).unwrap()
}

pub fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Return the configuration of a server with this certificate and key.
pub fn config((cert, key): &(String, String)) -> ServerConfig {
    config_with(cert, key, &[&TLS12, &TLS13], None)
}

/// The same, with versions, and with an authority by which clients must be signed.
pub fn config_with(
    cert: &str,
    key: &str,
    versions: &[&'static rustls::SupportedProtocolVersion],
    clients: Option<&str>,
) -> ServerConfig {
    let chain = CertificateDer::pem_slice_iter(cert.as_bytes()).map(Result::unwrap);
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let builder = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(versions)
        .unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(pem) => {
            let mut roots = RootCertStore::empty();
            roots
                .add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap())
                .unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider());
            builder.with_client_cert_verifier(verifier.build().unwrap())
        }
    };
    // Unlike `with_single_cert` this shows certificates that rustls itself would refuse.
    let key = provider().key_provider.load_private_key(key).unwrap();
    let pair = CertifiedKey::new(chain.collect(), key);
    builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(pair)))
}

pub type TlsServerStream = StreamOwned<ServerConnection, TcpStream>;

/// Begin TLS as a server.
pub fn accept(config: &Arc<ServerConfig>, stream: TcpStream) -> TlsServerStream {
    StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), stream)
}

/// A server over TLS that answers each request with 200.
pub fn serve(config: ServerConfig) -> (Server, Receiver<Got>) {
    let (sender, receiver) = channel();
    let config = Arc::new(config);
    let server = Server::start(move |stream, number| {
        let mut stream = accept(&config, stream);
        answer_all(&mut stream, number, &sender, &|_: &Got| ok("yes"));
    });
    (server, receiver)
}

pub fn https(server: &Server) -> Settings {
    Settings {
        https: true,
        ..server.settings()
    }
}

pub fn client(server: &Server, tls: Tls) -> Client {
    Client::new(https(server), Some(tls))
}

/// Copy everything from one side to the other until it ends.
pub fn relay(one: TcpStream, other: TcpStream) {
    let (from, to) = (one.try_clone().unwrap(), other.try_clone().unwrap());
    let back = std::thread::spawn(move || copy(other, one));
    copy(from, to);
    back.join().unwrap();
}

fn copy(mut from: TcpStream, mut to: TcpStream) {
    let mut piece = [0; 16 << 10];
    while let Ok(count) = from.read(&mut piece) {
        if count == 0 || to.write_all(&piece[..count]).is_err() {
            break;
        }
    }
    // The other side may be gone.
    let _ = to.shutdown(std::net::Shutdown::Write);
}

/// The same for a side with TLS, in one thread: it takes turns while either side has something.
pub fn relay_tls(mut tls: TlsServerStream, mut other: TcpStream) {
    let short = Some(std::time::Duration::from_millis(1));
    tls.sock.set_read_timeout(short).unwrap();
    other.set_read_timeout(short).unwrap();
    let waits = |error: &std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
    let mut piece = [0; 16 << 10];
    loop {
        match tls.read(&mut piece) {
            Ok(count) if count > 0 => other.write_all(&piece[..count]).unwrap(),
            Err(error) if waits(&error) => {}
            _ => return,
        }
        match other.read(&mut piece) {
            Ok(count) if count > 0 => tls.write_all(&piece[..count]).unwrap(),
            Err(error) if waits(&error) => {}
            _ => return,
        }
    }
}
