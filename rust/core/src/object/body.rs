//! The encoded content of an object, and the only access to it: nothing outside sees which encoding it is.

use std::borrow::Cow;

use super::OwnerReference;
use super::json_body::JsonBody;
use super::proto_body::ProtoBody;
use crate::json::read::Value;

/// An object's content in the encoding in which it came.
#[derive(Debug)]
pub(super) enum Body {
    Json(JsonBody),
    Proto(ProtoBody),
}

/// Strings by name.
pub(super) type StringMap<'a> = Vec<(Cow<'a, str>, Cow<'a, str>)>;

/// Where a value lies in a text; empty for a missing value.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    pub(super) start: u32,
    pub(super) end: u32,
}

/// Call the same method of whatever body it is.
macro_rules! delegate {
    ($($(#[$doc:meta])* $name:ident(&self $(, $arg:ident: $kind:ty)*) -> $result:ty;)*) => {
        $($(#[$doc])*
        pub(super) fn $name(&self $(, $arg: $kind)*) -> $result {
            match self {
                Self::Json(body) => body.$name($($arg),*),
                Self::Proto(body) => body.$name($($arg),*),
            }
        })*
    };
}

impl Body {
    delegate! {
        /// Return the number of bytes of the content.
        len(&self) -> usize;
        /// Return `metadata.uid`, or empty.
        uid(&self) -> Cow<'_, str>;
        /// Return `metadata.resourceVersion`, or empty.
        resource_version(&self) -> Cow<'_, str>;
        /// Return `metadata.generation`, or 0.
        generation(&self) -> i64;
        /// Return `metadata.deletionTimestamp`.
        deletion_timestamp(&self) -> Option<Cow<'_, str>>;
        /// Return the value of a label.
        label(&self, key: &str) -> Option<Cow<'_, str>>;
        /// Return `metadata.labels`.
        labels(&self) -> StringMap<'_>;
        /// Return `metadata.annotations`.
        annotations(&self) -> StringMap<'_>;
        /// Return `metadata.finalizers`.
        finalizers(&self) -> Vec<Cow<'_, str>>;
        /// Return `metadata.ownerReferences` that have a kind and a name.
        owner_references(&self) -> Vec<OwnerReference<'_>>;
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
