//! Projections: the part of an object that is kept, its metadata and some paths.

use std::collections::BTreeMap;

use crate::json::path::{Path, PathError, Step};
use crate::json::read::{Kind, Value};
use crate::json::text::quote_into;

/// The members that every object keeps.
const ALWAYS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// What is kept besides `apiVersion`, `kind` and `metadata`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Projection(Node);

/// What to keep of a value; all of it if nothing is named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node {
    /// The members to keep of an object.
    pub(crate) members: BTreeMap<Box<str>, Node>,
    /// What to keep of each element of an array.
    pub(crate) each: Option<Box<Node>>,
}

impl Projection {
    /// Keep only the metadata.
    pub fn metadata() -> Self {
        Self::default()
    }

    /// Keep the metadata and the values at these paths. A path goes through members and, with `[*]`, through all
    /// elements of an array; an array with one named element is kept whole.
    ///
    /// # Errors
    /// A path is invalid.
    pub fn paths<'a>(paths: impl IntoIterator<Item = &'a str>) -> Result<Self, PathError> {
        let mut root = Node::default();
        let mut whole: Vec<Vec<Step>> = Vec::new();
        for text in paths {
            let steps = Path::parse(text)?.0.into_iter();
            whole.push(
                steps
                    .take_while(|step| !matches!(step, Step::Index(_)))
                    .collect(),
            );
        }
        whole.sort();
        let mut last: Option<Vec<Step>> = None;
        for parts in whole {
            // In this order a path that is kept whole comes right before those that lead into it.
            if last.as_ref().is_some_and(|outer| parts.starts_with(outer)) {
                continue;
            }
            let mut node = &mut root;
            for part in &parts {
                node = match part {
                    Step::Key(key) => node.members.entry(key.clone()).or_default(),
                    Step::All | Step::Index(_) => node.each.get_or_insert_default(),
                };
            }
            last = Some(parts);
        }
        Ok(Self(root))
    }

    /// Return whether only the metadata is kept.
    pub(crate) fn is_metadata(&self) -> bool {
        self.0.members.is_empty()
    }

    /// Return what to keep of an object.
    pub(crate) fn root(&self) -> &Node {
        &self.0
    }

    /// Return what to keep of the member `key` of an object; None if nothing.
    pub(crate) fn part(&self, key: &str) -> Option<&Node> {
        self.0.members.get(key)
    }

    /// Return whether all of the value at the end of a path is kept, if the object has one there.
    pub(crate) fn keeps_all_at(&self, path: &[Step]) -> bool {
        let Some((Step::Key(first), mut rest)) = path.split_first() else {
            return false;
        };
        if ALWAYS.contains(&&**first) {
            return true;
        }
        let mut at = self.part(first);
        loop {
            at = match (at, rest.first()) {
                (Some(node), _) if node.is_whole() => return true,
                (Some(node), Some(Step::Key(key))) => node.members.get(key),
                (Some(node), Some(Step::Index(_) | Step::All)) => node.each.as_deref(),
                _ => return false,
            };
            rest = rest.get(1..).unwrap_or_default();
        }
    }

    /// Return the part of an object that is kept, both as JSON.
    pub(crate) fn of_text(&self, text: &str) -> String {
        let mut out = vec![b'{'];
        for (key, value) in Value(text).members() {
            let name = key.as_str().unwrap_or_default();
            let part = self.part(&name);
            let always = ALWAYS.contains(&&*name);
            if part.is_none() && !always {
                continue;
            }
            if out.len() > 1 {
                out.push(b',');
            }
            quote_into(&mut out, &name);
            out.push(b':');
            match part.filter(|_| !always) {
                Some(part) => write_part(&mut out, part, value),
                None => out.extend_from_slice(value.json().as_bytes()),
            }
        }
        out.push(b'}');
        String::from_utf8(out).unwrap_or_default()
    }
}

impl Node {
    /// Return whether all of the value is kept.
    fn is_whole(&self) -> bool {
        self.members.is_empty() && self.each.is_none()
    }
}

/// Append the part of a value that a projection keeps.
pub(crate) fn write_part(out: &mut Vec<u8>, part: &Node, value: Value<'_>) {
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
        (Kind::Array, Some(items)) => {
            out.push(b'[');
            for (position, element) in value.elements().enumerate() {
                if position > 0 {
                    out.push(b',');
                }
                write_part(out, items, element);
            }
            out.push(b']');
        }
        _ => out.extend_from_slice(value.0.as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(paths: &[&str], text: &str) -> String {
        let projection = Projection::paths(paths.iter().copied()).expect("paths");
        let mut out = Vec::new();
        write_part(&mut out, &projection.0, Value(text));
        String::from_utf8(out).expect("utf-8")
    }

    #[test]
    fn a_path_through_all_elements_keeps_its_part_of_each() {
        let text = r#"{"a":[{"b":1,"secret":2},{"secret":3},4],"c":5}"#;
        assert_eq!(kept(&["a[*].b"], text), r#"{"a":[{"b":1},{},4]}"#);
        assert_eq!(
            kept(&["a[*].b", "a[*].secret"], text),
            r#"{"a":[{"b":1,"secret":2},{"secret":3},4]}"#
        );
    }

    #[test]
    fn an_array_with_one_named_element_is_kept_whole() {
        let text = r#"{"a":[{"b":1,"c":2},{"c":3}]}"#;
        assert_eq!(kept(&["a[0].b"], text), text);
        assert_eq!(kept(&["a[*].b", "a"], text), text);
        assert_eq!(kept(&["a.b"], text), text);
    }
}
