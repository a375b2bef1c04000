//! Requests that a server receives over one connection, parsed as their bytes arrive. Plain Rust, no Python.
#![forbid(unsafe_code)]

mod body;

use body::Body;

/// The most headers of a request.
const MOST_HEADERS: usize = 256;

/// Shorter beginnings of a head are parsed whenever bytes arrive, longer ones when the head may be complete.
const SHORT: usize = 4096;

/// The connection does not carry HTTP/1.x, or something that two parsers may read in two ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub &'static str);

/// The head of a request; bytes above 127 are read as Latin-1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// As received.
    pub method: String,
    /// As received.
    pub target: String,
    /// In their order, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// Whether another request may follow.
    pub keep_alive: bool,
}

/// What a connection carries, in order.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A request begins.
    Head(Head),
    /// A part of its body.
    Body(&'a [u8]),
    /// The request is complete.
    End,
}

/// Parses the requests of one connection.
#[derive(Debug, Default)]
pub struct Parser {
    /// The beginning of a head.
    held: Vec<u8>,
    /// The body of the current request, after its head.
    body: Option<Body>,
    /// Whether the current request asks for another protocol.
    upgrades: bool,
}

impl Parser {
    /// Return how many bytes of an incomplete head have arrived.
    pub fn pending(&self) -> usize {
        self.held.len()
    }

    /// Parse bytes and pass on what they carry. Return those behind a request for another protocol, which only the
    /// answer decides about; otherwise nothing is left.
    ///
    /// # Errors
    /// The bytes are malformed; the connection cannot be used further. What came before was passed on.
    pub fn parse<'a>(
        &mut self,
        data: &'a [u8],
        on_event: &mut dyn FnMut(Event<'_>),
    ) -> Result<&'a [u8], Malformed> {
        let mut rest = data;
        loop {
            if self.body.is_none() {
                let Some((head, after)) = self.head(rest)? else {
                    return Ok(&[]);
                };
                let (body, upgrades) = framing(&head)?;
                (self.body, self.upgrades, rest) = (Some(body), upgrades, after);
                on_event(Event::Head(head));
            }
            if let Some(body) = &mut self.body {
                rest = body.feed(rest, &mut |piece| on_event(Event::Body(piece)))?;
                if !body.is_done() {
                    return Ok(&[]);
                }
            }
            self.body = None;
            on_event(Event::End);
            if std::mem::take(&mut self.upgrades) || rest.is_empty() {
                return Ok(rest);
            }
        }
    }

    /// Return the next head and what follows it; None if it is not complete.
    fn head<'a>(&mut self, data: &'a [u8]) -> Result<Option<(Head, &'a [u8])>, Malformed> {
        if self.held.is_empty() {
            // Clients may send empty lines before a request.
            let start = data.iter().position(|&byte| byte != b'\r' && byte != b'\n');
            let data = data.get(start.unwrap_or(data.len())..).unwrap_or_default();
            let Some((head, len)) = head_of(data)? else {
                self.held.extend_from_slice(data);
                return Ok(None);
            };
            return Ok(Some((head, data.get(len..).unwrap_or_default())));
        }
        let before = self.held.len();
        self.held.extend_from_slice(data);
        let from = before.saturating_sub(3);
        if before > SHORT && !may_end(self.held.get(from..).unwrap_or_default()) {
            return Ok(None);
        }
        let Some((head, len)) = head_of(&self.held)? else {
            return Ok(None);
        };
        self.held.clear();
        Ok(Some((
            head,
            data.get(len.saturating_sub(before)..).unwrap_or_default(),
        )))
    }
}

/// Return whether there is an empty line.
fn may_end(bytes: &[u8]) -> bool {
    memchr::memmem::find(bytes, b"\n\r\n").is_some()
        || memchr::memmem::find(bytes, b"\n\n").is_some()
}

fn head_of(bytes: &[u8]) -> Result<Option<(Head, usize)>, Malformed> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let status = request
        .parse(bytes)
        .map_err(|_| Malformed("the request is not HTTP"))?;
    let httparse::Status::Complete(len) = status else {
        return Ok(None);
    };
    let headers: Vec<(String, String)> = request
        .headers
        .iter()
        .map(|header| (header.name.to_ascii_lowercase(), latin_1(header.value)))
        .collect();
    let closes = has_option(&headers, "connection", "close");
    let head = Head {
        method: request.method.unwrap_or_default().to_owned(),
        target: latin_1(request.path.unwrap_or_default().as_bytes()),
        keep_alive: request.version == Some(1) && !closes,
        headers,
    };
    Ok(Some((head, len)))
}

fn latin_1(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

fn values<'a>(
    headers: &'a [(String, String)],
    name: &'a str,
) -> impl Iterator<Item = &'a str> + 'a {
    let named = headers.iter().filter(move |(known, _)| known == name);
    named.map(|(_, value)| value.as_str())
}

fn has_option(headers: &[(String, String)], name: &str, option: &str) -> bool {
    values(headers, name)
        .flat_map(|value| value.split(','))
        .any(|one| one.trim().eq_ignore_ascii_case(option))
}

/// Return the body that follows a head, and whether the request asks for another protocol.
fn framing(head: &Head) -> Result<(Body, bool), Malformed> {
    let headers = &head.headers;
    let upgrades = head.method == "CONNECT"
        || (values(headers, "upgrade").next().is_some()
            && has_option(headers, "connection", "upgrade"));
    let mut lengths = values(headers, "content-length");
    let length = lengths.next();
    if lengths.any(|other| Some(other) != length) {
        return Err(Malformed("two different lengths"));
    }
    let mut codings = values(headers, "transfer-encoding");
    let body = match (codings.next(), length) {
        (Some(coding), None)
            if coding.eq_ignore_ascii_case("chunked") && codings.next().is_none() =>
        {
            Body::chunked()
        }
        (Some(_), _) => return Err(Malformed("an ambiguous transfer coding")),
        (None, Some(length)) if length.bytes().all(|digit| digit.is_ascii_digit()) => {
            let length = length.parse();
            Body::of_length(length.map_err(|_| Malformed("an invalid length"))?)
        }
        (None, Some(_)) => return Err(Malformed("an invalid length")),
        (None, None) => Body::of_length(0),
    };
    Ok((body, upgrades))
}
