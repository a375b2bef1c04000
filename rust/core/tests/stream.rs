//! The framing of a body, and following a watch from a socket to the handler of a queue.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test")]

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use ctrlhost_core::handlers::{Mapping, QueueHandler, RequestRef, RequestSink};
use ctrlhost_core::informer::{Config, FollowError, Handler, Resync, SharedInformer};
use ctrlhost_core::store::Store;
use ctrlhost_core::stream::{Body, Socket};
use parking_lot::Mutex;

const CODED: &[u8] = b"5;x=y\r\nhello\r\n1\r\n \r\nA\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\nafter";
const LONG: Duration = Duration::from_secs(60);

fn payload(body: &mut Body, pieces: &[&[u8]]) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    for piece in pieces {
        body.feed(piece, &mut |part| out.extend_from_slice(part))
            .map_err(|error| error.to_string())?;
    }
    Ok(out)
}

#[test]
fn chunks_that_are_cut_anywhere_give_the_same_payload() {
    for cut in 0..CODED.len() {
        let mut body = Body::chunked();
        let (one, other) = CODED.split_at(cut);
        assert_eq!(
            payload(&mut body, &[one, other]).unwrap(),
            b"hello 0123456789"
        );
        assert!(body.is_done());
    }
}

#[test]
fn invalid_framing_is_rejected() {
    let long = [b'1'; 2000];
    for coded in [
        b"x\r\n".as_slice(),
        b"5\r\nhelloXX",
        b"-5\r\n",
        b"+5\r\n",
        b"\r\n",
        b";x=y\r\n",
        b"5 1\r\n",
        b"10000000000000000\r\n",
        b"5\n",
        &long,
    ] {
        assert!(
            payload(&mut Body::chunked(), &[coded]).is_err(),
            "{coded:?}"
        );
    }
}

#[test]
fn a_cut_body_is_incomplete() {
    let mut chunked = Body::chunked();
    assert_eq!(payload(&mut chunked, &[b"5\r\nhel"]).unwrap(), b"hel");
    assert!(chunked.end().is_err());

    let mut sized = Body::of_length(Some(5));
    assert_eq!(payload(&mut sized, &[b"hel"]).unwrap(), b"hel");
    let cut = sized.end().unwrap_err().to_string();
    assert_eq!(
        cut,
        "the connection was cut 2 bytes before the end of the body"
    );
    assert_eq!(payload(&mut sized, &[b"lo and more"]).unwrap(), b"lo");
    assert!(sized.is_done() && sized.end().is_ok());

    let mut endless = Body::of_length(None);
    assert_eq!(payload(&mut endless, &[b"hello"]).unwrap(), b"hello");
    assert!(!endless.is_done() && endless.end().is_ok() && endless.is_done());
}

#[derive(Default)]
struct Names(Mutex<Vec<String>>);

impl RequestSink for Names {
    fn add_requests(&self, requests: &[RequestRef<'_>], _: Option<i32>) {
        let names = requests.iter().map(|request| request.name.to_owned());
        self.0.lock().extend(names);
    }
}

fn watching() -> (SharedInformer, Arc<Names>) {
    let config = Config::new("pods", "v1", "Pod");
    let informer = SharedInformer::new(config, Arc::new(Store::new()));
    let names = Arc::new(Names::default());
    let handler = QueueHandler::new(names.clone(), Mapping::Object);
    informer.add_handler(Handler::Queue(handler), Resync::Never, 0.0);
    (informer, names)
}

fn chunk(kind: &str, name: &str, version: u32) -> Vec<u8> {
    let object = format!(r#"{{"metadata":{{"name":"{name}","resourceVersion":"{version}"}}}}"#);
    let frame = format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n");
    format!("{:x}\r\n{frame}\r\n", frame.len()).into_bytes()
}

fn connected() -> (UnixStream, Socket) {
    let (server, client) = UnixStream::pair().unwrap();
    (server, Socket::new(client.into()).unwrap())
}

#[test]
fn handlers_have_the_events_of_a_socket_when_the_call_returns() {
    let (informer, names) = watching();
    let (mut server, mut socket) = connected();
    let mut body = Body::chunked();
    for (name, version) in [("a", 1), ("b", 2), ("c", 3)] {
        server.write_all(&chunk("ADDED", name, version)).unwrap();
    }
    let followed = informer.follow_socket(&mut body, &mut socket, LONG, LONG);
    assert!(followed.error.is_none());
    assert_eq!(followed.progress.events, 3);
    assert_eq!(followed.progress.resource_version, "3");
    assert_eq!(*names.0.lock(), ["a", "b", "c"]);
    assert_eq!(informer.last_resource_version(), "3");
}

#[test]
fn notable_frames_end_the_call_before_it_has_lingered() {
    let (informer, names) = watching();
    let (mut server, mut socket) = connected();
    let mut body = Body::chunked();
    server.write_all(&chunk("ADDED", "a", 1)).unwrap();
    server.write_all(&chunk("BOOKMARK", "", 7)).unwrap();
    let followed = informer.follow_socket(&mut body, &mut socket, LONG, LONG);
    assert_eq!(followed.progress.events, 1);
    assert_eq!(followed.progress.bookmarks, 1);
    assert_eq!(followed.progress.resource_version, "7");

    server.write_all(b"5\r\n{\"a\":\r\n").unwrap();
    server.write_all(&chunk("ADDED", "b", 8)).unwrap();
    let followed = informer.follow_socket(&mut body, &mut socket, LONG, LONG);
    assert!(matches!(followed.error, Some(FollowError::Decode(_))));
    assert_eq!(*names.0.lock(), ["a"]);
}

#[test]
fn the_end_or_silence_of_a_connection_is_reported_after_its_events() {
    let (informer, _) = watching();
    let (mut server, mut socket) = connected();
    let mut body = Body::chunked();
    let followed = informer.follow_socket(&mut body, &mut socket, Duration::ZERO, LONG);
    assert!(matches!(followed.error, Some(FollowError::Idle)));

    server.write_all(&chunk("ADDED", "a", 1)).unwrap();
    drop(server);
    let followed = informer.follow_socket(&mut body, &mut socket, LONG, LONG);
    assert_eq!(followed.progress.events, 1);
    assert!(matches!(followed.error, Some(FollowError::Body(_))));
}

#[test]
fn the_watch_continues_at_the_version_after_the_end_of_the_initial_events() {
    let (informer, _) = watching();
    let end = r#"{"metadata":{"resourceVersion":"5","annotations":{"k8s.io/initial-events-end":"true"}}}"#;
    let end = format!("{{\"type\":\"BOOKMARK\",\"object\":{end}}}\n");
    let mut piece = chunk("ADDED", "a", 9);
    piece.extend(format!("{:x}\r\n{end}\r\n", end.len()).into_bytes());
    piece.extend(chunk("MODIFIED", "a", 12));
    informer.begin_list();
    let followed = informer.follow(&mut Body::chunked(), &piece);
    assert!(followed.progress.initial_events_end);
    assert_eq!(followed.progress.resource_version, "12");
}
