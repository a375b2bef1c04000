//! Keys: exact `str`, exact `int` and tuples of keys, compared and hashed without Python.
//!
//! A key is hashed over its content, so that a request made in Rust is the same key as the tuple made in Python, and so
//! that nothing under a queue's lock can call back into the interpreter.

use std::ptr::NonNull;

use ctrlhost_core::handlers::RequestRef;
use ctrlhost_core::queue::{IntoKey, KeyRef, QueueKey, hash_bytes};
use pyo3::prelude::*;
use smallvec::SmallVec;

use crate::key_codec::{self, Encoded};

/// Bytes that belong to a Python `str`.
#[derive(Clone, Copy)]
pub(crate) struct StrBytes {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the bytes are immutable, and live as long as the `str` that stands beside them in `Key`.
unsafe impl Send for StrBytes {}
// SAFETY: as above.
unsafe impl Sync for StrBytes {}

enum Content {
    /// A `str`, whose bytes are those of the key's object.
    Borrowed(StrBytes),
    /// A `str` without an object, or one that has no UTF-8.
    Str(Box<[u8]>),
    Int(i64),
    /// A tuple, or an `int` of more than 64 bits.
    Encoded(Box<[u8]>),
}

/// A key as a queue, or a limiter, holds it.
pub(crate) struct Key {
    hash: u64,
    content: Content,
    /// The object that was added; none for keys that were made in Rust.
    object: Option<Py<PyAny>>,
}

#[derive(PartialEq, Eq)]
enum View<'a> {
    Str(&'a [u8]),
    Int(i64),
    Encoded(&'a [u8]),
}

impl View<'_> {
    fn hash(&self) -> u64 {
        match self {
            Self::Str(bytes) | Self::Encoded(bytes) => hash_bytes(bytes),
            Self::Int(int) => hash_bytes(&int.to_le_bytes()),
        }
    }

    fn to_content(&self) -> Content {
        match self {
            Self::Str(bytes) => Content::Str(Box::from(*bytes)),
            Self::Int(int) => Content::Int(*int),
            Self::Encoded(bytes) => Content::Encoded(Box::from(*bytes)),
        }
    }
}

impl Key {
    fn view(&self) -> View<'_> {
        match &self.content {
            Content::Borrowed(bytes) => {
                // SAFETY: `object` is the `str` whose bytes these are, and lives as long as `self`.
                View::Str(unsafe { std::slice::from_raw_parts(bytes.start.as_ptr(), bytes.len) })
            }
            Content::Str(bytes) => View::Str(bytes),
            Content::Int(int) => View::Int(*int),
            Content::Encoded(bytes) => View::Encoded(bytes),
        }
    }

    /// The key of a request: equal to `ctrlhost.Request(name, namespace, cluster)`.
    pub(crate) fn of_request(request: &RequestRef<'_>) -> Self {
        let mut bytes = SmallVec::new();
        key_codec::encode_request(request, &mut bytes);
        Self {
            hash: hash_bytes(&bytes),
            content: Content::Encoded(bytes.into_boxed_slice()),
            object: None,
        }
    }

    /// What to hand out: a new reference to the object, or the content where there is none.
    ///
    /// Runs under a queue's lock, so it may not make Python objects: that can start a garbage collection, and so run
    /// anybody's code.
    pub(crate) fn show(&self, py: Python<'_>) -> Shown {
        match &self.object {
            Some(object) => Shown::Object(object.clone_ref(py)),
            None => Shown::Content(QueueKey::content(self)),
        }
    }

    /// The object that was added, or one like it.
    pub(crate) fn to_object(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match (&self.object, self.view()) {
            (Some(object), _) => Ok(object.clone_ref(py)),
            (None, View::Str(bytes)) => key_codec::decode_str(py, bytes),
            (None, View::Int(int)) => Ok(int.into_pyobject(py)?.into_any().unbind()),
            (None, View::Encoded(bytes)) => key_codec::decode(py, bytes),
        }
    }
}

/// A key that was taken from a queue.
pub(crate) enum Shown {
    Object(Py<PyAny>),
    Content(Key),
}

impl Shown {
    /// The object to hand to Python. Not under a lock.
    pub(crate) fn into_object(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self {
            Self::Object(object) => Ok(object),
            Self::Content(key) => key.to_object(py),
        }
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.view() == other.view()
    }
}

impl Eq for Key {}

impl QueueKey for Key {
    fn hash64(&self) -> u64 {
        self.hash
    }

    fn content(&self) -> Self {
        Self {
            hash: self.hash,
            content: self.view().to_content(),
            object: None,
        }
    }
}

/// A key as a call brought it: borrowed from its object.
pub(crate) struct Probe<'a, 'py> {
    hash: u64,
    content: Encoded,
    object: &'a Bound<'py, PyAny>,
}

impl<'a, 'py> Probe<'a, 'py> {
    /// Reads a key.
    ///
    /// # Errors
    /// `TypeError` for what is no key.
    #[inline]
    pub(crate) fn new(object: &'a Bound<'py, PyAny>) -> PyResult<Self> {
        let content = key_codec::encode(object)?;
        let mut probe = Self {
            hash: 0,
            content,
            object,
        };
        probe.hash = probe.view().hash();
        Ok(probe)
    }

    #[inline]
    fn view(&self) -> View<'_> {
        match &self.content {
            Encoded::Borrowed(start, len) => {
                // SAFETY: `object` is the `str` whose bytes these are, and is borrowed as long as `self`.
                View::Str(unsafe { std::slice::from_raw_parts(start.as_ptr(), *len) })
            }
            Encoded::Str(bytes) => View::Str(bytes),
            Encoded::Int(int) => View::Int(*int),
            Encoded::Bytes(bytes) => View::Encoded(bytes),
        }
    }

    /// A key to hold, for batches.
    pub(crate) fn to_key(&self) -> Key {
        let content = match &self.content {
            Encoded::Borrowed(start, len) => Content::Borrowed(StrBytes {
                start: *start,
                len: *len,
            }),
            _ => self.view().to_content(),
        };
        Key {
            hash: self.hash,
            content,
            object: Some(self.object.clone().unbind()),
        }
    }
}

impl KeyRef<Key> for Probe<'_, '_> {
    fn hash64(&self) -> u64 {
        self.hash
    }

    fn matches(&self, key: &Key) -> bool {
        self.hash == key.hash && self.view() == key.view()
    }

    fn content(&self) -> Key {
        Key {
            hash: self.hash,
            content: self.view().to_content(),
            object: None,
        }
    }
}

impl IntoKey<Key> for Probe<'_, '_> {
    fn into_key(self) -> Key {
        self.to_key()
    }
}
