//! A body without its managed fields, which nobody reads and which are up to half of it.

use smallvec::SmallVec;

use super::table::{Form, Message, Spec};
use super::wire::{Part, Raw};
use super::write::MANAGED_FIELDS;
use super::{Problem, ProtoError};

pub(super) const NO_METADATA: Problem = Problem::Value("not the message of an object");

/// Return the number of the field with the metadata of an object.
pub(super) fn metadata_of(message: Message) -> Option<u32> {
    let mut fields = message.fields().iter();
    let field = fields.find(|spec| {
        spec.form() == Form::Message
            && spec.message().is(Message::OBJECT_META)
            && !spec.has(Spec::REPEATED | Spec::MAP | Spec::POINTER)
    });
    field.map(Spec::number)
}

/// Append an object without `metadata.managedFields`. The rest stays byte for byte, but for the length of the metadata;
/// metadata in several parts becomes one.
///
/// # Errors
/// The fields of the object or of its metadata are malformed.
pub fn strip_managed_fields(
    message: Message,
    bytes: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), ProtoError> {
    let body = Part::of(bytes);
    let number = metadata_of(message).ok_or_else(|| body.error(NO_METADATA))?;
    // The fields that hold the metadata, and what stays of it.
    let mut holders: SmallVec<[(usize, usize); 1]> = SmallVec::new();
    let mut kept: SmallVec<[(usize, usize); 4]> = SmallVec::new();
    let mut rest = body;
    while let Some(field) = rest.next_field()? {
        if field.number != number {
            continue;
        }
        let Raw::Bytes(mut metadata) = field.value else {
            let problem = Problem::FieldType("metadata");
            return Err(ProtoError::new(field.start, problem));
        };
        holders.push((field.start, field.end));
        while let Some(inner) = metadata.next_field()? {
            if inner.number == MANAGED_FIELDS {
                continue;
            }
            match kept.last_mut() {
                Some((_, end)) if *end == inner.start => *end = inner.end,
                _ => kept.push((inner.start, inner.end)),
            }
        }
    }
    let copy = |out: &mut Vec<u8>, from: usize, to: usize| {
        out.extend_from_slice(bytes.get(from..to).unwrap_or_default());
    };
    out.reserve(bytes.len());
    let mut at = 0;
    for (index, (start, end)) in holders.into_iter().enumerate() {
        copy(out, at, start);
        at = end;
        if index > 0 {
            continue;
        }
        varint(out, u64::from(number) << 3 | 2);
        varint(
            out,
            kept.iter().map(|(from, to)| to - from).sum::<usize>() as u64,
        );
        for (from, to) in &kept {
            copy(out, *from, *to);
        }
    }
    copy(out, at, bytes.len());
    Ok(())
}

/// Return an object with nothing but what is read of every one: metadata without names, annotations, finalizers.
///
/// # Errors
/// The fields of the object or of its metadata are malformed.
pub fn keep_header(message: Message, bytes: &[u8]) -> Result<Vec<u8>, ProtoError> {
    // uid, resourceVersion, generation, deletionTimestamp, labels, ownerReferences
    const KEPT: [u32; 6] = [5, 6, 7, 9, 11, 13];
    let mut body = Part::of(bytes);
    let number = metadata_of(message).ok_or_else(|| body.error(NO_METADATA))?;
    let mut kept = Vec::new();
    while let Some(field) = body.next_field()? {
        let (true, Raw::Bytes(mut metadata)) = (field.number == number, field.value) else {
            continue;
        };
        while let Some(inner) = metadata.next_field()? {
            if KEPT.contains(&inner.number) {
                kept.extend_from_slice(bytes.get(inner.start..inner.end).unwrap_or_default());
            }
        }
    }
    let mut out = Vec::with_capacity(kept.len() + 4);
    varint(&mut out, u64::from(number) << 3 | 2);
    varint(&mut out, kept.len() as u64);
    out.extend_from_slice(&kept);
    Ok(out)
}

pub(super) fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}
