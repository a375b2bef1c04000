//! Whole calls over plain HTTP.
#![expect(clippy::unwrap_used, reason = "it is a test")]

mod support;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use ctrlhost_transport::client::{Call, Client, Counts, LastByte, Settings, Stage};
use support::{SOON, Server, call, get, ok, read_request, settings, until};

#[test]
fn a_call_returns_the_whole_response() {
    let answer = "HTTP/1.1 409 Conflict\r\nX-A: 1\r\nX-a: \u{e9}\r\nContent-Length: 2\r\n\r\nno";
    let latin: Vec<u8> = answer.chars().map(|c| u8::try_from(c).unwrap()).collect();
    let (server, requests) = Server::answering(move |_| latin.clone());
    let client = server.client();
    let mut patch = call("PATCH", "{}", SOON);
    patch.target = "/api?fieldManager=x y".into();
    patch.headers = vec![("Accept".into(), "application/json".into())];
    let response = client.call(patch).unwrap();
    assert_eq!((response.status, &*response.body), (409, &b"no"[..]));
    let wanted = [("x-a", "1"), ("x-a", "\u{e9}"), ("content-length", "2")];
    let wanted: Vec<_> = wanted
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    let mut headers = response.headers;
    headers.sort();
    let mut sorted = wanted;
    sorted.sort();
    assert_eq!(headers, sorted);

    let got = requests.recv().unwrap();
    assert_eq!(got.line, "PATCH /api?fieldManager=x%20y HTTP/1.1");
    assert_eq!(got.body, b"{}");
    let host = format!("127.0.0.1:{}", server.address.port());
    assert_eq!(got.header("host"), Some(&*host));
    assert_eq!(got.header("user-agent"), Some("test"));
    assert_eq!(got.header("accept"), Some("application/json"));
    assert_eq!(got.header("accept-encoding"), Some("identity"));
    // An empty body has a length where the method expects one.
    for (method, length) in [("POST", Some("0")), ("GET", None), ("DELETE", None)] {
        client.call(call(method, "", SOON)).unwrap();
        assert_eq!(
            requests.recv().unwrap().header("content-length"),
            length,
            "{method}"
        );
    }
    assert_eq!(server.connections(), 1);
}

// behaviour: operations/OP125
#[test]
fn a_fresh_call_has_a_connection_of_its_own() {
    let server = Server::saying(ok("yes"));
    let client = server.client();
    client.call(get()).unwrap();
    let fresh = Call {
        fresh: true,
        ..get()
    };
    client.call(fresh).unwrap();
    assert_eq!(server.connections(), 2);
    client.call(get()).unwrap();
    assert_eq!((server.connections(), client.counts().idle), (2, 1));
}

// behaviour: operations/OP127
#[test]
fn the_last_byte_of_a_response_is_shared_by_the_clients_of_a_server() {
    let server = Server::saying(ok("yes"));
    let last_byte = LastByte::new();
    let [first, second] =
        [(); 2].map(|()| Client::sharing(server.settings(), None, last_byte.clone()));
    assert_eq!(last_byte.age(), None);
    first.call(get()).unwrap();
    thread::sleep(Duration::from_millis(20));
    let before = last_byte.age().unwrap();
    assert!(before >= Duration::from_millis(19), "{before:?}");
    let began = Instant::now();
    second.call(get()).unwrap();
    assert!(last_byte.age().unwrap() <= began.elapsed() + Duration::from_millis(1));
    // A connection that brings nothing is no sign of life.
    let silent = Server::start(|_, _| thread::park());
    let last_byte = LastByte::new();
    let client = Client::sharing(silent.settings(), None, last_byte.clone());
    client
        .call(call("GET", "", Duration::from_millis(50)))
        .unwrap_err();
    assert_eq!(last_byte.age(), None);
}

