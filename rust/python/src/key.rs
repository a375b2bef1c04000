//! Keys: exact `str`, exact `int` and tuples of keys, compared and hashed without Python.
//!
//! A key is hashed over its content, so that a request made in Rust is the same key as the tuple made in Python, and so
//! that nothing under a queue's lock can call back into the interpreter.

use ctrlhost_core::handlers::RequestRef;
use ctrlhost_core::key::{IntoKey, KeyRef, QueueKey, hash_bytes, hash_number};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::key_codec::{self, Encoded, StrBytes};
use crate::scratch::Scratch;

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
            Self::Int(int) => hash_number(int.cast_unsigned()),
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
            // SAFETY: `object` is the `str` whose bytes these are, and lives as long as `self`.
            Content::Borrowed(bytes) => View::Str(unsafe { bytes.get() }),
            Content::Str(bytes) => View::Str(bytes),
            Content::Int(int) => View::Int(*int),
            Content::Encoded(bytes) => View::Encoded(bytes),
        }
    }

    /// The key of a request: equal to `ctrlhost.Request(name, namespace, cluster)`.
    pub(crate) fn of_request(request: &RequestRef<'_>) -> Self {
        let mut scratch = Scratch::new();
        key_codec::encode_request(request, &mut scratch);
        let bytes = scratch.bytes();
        Self {
            hash: hash_bytes(bytes),
            content: Content::Encoded(Box::from(bytes)),
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
    scratch: &'a Scratch,
    object: &'a Bound<'py, PyAny>,
}

impl<'a, 'py> Probe<'a, 'py> {
    /// Reads a key. What is not in the object itself is written to `scratch`, which is empty before.
    ///
    /// # Errors
    /// `TypeError` for what is no key.
    #[inline]
    pub(crate) fn new(object: &'a Bound<'py, PyAny>, scratch: &'a mut Scratch) -> PyResult<Self> {
        let content = key_codec::encode(object, scratch)?;
        let mut probe = Self {
            hash: 0,
            content,
            scratch,
            object,
        };
        probe.hash = probe.view().hash();
        Ok(probe)
    }

    /// Reads a key again whose content was special, and so is in `scratch`: a `str` with lone surrogates, or tagged.
    pub(crate) fn read(object: &'a Bound<'py, PyAny>, scratch: &'a Scratch) -> Self {
        let content = if object.is_instance_of::<PyString>() {
            Encoded::Str
        } else {
            Encoded::Tagged
        };
        let mut probe = Self {
            hash: 0,
            content,
            scratch,
            object,
        };
        probe.hash = probe.view().hash();
        probe
    }

    #[inline]
    fn view(&self) -> View<'_> {
        match self.content {
            // SAFETY: `object` is the `str` whose bytes these are, and is borrowed as long as `self`.
            Encoded::Borrowed(bytes) => View::Str(unsafe { bytes.get() }),
            Encoded::Str => View::Str(self.scratch.bytes()),
            Encoded::Int(int) => View::Int(int),
            Encoded::Tagged => View::Encoded(self.scratch.bytes()),
        }
    }

    /// A key to hold.
    #[inline]
    pub(crate) fn to_key(&self) -> Key {
        let content = match self.content {
            Encoded::Borrowed(bytes) => Content::Borrowed(bytes),
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
