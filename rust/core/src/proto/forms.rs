//! The forms of values on the wire: what type a value has, and when it counts as empty.

use super::table::{Form, Spec};
use super::wire::{Part, Raw};
use super::{Problem, ProtoError};

/// The wire types of a form.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wire {
    Varint,
    Fixed64,
    Fixed32,
    Bytes,
}

impl Form {
    const fn wire(self) -> Wire {
        match self {
            Self::Bool | Self::Int32 | Self::Int64 | Self::Uint32 | Self::Uint64 => Wire::Varint,
            Self::Float32 => Wire::Fixed32,
            Self::Float64 => Wire::Fixed64,
            _ => Wire::Bytes,
        }
    }

    /// Return whether it is a number or a boolean, which lists may hold packed.
    pub(super) fn packs(self) -> bool {
        self.wire() != Wire::Bytes
    }

    /// Return whether the value is a message on the wire.
    pub(super) const fn is_message(self) -> bool {
        !matches!(
            self,
            Self::String
                | Self::Bytes
                | Self::Bool
                | Self::Int32
                | Self::Int64
                | Self::Uint32
                | Self::Uint64
                | Self::Float32
                | Self::Float64
                | Self::Hidden
        )
    }

    /// Return whether the value has the wire type of the form.
    pub(super) fn fits(self, value: Raw<'_>) -> bool {
        let wire = match value {
            Raw::Varint(_) => Wire::Varint,
            Raw::Fixed64(_) => Wire::Fixed64,
            Raw::Fixed32(_) => Wire::Fixed32,
            Raw::Bytes(_) => Wire::Bytes,
        };
        self == Self::Hidden || self.wire() == wire
    }

    /// Return the next of packed values.
    pub(super) fn next_packed<'a>(self, packed: &mut Part<'a>) -> Result<Raw<'a>, ProtoError> {
        match self.wire() {
            Wire::Fixed64 => packed
                .fixed()
                .map(|bytes| Raw::Fixed64(u64::from_le_bytes(bytes))),
            Wire::Fixed32 => packed
                .fixed()
                .map(|bytes| Raw::Fixed32(u32::from_le_bytes(bytes))),
            Wire::Varint | Wire::Bytes => packed.varint().map(Raw::Varint),
        }
    }
}

impl Spec {
    /// Refuse a value of a wrong wire type.
    #[inline]
    pub(super) fn expect(self, value: Raw<'_>, at: usize) -> Result<(), ProtoError> {
        let form = self.form();
        let fits = if self.has(Self::MAP) {
            matches!(value, Raw::Bytes(_))
        } else {
            form.fits(value)
                || self.has(Self::REPEATED) && form.packs() && matches!(value, Raw::Bytes(_))
        };
        if fits {
            Ok(())
        } else {
            Err(ProtoError::new(at, Problem::FieldType(self.name())))
        }
    }
}

impl<'a> Raw<'a> {
    /// Return whether nothing is lost if the value is left out: a length of 0, or the number 0.
    pub(super) fn is_empty(self) -> bool {
        match self {
            Self::Varint(value) | Self::Fixed64(value) => value == 0,
            Self::Fixed32(value) => value == 0,
            Self::Bytes(part) => part.is_empty(),
        }
    }

    /// Return the part; an empty one for a number.
    pub(super) fn part(self) -> Part<'a> {
        match self {
            Self::Bytes(part) => part,
            _ => Part::of(&[]),
        }
    }

    /// Return the number; 0 for bytes.
    pub(super) fn bits(self) -> u64 {
        match self {
            Self::Varint(value) | Self::Fixed64(value) => value,
            Self::Fixed32(value) => u64::from(value),
            Self::Bytes(_) => 0,
        }
    }
}
