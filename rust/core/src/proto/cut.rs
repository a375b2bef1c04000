//! Messages without the fields that a projection leaves out, which are not decoded.

use super::ProtoError;
use super::envelope::text;
use super::map_entry::MapEntry;
use super::strip::{NO_METADATA, metadata_of, varint};
use super::table::{Form, Message, Spec};
use super::wire::{Part, Raw};
use crate::projection::Node;

/// Keep the metadata of an object and what `kept` names; fields that the table lacks stay, to be counted.
///
/// An element or a value of a map may stay whole although only a part of it is kept.
///
/// # Errors
/// A part of the message that is looked into is malformed.
pub(crate) fn cut(message: Message, bytes: &mut Vec<u8>, kept: &Node) -> Result<(), ProtoError> {
    let body = Part::of(bytes);
    let metadata = metadata_of(message).ok_or_else(|| body.error(NO_METADATA))?;
    let mut cut = Cut {
        bytes,
        out: Vec::with_capacity(bytes.len()),
    };
    cut.message(message, body, kept, Some(metadata))?;
    *bytes = cut.out;
    Ok(())
}

struct Cut<'a> {
    bytes: &'a [u8],
    out: Vec<u8>,
}

impl Cut<'_> {
    /// Copy what is kept of a message, and all of the field `always`.
    fn message(
        &mut self,
        message: Message,
        mut part: Part<'_>,
        kept: &Node,
        always: Option<u32>,
    ) -> Result<(), ProtoError> {
        let fields = message.fields();
        let mut last = 0;
        while let Some(field) = part.next_field()? {
            let all = self.bytes.get(field.start..field.end).unwrap_or_default();
            let position = fields.position(field.number, last);
            let Some((at, spec)) = position.and_then(|at| Some((at, fields.get(at)?))) else {
                self.out.extend_from_slice(all);
                continue;
            };
            last = at;
            let keep = match spec.form() {
                _ if always == Some(field.number) => Keep::All,
                Form::Inline => Keep::Part(kept),
                _ => Keep::of(spec, field.value, kept)?,
            };
            match (keep, field.value) {
                (Keep::Nothing, _) => {}
                (Keep::Part(kept), Raw::Bytes(inner)) => {
                    let from = self.out.len();
                    self.message(spec.message(), inner, kept, None)?;
                    self.wrap(field.number, from);
                }
                _ => self.out.extend_from_slice(all),
            }
        }
        Ok(())
    }

    /// Make what was written since `from` the value of a field.
    fn wrap(&mut self, number: u32, from: usize) {
        let end = self.out.len();
        varint(&mut self.out, u64::from(number) << 3 | 2);
        varint(&mut self.out, (end - from) as u64);
        let head = self.out.len() - end;
        if let Some(field) = self.out.get_mut(from..) {
            field.rotate_right(head);
        }
    }
}

/// What to keep of a field.
enum Keep<'n> {
    Nothing,
    All,
    Part(&'n Node),
}

impl<'n> Keep<'n> {
    fn of(spec: Spec, value: Raw<'_>, kept: &'n Node) -> Result<Self, ProtoError> {
        let Some(kept) = kept.members.get(spec.name()) else {
            return Ok(Self::Nothing);
        };
        if spec.has(Spec::MAP) && !kept.members.is_empty() {
            let (entry, _) = MapEntry::read(spec, value.part())?;
            let named = kept.members.contains_key(&*text(entry.key));
            return Ok(if named { Self::All } else { Self::Nothing });
        }
        let plain = spec.form() == Form::Message && !spec.has(Spec::CLAIM | Spec::MAP);
        let inner = if spec.has(Spec::REPEATED) {
            kept.each.as_deref()
        } else {
            Some(kept)
        };
        let part = inner.filter(|inner| plain && !inner.members.is_empty());
        Ok(part.map_or(Self::All, Self::Part))
    }
}
