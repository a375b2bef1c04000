//! Building an [`Object`] from bytes that the scan has accepted.

use std::borrow::Cow;
use std::sync::Arc;

use super::body::Body;
use super::{Key, Object, Types};
use crate::decode::{DecodeError, RawJson, RawObject};
use crate::json::scan::{Scan, ScanError, Shape};
use crate::projection::Projection;
use crate::proto::Unknown;

/// Why bytes cannot be kept as an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// Not JSON.
    #[error("not JSON at byte {}: {}", .0.at, .0.what)]
    Json(ScanError),
    /// The bytes end in the middle of the value.
    #[error("not JSON: unexpected end of the text")]
    Short,
    /// Something follows the value.
    #[error("not JSON: unexpected data after the object at byte {0}")]
    Trailing(usize),
    /// Valid JSON of another kind.
    #[error("not a JSON object")]
    NotAnObject,
    /// Not UTF-8.
    #[error("not UTF-8")]
    NotUtf8,
    /// `metadata.name` is missing, empty, not a string or contains a slash.
    #[error("metadata.name is missing, empty or invalid")]
    NoName,
    /// The object is of another kind than the watched one.
    #[error("the object is a {0}")]
    OtherKind(String),
    /// The stream cannot be trusted any more: what the object holds is not a message.
    #[error(transparent)]
    Malformed(Box<DecodeError>),
    /// Larger than the offsets of places allow.
    #[error("the object is too large")]
    TooLarge,
}

/// Builds objects of one resource; reuses its buffer.
#[derive(Debug)]
pub struct Builder {
    pub(super) types: Arc<Types>,
    /// Reject objects of another apiVersion or kind.
    strict: bool,
    /// Mark all objects as partial, whatever they contain.
    partial: bool,
    pub(super) scratch: Vec<u8>,
    /// What the object that is being built has and the table of fields lacks.
    pub(super) unknown: Option<Unknown>,
}

/// Returns the known object that has this identity.
pub(crate) type Known<'a> = &'a dyn Fn(&Identity<'_>) -> Option<Arc<Object>>;

/// What became of an object that came.
pub(crate) enum Taken {
    /// It is known in this state.
    Known(Arc<Object>),
    /// It is new or has changed.
    New(Object),
}

/// What identifies an object and its state.
pub(crate) struct Identity<'a> {
    pub(crate) key: Key,
    pub(crate) uid: Cow<'a, str>,
    pub(crate) resource_version: Cow<'a, str>,
}

impl Builder {
    /// Create a builder that adds apiVersion and kind to objects without them, such as items of lists.
    pub fn new(api_version: &str, kind: &str) -> Self {
        Self {
            types: Arc::new(Types {
                api_version: api_version.into(),
                kind: kind.into(),
                projection: None,
            }),
            strict: false,
            partial: false,
            scratch: Vec::new(),
            unknown: None,
        }
    }

    /// Reject objects of another apiVersion or kind.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// Mark all objects as partial.
    #[must_use]
    pub fn partial(mut self, partial: bool) -> Self {
        self.partial = partial;
        self
    }

    /// Keep only a part of each object.
    #[must_use]
    pub fn project(mut self, projection: Option<Projection>) -> Self {
        self.set_projection(projection);
        self
    }

    /// Keep only a part of each object from now on.
    pub fn set_projection(&mut self, projection: Option<Projection>) {
        self.types = Arc::new(Types {
            api_version: self.types.api_version.clone(),
            kind: self.types.kind.clone(),
            projection,
        });
    }

