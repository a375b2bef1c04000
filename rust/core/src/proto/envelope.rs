//! The envelope around a message: four bytes, then its type and its bytes.

use std::borrow::Cow;

use super::sink::lossy;
use super::wire::{Part, Raw};
use super::{Problem, ProtoError};

/// The bytes with which an envelope begins.
pub const MAGIC: [u8; 4] = *b"k8s\0";

/// A message with its type.
#[derive(Clone, Debug)]
pub struct Envelope<'a> {
    /// `apiVersion`
    pub api_version: Cow<'a, str>,
    /// `kind`
    pub kind: Cow<'a, str>,
    /// The message.
    pub raw: Part<'a>,
}

/// Return the text of a string of a message.
pub(super) fn text(part: Part<'_>) -> Cow<'_, str> {
    let bytes = part.bytes();
    std::str::from_utf8(bytes).map_or_else(|_| lossy(bytes).into(), Cow::Borrowed)
}

/// Return the beginning of a string for a message.
fn shown(part: Part<'_>) -> String {
    let bytes = part.bytes();
    bytes.get(..64).unwrap_or(bytes).escape_ascii().to_string()
}

/// Read an envelope.
///
/// # Errors
/// The bytes begin otherwise, are cut, or hold something else than a protobuf message.
pub fn envelope(bytes: &[u8]) -> Result<Envelope<'_>, ProtoError> {
    read(Part::of(bytes))
}

/// Read an envelope that is a part of a body.
pub(super) fn read(mut part: Part<'_>) -> Result<Envelope<'_>, ProtoError> {
    let start = part;
    let refuse = |what: String| start.error(Problem::Envelope(what.into()));
    if !part.bytes().starts_with(&MAGIC) {
        return Err(refuse("no `k8s\\0` at the start".to_owned()));
    }
    part.fixed::<4>()?;
    let mut envelope = Envelope {
        api_version: Cow::Borrowed(""),
        kind: Cow::Borrowed(""),
        raw: Part::of(&[]),
    };
    while let Some(field) = part.next_field()? {
        let value = match (field.number, field.value) {
            (1..=4, Raw::Bytes(value)) => value,
            (1..=4, _) => {
                let problem = Problem::FieldType("envelope");
                return Err(ProtoError::new(field.start, problem));
            }
            _ => continue,
        };
        match field.number {
            1 => envelope.read_type(value)?,
            2 => envelope.raw = value,
            3 if !value.is_empty() => {
                let encoding = shown(value);
                return Err(refuse(format!("the content encoding is `{encoding}`")));
            }
            4 if !matches!(
                value.bytes(),
                b"" | b"application/vnd.kubernetes.protobuf" | b"application/protobuf"
            ) =>
            {
                return Err(refuse(format!("the content is `{}`", shown(value))));
            }
            _ => {}
        }
    }
    if envelope.raw.bytes().first() == Some(&b'{') {
        return Err(refuse("the content is JSON".to_owned()));
    }
    Ok(envelope)
}

impl<'a> Envelope<'a> {
    fn read_type(&mut self, mut part: Part<'a>) -> Result<(), ProtoError> {
        while let Some(field) = part.next_field()? {
            match (field.number, field.value) {
                (1, Raw::Bytes(value)) => self.api_version = text(value),
                (2, Raw::Bytes(value)) => self.kind = text(value),
                (1 | 2, _) => {
                    let problem = Problem::FieldType("typeMeta");
                    return Err(ProtoError::new(field.start, problem));
                }
                _ => {}
            }
        }
        Ok(())
    }
}
