//! Building an [`Object`] from bytes that the scan has accepted.

use std::borrow::Cow;
use std::sync::Arc;

use super::body::Body;
use super::{Key, Object, Types};
use crate::decode::{DecodeError, RawJson, RawObject};
use crate::json::scan::{Member, Scan, ScanError, Shape};
use crate::json::text::key_is;
use crate::owner::{OwnerReference, controller_uid};
use crate::projection::Projection;
use crate::proto::{Entries, Unknown};

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

/// Says what to do with an object of which only the identity was read.
pub(crate) type Decide<'a> = &'a dyn Fn(&Identity<'_>) -> Decision;

/// What to do with an object that came.
pub(crate) enum Decision {
    /// Build it: it is new or has changed.
    Build,
    /// Take this one, which is in the same state.
    Known(Arc<Object>),
    /// Leave it.
    Refuse,
}

/// What became of an object that came.
pub(crate) enum Taken {
    /// It is known in this state.
    Known(Arc<Object>),
    /// It is new or has changed.
    New(Object),
    /// It was left; its key and its resource version.
    Refused(Key, String),
}

/// What identifies an object and its state.
pub(crate) struct Identity<'a> {
    pub(crate) key: Key,
    pub(crate) uid: Cow<'a, str>,
    pub(crate) resource_version: Cow<'a, str>,
    references: References<'a>,
}

/// Where the owner references of an object are.
pub(super) enum References<'a> {
    Json(&'a str, &'a [Member]),
    Proto(Entries<'a>),
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
        match self.take_json(raw, &|_| Decision::Build)? {
            Taken::New(object) => Ok(object),
            Taken::Known(_) | Taken::Refused(..) => Err(ObjectError::NotAnObject),
        }
    }

    /// Return the object that `raw` is: the one that is known in this state, or a new one, unless it is left. Nothing is
    /// copied before that is decided.
    pub(crate) fn take(
        &mut self,
        raw: RawObject<'_>,
        decide: Decide<'_>,
    ) -> Result<Taken, ObjectError> {
        match raw {
            RawObject::Json(raw) => self.take_json(raw, decide),
            RawObject::Proto(raw) => self.take_proto(&raw, decide),
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
    pub(super) fn new(
        strings: [Cow<'a, str>; 4],
        references: References<'a>,
    ) -> Result<Self, ObjectError> {
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
            references,
        })
    }

    /// Return what became of the object if it is not to be built.
    pub(super) fn decided(&self, decide: Decide<'_>) -> Option<Taken> {
        match decide(self) {
            Decision::Build => None,
            Decision::Known(known) => Some(Taken::Known(known)),
            Decision::Refuse => {
                let version = self.resource_version.clone().into_owned();
                Some(Taken::Refused(self.key.clone(), version))
            }
        }
    }

    /// Return the namespace; "" for an object of the cluster.
    pub(crate) fn namespace(&self) -> &str {
        let parts = self.key.rsplit_once('/');
        parts.map_or("", |(namespace, _)| namespace)
    }

    /// Return the name.
    pub(crate) fn name(&self) -> &str {
        let parts = self.key.rsplit_once('/');
        parts.map_or(&*self.key, |(_, name)| name)
    }

    /// Return the uid of the controlling owner, if there is one.
    pub(crate) fn controller_uid(&self) -> Option<Cow<'a, str>> {
        match &self.references {
            References::Json(text, metadata) => {
                let bytes = text.as_bytes();
                let named = |member: &&Member| key_is(member.key.of(bytes), "ownerReferences");
                let all = metadata.iter().rev().find(named)?.value.value(text);
                controller_uid(all.elements().filter_map(OwnerReference::read))
            }
            References::Proto(entries) => controller_uid(entries.owners()),
        }
    }
}
