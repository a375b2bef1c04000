//! Where a client connects to, and what it sends with every request.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// The server of a client, as plain values.
#[derive(Clone)]
pub struct Settings {
    /// Whether connections use TLS.
    pub https: bool,
    /// The server's name or address, without brackets.
    pub host: String,
    /// The server's port.
    pub port: u16,
    /// The value of `Host`, and the server in absolute URIs.
    pub authority: String,
    /// The socket to connect to instead of host and port.
    pub unix_socket: Option<PathBuf>,
    /// Sent with every request. Names may repeat.
    pub headers: Vec<(String, String)>,
    /// The proxy of all connections; the rules of `NO_PROXY` are applied before.
    pub proxy: Option<Proxy>,
    /// The number of connections that wait for another request.
    pub max_idle: usize,
    /// How long a new connection may take, with its proxy and TLS.
    pub connect_timeout: Duration,
}

/// How to speak to a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyScheme {
    /// HTTP: CONNECT for https servers, absolute URIs for http ones.
    Http,
    /// The same over TLS, verified against the system's roots.
    Https,
    /// SOCKS 5; this host resolves the server's name.
    Socks5,
    /// SOCKS 5; the proxy resolves the server's name.
    Socks5h,
}

/// A proxy.
#[derive(Clone)]
pub struct Proxy {
    /// How to speak to it.
    pub scheme: ProxyScheme,
    /// Its name or address, without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// User and password, decoded.
    pub user: Option<(String, String)>,
    /// Sent to HTTP proxies.
    pub headers: Vec<(String, String)>,
}

// Headers and passwords are secrets.
impl fmt::Debug for Settings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Settings")
            .field("https", &self.https)
            .field("authority", &self.authority)
            .field("unix_socket", &self.unix_socket)
            .field("proxy", &self.proxy)
            .field("max_idle", &self.max_idle)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Proxy")
            .field("scheme", &self.scheme)
            .field("host", &self.host)
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}
