//! Building an object from JSON that the scan has accepted.

use std::borrow::Cow;

use hashbrown::HashMap;

use super::body::Body;
use super::build::{Identity, References, Taken};
use super::json_body::JsonBody;
use super::place::Place;
use super::{Builder, Key, Object, ObjectError};
use crate::decode::RawJson;
use crate::json::scan::Member;
use crate::json::text::{key_is, quote_into};
use crate::projection::write_part;

impl Builder {
    pub(super) fn take_json(
        &mut self,
        raw: RawJson<'_>,
        decide: super::build::Decide<'_>,
    ) -> Result<Taken, ObjectError> {
        let names = ["name", "namespace", "uid", "resourceVersion"];
        let identity = Identity::new(
            strings(raw.text, raw.metadata, names),
            References::Json(raw.text, raw.metadata),
        )
        .map_err(|error| {
            // Something else has no name either, and is named better by its type.
            let types = self.type_of(strings(raw.text, raw.root, ["apiVersion", "kind"]));
            types.err().unwrap_or(error)
        })?;
        if let Some(taken) = identity.decided(decide) {
            return Ok(taken);
        }
        self.build_json(identity.key, raw).map(Taken::New)
    }

    /// Copy what is kept and record where the metadata lies in the copy.
    pub(super) fn build_json(&mut self, key: Key, raw: RawJson<'_>) -> Result<Object, ObjectError> {
        let RawJson {
            text,
            root,
            metadata,
        } = raw;
        let types = self.type_of(strings(text, root, ["apiVersion", "kind"]))?;
        let mut body = JsonBody::default();
        let mut out = std::mem::take(&mut self.scratch);
        out.clear();
        // Each member is written with the comma before it; the first comma becomes the brace.
        for (name, value) in [("apiVersion", &types.api_version), ("kind", &types.kind)] {
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
                    write_metadata(&mut out, text, metadata, &mut body);
                }
                _ if !last.holds(index, &key) => {}
                _ => {
                    let part = self.types.projection.as_ref().map(|kept| kept.part(&key));
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
        body.text = text.into();
        self.scratch = out;
        built?;
        self.object(key, types, Body::Json(body))
    }
}

fn write_metadata(out: &mut Vec<u8>, text: &str, metadata: &[Member], body: &mut JsonBody) {
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
            "uid" => &mut body.uid,
            "resourceVersion" => &mut body.resource_version,
            "labels" => &mut body.labels,
            "ownerReferences" => &mut body.owner_references,
            _ => continue,
        };
        *slot = place;
    }
    out.push(b'}');
    body.metadata = Place::new(opened - 1, out.len());
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
    let mut texts = [const { Cow::Borrowed("") }; N];
    for member in members {
        let key = key_of(text, member);
        for (slot, _) in texts.iter_mut().zip(names).filter(|(_, name)| *name == key) {
            *slot = member.value.value(text).as_str().unwrap_or_default();
        }
    }
    texts
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
