//! Answers that are late, invalid or too large.
#![expect(clippy::unwrap_used, reason = "it is a test")]

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ctrlhost_transport::client::{Client, Failure, Stage};
use support::certs::{Authority, accept, client as tls_client};
use support::{SOON, Server, call, get, ok, read_request, watch};

/// Time enough for a connection, and short for a test.
const BOUND: Duration = Duration::from_secs(1);

fn fails(server: &Server) -> Failure {
    server.client().call(get()).unwrap_err()
}

fn late(client: &Client) -> (Stage, String) {
    let error = client.call(call("GET", "", BOUND)).unwrap_err();
    assert!(error.timed_out, "{error:?}");
    (error.stage, error.text)
}

/// Serve the first connections so, and wait until the client closes them.
fn silent_after(bytes: &'static [u8]) -> Server {
    Server::start(move |mut stream, number| {
        read_request(&mut stream, number).unwrap();
        stream.write_all(bytes).unwrap();
        while stream.read(&mut [0; 100]).is_ok_and(|count| count > 0) {}
    })
}

// behaviour: scale/SC12
#[test]
fn each_bound_says_where_it_stood() {
    // A listener whose queue is full drops SYNs.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let address = listener.local_addr().unwrap();
    let _queue: Vec<_> = (0..4)
        .map(|_| TcpStream::connect_timeout(&address, Duration::from_millis(100)))
        .collect();
    let client = Client::new(support::settings("127.0.0.1", address.port()), None);
    let text = "no connection in time".to_owned();
    assert_eq!(late(&client), (Stage::Connect, text));

    let authority = Authority::new();
    let silent = Server::start(
        |mut stream, _| {
            while stream.read(&mut [0; 1000]).is_ok_and(|count| count > 0) {}
        },
    );
    let text = "no connection in time: the TLS handshake was not complete".to_owned();
    let client = tls_client(&silent, authority.tls());
    assert_eq!(late(&client), (Stage::Tls, text));

    let config = Arc::new(authority.config());
    let after = Server::start(move |stream, number| {
        let mut stream = accept(&config, stream);
        read_request(&mut stream, number).unwrap();
        while stream.read(&mut [0; 1000]).is_ok_and(|count| count > 0) {}
    });
    let text = "no response in time".to_owned();
    let client = tls_client(&after, authority.tls());
    assert_eq!(late(&client), (Stage::Head, text.clone()));
    assert_eq!(late(&silent_after(b"").client()), (Stage::Head, text));

    let text = "the response was not complete in time".to_owned();
    let head = silent_after(b"HTTP/1.1 200 OK\r\nA:");
    assert_eq!(late(&head.client()), (Stage::Head, text.clone()));
    let drip = Server::start(|mut stream, number| {
        read_request(&mut stream, number).unwrap();
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 200000000\r\n\r\n")
            .unwrap();
        while stream.write_all(b"x").is_ok() {}
    });
    assert_eq!(late(&drip.client()), (Stage::Body, text));

    // The same bounds for the head of a stream, and silence for its body.
    let mut late_watch = watch();
    late_watch.deadline = Instant::now() + BOUND;
    let server = silent_after(b"");
    let error = server.client().stream(late_watch).err().unwrap();
    assert_eq!((error.stage, error.timed_out), (Stage::Head, true));
    let server = silent_after(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    let (_, stream) = server.client().stream(watch()).unwrap();
    let stream = stream.unwrap();
    let error = stream.read(Duration::from_millis(100)).unwrap_err();
    assert_eq!(
        (error.stage, &*error.text),
        (Stage::Body, "no data for 0.1 s")
    );
    assert_eq!(stream.read(SOON).unwrap(), None);
}

// behaviour: scale/SC17
#[test]
fn interim_responses_are_skipped_and_upgrades_refused() {
    let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n";
    let answer = [interim.as_bytes(), &ok("yes")].concat();
    let server = Server::saying(answer);
    let client = server.client();
    let response = client.call(get()).unwrap();
    assert_eq!((response.status, &*response.body), (200, &b"yes"[..]));
    assert_eq!(response.headers.len(), 1);
    let (head, stream) = client.stream(watch()).unwrap();
    assert_eq!(head.status, 200);
    assert_eq!(&*stream.unwrap().read(SOON).unwrap().unwrap(), b"yes");
    // Many of them are not.
    let flood = "HTTP/1.1 100 Continue\r\n\r\n".repeat(100_000);
    let error = fails(&Server::saying(flood));
    assert_eq!(error.text, "the server sent too many interim responses");

    let switch = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n";
    let server = Server::saying(switch);
    let error = fails(&server);
    assert_eq!(error.text, "the server switched protocols");
    assert!(error.sent);
    let error = server.client().stream(watch()).err().unwrap();
    assert_eq!(error.text, "the server switched protocols");
}

// behaviour: scale/SC19
#[test]
fn a_compressed_response_is_refused() {
    let answer = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n\x1f\x1b";
    let server = Server::saying(answer);
    let text = "the response is compressed, although that was not requested";
    assert_eq!(fails(&server).text, text);
    let error = server.client().stream(watch()).err().unwrap();
    assert_eq!(error.text, text);
    let coding = "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n";
    let text = "the transfer encoding of the response is not supported";
    assert_eq!(fails(&Server::saying(coding)).text, text);
}

// behaviour: scale/SC146
#[test]
fn invalid_responses_fail_and_close_the_connection() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let two = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc";
    for (answer, text) in [
        (two.to_owned(), "the response is not HTTP: "),
        (two.replace(": 3", ": -1"), "the response is not HTTP: "),
        (
            format!("{chunked}-1\r\nabc\r\n0\r\n\r\n"),
            "the framing of the response is invalid: ",
        ),
        (
            format!("{chunked}0x10\r\nabc\r\n0\r\n\r\n"),
            "the framing of the response is invalid: ",
        ),
        (
            format!("{chunked}1{}3\r\nabc\r\n0\r\n\r\n", "0".repeat(15)),
            "the framing of the response is invalid: ",
        ),
        (
            format!("{chunked}3\r\nabcd\r\n0\r\n\r\n"),
            "the framing of the response is invalid: ",
        ),
        (
            "HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 0\r\n\r\n".into(),
            "the response is not HTTP: ",
        ),
        (
            "HTTP/1.1 200 OK\r\nA: b\0c\r\nContent-Length: 0\r\n\r\n".into(),
            "the response is not HTTP: ",
        ),
        (
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".into(),
            "the response is not HTTP: ",
        ),
        (
            "SSH-2.0-OpenSSH_9.6\r\n".into(),
            "the response is not HTTP: ",
        ),
        (
            format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(101)),
            "the response has too many headers",
        ),
        (
            format!("HTTP/1.1 200 OK\r\nA: {}", "b".repeat(70_000)),
            "the response has too many headers",
        ),
    ] {
        let server = Server::saying(answer.clone());
        let client = server.client();
        for _ in 0..2 {
            let error = client.call(call("PATCH", "", SOON)).unwrap_err();
            assert!(error.text.starts_with(text), "{answer:.80}: {error}");
            assert!(error.sent);
        }
        assert_eq!(server.connections(), 2, "{answer:.80}");
    }
    // Length and chunks together: the chunks count, and the connection is not used again.
    let both = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let server = Server::saying(both);
    let client = server.client();
    for _ in 0..2 {
        assert_eq!(&*client.call(get()).unwrap().body, b"abc");
    }
    assert_eq!(server.connections(), 2);
}

