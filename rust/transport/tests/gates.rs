//! The gate: asked where bytes leave, and never overruled.
#![expect(clippy::unwrap_used, reason = "it is a test")]

mod support;

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use ctrlhost_transport::client::{Gate, Stage};
use support::certs::{Authority, client as tls_client, serve};
use support::{SOON, Server, call, ok, read_request};

/// Lets the request pass until `open` is zero, and counts how often it was asked.
struct Counter {
    asked: AtomicUsize,
    open: AtomicUsize,
    left: Option<Duration>,
}

impl Counter {
    fn new(open: usize) -> Arc<Self> {
        Arc::new(Self {
            asked: AtomicUsize::new(0),
            open: AtomicUsize::new(open),
            left: Some(Duration::from_millis(1)),
        })
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Gate for Counter {
    fn may_send(&self) -> Result<Option<Duration>, u8> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        match self.open.load(Ordering::SeqCst) {
            0 => Err(7),
            _ => Ok(self.left),
        }
    }
}

#[test]
fn a_refused_request_is_not_sent() {
    let authority = Authority::new();
    let (plain, requests) = Server::answering(|_| ok(""));
    let (secure, secure_requests) = serve(authority.config());
    for client in [plain.client(), tls_client(&secure, authority.tls())] {
        for _ in 0..2 {
            let gate = Counter::new(0);
            let mut post = call("POST", "x", SOON);
            post.gate = Some(gate.clone());
            let error = client.call(post).unwrap_err();
            assert_eq!((error.stage, error.sent), (Stage::Refused(7), false));
            assert_eq!(gate.asked(), 1);
            // The second one finds an idle connection.
            client.call(call("POST", "y", SOON)).unwrap();
        }
    }
    for requests in [requests, secure_requests] {
        assert_eq!(requests.recv().unwrap().body, b"y");
        assert_eq!(requests.recv().unwrap().body, b"y");
        assert!(requests.try_recv().is_err());
    }
    assert_eq!(plain.connections(), 3);
    // Nobody is asked for a request that has nowhere to go.
    let gate = Counter::new(1);
    let mut post = call("POST", "x", SOON);
    post.gate = Some(gate.clone());
    let mut settings = plain.settings();
    settings.port = 1;
    let nowhere = ctrlhost_transport::client::Client::new(settings, None);
    assert_eq!(nowhere.call(post).unwrap_err().stage, Stage::Connect);
    assert_eq!(gate.asked(), 0);
}

#[test]
fn a_request_refused_half_way_never_arrives_as_a_whole() {
    const SIZE: usize = 16 << 20;
    let gate = Counter::new(1);
    let shut = gate.clone();
    let (sender, arrived) = channel();
    let (go, gone) = channel::<()>();
    let gone = std::sync::Mutex::new(gone);
    let server = Server::start(move |mut stream, _| {
        let mut piece = [0; 1000];
        stream.read_exact(&mut piece).unwrap();
        // The rest does not fit the buffers of the sockets. More questions than pieces come from the timer alone.
        while shut.asked() <= SIZE >> 16 {
            std::thread::yield_now();
        }
        shut.open.store(0, Ordering::SeqCst);
        gone.lock().unwrap().recv().unwrap();
        let mut rest = Vec::new();
        let ended = stream.read_to_end(&mut rest);
        sender.send((ended.is_ok(), rest.len())).unwrap();
    });
    let mut post = call("POST", &"x".repeat(SIZE), SOON);
    post.gate = Some(gate.clone());
    let error = server.client().call(post).unwrap_err();
    // The server does not read, so that nothing but the time wakes the client.
    go.send(()).unwrap();
    assert_eq!((error.stage, error.sent), (Stage::Refused(7), true));
    assert!(gate.asked() > 1);
    assert!(arrived.recv().unwrap().1 < SIZE);
}

#[test]
fn a_repeated_request_is_asked_for_again() {
    let server = Server::start(|mut stream, number| {
        while read_request(&mut stream, number).is_some() {
            if number == 0 {
                return;
            }
            stream.write_all(&ok("")).unwrap();
        }
    });
    let once = Counter::new(1);
    let mut get = call("GET", "", SOON);
    get.gate = Some(once.clone());
    assert_eq!(server.client().call(get).unwrap().status, 200);
    let first = once.asked();
    let mut again = call("GET", "", SOON);
    let single = Counter::new(1);
    again.gate = Some(single.clone());
    assert_eq!(server.client().call(again).unwrap().status, 200);
    assert_eq!(first, 2 * single.asked());
}
