//! What happens to the I/O thread: panics, forks and its end. One test, since the thread is one.
#![expect(clippy::unwrap_used, reason = "it is a test")]

mod support;

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use ctrlhost_transport::client::{Client, Gate, Settings, Stage, Stream, shutdown};
use support::{SOON, Server, call, get, ok, read_request, until, watch};

struct Panics;

impl Gate for Panics {
    fn may_send(&self) -> Result<Option<Duration>, u8> {
        panic!("injected")
    }
}

fn serve() -> Server {
    Server::start(|mut stream, number| {
        while let Some(got) = read_request(&mut stream, number) {
            if got.line.contains("/watch") {
                let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n";
                stream.write_all(head.as_bytes()).unwrap();
                let _ = stream.read(&mut [0]);
                return;
            }
            stream.write_all(&ok("")).unwrap();
        }
    })
}

/// Whatever panics on the I/O thread, only its own call fails.
fn panics(client: &Client) {
    let mut injected = call("POST", "x", SOON);
    injected.gate = Some(Arc::new(Panics));
    let error = client.call(injected).unwrap_err();
    assert_eq!(error.text, "internal error: the transport panicked");
    assert!(!error.sent);
    assert_eq!(client.counts().panics, 1);
    let (done, answer) = channel();
    let panicking = move |result| {
        done.send(result).unwrap();
        panic!("injected")
    };
    client.begin(get(), Box::new(panicking));
    assert_eq!(answer.recv().unwrap().unwrap().status, 200);
    assert_eq!(client.call(get()).unwrap().status, 200);
}

/// A panic while a stream receives ends that stream.
fn panics_in_a_stream() {
    let server = Server::start(|mut stream, number| {
        let _ = read_request(&mut stream, number);
        let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let mut sent = stream.write_all(head);
        while sent.is_ok() {
            sent = stream.write_all(b"3\r\nabc\r\n");
        }
    });
    let client = server.client();
    let (_, stream) = client.stream(watch()).unwrap();
    let stream = stream.unwrap();
    let before = client.counts().panics;
    let injected = AtomicBool::new(false);
    stream.set_on_news(Arc::new(move || {
        let first = thread::current().name() == Some("ctrlhost-io")
            && !injected.swap(true, Ordering::SeqCst);
        assert!(!first, "injected");
    }));
    let error = loop {
        match stream.read(SOON) {
            Ok(Some(_)) => {}
            Ok(None) => panic!("complete"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.text, "internal error: the transport panicked");
    assert_eq!(client.counts().panics - before, 1);
    let (_, next) = client.stream(watch()).unwrap();
    assert!(
        next.unwrap()
            .read(SOON)
            .unwrap()
            .unwrap()
            .starts_with(b"abc")
    );
}

/// In a child everything fails at once, and the parent goes on.
fn forks(client: &Client, stream: &Stream, settings: Settings) {
    // SAFETY: the child only calls the client, which takes no lock of the parent, and ends without destructors.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let forked = |error: ctrlhost_transport::client::Failure| error.stage == Stage::Forked;
        let called = client.call(get()).is_err_and(forked);
        let streamed = client.stream(watch()).err().is_some_and(forked);
        let read = stream.read(SOON).is_err_and(forked);
        stream.close();
        client.close();
        drop(client.clone());
        // One that is made here works.
        let own = Client::new(settings, None).call(get());
        let own = own.is_ok_and(|response| response.status == 200);
        let ended = shutdown(SOON);
        let passed = called && streamed && read && own && ended;
        // SAFETY: it ends the process.
        unsafe { libc::_exit(i32::from(!passed)) };
    }
    let mut status = 0;
    // SAFETY: it waits for the child above.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    assert_eq!(client.call(get()).unwrap().status, 200);
}

// behaviour: scale/SC22
// behaviour: scale/SC23
#[test]
fn the_thread_survives_panics_and_forks_and_ends() {
    let server = serve();
    let client = server.client();
    let (_, stream) = client.stream(watch()).unwrap();
    let stream = Arc::new(stream.unwrap());
    assert_eq!(&*stream.read(SOON).unwrap().unwrap(), b"abc");
    panics(&client);
    panics_in_a_stream();
    forks(&client, &stream, server.settings());

    // A reader and a call that wait are told.
    let silent = Server::start(
        |mut stream, _| {
            while stream.read(&mut [0; 100]).is_ok_and(|count| count > 0) {}
        },
    );
    let (reader, caller) = (stream.clone(), silent.client());
    let reader = thread::spawn(move || reader.read(SOON).unwrap_err());
    let (done, answer) = channel();
    caller.begin(get(), Box::new(move |result| done.send(result).unwrap()));
    until(&client, |counts| counts.stream == 1);
    assert!(shutdown(Duration::from_secs(1)));
    assert_eq!(reader.join().unwrap().stage, Stage::Cancelled);
    assert_eq!(answer.recv().unwrap().unwrap_err().stage, Stage::Cancelled);
    let error = client.call(get()).unwrap_err();
    assert_eq!(error.stage, Stage::Cancelled);
    assert!(client.stream(watch()).is_err());
    assert!(shutdown(Duration::ZERO));
}
