//! Tunnels through proxies: CONNECT by hyper, SOCKS 5 by hyper-util.

use std::future::{Ready, poll_fn, ready};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::Empty;
use hyper::client::conn::http1::Builder;
use hyper::header::{HOST, HeaderValue};
use hyper::{Method, Request, Uri};
use hyper_util::client::legacy::connect::proxy::SocksV5;
use hyper_util::rt::TokioIo;
use tower_service::Service;

use super::dial::resolve;
use super::failure::io_text;
use super::progress::Progress;
use super::request::proxy_headers;
use super::wire::Layers;
use super::{Failure, Proxy, ProxyScheme, Settings, Stage};

const LARGEST_HEAD: usize = 64 << 10;

fn fail(text: &str) -> Failure {
    Failure::new(Stage::Proxy, format!("the proxy failed: {text}"))
}

/// Return host and port as a URI names them.
fn authority(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// Ask an HTTP proxy for a connection to the server.
pub(super) async fn tunnel(
    layers: Layers,
    settings: &Settings,
    proxy: &Proxy,
) -> Result<Layers, Failure> {
    let server = authority(&settings.host, settings.port);
    let invalid = |_| fail("invalid host name");
    let mut request = Request::new(Empty::<Bytes>::new());
    *request.method_mut() = Method::CONNECT;
    *request.uri_mut() = Uri::try_from(server.clone()).map_err(invalid)?;
    *request.headers_mut() = proxy_headers(proxy)?;
    let host = HeaderValue::from_str(&server).map_err(|_| fail("invalid host name"))?;
    request.headers_mut().insert(HOST, host);

    let handshake = Builder::new()
        .max_header_size(LARGEST_HEAD)
        .handshake(TokioIo::new(layers));
    let (mut sender, mut connection) = handshake.await.map_err(|error| refused(&error))?;
    let mut response = Box::pin(sender.send_request(request));
    let response = poll_fn(|context| {
        // An error of the connection reaches the response.
        let _ = connection.poll_without_shutdown(context);
        response.as_mut().poll(context)
    });
    let response = response.await.map_err(|error| refused(&error))?;
    if !response.status().is_success() {
        return Err(fail(&format!("it answered {}", response.status())));
    }
    let parts = connection.into_parts();
    if !parts.read_buf.is_empty() {
        return Err(fail("it sent data before the server's"));
    }
    Ok(parts.io.into_inner())
}

fn refused(error: &hyper::Error) -> Failure {
    if error.is_incomplete_message() || error.is_canceled() {
        return fail("it closed the connection without a response");
    }
    match std::error::Error::source(error) {
        Some(source) => match source.downcast_ref() {
            Some(error) => fail(&io_text(error)),
            None => fail(&source.to_string()),
        },
        None => fail(&error.to_string()),
    }
}

/// Gives the one connection that is there already.
struct Given(Option<Layers>);

impl Service<Uri> for Given {
    type Response = TokioIo<Layers>;
    type Error = &'static str;
    type Future = Ready<Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _proxy: Uri) -> Self::Future {
        ready(self.0.take().map(TokioIo::new).ok_or("used twice"))
    }
}

/// Ask a SOCKS proxy for a connection to the server.
pub(super) async fn socks(
    layers: Layers,
    settings: &Settings,
    proxy: &Proxy,
    progress: &Progress,
) -> Result<Layers, Failure> {
    let mut server = authority(&settings.host, settings.port);
    if proxy.scheme == ProxyScheme::Socks5 {
        let addresses = resolve(&settings.host, settings.port, progress).await?;
        // SOCKS takes one address, and most networks behind proxies have IPv4.
        let address = addresses.iter().find(|address| address.is_ipv4());
        if let Some(address) = address.or(addresses.first()) {
            server = address.to_string();
        }
    }
    progress.enter(Stage::Proxy);
    let server = Uri::try_from(server).map_err(|_| fail("invalid host name"))?;
    let mut service = SocksV5::new(Uri::from_static("socks5://proxy"), Given(Some(layers)));
    if let Some((user, password)) = &proxy.user {
        service = service.with_auth(user.clone(), password.clone());
    }
    let connected = service.call(server).await.map_err(|error| {
        let text = error.to_string();
        fail(text.trim_start_matches("SOCKS error: "))
    })?;
    Ok(connected.into_inner())
}
