//! Cached objects: content and metadata, shared and immutable.

mod body;
mod build;
mod identity;
mod owner;
mod project;
mod write;

use std::borrow::Cow;
use std::sync::Arc;

use body::Body;
pub use body::Place;
pub use build::{Builder, ObjectError};
pub use owner::{Owner, OwnerReference};
pub use project::Projection;
pub use write::Form;

use crate::json::read::{Kind, Value};

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
    /// The places of what is read of every object; other fields are looked up in `metadata`.
    metadata: Place,
    uid: Place,
    resource_version: Place,
    labels: Place,
    owner_references: Place,
}

/// The type of an object, shared by all objects of an informer.
#[derive(Debug)]
struct Types {
    api_version: Arc<str>,
    kind: Arc<str>,
}

impl Object {
    /// Return the whole object, `apiVersion` and `kind` included.
    pub fn value(&self) -> Value<'_> {
        self.body.value()
    }

    /// Return the place of `value`, which must be a part of this object.
    pub fn place_of(&self, value: Value<'_>) -> Place {
        self.body.place_of(value)
    }

    /// Return the value at a place of this object.
    pub fn at(&self, place: Place) -> Value<'_> {
        self.body.at(place)
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
        self.at(self.uid).as_str().unwrap_or_default()
    }

    /// Return `metadata.resourceVersion`, or empty.
    pub fn resource_version(&self) -> Cow<'_, str> {
        self.at(self.resource_version).as_str().unwrap_or_default()
    }

    /// Return `metadata.generation`, or 0.
    pub fn generation(&self) -> i64 {
        let generation = self.in_metadata("generation");
        generation.json().parse().unwrap_or(0)
    }

    fn in_metadata(&self, name: &str) -> Value<'_> {
        self.at(self.metadata).get(name).unwrap_or(Value(""))
    }

    /// Return `metadata.deletionTimestamp` as sent.
    pub fn deletion_timestamp(&self) -> Option<Cow<'_, str>> {
        self.in_metadata("deletionTimestamp").as_str()
    }

    /// Return `metadata.labels`.
    pub fn labels(&self) -> Value<'_> {
        self.at(self.labels)
    }

    /// Return the value of a label, if the object has it.
    pub fn label(&self, key: &str) -> Option<Cow<'_, str>> {
        self.labels().get(key).and_then(Value::as_str)
    }

    /// Return `metadata.annotations`.
    pub fn annotations(&self) -> Value<'_> {
        self.in_metadata("annotations")
    }

    /// Return `metadata.finalizers`.
    pub fn finalizers(&self) -> impl Iterator<Item = Cow<'_, str>> {
        self.in_metadata("finalizers")
            .elements()
            .filter_map(Value::as_str)
    }

    /// Return `metadata.ownerReferences` that have a kind and a name.
    pub fn owner_references(&self) -> impl Iterator<Item = OwnerReference<'_>> {
        self.at(self.owner_references)
            .elements()
            .filter_map(OwnerReference::read)
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

    /// Return the bytes that the object takes, with allocations and without allocator overhead.
    pub fn memory(&self) -> usize {
        size_of::<Self>() + self.body.len() + self.key.len() + 4 * size_of::<usize>()
    }
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        self.body == other.body
    }
}

/// Return whether two string maps (labels, annotations) are equal, in any order.
pub fn same_map(old: Value<'_>, new: Value<'_>) -> bool {
    if old == new {
        return true;
    }
    // `null`, an empty map and a missing map are equal.
    let empty = |value: Value<'_>| value.kind() != Kind::Object || value.members().next().is_none();
    (empty(old) && empty(new)) || sorted(old) == sorted(new)
}

fn sorted(value: Value<'_>) -> Vec<(Cow<'_, str>, Cow<'_, str>)> {
    let mut all: Vec<_> = value
        .members()
        .map(|(key, inner)| {
            (
                key.as_str().unwrap_or_default(),
                inner.as_text().unwrap_or_default(),
            )
        })
        .collect();
    all.sort_unstable();
    all
}
