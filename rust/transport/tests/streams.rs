//! Streams: what their readers get, and how they end.
#![expect(clippy::unwrap_used, reason = "it is a test")]

mod support;

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use ctrlhost_transport::client::{Next, Stage, Stream};
use support::{SOON, Server, get, ok, read_request, until, watch};

const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

fn chunk(text: &str) -> Vec<u8> {
    format!("{:x}\r\n{text}\r\n", text.len()).into()
}

fn read_all(stream: &Stream) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(bytes) = stream.read(SOON).unwrap() {
        assert!(!bytes.is_empty());
        all.extend_from_slice(&bytes);
    }
    all
}

#[test]
fn a_stream_passes_on_what_arrives() {
    let (pieces, written) = channel::<Vec<u8>>();
    let written = std::sync::Mutex::new(written);
    let server = Server::start(move |mut stream, number| {
        let written = written.lock().unwrap();
        while read_request(&mut stream, number).is_some() {
            stream.write_all(CHUNKED.as_bytes()).unwrap();
            while let Ok(bytes) = written.recv() {
                stream.write_all(&bytes).unwrap();
                if bytes.is_empty() {
                    stream.write_all(b"0\r\n\r\n").unwrap();
                    break;
                }
            }
        }
    });
    let client = server.client();
    for _ in 0..2 {
        let (head, stream) = client.stream(watch()).unwrap();
        let stream = stream.unwrap();
        assert_eq!((head.status, &*head.body), (200, &b""[..]));
        assert_eq!(client.counts().stream, 1);
        assert_eq!(stream.next(Duration::ZERO).unwrap(), Next::Nothing);
        pieces.send(chunk("one")).unwrap();
        assert_eq!(&*stream.read(SOON).unwrap().unwrap(), b"one");
        // Half a chunk comes as far as it is there.
        pieces.send(b"4\r\ntw".into()).unwrap();
        assert_eq!(&*stream.read(SOON).unwrap().unwrap(), b"tw");
        pieces.send(b"o.\r\n".into()).unwrap();
        assert_eq!(&*stream.read(SOON).unwrap().unwrap(), b"o.");
        pieces.send(Vec::new()).unwrap();
        assert_eq!(stream.read(SOON).unwrap(), None);
        assert_eq!(stream.next(SOON).unwrap(), Next::End);
        until(&client, |counts| counts.stream == 0 && counts.idle == 1);
    }
    // A body that ended regularly leaves its connection to others.
    assert_eq!(server.connections(), 1);
}

#[test]
fn a_closed_stream_wakes_its_reader_and_drops_its_connection() {
    let (ended, end) = channel();
    let server = Server::start(move |mut stream, number| {
        read_request(&mut stream, number).unwrap();
        stream.write_all(CHUNKED.as_bytes()).unwrap();
        ended.send(stream.read(&mut [0]).unwrap_or(0)).unwrap();
    });
    let client = server.client();
    let (_, stream) = client.stream(watch()).unwrap();
    let stream = Arc::new(stream.unwrap());
    let reader = {
        let stream = stream.clone();
        thread::spawn(move || stream.read(Duration::from_secs(3600)))
    };
    stream.close();
    assert_eq!(reader.join().unwrap().unwrap(), None);
    assert_eq!(end.recv().unwrap(), 0);
    stream.close();
    let counts = until(&client, |counts| counts.stream == 0);
    assert_eq!(counts.idle, 0);
    // Dropping one closes it, too.
    drop(client.stream(watch()).unwrap());
    assert_eq!(end.recv().unwrap(), 0);
}

#[test]
fn a_failed_stream_has_a_head_with_its_body() {
    let gone = "HTTP/1.1 410 Gone\r\nContent-Length: 4\r\n\r\ngone";
    let server = Server::saying(gone);
    let client = server.client();
    for _ in 0..2 {
        let (head, stream) = client.stream(watch()).unwrap();
        assert!(stream.is_none());
        assert_eq!((head.status, &*head.body), (410, &b"gone"[..]));
    }
    assert_eq!(server.connections(), 1);
    let large = format!(
        "HTTP/1.1 500 Oh\r\nContent-Length: 1048577\r\n\r\n{}",
        "x".repeat(1_048_577)
    );
    let server = Server::saying(large);
    let error = server.client().stream(watch()).err().unwrap();
    assert_eq!(error.text, "the response is larger than 1 MiB");
}

