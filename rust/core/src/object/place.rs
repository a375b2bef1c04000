//! Places in the text of an object.

use crate::json::read::Value;

/// Where a value lies in a text; empty for a missing value.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    pub(super) start: u32,
    pub(super) end: u32,
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

    /// Return the place of `value`, which must be a part of `text`.
    pub(super) fn of(value: Value<'_>, text: &str) -> Self {
        let start = value.offset_in(text);
        Self::new(start, start + value.json().len())
    }

    /// Return the value at this place.
    pub(super) fn in_text(self, text: &str) -> Value<'_> {
        let part = text.get(self.start as usize..self.end as usize);
        Value(part.unwrap_or_default())
    }
}
