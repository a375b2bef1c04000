//! Watch streams: one JSON frame per line, `{"type": …, "object": …}`.

use super::{DecodeError, RawJson};
use crate::json::read::{Kind, Value};
use crate::json::scan::{Member, Scan, Shape};
use crate::json::text::key_is;

/// The type of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// The object is new, or is one of the initial events.
    Added,
    /// The object changed.
    Modified,
    /// The object is gone; the frame holds its last state.
    Deleted,
    /// Only the resource version advanced.
    Bookmark,
    /// The server ends the watch; the object is a `Status`.
    Error,
    /// An unknown type.
    Unknown,
}

impl FrameKind {
    pub(super) fn of(name: &[u8]) -> Self {
        match name {
            b"ADDED" => Self::Added,
            b"MODIFIED" => Self::Modified,
            b"DELETED" => Self::Deleted,
            b"BOOKMARK" => Self::Bookmark,
            b"ERROR" => Self::Error,
            _ => Self::Unknown,
        }
    }
}

/// One frame.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// What happened.
    pub kind: FrameKind,
    /// The object to which it happened.
    pub object: RawJson<'a>,
    /// The object's text.
    pub value: Value<'a>,
    /// The frame's type as written, quotes included.
    pub type_text: &'a str,
}

/// Splits a watch stream into frames; holds at most one incomplete frame.
#[derive(Debug)]
pub struct FrameDecoder {
    max_object_bytes: usize,
    unfinished: Vec<u8>,
    /// Bytes of the stream before those in `unfinished`.
    offset: u64,
    scan: Scan,
}

impl FrameDecoder {
    /// Create a decoder at the start of a stream; a frame may be a little larger than an object.
    pub fn new(max_object_bytes: usize) -> Self {
        Self {
            max_object_bytes,
            unfinished: Vec::new(),
            offset: 0,
            scan: Scan::new(Shape::Frame),
        }
    }

    /// Forget a cut frame: a new stream begins.
    pub fn restart(&mut self) {
        self.unfinished = Vec::new();
        self.offset = 0;
    }

    /// Decode the frames that are complete. `on_frame` returns false to end the stream, which drops the rest.
    ///
    /// # Errors
    /// A frame is malformed or too large. The frames before it were passed on.
    pub fn feed(
        &mut self,
        chunk: &[u8],
        on_frame: &mut dyn FnMut(Frame<'_>) -> bool,
    ) -> Result<(), DecodeError> {
        let mut rest = chunk;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let (line, after) = rest.split_at(end + 1);
            rest = after;
            let continues = if self.unfinished.is_empty() {
                let offset = self.offset;
                self.offset += line.len() as u64;
                self.line(line, offset, on_frame)?
            } else {
                self.unfinished.extend_from_slice(line);
                self.take_unfinished(on_frame)?
            };
            if !continues {
                return Ok(());
            }
        }
        self.unfinished.extend_from_slice(rest);
        if self.unfinished.len() > self.max_object_bytes.saturating_add(1024) {
            return Err(self.too_large(self.offset, &self.unfinished));
        }
        Ok(())
    }

    /// Note the end of the stream. A last frame without its line end is passed on.
    ///
    /// # Errors
    /// The stream was cut in the middle of a frame.
    pub fn finish(
        &mut self,
        on_frame: &mut dyn FnMut(Frame<'_>) -> bool,
    ) -> Result<(), DecodeError> {
        if self.unfinished.is_empty() {
            Ok(())
        } else {
            self.take_unfinished(on_frame).map(|_| ())
        }
    }

    fn take_unfinished(
        &mut self,
        on_frame: &mut dyn FnMut(Frame<'_>) -> bool,
    ) -> Result<bool, DecodeError> {
        let mut line = std::mem::take(&mut self.unfinished);
        let offset = self.offset;
        self.offset += line.len() as u64;
        let result = self.line(&line, offset, on_frame);
        // Keep the memory for the next cut frame, unless this one was unusually large.
        if line.capacity() <= 1 << 20 {
            line.clear();
            self.unfinished = line;
        }
        result
    }

    fn too_large(&self, offset: u64, bytes: &[u8]) -> DecodeError {
        DecodeError::new(
            offset,
            format!("the object is larger than {} bytes", self.max_object_bytes),
            bytes,
        )
    }

    fn line(
        &mut self,
        line: &[u8],
        offset: u64,
        on_frame: &mut dyn FnMut(Frame<'_>) -> bool,
    ) -> Result<bool, DecodeError> {
        let mut start = 0;
        loop {
            let bytes = line.get(start..).unwrap_or_default();
            let Some(blank) = bytes.iter().position(|b| !b.is_ascii_whitespace()) else {
                return Ok(true);
            };
            let bytes = bytes.get(blank..).unwrap_or_default();
            start += blank;
            let base = offset + start as u64;
            self.scan.restart();
            let end = match self.scan.advance(bytes) {
                Ok(Some(end)) => end,
                Ok(None) => {
                    let what = "unexpected end of the frame";
                    return Err(DecodeError::new(base + bytes.len() as u64, what, bytes));
                }
                Err(error) => {
                    let what = format!("not JSON: {}", error.what);
                    return Err(DecodeError::new(base + error.at as u64, what, bytes));
                }
            };
            let bytes = bytes.get(..end).unwrap_or_default();
            start += end;
            let text = std::str::from_utf8(bytes).map_err(|error| {
                DecodeError::new(base + error.valid_up_to() as u64, "not UTF-8", bytes)
            })?;
            let frame = read(text, &self.scan)
                .ok_or_else(|| DecodeError::new(base, "not a watch frame", bytes))?;
            if frame.value.0.len() > self.max_object_bytes {
                return Err(self.too_large(base, bytes));
            }
            if !on_frame(frame) {
                return Ok(false);
            }
        }
    }
}

/// Read a frame: an object with a string `type`. The caller judges its `object`, which may be anything.
fn read<'a>(text: &'a str, scan: &'a Scan) -> Option<Frame<'a>> {
    let find = |name| {
        let is = |member: &&Member| key_is(member.key.of(text.as_bytes()), name);
        let member = scan.members(0).iter().rfind(is)?;
        Some(member.value.value(text))
    };
    let type_text = find("type").filter(|value| value.kind() == Kind::String)?;
    let kind = FrameKind::of(type_text.as_str().unwrap_or_default().as_bytes());
    let value = find("object").unwrap_or(Value("null"));
    let object = RawJson {
        text,
        root: scan.members(1),
        metadata: scan.members(2),
    };
    Some(Frame {
        kind,
        object,
        value,
        type_text: type_text.0,
    })
}
