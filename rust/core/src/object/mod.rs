//! Cached objects: content and metadata, shared and immutable.

mod body;
mod build;
mod build_json;
mod build_proto;
mod document;
mod identity;
mod json_body;
mod owner;
mod project;
mod proto_body;
mod write;

use std::borrow::Cow;
use std::sync::Arc;

use body::{Body, StringMap};
pub(crate) use build::Taken;
pub use build::{Builder, ObjectError};
pub use document::{Document, Part};
pub use owner::{Owner, OwnerReference};
pub use project::Projection;
pub use write::Form;

use crate::json::path::{Path, Step};
use crate::json::read::Value;
use crate::json::same::same;

/// The key of an object in a store: `namespace/name`, or only the name.
pub type Key = Arc<str>;

/// An immutable object, with `apiVersion` and `kind` first and without `metadata.managedFields`.
#[derive(Debug)]
pub struct Object {
    body: Body,
    key: Key,
    types: Arc<Types>,
    namespace_len: u32,
    partial: bool,
}

/// The type of an object, shared by all objects of an informer.
#[derive(Debug)]
struct Types {
    api_version: Arc<str>,
    kind: Arc<str>,
}

impl Object {
    /// Return the text, if the object is cached as text.
    fn cached_text(&self) -> Option<&str> {
        match &self.body {
            Body::Json(body) => Some(&body.text),
            Body::Proto(_) => None,
        }
    }

    /// Return the whole object as JSON, `apiVersion` and `kind` included.
    pub fn json(&self) -> Cow<'_, str> {
        match &self.body {
            Body::Json(body) => Cow::Borrowed(&body.text),
            Body::Proto(body) => Cow::Owned(body.json(&self.types)),
        }
    }

    /// Return the JSON of the value at the end of a path; None if something on it is missing or null.
    pub fn find(&self, path: &[Step]) -> Option<Cow<'_, str>> {
        match &self.body {
            Body::Json(body) => body.find(path).map(|found| Cow::Borrowed(found.json())),
            Body::Proto(body) => body.find(path, &self.types).map(Cow::Owned),
        }
    }

    /// Return the value at the end of a path; None if something on it is missing or null.
    pub fn part(self: &Arc<Self>, path: &[Step]) -> Option<Part> {
        match &self.body {
            Body::Json(body) => Some(Document::cached(self).part(body.find(path)?)),
            Body::Proto(_) => {
                let document = Document::written(&self.find(path)?);
                Some(document.part(document.value()))
            }
        }
    }

    /// Return the scalars at a path as text, in order and once each.
    pub fn texts(&self, path: &Path) -> Vec<Box<str>> {
        match &self.body {
            Body::Json(body) => body.texts(path),
            Body::Proto(body) => body.texts(path, &self.types),
        }
    }

    /// `namespace/name`, or only the name.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Return `apiVersion`.
    pub fn api_version(&self) -> &Arc<str> {
        &self.types.api_version
    }

    /// Return `kind`.
    pub fn kind(&self) -> &Arc<str> {
        &self.types.kind
    }

    /// Return kind and key for messages; the key alone if the kind is unknown.
    pub fn describe(&self) -> String {
        match &*self.types.kind {
            "" => self.key.to_string(),
            kind => format!("{kind} {}", self.key),
        }
    }

    /// Return `metadata.name`.
    pub fn name(&self) -> &str {
        match self.namespace_len {
            0 => &self.key,
            len => self.key.get(len as usize + 1..).unwrap_or_default(),
        }
    }

    /// Return `metadata.namespace`, empty for a cluster-scoped object.
    pub fn namespace(&self) -> &str {
        self.key
            .get(..self.namespace_len as usize)
            .unwrap_or_default()
    }

    /// Return `metadata.uid`, or empty.
    pub fn uid(&self) -> Cow<'_, str> {
        self.body.uid()
    }

    /// Return `metadata.resourceVersion`, or empty.
    pub fn resource_version(&self) -> Cow<'_, str> {
        self.body.resource_version()
    }

    /// Return `metadata.generation`, or 0.
    pub fn generation(&self) -> i64 {
        self.body.generation()
    }

    /// Return `metadata.deletionTimestamp` as sent.
    pub fn deletion_timestamp(&self) -> Option<Cow<'_, str>> {
        self.body.deletion_timestamp()
    }

    /// Return the value of a label, if the object has it.
    pub fn label(&self, key: &str) -> Option<Cow<'_, str>> {
        self.body.label(key)
    }

    /// Return `metadata.labels`.
    pub fn labels(&self) -> Vec<(Cow<'_, str>, Cow<'_, str>)> {
        self.body.labels()
    }

    /// Return whether both have the same labels.
    pub fn same_labels(&self, other: &Self) -> bool {
        same_strings(self.body.labels(), other.body.labels())
    }

    /// Return whether both have the same annotations.
    pub fn same_annotations(&self, other: &Self) -> bool {
        same_strings(self.body.annotations(), other.body.annotations())
    }

    /// Return `metadata.finalizers`.
    pub fn finalizers(&self) -> Vec<Cow<'_, str>> {
        self.body.finalizers()
    }

    /// Return `metadata.ownerReferences` that have a kind and a name.
    pub fn owner_references(&self) -> Vec<OwnerReference<'_>> {
        self.body.owner_references()
    }

    /// Return whether the object is incomplete (only metadata, or a projection), so that writing it back would erase
    /// fields.
    pub fn partial(&self) -> bool {
        self.partial
    }

    /// Return whether this is the stored state with that uid and resource version, neither of them empty.
    pub fn same_state(&self, uid: &str, resource_version: &str) -> bool {
        !resource_version.is_empty()
            && self.resource_version() == resource_version
            && self.uid() == uid
    }

    /// Return whether both have the same content in the same bytes: a quick test that says nothing if it is false.
    pub fn has_equal_bytes(&self, other: &Self) -> bool {
        match (&self.body, &other.body) {
            (Body::Json(one), Body::Json(other)) => one.text == other.text,
            (Body::Proto(one), Body::Proto(two)) => {
                one.has_equal_bytes(two)
                    && self.types.api_version == other.types.api_version
                    && self.types.kind == other.types.kind
            }
            _ => false,
        }
    }

    /// Return the bytes that the object takes, with allocations and without allocator overhead.
    pub fn memory(&self) -> usize {
        size_of::<Self>() + self.body.len() + self.key.len() + 4 * size_of::<usize>()
    }
}

/// Equal by value, whatever the encodings.
impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        self.has_equal_bytes(other) || same(Value(&self.json()), Value(&other.json()))
    }
}

fn same_strings(mut one: StringMap<'_>, mut other: StringMap<'_>) -> bool {
    one == other || {
        one.sort_unstable();
        other.sort_unstable();
        one == other
    }
}
