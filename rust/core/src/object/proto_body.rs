//! Bodies that are messages of protobuf.

use std::borrow::Cow;

use super::Types;
use super::strings::StringMap;
use crate::json::path::{Distinct, Path, Step, walk};
use crate::json::read::{Kind, Value};
use crate::json::text::quote_into;
use crate::owner::OwnerReference;
use crate::projection::Projection;
use crate::proto::{self, Header, Message};

/// A message that was checked, without managed fields.
#[derive(Debug)]
pub(super) struct ProtoBody {
    message: Message,
    bytes: Box<[u8]>,
}

impl ProtoBody {
    /// Copy a message that [`proto::check`] has accepted.
    pub(super) fn new(message: Message, bytes: &[u8]) -> Self {
        Self {
            message: message.unnamed(),
            bytes: bytes.into(),
        }
    }

    fn header(&self) -> Header<'_> {
        // It was read once before it was kept, so it cannot fail.
        proto::header(self.message, &self.bytes).unwrap_or_default()
    }

    /// Return the body of the same message that has this content.
    pub(super) fn same_kind(&self, content: Vec<u8>) -> Self {
        Self {
            message: self.message,
            bytes: content.into(),
        }
    }

    /// Return what is read of every object.
    pub(super) fn head(&self) -> Self {
        // It was read once before it was kept, so it cannot fail.
        let head = proto::keep_header(self.message, &self.bytes);
        self.same_kind(head.unwrap_or_default())
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn has_annotations(&self) -> bool {
        !self.header().annotations.is_empty()
    }

    pub(super) fn has_finalizers(&self) -> bool {
        !self.header().finalizers.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn has_same_message(&self, other: &Self) -> bool {
        self.message == other.message
    }

    /// Return the whole object as JSON.
    pub(super) fn json(&self, types: &Types) -> String {
        let mut out = Vec::with_capacity(3 * self.bytes.len());
        out.push(b'{');
        for (name, value) in [("apiVersion", &types.api_version), ("kind", &types.kind)] {
            if !value.is_empty() {
                quote_into(&mut out, name);
                out.push(b':');
                quote_into(&mut out, value);
                out.push(b',');
            }
        }
        // The comma becomes the brace of the message, whose members follow; it has metadata in any case.
        out.pop();
        let members = out.len();
        // It was checked before it was kept, so it cannot fail.
        let written = proto::write_json(self.message, &self.bytes, &mut out, false);
        if let (true, Some(brace)) = (members > 0, out.get_mut(members)) {
            *brace = b',';
        }
        let text = String::from_utf8(out).unwrap_or_default();
        match &types.projection {
            _ if written.is_err() => "{}".to_owned(),
            // Go writes some members although they are not there, which a projection may leave out.
            Some(kept) if !kept.is_metadata() => kept.of_text(&text),
            _ => text,
        }
    }

    /// Return the JSON of the value at the end of a path; None if something on it is missing or null.
    pub(super) fn find(&self, path: &[Step], types: &Types) -> Option<String> {
        let mut json = None;
        self.look_up(path, types, &mut |value| {
            json = (value.kind() != Kind::Null).then(|| value.json().to_owned());
        });
        json
    }

    /// Return the scalars at a path as text, in order and once each.
    pub(super) fn texts(&self, path: &Path, types: &Types) -> Vec<Box<str>> {
        let mut distinct = Distinct::default();
        self.look_up(&path.0, types, &mut |value| {
            distinct.extend(value.as_text().map(|text| Box::from(&*text)));
        });
        distinct.texts
    }

    fn look_up(&self, path: &[Step], types: &Types, visit: &mut dyn FnMut(Value<'_>)) {
        let cut = |kept: &Projection| !kept.is_metadata() && !kept.keeps_all_at(path);
        if types.projection.as_ref().is_some_and(cut) {
            return walk(Value(&self.json(types)), path, &mut |value| visit(value));
        }
        let name = match path {
            [] => return visit(Value(&self.json(types))),
            [Step::Key(name)] if **name == *"apiVersion" => &types.api_version,
            [Step::Key(name)] if **name == *"kind" => &types.kind,
            _ => {
                // It was checked before it was kept, so it cannot fail.
                let _ = proto::lookup(self.message, &self.bytes, path, visit);
                return;
            }
        };
        if !name.is_empty() {
            let mut text = Vec::new();
            quote_into(&mut text, name);
            visit(Value(std::str::from_utf8(&text).unwrap_or_default()));
        }
    }

    pub(super) fn uid(&self) -> Cow<'_, str> {
        self.header().uid
    }

    pub(super) fn resource_version(&self) -> Cow<'_, str> {
        self.header().resource_version
    }

    pub(super) fn generation(&self) -> i64 {
        self.header().generation
    }

    pub(super) fn deletion_timestamp(&self) -> Option<Cow<'_, str>> {
        self.header().deletion_timestamp.map(Cow::Owned)
    }

    pub(super) fn label(&self, key: &str) -> Option<Cow<'_, str>> {
        self.header().labels.get(key)
    }

    pub(super) fn labels(&self) -> StringMap<'_> {
        self.header().labels.pairs().collect()
    }

    pub(super) fn annotations(&self) -> StringMap<'_> {
        self.header().annotations.pairs().collect()
    }

    pub(super) fn finalizers(&self) -> Vec<Cow<'_, str>> {
        self.header().finalizers.texts().collect()
    }

    pub(super) fn owner_references(&self) -> Vec<OwnerReference<'_>> {
        self.header().owner_references.owners().collect()
    }
}