#[test]
fn a_unix_socket_is_reached() {
    let folder = std::env::temp_dir().join(format!("transport-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("s");
    let listener = UnixListener::bind(&path).unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        while read_request(&mut stream, 0).is_some() {
            stream.write_all(&ok("here")).unwrap();
        }
    });
    let settings = |path| Settings {
        unix_socket: Some(path),
        ..settings("unix", 80)
    };
    let client = Client::new(settings(path), None);
    assert_eq!(&*client.call(get()).unwrap().body, b"here");
    let missing = folder.join("missing");
    let error = Client::new(settings(missing.clone()), None)
        .call(get())
        .unwrap_err();
    let text = format!(
        "cannot connect: {}: No such file or directory",
        missing.display()
    );
    assert_eq!(
        (error.stage, error.text, error.sent),
        (Stage::Connect, text, false)
    );
    std::fs::remove_dir_all(folder).unwrap();
}

// behaviour: scale/SC8
#[test]
fn an_unwritten_request_goes_over_another_connection() {
    let (close, closing) = channel::<()>();
    let closing = Mutex::new(closing);
    let (sender, requests) = channel();
    let (closed, is_closed) = channel();
    let server = Server::start(move |mut stream, number| {
        while let Some(got) = read_request(&mut stream, number) {
            sender.send(got).unwrap();
            stream.write_all(&ok("")).unwrap();
            if number == 0 {
                closing.lock().unwrap().recv().unwrap();
                drop(stream);
                return closed.send(()).unwrap();
            }
        }
    });
    let client = server.client();
    client.call(get()).unwrap();
    assert_eq!(requests.recv().unwrap().connection, 0);
    until(&client, |counts| counts.idle == 1);
    // The I/O thread is busy while the server closes the idle connection, so that it cannot know.
    let (busy, is_busy) = channel();
    let (free, go_on) = channel::<()>();
    let hold = move |_| {
        busy.send(()).unwrap();
        go_on.recv().unwrap();
    };
    let other = Server::saying(ok(""));
    other.client().begin(get(), Box::new(hold));
    is_busy.recv().unwrap();
    close.send(()).unwrap();
    is_closed.recv().unwrap();
    let (done, answer) = channel();
    let post = call("POST", "once", SOON);
    client.begin(post, Box::new(move |result| done.send(result).unwrap()));
    free.send(()).unwrap();
    assert_eq!(answer.recv().unwrap().unwrap().status, 200);
    let post = requests.recv().unwrap();
    assert_eq!((post.connection, &*post.body), (1, &b"once"[..]));
    assert!(requests.try_recv().is_err());
}

// behaviour: scale/SC9
#[test]
fn a_written_request_is_repeated_only_if_it_is_a_get() {
    let seen = Arc::new(AtomicUsize::new(0));
    let count = seen.clone();
    let server = Server::start(move |mut stream, number| {
        while let Some(got) = read_request(&mut stream, number) {
            count.fetch_add(1, Ordering::SeqCst);
            if got.line.starts_with("POST") || number == 1 {
                let linger = rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO));
                linger.unwrap();
                // A reset.
                return;
            }
            stream.write_all(&ok("")).unwrap();
        }
    });
    let client = server.client();
    let error = client.call(call("POST", "x", SOON)).unwrap_err();
    assert_eq!((error.stage, error.sent), (Stage::Head, true), "{error}");
    assert_eq!(error.text, "Connection reset by peer");
    assert_eq!(seen.load(Ordering::SeqCst), 1);
    // Connection 1 is reset, and connection 2 answers.
    assert_eq!(client.call(get()).unwrap().status, 200);
    assert_eq!(seen.load(Ordering::SeqCst), 3);
}

