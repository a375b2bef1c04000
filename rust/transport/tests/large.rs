//! Answers beyond the limit. Alone in its process, whose memory is looked at.
#![expect(clippy::unwrap_used, reason = "it is a test")]

mod support;

use std::io::Write;

use ctrlhost_transport::client::Stage;
use support::{Server, get, read_request};

/// Return the highest memory use of this process, in MiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.unwrap().split_ascii_whitespace().nth(1).unwrap();
    kib.parse::<u64>().unwrap() / 1024
}

// behaviour: scale/SC18
#[test]
fn a_response_beyond_the_limit_fails() {
    const MIB: usize = 1 << 20;
    let text = "the response is larger than 256 MiB";
    for head in [
        "Content-Length: 269484032",
        "Transfer-Encoding: chunked",
        "Connection: close",
    ] {
        let chunked = head.ends_with("chunked");
        let server = Server::start(move |mut stream, number| {
            read_request(&mut stream, number).unwrap();
            let piece = vec![b'x'; MIB];
            let head = format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n");
            let mut written = stream.write_all(head.as_bytes());
            for _ in 0..257 {
                let size: &[u8] = if chunked { b"100000\r\n" } else { b"" };
                let end: &[u8] = if chunked { b"\r\n" } else { b"" };
                for part in [size, &piece, end] {
                    // The client may have closed the connection.
                    written = written.and_then(|()| stream.write_all(part));
                }
            }
        });
        let error = server.client().call(get()).unwrap_err();
        assert_eq!((error.stage, &*error.text), (Stage::Body, text), "{head}");
        assert!(error.sent);
        assert!(peak() < 300, "{} MiB", peak());
    }
}
