//! Cached objects: content and metadata, shared and immutable.

mod body;
mod build;
mod build_json;
mod build_proto;
mod document;
mod frame;
mod identity;
mod json_body;
mod place;
mod proto_body;
mod sizes;
mod strings;
mod write;

use std::borrow::Cow;
use std::sync::Arc;

use body::Body;
pub(crate) use body::BodyKind;
use frame::{Content, Frame};
use strings::same_strings;

pub use build::{Builder, ObjectError};
pub(crate) use build::{Decision, Identity, Taken};
pub use document::{Document, Part};
pub use frame::Damaged;
pub use sizes::Sizes;
pub use write::Form;

use crate::json::path::{Path, Step};
use crate::json::read::{Kind, Value};
use crate::json::same::{members, same};
use crate::owner::OwnerReference;
use crate::projection::Projection;

/// The key of an object in a store: `namespace/name`, or only the name.
pub type Key = Arc<str>;

/// An immutable object, with `apiVersion` and `kind` first and without `metadata.managedFields`.
#[derive(Debug)]
pub struct Object {
    /// The content; of a compressed one only what is read of every object.
    body: Body,
    /// The whole content, if it is compressed.
    frame: Option<Box<Frame>>,
    key: Key,
    types: Arc<Types>,
    namespace_len: u32,
    partial: bool,
}

/// What all objects of an informer share: their type, and what is kept of them.
#[derive(Debug)]
struct Types {
    api_version: Arc<str>,
    kind: Arc<str>,
    projection: Option<Projection>,
}

impl Object {
    /// Return the text, if the object is cached as text.
    fn cached_text(&self) -> Option<&str> {
        match (&self.body, &self.frame) {
            (Body::Json(body), None) => Some(&body.text),
            _ => None,
        }
    }

    /// Return the same object with its content in another form.
    fn with(&self, body: Body, frame: Option<Frame>) -> Self {
        Self {
            body,
            frame: frame.map(Box::new),
            key: self.key.clone(),
            types: self.types.clone(),
            namespace_len: self.namespace_len,
            partial: self.partial,
        }
    }

    /// Return the whole object as JSON, `apiVersion` and `kind` included.
    ///
    /// # Errors
    /// The compressed body is damaged.
    pub fn json(&self) -> Result<Cow<'_, str>, Damaged> {
        Ok(match self.content()? {
            Content::Cached(body) => body.json(&self.types),
            Content::Unpacked(body) => Cow::Owned(body.json(&self.types).into_owned()),
        })
    }

    /// Return the JSON of the value at the end of a path; None if something on it is missing or null.
    ///
    /// # Errors
    /// The compressed body is damaged.
    pub fn find(&self, path: &[Step]) -> Result<Option<Cow<'_, str>>, Damaged> {
        if self.is_in_head(path) {
            return Ok(self.body.find(path, &self.types));
        }
        Ok(match self.content()? {
            Content::Cached(body) => body.find(path, &self.types),
            Content::Unpacked(body) => {
                let value = body.find(path, &self.types);
                value.map(|value| Cow::Owned(value.into_owned()))
            }
        })
    }

    /// Return the value at the end of a path; None if something on it is missing or null.
    ///
    /// # Errors
    /// The compressed body is damaged.
    pub fn part(self: &Arc<Self>, path: &[Step]) -> Result<Option<Part>, Damaged> {
        if let (Body::Json(body), None) = (&self.body, &self.frame) {
            let value = body.find(path);
            return Ok(value.map(|value| Document::cached(self).part(value)));
        }
        Ok(self.find(path)?.map(|value| {
            let document = Document::written(&value);
            document.part(document.value())
        }))
    }

    /// Return the scalars at a path as text, in order and once each.
    ///
    /// # Errors
    /// The compressed body is damaged.
    pub fn texts(&self, path: &Path) -> Result<Vec<Box<str>>, Damaged> {
        if self.is_in_head(&path.0) {
            return Ok(self.body.texts(path, &self.types));
        }
        Ok(self.content()?.texts(path, &self.types))
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
    ///
    /// # Errors
    /// A compressed body is damaged.
    pub fn same_annotations(&self, other: &Self) -> Result<bool, Damaged> {
        let none = !self.may_have_annotations() && !other.may_have_annotations();
        if none || self.has_equal_bytes(other) {
            return Ok(true);
        }
        let (one, other) = (self.content()?, other.content()?);
        Ok(same_strings(one.annotations(), other.annotations()))
    }

    /// Return whether both have the same members beside those with these names; null is as good as missing.
    ///
    /// # Errors
    /// A compressed body is damaged.
    pub(crate) fn same_beside(&self, other: &Self, names: &[&str]) -> Result<bool, Damaged> {
        if self.has_equal_bytes(other) {
            return Ok(true);
        }
        let (one, other) = (self.json()?, other.json()?);
        let compared = |object| {
            let mut kept = members(object);
            kept.retain(|name, value| !names.contains(&&**name) && value.kind() != Kind::Null);
            kept
        };
        let (ours, theirs) = (compared(Value(&one)), compared(Value(&other)));
        Ok(ours.keys().eq(theirs.keys())
            && ours
                .values()
                .zip(theirs.values())
                .all(|(one, other)| same(*one, *other)))
    }

    /// Return `metadata.finalizers`.
    ///
    /// # Errors
    /// The compressed body is damaged.
    pub fn finalizers(&self) -> Result<Vec<Cow<'_, str>>, Damaged> {
        if !self.may_have_finalizers() {
            return Ok(Vec::new());
        }
        Ok(match self.content()? {
            Content::Cached(body) => body.finalizers(),
            Content::Unpacked(body) => {
                let all = body.finalizers().into_iter();
                all.map(|one| Cow::Owned(one.into_owned())).collect()
            }
        })
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

    /// Return whether both have the same content in the same bytes: a quick test that says nothing if it is false. Of
    /// compressed bodies the hashes are compared.
    pub fn has_equal_bytes(&self, other: &Self) -> bool {
        let same_kind = match (&self.body, &other.body) {
            (Body::Json(_), Body::Json(_)) => true,
            (Body::Proto(one), Body::Proto(two)) => {
                one.has_same_message(two)
                    && self.types.api_version == other.types.api_version
                    && self.types.kind == other.types.kind
            }
            _ => false,
        };
        same_kind
            && self.plain_len() == other.plain_len()
            && match (&self.frame, &other.frame) {
                (None, None) => self.body.bytes() == other.body.bytes(),
                _ => self.digest() == other.digest(),
            }
    }
}

/// Equal by value, whatever the encodings. What is damaged equals nothing.
impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        let same_values = || {
            let (one, other) = (self.json()?, other.json()?);
            Ok::<_, Damaged>(same(Value(&one), Value(&other)))
        };
        self.has_equal_bytes(other) || same_values() == Ok(true)
    }
}
