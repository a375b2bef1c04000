//! Building an [`Object`] from bytes that the scan has accepted.

use std::borrow::Cow;
use std::sync::Arc;

use hashbrown::HashMap;

use super::project::Node;
use super::{Body, Key, Object, Place, Projection, Types};
use crate::decode::RawObject;
use crate::json::read::{Kind, Value};
use crate::json::scan::{Member, Scan, ScanError, Shape};
use crate::json::text::{key_is, quote_into};

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
    /// Larger than the offsets of places allow.
    #[error("the object is too large")]
    TooLarge,
}

/// Builds objects of one resource; reuses its buffer.
#[derive(Debug)]
pub struct Builder {
    types: Arc<Types>,
    /// Reject objects of another apiVersion or kind.
    strict: bool,
    /// Mark all objects as partial, whatever they contain.
    partial: bool,
    projection: Option<Projection>,
    scratch: Vec<u8>,
}

/// What identifies an object and its state, read before anything is copied.
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
            }),
            strict: false,
            partial: false,
            projection: None,
            scratch: Vec::new(),
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
        self.projection = projection;
        self
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
        let raw = RawObject {
            text,
            root: scan.members(0),
            metadata: scan.members(1),
        };
        self.build(Self::identify(raw)?.key, raw)
    }

    /// Return the key and the state of an object.
    pub(crate) fn identify(raw: RawObject<'_>) -> Result<Identity<'_>, ObjectError> {
        let names = ["name", "namespace", "uid", "resourceVersion"];
        let [name, namespace, uid, resource_version] = strings(raw.text, raw.metadata, names);
        if name.is_empty() || name.contains('/') || namespace.contains('/') {
            return Err(ObjectError::NoName);
        }
        let key = if namespace.is_empty() {
            Key::from(&*name)
        } else {
            Key::from(format!("{namespace}/{name}"))
        };
        Ok(Identity {
            key,
            uid,
            resource_version,
        })
    }

    /// Copy what is kept and record where the metadata lies in the copy.
    pub(crate) fn build(&mut self, key: Key, raw: RawObject<'_>) -> Result<Object, ObjectError> {
        let RawObject {
            text,
            root,
            metadata,
        } = raw;
        let types = self.type_of(text, root)?;
        let mut object = Object {
            body: Body::Json(Box::default()),
            namespace_len: u32::try_from(key.rfind('/').unwrap_or(0))
                .map_err(|_| ObjectError::TooLarge)?,
            key,
            types,
            metadata: Place::default(),
            uid: Place::default(),
            resource_version: Place::default(),
            labels: Place::default(),
            owner_references: Place::default(),
            partial: self.partial || self.projection.is_some(),
        };
        let mut out = std::mem::take(&mut self.scratch);
        out.clear();
        // Each member is written with the comma before it; the first comma becomes the brace.
        for (name, value) in [
            ("apiVersion", &object.types.api_version),
            ("kind", &object.types.kind),
        ] {
            if !value.is_empty() {
                out.push(b',');
                quote_into(&mut out, name);
                out.push(b':');
                quote_into(&mut out, value);
            }
        }
        let mut metadata_written = false;
        let last = LastOfName::new(text, root);
        for (index, member) in root.iter().enumerate() {
            let key = key_of(text, member);
            match &*key {
                "apiVersion" | "kind" => {}
                "metadata" if metadata_written => {}
                "metadata" => {
                    metadata_written = true;
                    out.extend_from_slice(b",\"metadata\":");
                    write_metadata(&mut out, text, metadata, &mut object);
                }
                _ if !last.holds(index, &key) => {}
                _ => {
                    let part = self.projection.as_ref().map(|kept| kept.part(&key));
                    if part == Some(None) {
                        continue;
                    }
                    out.push(b',');
                    out.extend_from_slice(member.key.of(text.as_bytes()));
                    out.push(b':');
                    let value = member.value.value(text);
                    match part.flatten() {
                        Some(part) => write_part(&mut out, part, value),
                        None => out.extend_from_slice(value.0.as_bytes()),
                    }
                }
            }
        }
        if let Some(first) = out.first_mut() {
            *first = b'{';
        }
        out.push(b'}');
        let built = u32::try_from(out.len()).map_err(|_| ObjectError::TooLarge);
        let text = std::str::from_utf8(&out).map_err(|_| ObjectError::NotUtf8)?;
        object.body = Body::Json(text.into());
        self.scratch = out;
        built.map(|_| object)
    }

    fn type_of(&self, text: &str, root: &[Member]) -> Result<Arc<Types>, ObjectError> {
        let [mut api_version, mut kind] = strings(text, root, ["apiVersion", "kind"]);
        // The server names metadata-only objects after their form; the cache names them after their content.
        let metadata_only = kind == "PartialObjectMetadata" && self.projection.is_some();
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
        }))
    }
}

