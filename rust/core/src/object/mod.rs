//! One cached object: its JSON text and what the index needs, shared and never changed.

mod body;
mod build;
mod owner;
mod project;

use std::borrow::Cow;
use std::sync::Arc;

use body::Body;
pub use body::Place;
pub use build::{Builder, ObjectError};
pub use owner::{Owner, OwnerReference};
pub use project::Projection;

use crate::json::read::{Kind, Value};

/// The key of an object in a store: `namespace/name`, or the name alone.
pub type Key = Arc<str>;

/// An immutable object: valid JSON text with `apiVersion` and `kind` first, without `metadata.managedFields`.
#[derive(Debug)]
pub struct Object {
    body: Body,
    key: Key,
    types: Arc<Types>,
    namespace_len: u32,
    partial: bool,
    /// What is read of every object has its place noted; the other fields are looked up in `metadata`.
    metadata: Place,
    uid: Place,
    resource_version: Place,
    labels: Place,
    owner_references: Place,
}

/// What an object is, the same for all of an informer.
#[derive(Debug)]
struct Types {
    api_version: Arc<str>,
    kind: Arc<str>,
}

impl Object {
    /// The whole object, `apiVersion` and `kind` included.
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

    /// `namespace/name`, or the name alone.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// `apiVersion`.
    pub fn api_version(&self) -> &Arc<str> {
        &self.types.api_version
    }

    /// `kind`.
    pub fn kind(&self) -> &Arc<str> {
        &self.types.kind
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        match self.namespace_len {
            0 => &self.key,
            len => self.key.get(len as usize + 1..).unwrap_or_default(),
        }
    }

    /// `metadata.namespace`, empty for a cluster-scoped object.
    pub fn namespace(&self) -> &str {
        self.key
            .get(..self.namespace_len as usize)
            .unwrap_or_default()
    }

    /// `metadata.uid`, empty where there is none.
    pub fn uid(&self) -> Cow<'_, str> {
        self.at(self.uid).as_str().unwrap_or_default()
    }

    /// `metadata.resourceVersion`, empty where there is none.
    pub fn resource_version(&self) -> Cow<'_, str> {
        self.at(self.resource_version).as_str().unwrap_or_default()
    }

    /// `metadata.generation`, 0 where there is none.
    pub fn generation(&self) -> i64 {
        let generation = self.in_metadata("generation");
        generation.0.parse().unwrap_or(0)
    }

    fn in_metadata(&self, name: &str) -> Value<'_> {
        self.at(self.metadata).get(name).unwrap_or(Value(""))
    }

    /// `metadata.deletionTimestamp` as sent.
    pub fn deletion_timestamp(&self) -> Option<Cow<'_, str>> {
        self.in_metadata("deletionTimestamp").as_str()
    }

    /// `metadata.labels`.
    pub fn labels(&self) -> Value<'_> {
        self.at(self.labels)
    }

    /// Return the value of a label, if the object has it.
    pub fn label(&self, key: &str) -> Option<Cow<'_, str>> {
        self.labels().get(key).and_then(Value::as_str)
    }

    /// `metadata.annotations`.
    pub fn annotations(&self) -> Value<'_> {
        self.in_metadata("annotations")
    }

    /// `metadata.finalizers`.
    pub fn finalizers(&self) -> impl Iterator<Item = Cow<'_, str>> {
        self.in_metadata("finalizers")
            .elements()
            .filter_map(Value::as_str)
    }

    /// `metadata.ownerReferences`, those that have a kind and a name.
    pub fn owner_references(&self) -> impl Iterator<Item = OwnerReference<'_>> {
        self.at(self.owner_references)
            .elements()
            .filter_map(OwnerReference::read)
    }

    /// Whether only a part of the object is here (its metadata, or a projection), so that writing it back would erase.
    pub fn partial(&self) -> bool {
        self.partial
    }

    /// Whether both are the same stored state: same uid, same resource version, and neither is empty.
    pub fn same_state(&self, uid: &str, resource_version: &str) -> bool {
        !resource_version.is_empty()
            && self.resource_version() == resource_version
            && self.uid() == uid
    }

    /// Bytes that the object takes, allocations included and allocator overhead not.
    pub fn memory(&self) -> usize {
        size_of::<Self>() + self.body.len() + self.key.len() + 4 * size_of::<usize>()
    }
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        self.body == other.body
    }
}

/// Whether two string maps (labels, annotations) hold the same, in whatever order.
pub fn same_map(old: Value<'_>, new: Value<'_>) -> bool {
    if old == new {
        return true;
    }
    let sorted = |value: Value<'_>| {
        let mut all: Vec<(String, String)> = value
            .members()
            .map(|(key, inner)| {
                let text = inner.as_text().unwrap_or_default();
                (
                    key.as_str().unwrap_or_default().into_owned(),
                    text.into_owned(),
                )
            })
            .collect();
        all.sort_unstable();
        all
    };
    // `null`, an empty map and no map at all are the same.
    let empty = |value: Value<'_>| value.kind() != Kind::Object || value.members().next().is_none();
    (empty(old) && empty(new)) || sorted(old) == sorted(new)
}
