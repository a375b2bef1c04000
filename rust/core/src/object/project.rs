//! Projections: the part of an object that is kept, its metadata and some paths.

use std::collections::BTreeMap;

use crate::json::path::{Path, PathError, Step};

/// What is kept besides `apiVersion`, `kind` and `metadata`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Projection(Node);

/// What to keep of a value; all of it if nothing is named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Node {
    /// The members to keep of an object.
    pub(super) members: BTreeMap<Box<str>, Node>,
    /// What to keep of each element of an array.
    pub(super) each: Option<Box<Node>>,
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
    pub(super) fn is_metadata(&self) -> bool {
        self.0.members.is_empty()
    }

    /// Return what to keep of the member `key` of an object; None if nothing.
    pub(super) fn part(&self, key: &str) -> Option<&Node> {
        self.0.members.get(key)
    }
}

#[cfg(test)]
mod tests {
    use super::super::build_json::write_part;
    use super::*;
    use crate::json::read::Value;

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
