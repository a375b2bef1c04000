//! The requests that a server receives.
#![expect(clippy::unwrap_used, reason = "a test")]

use ctrlhost_requests::{Event, Malformed, Parser};

const CODED: &[u8] = b"POST /a HTTP/1.1\r\nX: 1\r\nTransfer-Encoding: chunked\r\n\r\n\
    5;x=y\r\nhello\r\n1\r\n \r\nA\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n\
    GET /b?c HTTP/1.1\r\nConnection: close\r\n\r\n";

type Found = (String, String, bool);

/// Return method and target, the body, and whether another one may follow, of each request; and what is left.
fn read(pieces: &[&[u8]]) -> Result<(Vec<Found>, Vec<u8>), Malformed> {
    let mut parser = Parser::default();
    let (mut requests, mut left): (Vec<Found>, Vec<u8>) = (Vec::new(), Vec::new());
    for piece in pieces {
        let rest = parser.parse(piece, &mut |event| match event {
            Event::Head(head) => requests.push((
                format!("{} {}", head.method, head.target),
                String::new(),
                head.keep_alive,
            )),
            Event::Body(part) => {
                let part = std::str::from_utf8(part).unwrap();
                requests.last_mut().unwrap().1.push_str(part);
            }
            Event::End => requests.last_mut().unwrap().1.push('.'),
        })?;
        left.extend_from_slice(rest);
    }
    Ok((requests, left))
}

fn request(line: &str, body: &str, keep_alive: bool) -> Found {
    (line.to_owned(), body.to_owned(), keep_alive)
}

#[test]
fn requests_that_are_cut_anywhere_are_the_same() {
    let whole = vec![
        request("POST /a", "hello 0123456789.", true),
        request("GET /b?c", ".", false),
    ];
    for cut in 0..CODED.len() {
        let (one, other) = CODED.split_at(cut);
        assert_eq!(read(&[one, other]).unwrap(), (whole.clone(), Vec::new()));
    }
    let bytes: Vec<&[u8]> = CODED.chunks(1).collect();
    assert_eq!(read(&bytes).unwrap(), (whole, Vec::new()));
}

#[test]
fn a_long_head_may_arrive_in_pieces() {
    let head = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "y".repeat(20_000));
    let pieces: Vec<&[u8]> = head.as_bytes().chunks(7).collect();
    assert_eq!(read(&pieces).unwrap().0, [request("GET /", ".", true)]);
}

#[test]
fn what_follows_a_request_for_another_protocol_is_left() {
    let head = b"GET / HTTP/1.1\r\nConnection: keep-alive, Upgrade\r\nUpgrade: x\r\n\r\nframes";
    let (requests, left) = read(&[head]).unwrap();
    assert_eq!(requests, [request("GET /", ".", true)]);
    assert_eq!(left, b"frames");
}

#[test]
fn what_two_parsers_may_read_in_two_ways_is_refused() {
    let chunked = "Transfer-Encoding: chunked\r\n";
    for head in [
        "Content-Length: 1\r\nContent-Length: 2\r\n".to_owned(),
        "Content-Length: -1\r\n".to_owned(),
        "Content-Length: +1\r\n".to_owned(),
        "Content-Length: 1, 1\r\n".to_owned(),
        "Content-Length: 99999999999999999999\r\n".to_owned(),
        format!("Content-Length: 1\r\n{chunked}"),
        format!("{chunked}{chunked}"),
        "Transfer-Encoding: gzip, chunked\r\n".to_owned(),
        "X: a\r\n b\r\n".to_owned(),
        "X : a\r\n".to_owned(),
        "X: a\0b\r\n".to_owned(),
        "nonsense\r\n".to_owned(),
    ] {
        let request = format!("POST / HTTP/1.1\r\n{head}\r\n");
        assert!(read(&[request.as_bytes()]).is_err(), "{head}");
    }
    let long = format!("{}\r\n", "1".repeat(2000));
    for body in [
        "x\r\n",
        "5\r\nhelloXX",
        "-5\r\n",
        "+5\r\n",
        "\r\n",
        ";x=y\r\n",
        "5 1\r\n",
        "10000000000000000\r\n",
        "5\n",
        &long,
    ] {
        let request = format!("POST / HTTP/1.1\r\n{chunked}\r\n{body}");
        assert!(read(&[request.as_bytes()]).is_err(), "{body}");
    }
    assert!(read(&[b"\x16\x03\x01\x02\x00"]).is_err());
}