// behaviour: scale/SC139
#[test]
fn endless_parts_are_ended_by_a_bound() {
    let endless = |start: &'static str, piece: &'static str| {
        Server::start(move |mut stream, number| {
            read_request(&mut stream, number).unwrap();
            let piece = piece.repeat(1000);
            let mut written = stream.write_all(start.as_bytes());
            while written.is_ok() {
                written = stream.write_all(piece.as_bytes());
            }
        })
    };
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (start, piece) in [
        ("HTTP/1.1 200 OK\r\n", "A: b\r\n"),
        ("HTTP/1.1 200 OK\r\nA: ", "b"),
        ("", "HTTP/1.1 102 Processing\r\n\r\n"),
        (chunked, "f"),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;",
            "x",
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
            "A: b\r\n",
        ),
    ] {
        let error = endless(start, piece)
            .client()
            .call(call("POST", "", SOON))
            .unwrap_err();
        assert!(!error.timed_out, "{start:?} {piece:?}: {error}");
    }
    // Zeros before a size are valid, and hold nothing.
    let error = endless(chunked, "0")
        .client()
        .call(call("GET", "", BOUND))
        .unwrap_err();
    assert!(error.timed_out);
}

// behaviour: scale/SC35
#[test]
fn a_cut_response_is_no_complete_one() {
    let cut = "the connection was cut in the middle of the response";
    let none = "the server closed the connection without a response";
    for (answer, text) in [
        ("", none),
        ("HTTP/1.1 200", cut),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", cut),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
            cut,
        ),
    ] {
        let server = Server::start(move |mut stream, number| {
            read_request(&mut stream, number).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        });
        let error = fails(&server);
        assert_eq!((&*error.text, error.sent), (text, true), "{answer}");
    }
    // Without length and chunks the end is that of the connection.
    let server = Server::start(move |mut stream, number| {
        read_request(&mut stream, number).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nabc").unwrap();
    });
    assert_eq!(&*server.client().call(get()).unwrap().body, b"abc");
}
