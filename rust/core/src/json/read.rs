//! Readers of text that the scan has accepted: members and elements are found on demand, nothing is stored.
//!
//! Every function stays within the text whatever it contains, so a defect elsewhere gives a wrong value, never a
//! panic.

use std::borrow::Cow;

use super::text::{StringEnd, key_is, skip_string, unescape};

/// The kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `{…}`
    Object,
    /// `[…]`
    Array,
    /// `"…"`
    String,
    /// A number, as text.
    Number,
    /// `true` or `false`
    Bool,
    /// `null`
    Null,
}

/// A value in accepted text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value<'a>(pub(crate) &'a str);

impl<'a> Value<'a> {
    /// Read JSON text, which a scan must have accepted.
    pub fn of_json(text: &'a str) -> Self {
        Self(text)
    }

    /// Return the value as JSON text.
    pub fn json(self) -> &'a str {
        self.0
    }

    /// Return the kind of the value.
    pub fn kind(self) -> Kind {
        match self.0.as_bytes().first() {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b'"') => Kind::String,
            Some(b't' | b'f') => Kind::Bool,
            Some(b'n') | None => Kind::Null,
            Some(_) => Kind::Number,
        }
    }

    /// Return whether the value is the literal `true`.
    pub fn is_true(self) -> bool {
        self.0 == "true"
    }

    /// Return the content of a string.
    pub fn as_str(self) -> Option<Cow<'a, str>> {
        let inner = self.0.strip_prefix('"')?;
        Some(unescape(inner.strip_suffix('"')?))
    }

    /// Return a scalar as text: strings unquoted, numbers and booleans as written.
    pub fn as_text(self) -> Option<Cow<'a, str>> {
        match self.kind() {
            Kind::String => self.as_str(),
            Kind::Number | Kind::Bool => Some(Cow::Borrowed(self.0)),
            Kind::Object | Kind::Array | Kind::Null => None,
        }
    }

    /// Iterate over the members of an object, in order; nothing for other kinds.
    ///
    /// An item is the key as written, quotes included, and the value.
    pub fn members(self) -> impl Iterator<Item = (Value<'a>, Value<'a>)> + use<'a> {
        let mut walk = Walk::new(self.0, self.kind() == Kind::Object);
        std::iter::from_fn(move || Some((walk.next()?, walk.next()?)))
    }

    /// Iterate over the elements of an array; nothing for other kinds.
    pub fn elements(self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        Walk::new(self.0, self.kind() == Kind::Array)
    }

    /// Return the member of that name; of duplicates the last one, as everywhere in Kubernetes.
    pub fn get(self, name: &str) -> Option<Value<'a>> {
        self.members()
            .filter(|(key, _)| key_is(key.0.as_bytes(), name))
            .last()
            .map(|(_, value)| value)
    }

    /// Return the first member of that name, in an object whose members have different names; what follows it is not read.
    pub(crate) fn only(self, name: &str) -> Option<Value<'a>> {
        let mut members = self.members();
        let member = members.find(|(key, _)| key_is(key.0.as_bytes(), name));
        member.map(|(_, value)| value)
    }

    /// Return the offset of this value in `text`, which must contain it.
    pub fn offset_in(self, text: &str) -> usize {
        (self.0.as_ptr() as usize).saturating_sub(text.as_ptr() as usize)
    }
}

/// Reads one value after the other.
#[derive(Clone, Debug)]
pub(super) struct Walk<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Walk<'a> {
    fn new(text: &'a str, fits: bool) -> Self {
        Self {
            text,
            at: if fits { 1 } else { text.len() },
        }
    }

    /// Continue at an offset at which an earlier walk found a value.
    pub(super) fn from(text: &'a str, at: usize) -> Self {
        Self { text, at }
    }
}

impl<'a> Iterator for Walk<'a> {
    type Item = Value<'a>;

    /// Return the next value, after any separators.
    fn next(&mut self) -> Option<Value<'a>> {
        #[cfg(test)]
        STEPS.set(STEPS.get() + 1);
        let bytes = self.text.as_bytes();
        while matches!(
            bytes.get(self.at),
            Some(b',' | b':' | b' ' | b'\n' | b'\r' | b'\t')
        ) {
            self.at += 1;
        }
        if matches!(bytes.get(self.at), None | Some(b'}' | b']')) {
            self.at = bytes.len();
            return None;
        }
        let start = self.at;
        self.at = skip_value(bytes, start);
        self.text.get(start..self.at).map(Value)
    }
}

#[cfg(test)]
thread_local! {
    /// The values that this thread has read.
    pub(crate) static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Return the offset after the value that begins at `at`.
fn skip_value(bytes: &[u8], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'"' => {
                at = match skip_string(bytes, at) {
                    StringEnd::At(end) => end,
                    StringEnd::Unfinished(_) | StringEnd::Invalid(..) => bytes.len(),
                }
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' | b':' | b' ' | b'\n' | b'\r' | b'\t' => continue,
            _ => {
                while !matches!(
                    bytes.get(at),
                    None | Some(b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t')
                ) {
                    at += 1;
                }
            }
        }
        if depth == 0 {
            break;
        }
    }
    at
}
