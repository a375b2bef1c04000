//! The body of an HTTP/1.1 response as it arrives: its framing is removed without a copy.
//!
//! A watch sends a small chunk or two per event. One read of the socket may return many of them, and yields the
//! payloads in it.

#[cfg(unix)]
mod socket;

#[cfg(unix)]
pub use socket::{Received, Socket};

/// The longest line of a chunk size with its extensions, and of a trailer.
const LONGEST_LINE: usize = 1024;

/// The framing is invalid, or the body was cut.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BodyError(pub String);

impl BodyError {
    fn new(what: &str) -> Self {
        Self(what.to_owned())
    }
}

/// How the end of a body is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    /// So many bytes of the body, or of a chunk, are missing.
    Payload { missing: u64, chunked: bool },
    /// The body ends with the connection.
    Connection,
    /// Chunked: a line with a size, or of the trailer, comes next.
    Line { trailer: bool },
    /// Chunked: the line end after a chunk, of which so many bytes were read.
    ChunkEnd(usize),
    /// The body is complete.
    Done,
}

/// Removes the framing of a body, which may be cut anywhere.
#[derive(Debug)]
pub struct Body {
    framing: Framing,
    /// The beginning of a cut line.
    line: Vec<u8>,
}

impl Body {
    /// Create a body in chunked transfer coding.
    pub fn chunked() -> Self {
        Self::framed(Framing::Line { trailer: false })
    }

    /// Create a body of so many bytes; None if it ends with the connection.
    pub fn of_length(length: Option<u64>) -> Self {
        Self::framed(match length {
            Some(0) => Framing::Done,
            Some(missing) => Framing::Payload {
                missing,
                chunked: false,
            },
            None => Framing::Connection,
        })
    }

    fn framed(framing: Framing) -> Self {
        Self {
            framing,
            line: Vec::new(),
        }
    }

    /// Return whether the body is complete.
    pub fn is_done(&self) -> bool {
        self.framing == Framing::Done
    }

    /// Take more bytes of the connection and pass on their payloads in order. Bytes after the end are dropped.
    ///
    /// # Errors
    /// The framing is invalid. The payloads before that were passed on.
    pub fn feed(
        &mut self,
        piece: &[u8],
        on_payload: &mut dyn FnMut(&[u8]),
    ) -> Result<(), BodyError> {
        let mut rest = piece;
        while !rest.is_empty() && !self.is_done() {
            rest = match self.framing {
                Framing::Done => return Ok(()),
                Framing::Connection => {
                    on_payload(rest);
                    return Ok(());
                }
                Framing::Payload { missing, chunked } => {
                    let (payload, after) = split(rest, missing);
                    on_payload(payload);
                    self.framing = match (missing - payload.len() as u64, chunked) {
                        (0, true) => Framing::ChunkEnd(0),
                        (0, false) => Framing::Done,
                        (missing, _) => Framing::Payload { missing, chunked },
                    };
                    after
                }
                Framing::ChunkEnd(seen) => self.end_chunk(rest, seen)?,
                Framing::Line { trailer } => self.read_line(rest, trailer)?,
            };
        }
        Ok(())
    }

    fn end_chunk<'a>(&mut self, rest: &'a [u8], seen: usize) -> Result<&'a [u8], BodyError> {
        let missing = b"\r\n".get(seen..).unwrap_or_default();
        let (found, after) = split(rest, missing.len() as u64);
        if !missing.starts_with(found) {
            return Err(BodyError::new("a chunk is longer than its size"));
        }
        self.framing = match seen + found.len() {
            2 => Framing::Line { trailer: false },
            seen => Framing::ChunkEnd(seen),
        };
        Ok(after)
    }

    fn read_line<'a>(&mut self, rest: &'a [u8], trailer: bool) -> Result<&'a [u8], BodyError> {
        let (part, after) = match memchr::memchr(b'\n', rest) {
            Some(end) => rest.split_at(end + 1),
            None => (rest, &[][..]),
        };
        if self.line.len() + part.len() > LONGEST_LINE {
            return Err(BodyError::new("invalid chunk size"));
        }
        // Usually the line is complete, and is not copied.
        let held;
        let line = if self.line.is_empty() && part.ends_with(b"\n") {
            part
        } else {
            self.line.extend_from_slice(part);
            if !part.ends_with(b"\n") {
                return Ok(after);
            }
            held = std::mem::take(&mut self.line);
            &held
        };
        let line = line
            .strip_suffix(b"\r\n")
            .ok_or_else(|| BodyError::new("invalid line end in the chunked coding"))?;
        self.framing = if trailer {
            if line.is_empty() {
                Framing::Done
            } else {
                Framing::Line { trailer }
            }
        } else {
            match size_of(line).ok_or_else(|| BodyError::new("invalid chunk size"))? {
                0 => Framing::Line { trailer: true },
                missing => Framing::Payload {
                    missing,
                    chunked: true,
                },
            }
        };
        Ok(after)
    }

    /// Note the end of the connection.
    ///
    /// # Errors
    /// The body is not complete.
    pub fn end(&mut self) -> Result<(), BodyError> {
        match self.framing {
            Framing::Done => {}
            Framing::Connection => self.framing = Framing::Done,
            Framing::Payload {
                missing,
                chunked: false,
            } => {
                return Err(BodyError(format!(
                    "the connection was cut {missing} bytes before the end of the body"
                )));
            }
            _ => {
                return Err(BodyError::new(
                    "the connection was cut in the middle of the stream",
                ));
            }
        }
        Ok(())
    }
}

/// Split off the first `at` bytes, or all if there are fewer.
fn split(bytes: &[u8], at: u64) -> (&[u8], &[u8]) {
    bytes.split_at(usize::try_from(at).map_or(bytes.len(), |at| at.min(bytes.len())))
}

/// Return the chunk size in a line; extensions are ignored.
///
/// `httparse::parse_chunk_size` is less strict: it reads an empty size as the end of the body.
fn size_of(line: &[u8]) -> Option<u64> {
    let digits = line.split(|&byte| byte == b';').next()?.trim_ascii();
    let digits = std::str::from_utf8(digits).ok();
    u64::from_str_radix(digits.filter(|digits| !digits.starts_with('+'))?, 16).ok()
}
