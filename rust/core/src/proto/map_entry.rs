//! Entries of maps.

use super::table::Spec;
use super::wire::{Part, Raw};
use super::{Problem, ProtoError};

/// An entry of a map.
#[derive(Clone, Copy)]
pub(super) struct MapEntry<'a> {
    pub(super) key: Part<'a>,
    pub(super) value: Raw<'a>,
}

impl<'a> MapEntry<'a> {
    /// Read an entry; return how many fields besides key and value it has, too.
    pub(super) fn read(spec: Spec, mut part: Part<'a>) -> Result<(Self, Option<u32>), ProtoError> {
        let empty = Part::of(&[]);
        let mut entry = Self {
            key: empty,
            value: if spec.form().packs() {
                Raw::Varint(0)
            } else {
                Raw::Bytes(empty)
            },
        };
        let mut unknown = None;
        while let Some(field) = part.next_field()? {
            match (field.number, field.value) {
                (1, Raw::Bytes(key)) => entry.key = key,
                (2, value) if spec.form().fits(value) => entry.value = value,
                (1 | 2, _) => {
                    let problem = Problem::FieldType(spec.name());
                    return Err(ProtoError::new(field.start, problem));
                }
                (number, value) if !value.is_empty() => unknown = Some(number),
                _ => {}
            }
        }
        Ok((entry, unknown))
    }
}
