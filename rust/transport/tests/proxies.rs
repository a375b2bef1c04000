//! Connections through proxies.
#![expect(clippy::unwrap_used, reason = "it is a test")]

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use ctrlhost_transport::client::{Client, Proxy, ProxyScheme, Settings, Stage, Tls};
use support::certs::{Authority, accept, https, relay, serve};
use support::{Got, SOON, Server, call, get, ok, read_request, watch};

/// "us@er:pa:ss".
const BASIC: &str = "Basic dXNAZXI6cGE6c3M=";

fn through(settings: Settings, scheme: ProxyScheme, proxy: &Server, user: bool) -> Settings {
    Settings {
        proxy: Some(Proxy {
            scheme,
            host: "127.0.0.1".into(),
            port: proxy.address.port(),
            user: user.then(|| ("us@er".into(), "pa:ss".into())),
            headers: vec![("X-Proxy".into(), "a".into())],
        }),
        ..settings
    }
}

/// Connect as CONNECT asks, and note the request.
fn tunnels(sender: Sender<Got>) -> impl Fn(TcpStream, usize) + Send + Sync {
    move |mut stream, number| {
        let got = read_request(&mut stream, number).unwrap();
        let target = got.line.split(' ').nth(1).unwrap().to_owned();
        sender.send(got).unwrap();
        let server = TcpStream::connect(target).unwrap();
        stream
            .write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
            .unwrap();
        relay(stream, server);
    }
}

// behaviour: scale/SC45
#[test]
fn http_proxies_tunnel_https_and_forward_http() {
    let authority = Authority::new();
    let (server, requests) = serve(authority.config());
    let (sender, asked) = channel();
    let proxy = Server::start(tunnels(sender));
    let settings = through(https(&server), ProxyScheme::Http, &proxy, true);
    let client = Client::new(settings, Some(authority.tls()));
    let mut call = get();
    call.headers
        .push(("Authorization".into(), "Bearer secret".into()));
    client.call(call).unwrap();
    assert_eq!(client.stream(watch()).unwrap().0.status, 200);
    let port = server.address.port();
    let connect = asked.recv().unwrap();
    assert_eq!(connect.line, format!("CONNECT 127.0.0.1:{port} HTTP/1.1"));
    let host = format!("127.0.0.1:{port}");
    assert_eq!(connect.header("host"), Some(&*host));
    assert_eq!(connect.header("proxy-authorization"), Some(BASIC));
    assert_eq!(connect.header("x-proxy"), Some("a"));
    assert_eq!(connect.header("authorization"), None);
    assert_eq!(connect.header("user-agent"), None);
    for line in ["GET /api HTTP/1.1", "GET /watch HTTP/1.1"] {
        let got = requests.recv().unwrap();
        assert_eq!(got.line, line);
        assert_eq!(got.header("proxy-authorization"), None);
        assert_eq!(got.header("x-proxy"), None);
    }

    let (proxy, requests) = Server::answering(|_| ok("forwarded"));
    let settings = through(
        support::settings("api.example", 8080),
        ProxyScheme::Http,
        &proxy,
        true,
    );
    let client = Client::new(settings, None);
    assert_eq!(&*client.call(get()).unwrap().body, b"forwarded");
    client.stream(watch()).unwrap();
    for path in ["api", "watch"] {
        let got = requests.recv().unwrap();
        assert_eq!(
            got.line,
            format!("GET http://api.example:8080/{path} HTTP/1.1")
        );
        assert_eq!(got.header("host"), Some("api.example:8080"));
        assert_eq!(got.header("proxy-authorization"), Some(BASIC));
        assert_eq!(got.header("x-proxy"), Some("a"));
    }
}

/// Return the text of a failure through such a proxy.
fn fails(proxy: &Server, scheme: ProxyScheme) -> String {
    let settings = Settings {
        https: true,
        ..support::settings("api.example", 443)
    };
    let tls = Tls::from_pem(None, None, None, false, true, None).unwrap();
    let client = Client::new(through(settings, scheme, proxy, true), Some(tls));
    let error = client
        .call(call("POST", "x", Duration::from_millis(700)))
        .unwrap_err();
    assert_eq!(
        (error.stage, error.sent, error.unknown_ca),
        (Stage::Proxy, false, false),
        "{error}"
    );
    assert!(
        !error.text.contains("pa:ss") && !error.text.contains(BASIC),
        "{error}"
    );
    error.text
}

// behaviour: scale/SC45
#[test]
fn a_refusing_proxy_is_named() {
    let answer = "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 2\r\n\r\nno";
    let text = "the proxy failed: it answered 407 Proxy Authentication Required";
    assert_eq!(fails(&Server::saying(answer), ProxyScheme::Http), text);
    let closes = Server::start(|mut stream, number| drop(read_request(&mut stream, number)));
    let text = "the proxy failed: it closed the connection without a response";
    assert_eq!(fails(&closes, ProxyScheme::Http), text);
    let silent = Server::start(
        |mut stream, _| {
            while stream.read(&mut [0; 100]).is_ok_and(|count| count > 0) {}
        },
    );
    for scheme in [ProxyScheme::Http, ProxyScheme::Socks5h] {
        assert_eq!(
            fails(&silent, scheme),
            "the proxy failed: no answer in time"
        );
    }
    let gone = Server::saying("");
    let rest = Server {
        // Nothing listens there.
        address: "127.0.0.1:1".parse().unwrap(),
        ..gone
    };
    let text = "the proxy failed: cannot connect: Connection refused";
    assert_eq!(fails(&rest, ProxyScheme::Http), text);
    let endless = Server::start(|mut stream, _| {
        let mut written = stream.write_all(b"HTTP/1.1 200 OK\r\n");
        while written.is_ok() {
            written = stream.write_all(b"A: bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\r\n");
        }
    });
    assert!(fails(&endless, ProxyScheme::Http).starts_with("the proxy failed: "));
}

