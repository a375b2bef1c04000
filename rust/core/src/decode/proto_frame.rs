//! Watch streams in protobuf: frames that begin with their length, each with a `WatchEvent`.

use super::pieces::{Pieces, Taken};
use super::{DecodeError, FrameKind, RawProto};
use crate::proto::wire::{Part, Raw};
use crate::proto::{self, ProtoError};

/// One frame.
#[derive(Clone, Debug)]
pub struct ProtoFrame<'a> {
    /// What happened.
    pub kind: FrameKind,
    /// The frame's type as sent.
    pub type_text: std::borrow::Cow<'a, str>,
    /// The object to which it happened.
    pub object: RawProto<'a>,
}

/// Splits a watch stream into frames; holds at most one incomplete frame.
#[derive(Debug)]
pub struct ProtoFrameDecoder {
    max_object_bytes: usize,
    pieces: Pieces,
}

/// Bytes of the length before each frame.
const LENGTH: usize = 4;
/// A frame may be so much larger than its object.
const AROUND: usize = 1024;

impl ProtoFrameDecoder {
    /// Create a decoder at the start of a stream.
    pub fn new(max_object_bytes: usize) -> Self {
        Self {
            max_object_bytes,
            pieces: Pieces::default(),
        }
    }

    /// Forget a cut frame: a new stream begins.
    pub fn restart(&mut self) {
        self.pieces = Pieces::default();
    }

    /// Decode the frames that are complete. `on_frame` returns false to end the stream, which drops the rest.
    ///
    /// # Errors
    /// A frame is malformed or too large. The frames before it were passed on.
    pub fn feed(
        &mut self,
        chunk: &[u8],
        on_frame: &mut dyn FnMut(ProtoFrame<'_>) -> bool,
    ) -> Result<(), DecodeError> {
        let limit = self.max_object_bytes;
        self.pieces.feed(chunk, &mut |bytes, offset| {
            let Some(length) = bytes.first_chunk::<LENGTH>() else {
                return Ok(Taken::Needs(LENGTH));
            };
            let size = u32::from_be_bytes(*length) as usize;
            if size > limit.saturating_add(AROUND) {
                if bytes.starts_with(b"{") {
                    let what = "JSON in a stream of protobuf";
                    return Err(DecodeError::new(offset, what, bytes));
                }
                return Err(DecodeError::too_large(offset, limit, bytes));
            }
            let Some(message) = bytes.get(LENGTH..LENGTH + size) else {
                return Ok(Taken::Needs(LENGTH + size));
            };
            let starts = offset + LENGTH as u64;
            let frame = read(message, starts, limit)?;
            let goes_on = on_frame(frame);
            Ok(if goes_on {
                Taken::Used(LENGTH + size)
            } else {
                Taken::Stop
            })
        })
    }

    /// Note the end of the stream.
    ///
    /// # Errors
    /// The stream was cut in the middle of a frame.
    pub fn finish(&mut self) -> Result<(), DecodeError> {
        let left = self.pieces.unfinished();
        if left.is_empty() {
            return Ok(());
        }
        let what = "unexpected end of the frame";
        Err(DecodeError::new(self.pieces.len(), what, left))
    }
}

/// Read a frame that begins `offset` bytes after the start of the stream.
fn read(message: &[u8], offset: u64, limit: usize) -> Result<ProtoFrame<'_>, DecodeError> {
    let malformed = |error: ProtoError| DecodeError::of_message(offset, &error, message);
    let (mut kind, mut object) = (None, None);
    let mut fields = Part::of(message);
    while let Some(field) = fields.next_field().map_err(malformed)? {
        match (field.number, field.value) {
            (1, Raw::Bytes(text)) => kind = Some(text),
            (2, Raw::Bytes(extension)) => object = Some(extension),
            _ => {}
        }
    }
    let (Some(kind), Some(mut extension)) = (kind, object) else {
        return Err(DecodeError::new(offset, "not a watch frame", message));
    };
    let mut content = None;
    while let Some(field) = extension.next_field().map_err(malformed)? {
        if let (1, Raw::Bytes(raw)) = (field.number, field.value) {
            content = Some(raw);
        }
    }
    let content = content.ok_or_else(|| DecodeError::new(offset, "not a watch frame", message))?;
    let inside = offset + content.start() as u64;
    let bytes = content.bytes();
    let envelope =
        proto::envelope(bytes).map_err(|error| DecodeError::of_message(inside, &error, bytes))?;
    if envelope.raw.bytes().len() > limit {
        return Err(DecodeError::too_large(inside, limit, message));
    }
    Ok(ProtoFrame {
        kind: FrameKind::of(kind.bytes()),
        type_text: proto::text(kind.bytes()),
        object: RawProto {
            offset: inside + envelope.raw.start() as u64,
            bytes: envelope.raw.bytes(),
            api_version: envelope.api_version,
            kind: envelope.kind,
        },
    })
}
