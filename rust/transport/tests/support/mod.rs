//! Servers that do what a test tells them, and clients of them.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test binary uses a part of it"
)]
#![allow(clippy::unwrap_used, reason = "it is for tests")]

pub mod certs;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ctrlhost_transport::client::{Call, Client, Counts, Settings, StreamCall};

/// Bounds waits that should be short.
pub const SOON: Duration = Duration::from_secs(20);

/// Both directions of a connection.
pub trait Duplex: Read + Write {}
impl<T: Read + Write> Duplex for T {}

/// A request as a server got it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Got {
    pub line: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Of the connection that carried it, by their order.
    pub connection: usize,
}

impl Got {
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers
            .find(|(known, _)| known == name)
            .map(|(_, value)| &**value)
    }
}

/// Listens on a port, and runs each connection in a thread.
pub struct Server {
    pub address: SocketAddr,
    pub connections: Arc<AtomicUsize>,
}

impl Server {
    /// `serve` gets each connection and its number.
    pub fn start(serve: impl Fn(TcpStream, usize) + Send + Sync + 'static) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").unwrap(), serve)
    }

    pub fn on(
        listener: TcpListener,
        serve: impl Fn(TcpStream, usize) + Send + Sync + 'static,
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let connections = Arc::<AtomicUsize>::default();
        let (serve, count) = (Arc::new(serve), connections.clone());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, serve) = (stream.unwrap(), serve.clone());
                stream.set_nodelay(true).unwrap();
                let number = count.fetch_add(1, Ordering::SeqCst);
                thread::spawn(move || serve(stream, number));
            }
        });
        Self {
            address,
            connections,
        }
    }

    /// Answer each request with `answer`, and note the requests.
    pub fn answering(
        answer: impl Fn(&Got) -> Vec<u8> + Send + Sync + 'static,
    ) -> (Self, Receiver<Got>) {
        let (sender, receiver) = channel();
        let serve = move |mut stream: TcpStream, number| {
            answer_all(&mut stream, number, &sender, &answer);
        };
        (Self::start(serve), receiver)
    }

    /// Send the same bytes for each request.
    pub fn saying(bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        Self::answering(move |_| bytes.clone()).0
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub fn settings(&self) -> Settings {
        settings("127.0.0.1", self.address.port())
    }

    pub fn client(&self) -> Client {
        Client::new(self.settings(), None)
    }
}

pub fn answer_all(
    stream: &mut impl Duplex,
    number: usize,
    sender: &Sender<Got>,
    answer: &impl Fn(&Got) -> Vec<u8>,
) {
    while let Some(got) = read_request(stream, number) {
        let bytes = answer(&got);
        // The test may have ended.
        let _ = sender.send(got);
        if stream
            .write_all(&bytes)
            .and_then(|()| stream.flush())
            .is_err()
        {
            return;
        }
    }
}

pub fn settings(host: &str, port: u16) -> Settings {
    Settings {
        https: false,
        host: host.to_owned(),
        port,
        authority: format!("{host}:{port}"),
        unix_socket: None,
        headers: vec![("User-Agent".into(), "test".into())],
        proxy: None,
        max_idle: 32,
        connect_timeout: SOON,
    }
}

/// Read a request; None if the connection ends before.
pub fn read_request(stream: &mut impl Read, connection: usize) -> Option<Got> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.lines();
    let line = lines.next().unwrap().to_owned();
    let split = lines.filter_map(|line| line.split_once(": "));
    let headers: Vec<_> = split
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let mut got = Got {
        line,
        headers,
        body: Vec::new(),
        connection,
    };
    let length = got
        .header("content-length")
        .map_or(0, |length| length.parse().unwrap());
    got.body = vec![0; length];
    stream.read_exact(&mut got.body).ok()?;
    Some(got)
}

pub fn ok(body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into()
}

pub fn call(method: &str, body: &str, patience: Duration) -> Call {
    Call {
        method: method.into(),
        target: "/api".into(),
        headers: Vec::new(),
        body: Bytes::copy_from_slice(body.as_bytes()),
        deadline: Instant::now() + patience,
        repeat: method == "GET",
        fresh: false,
        gate: None,
    }
}

pub fn get() -> Call {
    call("GET", "", SOON)
}

pub fn watch() -> StreamCall {
    StreamCall {
        target: "/watch".into(),
        headers: Vec::new(),
        deadline: Instant::now() + SOON,
        intake_bytes: 4 << 20,
    }
}

/// Wait until the counts are as they should be.
pub fn until(client: &Client, wanted: impl Fn(&Counts) -> bool) -> Counts {
    let end = Instant::now() + SOON;
    loop {
        let counts = client.counts();
        if wanted(&counts) {
            return counts;
        }
        assert!(Instant::now() < end, "{counts:?}");
        thread::yield_now();
    }
}
