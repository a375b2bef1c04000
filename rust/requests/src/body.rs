//! The body of a request as it arrives: its framing is removed without a copy.

use super::Malformed;

/// The longest line of a chunk size with its extensions, and of a trailer.
const LONGEST_LINE: usize = 1024;

/// How the end of a body is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    /// So many bytes of the body, or of a chunk, are missing.
    Payload { missing: u64, chunked: bool },
    /// Chunked: a line with a size, or of the trailer, comes next.
    Line { trailer: bool },
    /// Chunked: the line end after a chunk, of which so many bytes were read.
    ChunkEnd(usize),
    /// The body is complete.
    Done,
}

/// Removes the framing of a body, which may be cut anywhere.
#[derive(Debug)]
pub(super) struct Body {
    framing: Framing,
    /// The beginning of a cut line.
    line: Vec<u8>,
}

impl Body {
    /// Create a body in chunked transfer coding.
    pub(super) fn chunked() -> Self {
        Self::framed(Framing::Line { trailer: false })
    }

    /// Create a body of so many bytes.
    pub(super) fn of_length(missing: u64) -> Self {
        Self::framed(match missing {
            0 => Framing::Done,
            missing => Framing::Payload {
                missing,
                chunked: false,
            },
        })
    }

    fn framed(framing: Framing) -> Self {
        Self {
            framing,
            line: Vec::new(),
        }
    }

    /// Return whether the body is complete.
    pub(super) fn is_done(&self) -> bool {
        self.framing == Framing::Done
    }

    /// Take more bytes of the connection and pass on their payloads in order. Return those behind the body.
    pub(super) fn feed<'a>(
        &mut self,
        piece: &'a [u8],
        on_payload: &mut dyn FnMut(&[u8]),
    ) -> Result<&'a [u8], Malformed> {
        let mut rest = piece;
        while !rest.is_empty() && !self.is_done() {
            rest = match self.framing {
                Framing::Done => return Ok(rest),
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
        Ok(rest)
    }

    fn end_chunk<'a>(&mut self, rest: &'a [u8], seen: usize) -> Result<&'a [u8], Malformed> {
        let missing = b"\r\n".get(seen..).unwrap_or_default();
        let (start, after) = split(rest, missing.len() as u64);
        if !missing.starts_with(start) {
            return Err(Malformed("a chunk is longer than its size"));
        }
        self.framing = match seen + start.len() {
            2 => Framing::Line { trailer: false },
            seen => Framing::ChunkEnd(seen),
        };
        Ok(after)
    }

    fn read_line<'a>(&mut self, rest: &'a [u8], trailer: bool) -> Result<&'a [u8], Malformed> {
        let (part, after) = match memchr::memchr(b'\n', rest) {
            Some(end) => rest.split_at(end + 1),
            None => (rest, &[][..]),
        };
        if self.line.len() + part.len() > LONGEST_LINE {
            return Err(Malformed("invalid chunk size"));
        }
        self.line.extend_from_slice(part);
        if !part.ends_with(b"\n") {
            return Ok(after);
        }
        let held = std::mem::take(&mut self.line);
        let line = held.strip_suffix(b"\r\n");
        let line = line.ok_or(Malformed("invalid line end in the chunked coding"))?;
        self.framing = if trailer {
            if line.is_empty() {
                Framing::Done
            } else {
                Framing::Line { trailer }
            }
        } else {
            match size_of(line).ok_or(Malformed("invalid chunk size"))? {
                0 => Framing::Line { trailer: true },
                missing => Framing::Payload {
                    missing,
                    chunked: true,
                },
            }
        };
        Ok(after)
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