fn write_metadata(out: &mut Vec<u8>, text: &str, metadata: &[Member], object: &mut Object) {
    let opened = out.len() + 1;
    out.push(b'{');
    let last = LastOfName::new(text, metadata);
    for (index, member) in metadata.iter().enumerate() {
        let key = key_of(text, member);
        if key == "managedFields" || !last.holds(index, &key) {
            continue;
        }
        if out.len() > opened {
            out.push(b',');
        }
        out.extend_from_slice(member.key.of(text.as_bytes()));
        out.push(b':');
        let value = member.value.value(text);
        let place = Place::new(out.len(), out.len() + value.0.len());
        out.extend_from_slice(value.0.as_bytes());
        let slot = match &*key {
            "uid" => &mut object.uid,
            "resourceVersion" => &mut object.resource_version,
            "labels" => &mut object.labels,
            "ownerReferences" => &mut object.owner_references,
            _ => continue,
        };
        *slot = place;
    }
    out.push(b'}');
    object.metadata = Place::new(opened - 1, out.len());
}

/// Append the part of a value that a projection keeps.
pub(super) fn write_part(out: &mut Vec<u8>, part: &Node, value: Value<'_>) {
    match (value.kind(), &part.each) {
        (Kind::Object, _) if !part.members.is_empty() => {
            out.push(b'{');
            let opened = out.len();
            for (key, part) in &part.members {
                if let Some(inner) = value.get(key) {
                    if out.len() > opened {
                        out.push(b',');
                    }
                    quote_into(out, key);
                    out.push(b':');
                    write_part(out, part, inner);
                }
            }
            out.push(b'}');
        }
        (Kind::Array, Some(each)) => {
            out.push(b'[');
            for (position, element) in value.elements().enumerate() {
                if position > 0 {
                    out.push(b',');
                }
                write_part(out, each, element);
            }
            out.push(b']');
        }
        _ => out.extend_from_slice(value.0.as_bytes()),
    }
}

fn key_of<'a>(text: &'a str, member: &Member) -> Cow<'a, str> {
    member.key.value(text).as_str().unwrap_or_default()
}

/// Return the strings of these members; empty for a missing member and for another type.
fn strings<'a, const N: usize>(
    text: &'a str,
    members: &[Member],
    names: [&str; N],
) -> [Cow<'a, str>; N] {
    let mut found = [const { Cow::Borrowed("") }; N];
    for member in members {
        let key = key_of(text, member);
        for (slot, _) in found.iter_mut().zip(names).filter(|(_, name)| *name == key) {
            *slot = member.value.value(text).as_str().unwrap_or_default();
        }
    }
    found
}

/// The last of several members of one name counts; the others are dropped.
enum LastOfName<'a> {
    /// Most objects have few members: a look at the following ones is cheaper than a table.
    Few(&'a str, &'a [Member]),
    Many(HashMap<Cow<'a, str>, usize>),
}

impl<'a> LastOfName<'a> {
    fn new(text: &'a str, members: &'a [Member]) -> Self {
        if members.len() <= 32 {
            return Self::Few(text, members);
        }
        let named = |(index, member)| (key_of(text, member), index);
        Self::Many(members.iter().enumerate().map(named).collect())
    }

    fn holds(&self, index: usize, key: &str) -> bool {
        match self {
            Self::Few(text, members) => !members
                .iter()
                .skip(index + 1)
                .any(|later| key_is(later.key.of(text.as_bytes()), key)),
            Self::Many(table) => table.get(key) == Some(&index),
        }
    }
}
