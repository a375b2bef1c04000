//! Watch streams, in the encoding of each answer.

use std::borrow::Cow;

use super::{
    DecodeError, Encoding, Frame, FrameDecoder, FrameKind, ProtoFrameDecoder, RawObject, RawProto,
};
use crate::json::read::Value;
use crate::json::text::quote_into;
use crate::proto;
use crate::proto::wire::{Part, Raw};

/// One frame of a watch.
#[derive(Clone, Debug)]
pub struct Event<'a> {
    /// What happened.
    pub kind: FrameKind,
    /// The frame's type as sent.
    pub type_text: Cow<'a, str>,
    /// The object to which it happened.
    pub object: RawObject<'a>,
    /// Its text, in JSON.
    text: Option<Value<'a>>,
}

/// The content of a bookmark.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bookmark {
    /// The version up to which everything was sent; may be empty.
    pub resource_version: String,
    /// Whether it ends the initial events; None if it says nothing about them.
    pub ends_initial_events: Option<bool>,
}

/// Splits a watch stream into frames; holds at most one incomplete frame.
#[derive(Debug)]
pub struct WatchDecoder {
    encoding: Encoding,
    json: FrameDecoder,
    proto: ProtoFrameDecoder,
}

const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

impl WatchDecoder {
    /// Create a decoder at the start of a stream in JSON.
    pub fn new(max_object_bytes: usize) -> Self {
        Self {
            encoding: Encoding::Json,
            json: FrameDecoder::new(max_object_bytes),
            proto: ProtoFrameDecoder::new(max_object_bytes),
        }
    }

    /// Forget a cut frame: a new stream begins.
    pub fn restart(&mut self, encoding: Encoding) {
        self.json.restart();
        self.proto.restart();
        self.encoding = encoding;
    }

    /// Decode the frames that are complete. `on_event` returns false to end the stream, which drops the rest.
    ///
    /// # Errors
    /// A frame is malformed or too large. The frames before it were passed on.
    pub fn feed(
        &mut self,
        chunk: &[u8],
        on_event: &mut dyn FnMut(Event<'_>) -> bool,
    ) -> Result<(), DecodeError> {
        match &self.encoding {
            Encoding::Json => self.json.feed(chunk, &mut |frame| on_event(frame.into())),
            Encoding::Proto => self.proto.feed(chunk, &mut |frame| {
                on_event(Event {
                    kind: frame.kind,
                    type_text: frame.type_text,
                    object: RawObject::Proto(frame.object),
                    text: None,
                })
            }),
            foreign @ Encoding::Foreign(_) => foreign.refuse(chunk),
        }
    }

    /// Note the end of the stream. A last frame in JSON without its line end is passed on.
    ///
    /// # Errors
    /// The stream was cut in the middle of a frame.
    pub fn finish(
        &mut self,
        on_event: &mut dyn FnMut(Event<'_>) -> bool,
    ) -> Result<(), DecodeError> {
        match &self.encoding {
            Encoding::Proto => self.proto.finish(),
            foreign @ Encoding::Foreign(_) => foreign.refuse(b""),
            Encoding::Json => self.json.finish(&mut |frame| on_event(frame.into())),
        }
    }
}

impl<'a> From<Frame<'a>> for Event<'a> {
    fn from(frame: Frame<'a>) -> Self {
        Self {
            kind: frame.kind,
            type_text: Cow::Borrowed(frame.type_text),
            object: RawObject::Json(frame.object),
            text: Some(frame.value),
        }
    }
}

impl Event<'_> {
    /// Return the `Status` of an ERROR frame as JSON.
    pub fn status(&self) -> String {
        match &self.object {
            RawObject::Json(_) => self.text.map_or("null", Value::json).to_owned(),
            RawObject::Proto(raw) => proto::status(raw.bytes).unwrap_or_else(|error| {
                // The stream ends in any case; the reason is lost.
                let code = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","code":500,"message":"#;
                let mut text = code.as_bytes().to_vec();
                quote_into(&mut text, &format!("an error that cannot be read: {error}"));
                text.push(b'}');
                String::from_utf8(text).unwrap_or_default()
            }),
        }
    }

    /// Return what a bookmark says.
    pub fn bookmark(&self) -> Bookmark {
        match &self.object {
            RawObject::Json(_) => {
                let value = self.text.unwrap_or(Value("null"));
                let metadata = value.get("metadata").unwrap_or(Value("null"));
                let annotations = metadata.get("annotations").unwrap_or(Value("null"));
                let text = |value: Value<'_>| value.as_str().map(Cow::into_owned);
                let version = metadata.get("resourceVersion").and_then(text);
                let ends = annotations.get(INITIAL_EVENTS_END);
                Bookmark {
                    resource_version: version.unwrap_or_default(),
                    ends_initial_events: ends
                        .map(|value| value.as_str().is_some_and(|value| value == "true")),
                }
            }
            RawObject::Proto(raw) => bookmark(raw),
        }
    }
}

fn bookmark(raw: &RawProto<'_>) -> Bookmark {
    let mut bookmark = Bookmark::default();
    for metadata in fields(raw.bytes, 1) {
        if let Some(version) = fields(metadata, 6).last() {
            bookmark.resource_version = proto::text(version).into_owned();
        }
        for annotation in fields(metadata, 12) {
            if fields(annotation, 1).last() == Some(INITIAL_EVENTS_END.as_bytes()) {
                bookmark.ends_initial_events = Some(fields(annotation, 2).last() == Some(b"true"));
            }
        }
    }
    bookmark
}

/// Return the strings and messages of that number in a message, up to its first malformed field.
fn fields(message: &[u8], number: u32) -> impl Iterator<Item = &[u8]> {
    let mut part = Part::of(message);
    let fields = std::iter::from_fn(move || part.next_field().ok().flatten());
    fields.filter_map(move |field| match field.value {
        Raw::Bytes(value) if field.number == number => Some(value.bytes()),
        _ => None,
    })
}