/// The kind of an address, the address, and the user.
type Asked = (u8, Vec<u8>, Vec<u8>);

/// Speak SOCKS 5 with user and password, note what is asked for, and connect to `port`.
fn socks(mut stream: TcpStream, port: u16, sender: &Sender<Asked>, code: u8) {
    let mut answers = stream.try_clone().unwrap();
    let mut read = |count: usize| {
        let mut bytes = vec![0; count];
        stream.read_exact(&mut bytes).unwrap();
        bytes
    };
    assert_eq!(read(3), [5, 1, 2]);
    answers.write_all(&[5, 2]).unwrap();
    let mut login = read(1);
    for _ in 0..2 {
        let length = read(1)[0];
        login.extend(read(length.into()));
        login.push(b'|');
    }
    answers.write_all(&[1, 0]).unwrap();
    assert_eq!(read(3), [5, 1, 0]);
    let kind = read(1)[0];
    let length = if kind == 3 { read(1)[0] } else { 4 };
    let name = read(length.into());
    assert_eq!(read(2), port.to_be_bytes());
    sender.send((kind, name, login)).unwrap();
    answers
        .write_all(&[5, code, 0, 1, 0, 0, 0, 0, 0, 0])
        .unwrap();
    if code == 0 {
        relay(stream, TcpStream::connect(("127.0.0.1", port)).unwrap());
    }
}

fn socks_proxy(port: u16, code: u8) -> (Server, Receiver<Asked>) {
    let (sender, asked) = channel();
    (
        Server::start(move |stream, _| socks(stream, port, &sender, code)),
        asked,
    )
}

// behaviour: scale/SC46
#[test]
fn socks_proxies_get_an_address_or_the_name() {
    let authority = Authority::new();
    let (server, _requests) = serve(support::certs::config(&authority.named(&["localhost"])));
    let port = server.address.port();
    let login = b"\x01us@er|pa:ss|".to_vec();
    for (scheme, asked_for) in [
        (ProxyScheme::Socks5, (1, vec![127, 0, 0, 1], login.clone())),
        (
            ProxyScheme::Socks5h,
            (3, b"localhost".to_vec(), login.clone()),
        ),
    ] {
        let (proxy, asked) = socks_proxy(port, 0);
        let settings = Settings {
            https: true,
            ..support::settings("localhost", port)
        };
        let settings = through(settings, scheme, &proxy, true);
        let client = Client::new(settings, Some(authority.tls()));
        assert_eq!(&*client.call(get()).unwrap().body, b"yes");
        assert_eq!(asked.recv().unwrap(), asked_for);
    }
    let (plain, requests) = Server::answering(|_| ok(""));
    let (proxy, _asked) = socks_proxy(plain.address.port(), 0);
    let settings = through(plain.settings(), ProxyScheme::Socks5h, &proxy, true);
    Client::new(settings, None).call(get()).unwrap();
    let got = requests.recv().unwrap();
    assert_eq!(got.line, "GET /api HTTP/1.1");
    assert_eq!(got.header("x-proxy"), None);
    let (proxy, _asked) = socks_proxy(443, 5);
    let text = fails(&proxy, ProxyScheme::Socks5h);
    assert!(text.to_lowercase().contains("refused"), "{text}");
}

// behaviour: scale/SC47
#[test]
fn an_https_proxy_is_verified_with_the_system_roots() {
    let (system, cluster) = (Authority::new(), Authority::new());
    let file = std::env::temp_dir().join(format!("roots-{}.pem", std::process::id()));
    std::fs::write(&file, &system.pem).unwrap();
    // SAFETY: no thread of this process reads the environment at the same time: the roots are read below.
    unsafe { std::env::set_var("SSL_CERT_FILE", &file) };
    let (server, requests) = serve(cluster.config());
    for (authority, trusted) in [(&system, true), (&cluster, false)] {
        let config = Arc::new(authority.config());
        let (sender, asked) = channel();
        let proxy = Server::start(move |stream, number| {
            let mut stream = accept(&config, stream);
            let Some(got) = read_request(&mut stream, number) else {
                return;
            };
            let target = got.line.split(' ').nth(1).unwrap().to_owned();
            sender.send(got).unwrap();
            let server = TcpStream::connect(target).unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
            support::certs::relay_tls(stream, server);
        });
        let settings = through(https(&server), ProxyScheme::Https, &proxy, true);
        let client = Client::new(settings, Some(cluster.tls()));
        let result = client.call(call("POST", "x", SOON));
        if trusted {
            assert_eq!(&*result.unwrap().body, b"yes");
            assert!(asked.recv().unwrap().line.starts_with("CONNECT 127.0.0.1:"));
            assert_eq!(requests.recv().unwrap().body, b"x");
        } else {
            let error = result.unwrap_err();
            assert!(
                error.text.starts_with("the proxy failed: TLS failed: "),
                "{error}"
            );
            assert_eq!((error.sent, error.unknown_ca), (false, false));
            assert!(asked.try_recv().is_err());
        }
    }
    std::fs::remove_file(file).unwrap();
}