// behaviour: scale/SC50
#[test]
fn chunks_may_be_cut_anywhere() {
    const CODED: &[u8] = b"5;x=y\r\nhello\r\n1\r\n \r\nA\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n";
    for size in [1, 2, 3, 5, 1000] {
        let server = Server::start(move |mut stream, number| {
            while read_request(&mut stream, number).is_some() {
                for piece in [CHUNKED.as_bytes(), CODED].concat().chunks(size) {
                    stream.write_all(piece).unwrap();
                }
            }
        });
        let client = server.client();
        assert_eq!(&*client.call(get()).unwrap().body, b"hello 0123456789");
        let (_, stream) = client.stream(watch()).unwrap();
        assert_eq!(read_all(&stream.unwrap()), b"hello 0123456789");
        assert_eq!(server.connections(), 1);
    }
}

#[test]
fn a_cut_stream_gives_what_came_before() {
    for answer in [
        format!("{CHUNKED}3\r\nabc\r\n"),
        format!("{CHUNKED}8\r\nabc"),
        "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nabc".into(),
    ] {
        let server = Server::start(move |mut stream, number| {
            read_request(&mut stream, number).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        });
        let (_, stream) = server.client().stream(watch()).unwrap();
        let stream = stream.unwrap();
        assert_eq!(&*stream.read(SOON).unwrap().unwrap(), b"abc");
        let error = stream.read(SOON).unwrap_err();
        let text = "the connection was cut in the middle of the stream";
        assert_eq!((error.stage, &*error.text), (Stage::Body, text));
    }
}

#[test]
fn bytes_behind_a_whole_response_do_not_make_it_a_cut_one() {
    let (go_on, told) = channel::<()>();
    let told = std::sync::Mutex::new(told);
    let server = Server::start(move |mut stream, number| {
        read_request(&mut stream, number).unwrap();
        let begun = [CHUNKED.as_bytes(), &chunk("one")].concat();
        stream.write_all(&begun).unwrap();
        told.lock().unwrap().recv().unwrap();
        // Together, so that the client meets both at once while it waits for the body.
        let end = [&b"0\r\n\r\n"[..], &ok("nobody asked")].concat();
        stream.write_all(&end).unwrap();
        while stream.read(&mut [0; 100]).is_ok_and(|count| count > 0) {}
    });
    let client = server.client();
    for _ in 0..2 {
        let (_, stream) = client.stream(watch()).unwrap();
        let stream = stream.unwrap();
        assert_eq!(&*stream.read(SOON).unwrap().unwrap(), b"one");
        go_on.send(()).unwrap();
        assert_eq!(stream.read(SOON).unwrap(), None);
        // The connection is of no further use.
        until(&client, |counts| counts.stream == 0 && counts.idle == 0);
    }
    assert_eq!(server.connections(), 2);
}

#[test]
fn a_slow_reader_holds_its_own_connection_back() {
    const INTAKE: usize = 1 << 20;
    const TOTAL: u64 = 64 << 20;
    const PIECE: usize = 256 << 10;
    let written = Arc::new(AtomicU64::new(0));
    let count = written.clone();
    let server = Server::start(move |mut stream, number| {
        while let Some(got) = read_request(&mut stream, number) {
            if !got.line.starts_with("GET /watch") {
                stream.write_all(&ok("quick")).unwrap();
                continue;
            }
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {TOTAL}\r\n\r\n");
            stream.write_all(head.as_bytes()).unwrap();
            for number in 0..TOTAL / 8 / 1024 {
                let piece = number.to_be_bytes().repeat(1024);
                stream.write_all(&piece).unwrap();
                count.fetch_add(piece.len() as u64, Ordering::SeqCst);
            }
        }
    });
    let client = server.client();
    let mut slow = watch();
    slow.intake_bytes = INTAKE;
    let (_, stream) = client.stream(slow).unwrap();
    let stream = stream.unwrap();
    while stream.held_back().is_zero() {
        thread::yield_now();
    }
    // Calls are not held back by it.
    assert_eq!(&*client.call(get()).unwrap().body, b"quick");
    assert!(written.load(Ordering::SeqCst) < TOTAL);
    let waiting = stream.waiting();
    assert!((INTAKE..=INTAKE + PIECE).contains(&waiting), "{waiting}");
    let Next::Data(first) = stream.next(SOON).unwrap() else {
        panic!("nothing waits");
    };
    assert!(first.len() <= PIECE, "{}", first.len());
    let all = [&*first, &read_all(&stream)].concat();
    assert_eq!(all.len() as u64, TOTAL);
    for (index, piece) in all.chunks(8 * 1024).enumerate() {
        assert_eq!(piece, (index as u64).to_be_bytes().repeat(1024));
    }
    assert!(!stream.held_back().is_zero());
}
