//! The bytes of a connection against the client: each connection has the same answer to the first request, however it
//! is cut and whatever was on the connections before it.
#![no_main]

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use ctrlhost_transport::client::{Call, Client, Settings, Stage, StreamCall};
use libfuzzer_sys::fuzz_target;

/// No answer needs so long, since each connection ends.
const LONG: Duration = Duration::from_secs(5);
/// More interim answers than these may be an error, which depends on how many arrive together.
const FEW: usize = 16;
const SECOND: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecond";

/// What the server writes, in pieces.
type Answer = [Vec<u8>; 2];

/// A server whose connections all get the same answer, then a second one that nobody asked for, and end.
struct Server {
    path: PathBuf,
    answers: Sender<Answer>,
    /// One for each connection, once all is written: what arrives after a request may be its answer.
    written: Receiver<()>,
}

fn serve(stream: &mut UnixStream, answer: &Answer) -> std::io::Result<()> {
    let (mut head, mut piece) = (Vec::new(), [0; 1024]);
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut piece)? {
            0 => return Ok(()),
            count => head.extend_from_slice(&piece[..count]),
        }
    }
    for part in answer {
        stream.write_all(part)?;
        thread::yield_now();
    }
    stream.write_all(SECOND)?;
    stream.shutdown(std::net::Shutdown::Write)
}

impl Server {
    fn start() -> Self {
        let path = std::env::temp_dir().join(format!("http-{}.sock", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).expect("a socket");
        let (answers, next) = channel::<Answer>();
        let (wrote, written) = channel();
        thread::spawn(move || {
            let mut current = Answer::default();
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                current = next.try_iter().last().unwrap_or(current);
                // The client may have closed the connection before the end.
                let _ = serve(&mut stream, &current);
                wrote.send(()).expect("the target");
                // Until the client closes it, since an early end would be a reset.
                thread::spawn(move || while stream.read(&mut [0; 100]).is_ok_and(|count| count > 0) {});
            }
        });
        Self { path, answers, written }
    }

    fn client(&self) -> Client {
        let settings = Settings {
            https: false,
            host: "fuzz".into(),
            port: 80,
            authority: "fuzz".into(),
            unix_socket: Some(self.path.clone()),
            headers: Vec::new(),
            proxy: None,
            max_idle: 2,
            connect_timeout: LONG,
        };
        Client::new(settings, None)
    }
}

/// Status, headers and body, or where it failed.
type Outcome = Result<(u16, Vec<(String, String)>, Vec<u8>), Stage>;

fn called(client: &Client) -> Outcome {
    let call = Call {
        method: "GET".into(),
        target: "/".into(),
        headers: Vec::new(),
        body: bytes::Bytes::new(),
        deadline: Instant::now() + LONG,
        repeat: false,
        fresh: false,
        gate: None,
    };
    match client.call(call) {
        Ok(response) => Ok((response.status, response.headers, response.body.to_vec())),
        Err(failure) => {
            assert!(!failure.timed_out, "{failure}");
            assert!(!failure.text.contains('\n') && !failure.text.is_empty());
            Err(failure.stage)
        }
    }
}

fn streamed(client: &Client) -> Outcome {
    let call = StreamCall {
        target: "/".into(),
        headers: Vec::new(),
        deadline: Instant::now() + LONG,
        intake_bytes: 1 << 20,
    };
    let (head, stream) = client.stream(call).map_err(|failure| {
        assert!(!failure.timed_out, "{failure}");
        failure.stage
    })?;
    let mut body = head.body.to_vec();
    if let Some(stream) = stream {
        loop {
            match stream.read(LONG) {
                Ok(Some(piece)) => body.extend_from_slice(&piece),
                Ok(None) => break,
                Err(failure) => {
                    assert!(!failure.timed_out, "{failure}");
                    return Err(failure.stage);
                }
            }
        }
    }
    Ok((head.status, head.headers, body))
}

fuzz_target!(|input: (u16, &[u8])| {
    static SERVER: OnceLock<std::sync::Mutex<Server>> = OnceLock::new();
    let server = SERVER.get_or_init(|| Server::start().into());
    let server = server.lock().expect("the lock");
    let (cut, bytes) = input;
    if bytes.windows(9).filter(|nine| nine.starts_with(b"HTTP/1.")).count() > FEW {
        return;
    }
    let (first, second) = bytes.split_at(usize::from(cut) % (bytes.len() + 1));
    let answers: [Answer; 2] = [[bytes.to_vec(), Vec::new()], [first.to_vec(), second.to_vec()]];
    let outcomes = answers.map(|answer| {
        server.answers.send(answer).expect("the server");
        let client = server.client();
        let ended = || server.written.recv_timeout(LONG).expect("one connection for each request");
        let outcome = called(&client);
        ended();
        // What is behind the first answer, or after an error, answers nothing.
        assert_eq!(called(&client), outcome);
        ended();
        let stream = streamed(&client);
        ended();
        if let (Ok(called), Ok(streamed)) = (&outcome, &stream) {
            assert_eq!(called, streamed);
        }
        assert_eq!(client.counts().panics, 0);
        (outcome, stream)
    });
    assert_eq!(outcomes[0], outcomes[1]);
});
