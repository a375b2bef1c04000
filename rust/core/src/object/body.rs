//! The encoded content of an object, and the only access to it.
//!
//! Another wire encoding adds a variant here and its writer to `build`.

use crate::json::read::Value;

/// An object's content in the encoding in which it is kept.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// Valid JSON text.
    Json(Box<str>),
}

/// Where a value lies in the body of its object; empty for a missing value.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    pub(super) start: u32,
    pub(super) end: u32,
}

impl Body {
    /// Return the content as the reader takes it.
    fn text(&self) -> &str {
        match self {
            Self::Json(text) => text,
        }
    }

    /// Return the whole content.
    pub(super) fn value(&self) -> Value<'_> {
        Value(self.text())
    }

    /// Return the value at `place`.
    pub(super) fn at(&self, place: Place) -> Value<'_> {
        let part = self.text().get(place.start as usize..place.end as usize);
        Value(part.unwrap_or_default())
    }

    /// Return the place of `value`, which must be a part of this body.
    pub(super) fn place_of(&self, value: Value<'_>) -> Place {
        let start = value.offset_in(self.text());
        Place::new(start, start + value.0.len())
    }

    /// Return the number of bytes of the content.
    pub(super) fn len(&self) -> usize {
        self.text().len()
    }
}

impl Place {
    /// Offsets beyond 4 GiB are cut: `build` refuses such an object once its text is complete.
    pub(super) fn new(start: usize, end: usize) -> Self {
        let offset = |at| u32::try_from(at).unwrap_or(u32::MAX);
        Self {
            start: offset(start),
            end: offset(end),
        }
    }
}