// behaviour: scale/SC9
#[test]
fn a_kept_connection_that_breaks_takes_the_idle_ones_with_it() {
    let (sender, requests) = channel();
    let both = Barrier::new(2);
    let server = Server::start(move |mut stream, number| {
        while let Some(got) = read_request(&mut stream, number) {
            let again = got.body == b"again";
            sender.send((number, again)).unwrap();
            if again && number < 2 {
                return;
            }
            if number < 2 {
                both.wait();
            }
            stream.write_all(&ok("")).unwrap();
        }
    });
    let client = server.client();
    let (done, answers) = channel();
    for _ in 0..2 {
        let done = done.clone();
        client.begin(get(), Box::new(move |result| done.send(result).unwrap()));
    }
    for _ in 0..2 {
        answers.recv().unwrap().unwrap();
    }
    until(&client, |counts| counts.idle == 2);
    let post = || client.call(call("POST", "again", SOON));
    assert!(post().unwrap_err().sent);
    assert_eq!(client.counts().idle, 0);
    assert_eq!(post().unwrap().status, 200);
    let again = requests.try_iter().filter(|(_, again)| *again).count();
    assert_eq!((again, server.connections()), (2, 3));
}

/// Send writes over connections that `end` ends after each first or second response, while the next write may be on
/// its way; return the writes that the server got, by their number, and those that succeeded.
fn writes_to_a_closing_server(end: fn(&mut TcpStream)) -> (Vec<usize>, Vec<bool>) {
    const ROUNDS: usize = 1000;
    let (sender, requests) = channel();
    let server = Server::start(move |mut stream, number| {
        for _ in 0..=number % 2 {
            let Some(got) = read_request(&mut stream, number) else {
                return;
            };
            sender.send(got).unwrap();
            stream.write_all(&ok("")).unwrap();
        }
        end(&mut stream);
        // What was written to the closed connection, if it is still read.
        while let Some(got) = read_request(&mut stream, number) {
            sender.send(got).unwrap();
        }
    });
    let client = server.client();
    let done = (0..ROUNDS).map(|round| {
        let result = client.call(call("PATCH", &round.to_string(), SOON));
        if let Err(error) = &result {
            assert!(error.sent, "{error:?}");
        }
        result.is_ok()
    });
    let done = done.collect();
    // Each thread of the server ends with its connection.
    drop(client);
    let mut seen = vec![0; ROUNDS];
    while let Ok(got) = requests.recv_timeout(Duration::from_millis(100)) {
        let round: usize = String::from_utf8(got.body).unwrap().parse().unwrap();
        seen[round] += 1;
    }
    (seen, done)
}

// behaviour: scale/SC10
#[test]
fn a_closing_server_gets_no_write_twice() {
    // The server still reads, so it sees each byte that was written: a write that failed was written.
    let (seen, done) = writes_to_a_closing_server(|stream| {
        stream.shutdown(Shutdown::Write).unwrap();
    });
    assert_eq!(seen, vec![1; done.len()]);
    // It no longer does, so that a write that failed was carried out at most once.
    let (seen, done) = writes_to_a_closing_server(|stream| {
        stream.shutdown(Shutdown::Both).unwrap();
    });
    for (seen, done) in seen.into_iter().zip(done) {
        assert!(seen <= 1);
        assert!(seen == 1 || !done);
    }
}

// behaviour: scale/SC11
#[test]
fn unasked_bytes_end_an_idle_connection() {
    let (answered, go) = channel();
    let go = Mutex::new(go);
    let server = Server::start(move |mut stream, number| {
        while read_request(&mut stream, number).is_some() {
            stream.write_all(&ok("good")).unwrap();
            if number == 0 {
                go.lock().unwrap().recv().unwrap();
                stream.write_all(&ok("bad")).unwrap();
            }
        }
    });
    let client = server.client();
    client.call(get()).unwrap();
    until(&client, |counts| counts.idle == 1);
    answered.send(()).unwrap();
    until(&client, |counts| counts.idle == 0);
    assert_eq!(&*client.call(get()).unwrap().body, b"good");
    assert_eq!(server.connections(), 2);
    // The same together with the response.
    let two = [ok("good"), ok("bad")].concat();
    let server = Server::saying(two);
    let client = server.client();
    for _ in 0..2 {
        assert_eq!(&*client.call(get()).unwrap().body, b"good");
    }
    assert_eq!(server.connections(), 2);
}

