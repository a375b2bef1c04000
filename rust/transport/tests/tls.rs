//! TLS: what is offered, what is verified, and what is said where it fails.
#![expect(clippy::unwrap_used, reason = "it is a test")]

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use ctrlhost_transport::client::{Client, Failure, Stage, Tls};
use rcgen::{CertificateParams, KeyPair};
use rustls::server::Acceptor;
use rustls::version::{TLS12, TLS13};
use support::certs::{Authority, accept, client, config, config_with, serve, tls};
use support::{SOON, Server, call, get, ok, read_request, settings, until, watch};

/// Verify nothing.
fn insecure() -> Tls {
    Tls::from_pem(None, None, None, false, true, None).unwrap()
}

fn fails(server: &Server, tls: Tls) -> Failure {
    let error = client(server, tls).call(get()).unwrap_err();
    assert_eq!((error.stage, error.sent), (Stage::Tls, false), "{error}");
    assert!(error.text.starts_with("TLS failed: "), "{error}");
    error
}

#[test]
fn calls_and_streams_work_over_tls() {
    let authority = Authority::new();
    let (server, requests) = serve(authority.config());
    let client = client(&server, authority.tls());
    let body = "x".repeat(100_000);
    let response = client.call(call("POST", &body, SOON)).unwrap();
    assert_eq!(&*response.body, b"yes");
    assert_eq!(requests.recv().unwrap().body, body.as_bytes());
    let (_, stream) = client.stream(watch()).unwrap();
    assert_eq!(&*stream.unwrap().read(SOON).unwrap().unwrap(), b"yes");
    assert_eq!(server.connections(), 1);
}

/// Pass on TLS records, and note the lengths of those with application data.
fn note_records(mut from: impl Read, mut to: impl Write, lengths: &Sender<usize>) {
    let mut header = [0; 5];
    while from.read_exact(&mut header).is_ok() {
        let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
        let mut record = vec![0; length];
        from.read_exact(&mut record).unwrap();
        if header[0] == 23 {
            lengths.send(length).unwrap();
        }
        to.write_all(&[&header[..], &record].concat()).unwrap();
    }
}

#[test]
fn head_and_body_are_one_record() {
    let authority = Authority::new();
    let (cert, key) = authority.named(&["127.0.0.1"]);
    let (server, _requests) = serve(config_with(&cert, &key, &[&TLS12], None));
    let address = server.address;
    let (sender, lengths) = channel();
    let relay = Server::start(move |stream, _| {
        let server = TcpStream::connect(address).unwrap();
        let (back, mut to) = (server.try_clone().unwrap(), stream.try_clone().unwrap());
        thread::spawn(move || std::io::copy(&mut &back, &mut to));
        note_records(stream, server, &sender);
    });
    let client = client(&relay, authority.tls());
    for size in [400, 15_000] {
        client.call(call("PATCH", &"x".repeat(size), SOON)).unwrap();
        assert!(lengths.recv().unwrap() > size);
        assert!(lengths.try_recv().is_err());
    }
}

// behaviour: scale/SC6
#[test]
fn http_1_1_alone_is_offered() {
    let (offered, offers) = channel();
    let server = Server::start(move |mut stream, _| {
        let mut acceptor = Acceptor::default();
        let accepted = loop {
            acceptor.read_tls(&mut stream).unwrap();
            if let Some(accepted) = acceptor.accept().unwrap() {
                break accepted;
            }
        };
        let hello = accepted.client_hello();
        let protocols = hello
            .alpn()
            .unwrap()
            .map(<[u8]>::to_vec)
            .collect::<Vec<_>>();
        let name = hello.server_name().map(str::to_owned);
        offered.send((protocols, name)).unwrap();
    });
    client(&server, insecure()).call(get()).unwrap_err();
    let (protocols, name) = offers.recv().unwrap();
    assert_eq!(protocols, [b"http/1.1"]);
    // An address is not a server name.
    assert_eq!(name, None);
}

