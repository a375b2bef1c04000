//! The encoded content of an object, and the only access to it: nothing outside sees which encoding it is.

use std::borrow::Cow;

use super::Types;
use super::json_body::JsonBody;
use super::proto_body::ProtoBody;
use super::strings::StringMap;
use crate::json::path::{Path, Step};
use crate::owner::OwnerReference;

/// An object's content in the encoding in which it came.
#[derive(Debug)]
pub(super) enum Body {
    Json(JsonBody),
    Proto(ProtoBody),
}

/// The encoding of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyKind {
    Json,
    Proto,
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
        /// Return the content.
        bytes(&self) -> &[u8];
        /// Return whether there is `metadata.annotations`.
        has_annotations(&self) -> bool;
        /// Return whether there is `metadata.finalizers`.
        has_finalizers(&self) -> bool;
    }

    /// Return what is read of every object, in the same encoding: the metadata without names, annotations and finalizers.
    pub(super) fn head(&self) -> Self {
        match self {
            Self::Json(body) => Self::Json(body.head()),
            Self::Proto(body) => Self::Proto(body.head()),
        }
    }

    /// Return the body of the same kind that has this content; None if it cannot be one.
    pub(super) fn same_kind(&self, content: Vec<u8>) -> Option<Self> {
        match self {
            Self::Json(_) => Some(Self::Json(JsonBody::of(String::from_utf8(content).ok()?))),
            Self::Proto(body) => Some(Self::Proto(body.same_kind(content))),
        }
    }

    /// Return the whole object as JSON.
    pub(super) fn json(&self, types: &Types) -> Cow<'_, str> {
        match self {
            Self::Json(body) => Cow::Borrowed(&body.text),
            Self::Proto(body) => Cow::Owned(body.json(types)),
        }
    }

    /// Return the scalars at a path as text, in order and once each.
    pub(super) fn texts(&self, path: &Path, types: &Types) -> Vec<Box<str>> {
        match self {
            Self::Json(body) => body.texts(path),
            Self::Proto(body) => body.texts(path, types),
        }
    }

    /// Return the JSON of the value at the end of a path; None if something on it is missing or null.
    pub(super) fn find(&self, path: &[Step], types: &Types) -> Option<Cow<'_, str>> {
        match self {
            Self::Json(body) => body.find(path).map(|value| Cow::Borrowed(value.json())),
            Self::Proto(body) => body.find(path, types).map(Cow::Owned),
        }
    }
}
