//! New connections: socket, proxy, TLS, HTTP.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustls::{ClientConfig, HandshakeKind};
use rustls_pki_types::ServerName;
use tokio::net::UnixStream;
use tokio_rustls::TlsConnector;

use super::dial::dial;
use super::failure::io_text;
use super::line::Line;
use super::progress::Progress;
use super::tls::{Security, system_security, words};
use super::wire::{Layers, Wire};
use super::{Failure, Inner, Proxy, ProxyScheme, Stage, proxy};

/// Connect to the server of a client.
pub(super) async fn connect(inner: &Inner, progress: &Progress) -> Result<Line, Failure> {
    let generation = inner.pool.generation();
    let settings = &inner.settings;
    let layers = if let Some(path) = &settings.unix_socket {
        progress.enter(Stage::Connect);
        let stream = UnixStream::connect(path).await.map_err(|error| {
            let text = format!("cannot connect: {}: {}", path.display(), io_text(&error));
            Failure::new(Stage::Connect, text)
        })?;
        Layers::Plain(Wire::unix(stream))
    } else if let Some(proxy) = &settings.proxy {
        let reached = reach(inner, proxy, progress).await;
        // Whatever went wrong: it was the proxy, not the server.
        reached.map_err(|mut failure| {
            if !failure.text.starts_with("the proxy failed") {
                failure.text = format!("the proxy failed: {}", failure.text);
            }
            failure.unknown_ca = false;
            failure.stage = Stage::Proxy;
            failure
        })?
    } else {
        let stream = dial(&settings.host, settings.port, progress).await?;
        Layers::Plain(Wire::tcp(stream))
    };
    if !settings.https {
        return Line::new(layers, generation, inner.last_byte.clone()).await;
    }
    let security = inner.security.lock().clone();
    let none = || Failure::new(Stage::Tls, "TLS failed: no TLS settings");
    let security = security.ok_or_else(none)?;
    let layers = secure(inner, layers, &security, &settings.host, progress).await?;
    Line::new(layers, generation, inner.last_byte.clone()).await
}

/// Connect through a proxy.
async fn reach(inner: &Inner, proxy: &Proxy, progress: &Progress) -> Result<Layers, Failure> {
    let settings = &inner.settings;
    let stream = dial(&proxy.host, proxy.port, progress).await?;
    let mut layers = Layers::Plain(Wire::tcp(stream));
    match proxy.scheme {
        ProxyScheme::Http | ProxyScheme::Https => {
            if proxy.scheme == ProxyScheme::Https {
                let system = system_security();
                layers = secure(inner, layers, &system, &proxy.host, progress).await?;
            }
            progress.enter(Stage::Proxy);
            if settings.https {
                layers = proxy::tunnel(layers, settings, proxy).await?;
            }
            Ok(layers)
        }
        ProxyScheme::Socks5 | ProxyScheme::Socks5h => {
            proxy::socks(layers, settings, proxy, progress).await
        }
    }
}

/// Begin TLS.
async fn secure(
    inner: &Inner,
    layers: Layers,
    security: &Security,
    host: &str,
    progress: &Progress,
) -> Result<Layers, Failure> {
    progress.enter(Stage::Tls);
    let fail = |text: &str| Failure::new(Stage::Tls, format!("TLS failed: {text}"));
    let config: Arc<ClientConfig> = security.config.clone().map_err(|text| fail(&text))?;
    let name = match &security.server_name {
        Some(name) => name.clone(),
        None => ServerName::try_from(host.to_owned())
            .map_err(|_| fail(&format!("invalid server name: {host:?}")))?,
    };
    let stream = TlsConnector::from(config).connect(name, layers).await;
    let stream = stream.map_err(|error| {
        let (text, unknown_ca) = words::of_handshake(&error);
        Failure {
            unknown_ca,
            ..fail(&text)
        }
    })?;
    let resumed = stream.get_ref().1.handshake_kind() == Some(HandshakeKind::Resumed);
    let count = if resumed { &inner.resumed } else { &inner.full };
    count.fetch_add(1, Ordering::Relaxed);
    Ok(Layers::Tls(Box::new(stream)))
}
