//! Paths into an object for indexes and projections: `spec.rules[*].host`.

use std::borrow::Cow;
use std::hash::Hash;

use hashbrown::HashSet;

use super::read::{Kind, Value};

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// A member of an object.
    Key(Box<str>),
    /// An element of a list.
    Index(usize),
    /// All elements of a list, or all values of an object.
    All,
}

/// A path such as `spec.rules[*].host`, `metadata.labels["app"]` or `spec.ports[0].port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path(pub Vec<Step>);

/// The text is not a valid path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid path `{path}`: {why}")]
pub struct PathError {
    /// The text as given.
    pub path: String,
    /// What is wrong with it.
    pub why: &'static str,
}

impl Path {
    /// Parse a path.
    ///
    /// # Errors
    /// An empty path or step, or a bracket that holds neither `*`, a position nor a quoted key.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let fail = |why| PathError {
            path: text.to_owned(),
            why,
        };
        let mut steps = Vec::new();
        let mut rest = text
            .strip_prefix("$.")
            .or(text.strip_prefix('.'))
            .unwrap_or(text);
        let mut key_may_follow = true;
        while !rest.is_empty() {
            if let Some(inner) = rest.strip_prefix('[') {
                let quoted = inner.strip_prefix('"').or(inner.strip_prefix('\''));
                let quote = if inner.starts_with('"') { "\"]" } else { "']" };
                let (step, after) = if let Some(key) = quoted {
                    let (key, after) = key
                        .split_once(quote)
                        .ok_or_else(|| fail("unclosed quoted key"))?;
                    (Step::Key(key.into()), after)
                } else {
                    let (inside, after) = inner
                        .split_once(']')
                        .ok_or_else(|| fail("unclosed bracket"))?;
                    match inside {
                        "*" => (Step::All, after),
                        _ => (
                            Step::Index(inside.parse().map_err(|_| fail("not an index"))?),
                            after,
                        ),
                    }
                };
                steps.push(step);
                rest = after;
                key_may_follow = false;
            } else {
                if let Some(after) = rest.strip_prefix('.') {
                    rest = after;
                } else if !key_may_follow {
                    return Err(fail("missing `.`"));
                }
                let end = rest.find(['.', '[']).unwrap_or(rest.len());
                let (key, after) = rest.split_at(end);
                if key.is_empty() {
                    return Err(fail("empty step"));
                }
                steps.push(if key == "*" {
                    Step::All
                } else {
                    Step::Key(key.into())
                });
                rest = after;
                key_may_follow = false;
            }
        }
        if steps.is_empty() {
            Err(fail("empty path"))
        } else {
            Ok(Self(steps))
        }
    }

    /// Return the scalars at the path as text, in order and once each.
    pub fn texts<'a>(&self, value: Value<'a>) -> Vec<Cow<'a, str>> {
        let mut distinct = Distinct::default();
        walk(value, &self.0, &mut |value| {
            distinct.extend(value.as_text());
        });
        distinct.texts
    }
}

/// Texts in order, once each.
pub(crate) struct Distinct<T> {
    pub(crate) texts: Vec<T>,
    /// Used once there are many.
    known: HashSet<T>,
}

impl<T> Default for Distinct<T> {
    fn default() -> Self {
        Self {
            texts: Vec::new(),
            known: HashSet::new(),
        }
    }
}

impl<T: Clone + Eq + Hash> Extend<T> for Distinct<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, texts: I) {
        const FEW: usize = 16;
        for text in texts {
            if self.texts.len() == FEW && self.known.is_empty() {
                self.known.extend(self.texts.iter().cloned());
            }
            let new = if self.known.is_empty() {
                !self.texts.contains(&text)
            } else {
                self.known.insert(text.clone())
            };
            if new {
                self.texts.push(text);
            }
        }
    }
}

/// Visit the values to which the steps lead from `value`, in order.
pub fn walk<'a>(value: Value<'a>, steps: &[Step], visit: &mut dyn FnMut(Value<'a>)) {
    let Some((step, rest)) = steps.split_first() else {
        visit(value);
        return;
    };
    match step {
        Step::Key(key) => {
            if let Some(inner) = value.get(key) {
                walk(inner, rest, visit);
            }
        }
        Step::Index(index) => {
            if let Some(inner) = value.elements().nth(*index) {
                walk(inner, rest, visit);
            }
        }
        Step::All if value.kind() == Kind::Object => value
            .members()
            .for_each(|(_, inner)| walk(inner, rest, visit)),
        Step::All => value.elements().for_each(|inner| walk(inner, rest, visit)),
    }
}