// behaviour: scale/SC15
#[test]
fn redirects_are_not_followed() {
    let (other, others) = Server::answering(|_| ok(""));
    let place = format!("http://{}/api", other.address);
    let answer = format!(
        "HTTP/1.1 307 Temporary Redirect\r\nLocation: {place}\r\nContent-Length: 0\r\n\r\n"
    );
    let client = Server::saying(answer).client();
    let mut call = get();
    call.headers = vec![("Authorization".into(), "Bearer secret".into())];
    let response = client.call(call).unwrap();
    assert_eq!(response.status, 307);
    assert!(response.headers.contains(&("location".into(), place)));
    assert!(others.try_recv().is_err());
    assert_eq!(other.connections(), 0);
}

// behaviour: scale/SC16
#[test]
fn an_invalid_header_is_refused_before_anything_is_sent() {
    let server = Server::saying(ok(""));
    for value in ["a\r\nX: y", "a\nb", "a\rb"] {
        let mut call = get();
        call.headers = vec![("X-Token".into(), value.into())];
        let error = server.client().call(call).unwrap_err();
        assert_eq!((error.stage, error.sent), (Stage::Request, false));
        let text =
            "the value of the header X-Token contains a line break or another control character";
        assert_eq!(error.text, text);
    }
    assert_eq!(server.connections(), 0);
}

// behaviour: scale/SC21
#[test]
fn a_hundred_calls_run_at_once() {
    let all = Arc::new(Barrier::new(100));
    let (arrived, open) = (all.clone(), Arc::new(AtomicUsize::new(0)));
    let still_open = open.clone();
    let server = Server::start(move |mut stream, number| {
        open.fetch_add(1, Ordering::SeqCst);
        // Each request waits for all others.
        while read_request(&mut stream, number).is_some() {
            arrived.wait();
            stream.write_all(&ok("")).unwrap();
        }
        open.fetch_sub(1, Ordering::SeqCst);
    });
    let client = server.client();
    let threads: Vec<_> = (0..100)
        .map(|_| {
            let client = client.clone();
            thread::spawn(move || client.call(get()).unwrap().status)
        })
        .collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap(), 200);
    }
    assert_eq!(server.connections(), 100);
    // As the server sees it, too.
    let kept = |counts: &Counts| {
        let open = still_open.load(Ordering::SeqCst);
        (counts.idle, counts.call, counts.connecting, open) == (32, 0, 0, 32)
    };
    until(&client, kept);
}

#[test]
fn a_response_before_the_whole_request_is_returned() {
    let server = Server::start(|mut stream, _| {
        let mut piece = [0; 1000];
        stream.read_exact(&mut piece).unwrap();
        let answer =
            "HTTP/1.1 413 Payload Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig";
        stream.write_all(answer.as_bytes()).unwrap();
        // Closed with much of the request unread, which is a reset.
        stream.shutdown(Shutdown::Write).unwrap();
    });
    let body = "x".repeat(200_000);
    let response = server.client().call(call("POST", &body, SOON)).unwrap();
    assert_eq!((response.status, &*response.body), (413, &b"big"[..]));
}

// behaviour: scale/SC20
#[test]
fn a_cancelled_call_closes_its_connection() {
    let (arrived, arrival) = channel();
    let (ended, end) = channel();
    let server = Server::start(move |mut stream, number| {
        arrived
            .send(read_request(&mut stream, number).unwrap())
            .unwrap();
        ended.send(stream.read(&mut [0])).unwrap();
    });
    let client = server.client();
    for method in ["GET", "POST"] {
        let (sender, answer) = channel();
        let done = move |result| sender.send(result).unwrap();
        let cancel = client.begin(call(method, "", SOON), Box::new(done));
        assert!(arrival.recv().unwrap().line.starts_with(method));
        cancel.cancel();
        let error = answer.recv().unwrap().unwrap_err();
        assert_eq!(error.stage, Stage::Cancelled);
        // The end of the connection.
        assert_eq!(end.recv().unwrap().unwrap(), 0);
    }
    // Neither was repeated.
    assert!(arrival.try_recv().is_err());
    assert_eq!(server.connections(), 2);
}
