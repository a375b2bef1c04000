//! Bodies that are JSON text.

use std::borrow::Cow;

use super::place::Place;
use super::strings::StringMap;
use crate::json::path::{Path, Step};
use crate::json::read::{Kind, Value};
use crate::json::text::key_is;
use crate::owner::OwnerReference;

/// Valid JSON text of a whole object, and where in it lies what is read of every object.
///
/// The builder drops duplicates, so the members of the root have different names, and those of the metadata.
#[derive(Debug, Default)]
pub(super) struct JsonBody {
    pub(super) text: Box<str>,
    pub(super) metadata: Place,
    pub(super) uid: Place,
    pub(super) resource_version: Place,
    pub(super) labels: Place,
    pub(super) owner_references: Place,
}

impl JsonBody {
    fn at(&self, place: Place) -> Value<'_> {
        place.in_text(&self.text)
    }

    fn in_metadata(&self, name: &str) -> Value<'_> {
        self.at(self.metadata).only(name).unwrap_or(Value(""))
    }

    /// Return the body with this text, which is one that a builder has written.
    pub(super) fn of(text: String) -> Self {
        let mut body = Self {
            text: text.into(),
            ..Self::default()
        };
        let place = |value: Value<'_>| Place::of(value, &body.text);
        let metadata = Value(&body.text).only("metadata").unwrap_or(Value(""));
        let mut places = [Place::default(); 4];
        for (key, value) in metadata.members() {
            let names = ["uid", "resourceVersion", "labels", "ownerReferences"];
            let name = names.iter().position(|name| key_is(key.0.as_bytes(), name));
            if let Some(slot) = name.and_then(|at| places.get_mut(at)) {
                *slot = place(value);
            }
        }
        body.metadata = place(metadata);
        [
            body.uid,
            body.resource_version,
            body.labels,
            body.owner_references,
        ] = places;
        body
    }

    /// Return what is read of every object.
    pub(super) fn head(&self) -> Self {
        let mut text = String::from(r#"{"metadata":"#);
        let metadata = text.len();
        let mut separator = '{';
        let mut write = |name: &str, value: Value<'_>| {
            if value.0.is_empty() {
                return Place::default();
            }
            text.push(std::mem::replace(&mut separator, ','));
            text.extend(["\"", name, "\":"]);
            let start = text.len();
            text.push_str(value.0);
            Place::new(start, text.len())
        };
        let mut head = Self {
            uid: write("uid", self.at(self.uid)),
            resource_version: write("resourceVersion", self.at(self.resource_version)),
            labels: write("labels", self.at(self.labels)),
            owner_references: write("ownerReferences", self.at(self.owner_references)),
            ..Self::default()
        };
        for name in ["generation", "deletionTimestamp"] {
            write(name, self.in_metadata(name));
        }
        if separator == '{' {
            text.push('{');
        }
        text.push('}');
        head.metadata = Place::new(metadata, text.len());
        text.push('}');
        head.text = text.into();
        head
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.text.as_bytes()
    }

    pub(super) fn has_annotations(&self) -> bool {
        self.has("annotations")
    }

    pub(super) fn has_finalizers(&self) -> bool {
        self.has("finalizers")
    }

    fn has(&self, name: &str) -> bool {
        self.in_metadata(name).kind() != Kind::Null
    }

    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    pub(super) fn find(&self, path: &[Step]) -> Option<Value<'_>> {
        let (mut at, rest) = match path {
            [Step::Key(first), Step::Key(second), rest @ ..] if **first == *"metadata" => {
                let value = match &**second {
                    "labels" => self.at(self.labels),
                    name => self.in_metadata(name),
                };
                (value, rest)
            }
            [Step::Key(first), rest @ ..] if **first == *"metadata" => {
                (self.at(self.metadata), rest)
            }
            [Step::Key(first), rest @ ..] => (Value(&self.text).only(first)?, rest),
            _ => (Value(&self.text), path),
        };
        if at.kind() == Kind::Null {
            return None;
        }
        for step in rest {
            at = match step {
                Step::Key(name) => at.get(name)?,
                Step::Index(index) => at.elements().nth(*index)?,
                Step::All => return None,
            };
            if at.kind() == Kind::Null {
                return None;
            }
        }
        (at.kind() != Kind::Null).then_some(at)
    }

    pub(super) fn texts(&self, path: &Path) -> Vec<Box<str>> {
        let texts = path.texts(Value(&self.text)).into_iter();
        texts.map(|text| Box::from(&*text)).collect()
    }

    pub(super) fn uid(&self) -> Cow<'_, str> {
        self.at(self.uid).as_str().unwrap_or_default()
    }

    pub(super) fn resource_version(&self) -> Cow<'_, str> {
        self.at(self.resource_version).as_str().unwrap_or_default()
    }

    pub(super) fn generation(&self) -> i64 {
        self.in_metadata("generation").json().parse().unwrap_or(0)
    }

    pub(super) fn deletion_timestamp(&self) -> Option<Cow<'_, str>> {
        self.in_metadata("deletionTimestamp").as_str()
    }

    pub(super) fn label(&self, key: &str) -> Option<Cow<'_, str>> {
        self.at(self.labels).get(key).and_then(Value::as_str)
    }

    pub(super) fn labels(&self) -> StringMap<'_> {
        strings(self.at(self.labels))
    }

    pub(super) fn annotations(&self) -> StringMap<'_> {
        strings(self.in_metadata("annotations"))
    }

    pub(super) fn finalizers(&self) -> Vec<Cow<'_, str>> {
        let all = self.in_metadata("finalizers").elements();
        all.filter_map(Value::as_str).collect()
    }

    pub(super) fn owner_references(&self) -> Vec<OwnerReference<'_>> {
        let all = self.at(self.owner_references).elements();
        all.filter_map(OwnerReference::read).collect()
    }
}

/// Return the members of a string map; other scalars as they are written.
fn strings(map: Value<'_>) -> StringMap<'_> {
    let members = map.members();
    let pairs = members.map(|(key, inner)| {
        let name = key.as_str().unwrap_or_default();
        (name, inner.as_text().unwrap_or_default())
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::read::STEPS;

    // behaviour: faster/FA13
    #[test]
    fn a_walk_stops_at_the_member_of_the_root_and_of_the_metadata() {
        let body = |rest: &str| {
            let metadata = r#"{"name":"a","uid":"b","labels":{}}"#;
            JsonBody::of(format!(
                r#"{{"metadata":{metadata},"status":{{"phase":"Running"}}{rest}}}"#
            ))
        };
        let (short, long) = (body(""), body(r#","spec":{"containers":[]},"more":1"#));
        for (path, json) in [
            (["status", "phase"], r#""Running""#),
            (["metadata", "name"], r#""a""#),
        ] {
            let path = path.map(|name| Step::Key(name.into()));
            let steps = [&short, &long].map(|body| {
                let before = STEPS.get();
                assert_eq!(body.find(&path), Some(Value(json)));
                STEPS.get() - before
            });
            assert_eq!(steps[0], steps[1]);
        }
        // The name is the first member of the metadata.
        let before = STEPS.get();
        let name = ["metadata", "name"].map(|name| Step::Key(name.into()));
        assert!(long.find(&name).is_some());
        assert_eq!(STEPS.get() - before, 2);
    }
}