// behaviour: scale/SC30
#[test]
fn one_of_several_authorities_signed() {
    let authorities = [Authority::new(), Authority::new(), Authority::new()];
    let (server, _requests) = serve(authorities[1].config());
    let rubbish = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let pems = authorities.each_ref().map(|authority| &*authority.pem);
    let bundle = [pems[0], rubbish, pems[1], "some text\n", pems[2]].concat();
    let tls = tls(&bundle, None);
    assert_eq!(
        tls.notes,
        ["certificate 2 cannot be used: malformed certificate"]
    );
    assert_eq!(client(&server, tls).call(get()).unwrap().status, 200);
    for (bundle, text) in [
        (
            rubbish,
            "certificate 1 cannot be used: malformed certificate",
        ),
        ("", "no PEM certificate in it"),
    ] {
        let error = Tls::from_pem(Some(bundle.as_bytes()), None, None, true, true, None);
        assert_eq!(error.unwrap_err().text, text);
    }
}

// behaviour: scale/SC32
#[test]
fn the_configured_server_name_is_sent_and_verified() {
    let authority = Authority::new();
    for (name, sent) in [("api.example", Some("api.example")), ("192.0.2.7", None)] {
        let config = Arc::new(config(&authority.named(&[name])));
        let (seen, names) = channel();
        let server = Server::start(move |stream, number| {
            let mut stream = accept(&config, stream);
            while let Some(got) = read_request(&mut stream, number) {
                let name = stream.conn.server_name().map(str::to_owned);
                seen.send((name, got.header("host").unwrap().to_owned()))
                    .unwrap();
                stream.write_all(&ok("")).unwrap();
            }
        });
        let ca = Some(authority.pem.as_bytes());
        let tls = |name| Tls::from_pem(ca, None, None, true, true, name).unwrap();
        let host = format!("127.0.0.1:{}", server.address.port());
        let client_of = client(&server, tls(Some(name)));
        client_of.call(get()).unwrap();
        client_of.stream(watch()).unwrap();
        for _ in 0..2 {
            let expected = (sent.map(str::to_owned), host.clone());
            assert_eq!(names.recv().unwrap(), expected);
        }
        let error = fails(&server, tls(Some("other.example")));
        assert!(
            error.text.contains("not valid for other.example, only for"),
            "{error}"
        );
        assert!(error.text.contains(name), "{error}");
        // Without the check of names the authority still counts.
        let any = Tls::from_pem(ca, None, None, true, false, None).unwrap();
        client(&server, any).call(get()).unwrap();
        let stranger = Authority::new().pem;
        let stranger = Tls::from_pem(Some(stranger.as_bytes()), None, None, true, false, None);
        assert!(fails(&server, stranger.unwrap()).unknown_ca);
    }
    let error = Tls::from_pem(None, None, None, true, true, Some("a b")).unwrap_err();
    assert_eq!(error.text, "neither a host name nor an IP address");
}

// behaviour: scale/SC33
#[test]
fn both_versions_work() {
    let authority = Authority::new();
    let (cert, key) = authority.named(&["127.0.0.1"]);
    for version in [&TLS12, &TLS13] {
        let (server, _requests) = serve(config_with(&cert, &key, &[version], None));
        let client = client(&server, authority.tls());
        for _ in 0..3 {
            client.call(get()).unwrap();
            client.close();
        }
        // Later handshakes resume the session.
        let counts = client.counts();
        assert_eq!((counts.full, counts.resumed), (1, 2), "{version:?}");
    }
    // What a server without both says.
    let old = Server::start(|mut stream, _| {
        let _ = stream.read(&mut [0; 1000]).unwrap();
        stream.write_all(&[21, 3, 1, 0, 2, 2, 70]).unwrap();
    });
    let error = fails(&old, authority.tls());
    assert!(error.text.contains("TLS 1.2 and 1.3"), "{error}");
    assert!(error.text.contains("ProtocolVersion"), "{error}");
}

// behaviour: scale/SC34
#[test]
fn the_wrong_scheme_is_said() {
    let authority = Authority::new();
    let lines = Server::start(|mut stream, _| {
        let _ = stream.read(&mut [0; 1000]).unwrap();
        stream
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .unwrap();
    });
    let error = fails(&lines, authority.tls());
    assert!(
        error
            .text
            .contains("does not speak TLS on this port: use an http URL"),
        "{error}"
    );
    let (server, _requests) = serve(authority.config());
    let error = server.client().call(get()).unwrap_err();
    assert_eq!(
        error.text,
        "the server speaks TLS on this port: use an https URL"
    );
}