    /// Build an object from its JSON text.
    ///
    /// # Errors
    /// The bytes are not a JSON object, or it has no name.
    pub fn parse(&mut self, bytes: &[u8]) -> Result<Object, ObjectError> {
        let mut scan = Scan::new(Shape::Object);
        let end = match scan.advance(bytes) {
            Ok(Some(end)) => end,
            Ok(None) => {
                // A bare number ends where the text ends, which the scan cannot know.
                let object = bytes.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'{');
                return Err(if object || bytes.is_empty() {
                    ObjectError::Short
                } else {
                    ObjectError::NotAnObject
                });
            }
            Err(error) => return Err(ObjectError::Json(error)),
        };
        if let Some(extra) = bytes
            .get(end..)
            .unwrap_or_default()
            .iter()
            .position(|b| !b.is_ascii_whitespace())
        {
            return Err(ObjectError::Trailing(end + extra));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| ObjectError::NotUtf8)?;
        if !text.trim_ascii_start().starts_with('{') {
            return Err(ObjectError::NotAnObject);
        }
        let raw = RawJson {
            text,
            root: scan.members(0),
            metadata: scan.members(1),
        };
        match self.take_json(raw, &|_| None)? {
            Taken::New(object) => Ok(object),
            Taken::Known(_) => Err(ObjectError::NotAnObject),
        }
    }

    /// Return the object that `raw` is: the one that is known in this state, or a new one. Nothing is copied before that
    /// is known.
    pub(crate) fn take(
        &mut self,
        raw: RawObject<'_>,
        known: Known<'_>,
    ) -> Result<Taken, ObjectError> {
        match raw {
            RawObject::Json(raw) => self.take_json(raw, known),
            RawObject::Proto(raw) => self.take_proto(&raw, known),
        }
    }

    /// Return what the last object had that the table of fields lacks.
    pub(crate) fn take_unknown(&mut self) -> Option<Unknown> {
        self.unknown.take()
    }

    /// Return whether objects are built as parts of the server's.
    pub(crate) fn builds_partial(&self) -> bool {
        self.partial || self.types.projection.is_some()
    }

    pub(super) fn object(
        &self,
        key: Key,
        types: Arc<Types>,
        body: Body,
    ) -> Result<Object, ObjectError> {
        Ok(Object {
            body,
            frame: None,
            namespace_len: u32::try_from(key.rfind('/').unwrap_or(0))
                .map_err(|_| ObjectError::TooLarge)?,
            key,
            types,
            partial: self.builds_partial() || self.unknown.is_some(),
        })
    }

    /// Return the type of an object that says to have these `apiVersion` and kind.
    pub(super) fn type_of(&self, said: [Cow<'_, str>; 2]) -> Result<Arc<Types>, ObjectError> {
        let [mut api_version, mut kind] = said;
        // The server names metadata-only objects after their form; the cache names them after their content.
        let metadata_only = kind == "PartialObjectMetadata" && self.types.projection.is_some();
        if api_version.is_empty() || metadata_only {
            api_version = Cow::Borrowed(&self.types.api_version);
        }
        if kind.is_empty() || metadata_only {
            kind = Cow::Borrowed(&self.types.kind);
        }
        let known = &self.types;
        if *api_version == *known.api_version && *kind == *known.kind {
            return Ok(known.clone());
        }
        if self.strict {
            return Err(ObjectError::OtherKind(format!("{kind} of {api_version}")));
        }
        let shared = |text: &str, known: &Arc<str>| {
            if *text == **known {
                known.clone()
            } else {
                text.into()
            }
        };
        Ok(Arc::new(Types {
            api_version: shared(&api_version, &known.api_version),
            kind: shared(&kind, &known.kind),
            projection: known.projection.clone(),
        }))
    }
}

impl<'a> Identity<'a> {
    /// Check a name, a namespace, a uid and a resource version.
    pub(super) fn new(strings: [Cow<'a, str>; 4]) -> Result<Self, ObjectError> {
        let [name, namespace, uid, resource_version] = strings;
        if name.is_empty() || name.contains('/') || namespace.contains('/') {
            return Err(ObjectError::NoName);
        }
        let key = if namespace.is_empty() {
            Key::from(&*name)
        } else {
            Key::from(format!("{namespace}/{name}"))
        };
        Ok(Self {
            key,
            uid,
            resource_version,
        })
    }
}
