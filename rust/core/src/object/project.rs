//! Keeping only a part of each object: its metadata, and the paths that somebody reads.

use std::collections::BTreeMap;

use crate::json::path::{Path, PathError, Step};
use crate::json::read::{Kind, Value};

/// Which parts are kept beside `apiVersion`, `kind` and `metadata`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Projection(Node);

/// The members to keep of an object; no members means all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Node(BTreeMap<Box<str>, Node>);

impl Projection {
    /// Metadata only.
    pub fn metadata() -> Self {
        Self::default()
    }

    /// The metadata and what the paths lead to. A path goes through members; what follows a bracket is kept whole.
    ///
    /// # Errors
    /// One of the texts is no path.
    pub fn paths<'a>(paths: impl IntoIterator<Item = &'a str>) -> Result<Self, PathError> {
        let mut root = Node::default();
        let mut whole: Vec<Vec<Box<str>>> = Vec::new();
        for text in paths {
            let keys: Vec<Box<str>> = Path::parse(text)?
                .0
                .into_iter()
                .map_while(|step| match step {
                    Step::Key(key) => Some(key),
                    Step::Index(_) | Step::All => None,
                })
                .collect();
            whole.push(keys);
        }
        whole.sort();
        let mut last: Option<Vec<Box<str>>> = None;
        for keys in whole {
            // Sorted, so a path that is kept whole comes right before those that lead into it.
            if last.as_ref().is_some_and(|outer| keys.starts_with(outer)) {
                continue;
            }
            let mut node = &mut root;
            for key in &keys {
                node = node.0.entry(key.clone()).or_default();
            }
            last = Some(keys);
        }
        Ok(Self(root))
    }

    /// Append the member to an object under construction, if any of it is kept.
    pub(super) fn write(&self, out: &mut Vec<u8>, key: &str, value: Value<'_>) {
        if let Some(node) = self.0.0.get(key) {
            out.push(b',');
            crate::json::text::quote_into(out, key);
            out.push(b':');
            node.write(out, value);
        }
    }
}

impl Node {
    fn write(&self, out: &mut Vec<u8>, value: Value<'_>) {
        if self.0.is_empty() || value.kind() != Kind::Object {
            out.extend_from_slice(value.0.as_bytes());
            return;
        }
        out.push(b'{');
        let opened = out.len();
        for (key, node) in &self.0 {
            if let Some(inner) = value.get(key) {
                if out.len() > opened {
                    out.push(b',');
                }
                crate::json::text::quote_into(out, key);
                out.push(b':');
                node.write(out, inner);
            }
        }
        out.push(b'}');
    }
}
