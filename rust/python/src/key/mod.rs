//! Keys: exact `str`, exact `int` and tuples of keys, compared and hashed without Python.
//!
//! A key is hashed by its content, so that a request made in Rust equals the tuple made in Python, and so that nothing
//! under a queue's lock can call back into the interpreter.
//!
//! The content of a `str` is its UTF-8; that of everything else but a small `int` is a tag, a length where one is
//! needed, and its parts.

pub(crate) mod buffer;
mod decode;
mod encode;

use ctrlhost_core::handlers::RequestRef;
use ctrlhost_core::key::{IntoKey, KeyRef, QueueKey, hash_bytes, hash_number};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyType};
use pyo3::{PyTraverseError, PyVisit};

use buffer::KeyBuffer;
use encode::StrBytes;

pub(crate) use decode::{decode, decode_str, new_tuple};
pub(crate) use encode::{Encoded, any_subclass, encode, encode_request, is_simple};

const TUPLE: u8 = b'(';
const STR: u8 = b's';
const INT: u8 = b'i';
const BIG_INT: u8 = b'I';

/// The mark of a length of 255 or more, which follows in a word of its own. No name in a cluster is that long.
const LONG: usize = 0xff;

/// `ctrlhost.Request`.
pub(crate) fn request_type(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static REQUEST: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    REQUEST.import(py, "ctrlhost.request", "Request")
}

pub(crate) enum Content {
    /// A `str`, whose bytes are those of the key's object, which lives as long as this.
    Borrowed(StrBytes),
    /// A `str` without an object, or with lone surrogates.
    Str(Box<[u8]>),
    Int(i64),
    /// A tuple, or an `int` of more than 64 bits.
    Encoded(Box<[u8]>),
}

impl Content {
    fn view(&self) -> View<'_> {
        match self {
            // SAFETY: these are the bytes of a live `str`: that of the key that this belongs to.
            Self::Borrowed(bytes) => View::Str(unsafe { bytes.get() }),
            Self::Str(bytes) => View::Str(bytes),
            Self::Int(int) => View::Int(*int),
            Self::Encoded(bytes) => View::Encoded(bytes),
        }
    }
}

/// A key that a queue or a limiter holds.
pub(crate) struct Key {
    hash: u64,
    content: Content,
    /// The object that was added; none for keys made in Rust.
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

    /// Return a key of this content and hash, without an object.
    fn to_key(&self, hash: u64) -> Key {
        Key {
            hash,
            content: self.to_content(),
            object: None,
        }
    }

    fn to_object(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self {
            Self::Str(bytes) => decode_str(py, bytes),
            Self::Int(int) => Ok(int.into_pyobject(py)?.into_any().unbind()),
            Self::Encoded(bytes) => decode(py, bytes),
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
        self.content.view()
    }

    /// Return the key of a request, equal to `ctrlhost.Request(name, namespace, cluster)`.
    pub(crate) fn of_request(request: &RequestRef<'_>) -> Self {
        let mut buffer = KeyBuffer::new();
        encode_request(request, &mut buffer);
        let view = View::Encoded(buffer.bytes());
        view.to_key(view.hash())
    }

    /// Return a new reference to the object, or the content if there is no object.
    ///
    /// Runs under a queue's lock, so it may not make Python objects: that can start a garbage collection, and so run
    /// arbitrary code.
    pub(crate) fn show(&self, py: Python<'_>) -> Shown {
        match &self.object {
            Some(object) => Shown::Object(object.clone_ref(py)),
            None => Shown::Content(self.view().to_content()),
        }
    }

    /// Return whether this is the object that was added.
    #[inline]
    pub(crate) fn is_object(&self, object: &Bound<'_, PyAny>) -> bool {
        let own = self.object.as_ref();
        own.is_some_and(|own| own.as_ptr() == object.as_ptr())
    }

    /// Show the collector the object that was added.
    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self.content {
            Content::Encoded(_) => visit.call(&self.object),
            // No `str` and no `int` refers to anything.
            _ => Ok(()),
        }
    }

    /// Return the object that was added, or an equal one.
    pub(crate) fn to_object(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match &self.object {
            Some(object) => Ok(object.clone_ref(py)),
            None => self.view().to_object(py),
        }
    }
}

/// A key on its way out of a queue.
pub(crate) enum Shown {
    Object(Py<PyAny>),
    /// That of a key without an object.
    Content(Content),
}

impl Shown {
    /// Return the object to hand to Python. Not under a lock.
    pub(crate) fn into_object(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self {
            Self::Object(object) => Ok(object),
            Self::Content(content) => content.view().to_object(py),
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
        self.view().to_key(self.hash)
    }
}

/// A key that was read without a buffer, and hashed.
pub(crate) struct Plain {
    hash: u64,
    content: Encoded,
}

impl Plain {
    /// Read a key; None if that needs a buffer, or if it is invalid.
    #[inline]
    pub(crate) fn read(object: &Bound<'_, PyAny>) -> Option<Self> {
        let content = encode::unbuffered(object)?;
        let none = KeyBuffer::new();
        let hash = Probe::of(object, content, &none).hash;
        Some(Self { hash, content })
    }
}

/// A key in a call's argument, borrowed from its object.
pub(crate) struct Probe<'a, 'py> {
    hash: u64,
    content: Encoded,
    buffer: &'a KeyBuffer,
    object: &'a Bound<'py, PyAny>,
}

impl<'a, 'py> Probe<'a, 'py> {
    /// Read a key. Content that is not in the object itself is written to `buffer`, which must be empty.
    ///
    /// # Errors
    /// `TypeError` for an invalid key.
    #[inline]
    pub(crate) fn new(object: &'a Bound<'py, PyAny>, buffer: &'a mut KeyBuffer) -> PyResult<Self> {
        let content = encode(object, buffer)?;
        Ok(Self::of(object, content, buffer))
    }

    /// Return the key that was read from this object; `buffer` is empty.
    #[inline]
    pub(crate) fn plain(
        object: &'a Bound<'py, PyAny>,
        plain: &Plain,
        buffer: &'a KeyBuffer,
    ) -> Self {
        Self {
            hash: plain.hash,
            content: plain.content,
            buffer,
            object,
        }
    }

    /// Read a key again whose content is in `buffer`: a `str` with lone surrogates, or tagged.
    pub(crate) fn read(object: &'a Bound<'py, PyAny>, buffer: &'a KeyBuffer) -> Self {
        let content = if object.is_instance_of::<PyString>() {
            Encoded::Str
        } else {
            Encoded::Tagged
        };
        Self::of(object, content, buffer)
    }

    #[inline]
    fn of(object: &'a Bound<'py, PyAny>, content: Encoded, buffer: &'a KeyBuffer) -> Self {
        let mut probe = Self {
            hash: 0,
            content,
            buffer,
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
            Encoded::Str => View::Str(self.buffer.bytes()),
            Encoded::Int(int) => View::Int(int),
            Encoded::Tagged => View::Encoded(self.buffer.bytes()),
        }
    }

    /// Return a key to hold.
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
        self.view().to_key(self.hash)
    }
}

impl IntoKey<Key> for Probe<'_, '_> {
    fn into_key(self) -> Key {
        self.to_key()
    }
}