// behaviour: scale/SC35
#[test]
fn the_end_of_tls_without_close_notify_is_a_cut() {
    let authority = Authority::new();
    let cut = "the connection was cut in the middle of the response";
    for (answer, complete) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", true),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
            false,
        ),
        ("HTTP/1.1 200 OK\r\n\r\nabc", false),
    ] {
        let config = Arc::new(authority.config());
        let server = Server::start(move |stream, number| {
            let mut stream = accept(&config, stream);
            read_request(&mut stream, number).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
            stream.flush().unwrap();
        });
        let client = client(&server, authority.tls());
        let (_, stream) = client.stream(watch()).unwrap();
        let stream = stream.unwrap();
        assert_eq!(&*stream.read(SOON).unwrap().unwrap(), b"abc");
        let called = client.call(get());
        if complete {
            assert_eq!(stream.read(SOON).unwrap(), None);
            assert_eq!(&*called.unwrap().body, b"abc");
        } else {
            let cut_stream = cut.replace("response", "stream");
            assert_eq!(stream.read(SOON).unwrap_err().text, cut_stream);
            assert_eq!(called.unwrap_err().text, cut);
        }
    }
    let config = Arc::new(authority.config());
    let proper = Server::start(move |stream, number| {
        let mut stream = accept(&config, stream);
        read_request(&mut stream, number).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nabc").unwrap();
        stream.conn.send_close_notify();
        stream.flush().unwrap();
    });
    let response = client(&proper, authority.tls()).call(get()).unwrap();
    assert_eq!(&*response.body, b"abc");
}

// behaviour: scale/SC36
#[test]
fn replaced_tls_values_count_for_new_connections() {
    let (old, new) = (Authority::new(), Authority::new());
    let current = Arc::new(Mutex::new(Arc::new(old.config())));
    let held = current.clone();
    let (go, going) = channel::<()>();
    let going = Mutex::new(going);
    let server = Server::start(move |stream, number| {
        let config = held.lock().unwrap().clone();
        let mut stream = accept(&config, stream);
        while let Some(got) = read_request(&mut stream, number) {
            if got.line.contains("/watch") {
                let beginning = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
                stream.write_all(beginning.as_bytes()).unwrap();
                going.lock().unwrap().recv().unwrap();
                stream.write_all(b"3\r\nabc\r\n0\r\n\r\n").unwrap();
            } else {
                stream.write_all(&ok("")).unwrap();
            }
        }
    });
    let client = client(&server, old.tls());
    client.call(get()).unwrap();
    let (_, stream) = client.stream(watch()).unwrap();
    client.call(get()).unwrap();
    until(&client, |counts| counts.idle == 1);
    *current.lock().unwrap() = Arc::new(new.config());
    client.set_tls(&new.tls());
    assert_eq!(client.counts().idle, 0);
    client.call(get()).unwrap();
    // The stream goes on, and its connection is not used again.
    go.send(()).unwrap();
    let stream = stream.unwrap();
    assert_eq!(&*stream.read(SOON).unwrap().unwrap(), b"abc");
    assert_eq!(stream.read(SOON).unwrap(), None);
    until(&client, |counts| counts.stream == 0);
    assert_eq!(client.counts().idle, 1);
    client.call(get()).unwrap();
    assert_eq!(server.connections(), 3);
}

#[test]
fn secrets_are_in_no_text() {
    let pair = KeyPair::generate().unwrap();
    let own = CertificateParams::new(vec!["127.0.0.1".into()]).unwrap();
    let cert = own.self_signed(&pair).unwrap().pem();
    let key = pair.serialize_pem();
    let tls = tls(&cert, Some((&cert, &key)));
    let secret = key.lines().nth(1).unwrap();
    assert!(!format!("{tls:?}").contains(secret));
    let mut settings = settings("127.0.0.1", 1);
    settings
        .headers
        .push(("Authorization".into(), "Bearer topsecret".into()));
    assert!(!format!("{settings:?}").contains("topsecret"));
    let mut call = get();
    call.headers
        .push(("Authorization".into(), "Bearer topsecret".into()));
    assert!(!format!("{call:?}").contains("topsecret"));
    let error = Client::new(settings, None).call(call).unwrap_err();
    assert_eq!(error.text, "cannot connect: Connection refused");
}
