//! Encodes a key's object to bytes.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};

use ctrlhost_core::handlers::RequestRef;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyInt, PyString, PyTuple};

use super::buffer::KeyBuffer;
use super::{BIG_INT, INT, LONG, STR, TUPLE, request_type};

/// How deep tuples may be nested; Python itself refuses to hash a few levels more.
const DEPTH: usize = 100;

/// Whether any key was, or contained, an instance of a subclass of `tuple` other than a request.
static SUBCLASS_SEEN: AtomicBool = AtomicBool::new(false);

/// Return whether there may be keys with references to anything but keys: instances of subclasses have attributes.
pub(crate) fn any_subclass() -> bool {
    SUBCLASS_SEEN.load(Ordering::Relaxed)
}

/// The content of a key, as read from its object; in the buffer where it is not here.
#[derive(Clone, Copy)]
pub(crate) enum Encoded {
    /// The UTF-8 that belongs to the `str` itself.
    Borrowed(StrBytes),
    /// A `str` with lone surrogates, in a form like UTF-8 that no other `str` has.
    Str,
    Int(i64),
    /// A tuple, or an `int` of more than 64 bits.
    Tagged,
}

/// Bytes that belong to a Python `str`.
#[derive(Clone, Copy)]
pub(crate) struct StrBytes {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the bytes are immutable, and the owner of this owns the `str`, too.
unsafe impl Send for StrBytes {}
// SAFETY: as above.
unsafe impl Sync for StrBytes {}

impl StrBytes {
    /// Return the UTF-8 that an exact `str` caches; None if the `str` has lone surrogates.
    #[inline]
    fn of(object: &Bound<'_, PyAny>) -> Option<Self> {
        let mut len: ffi::Py_ssize_t = 0;
        // SAFETY: the object is a `str`, and `len` may be written to.
        let start = unsafe { ffi::PyUnicode_AsUTF8AndSize(object.as_ptr(), &raw mut len) };
        if let Some(start) = NonNull::new(start.cast_mut().cast::<u8>()) {
            return Some(Self {
                start,
                len: len.unsigned_abs(),
            });
        }
        drop(PyErr::take(object.py()));
        None
    }

    /// Return the bytes.
    ///
    /// # Safety
    /// The `str` has to outlive the returned bytes.
    #[inline]
    pub(crate) unsafe fn get<'a>(self) -> &'a [u8] {
        // SAFETY: these are the bytes of a live `str`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

/// Read a key that needs no buffer: a `str` without lone surrogates, or an `int` of 64 bits.
#[inline]
pub(super) fn unbuffered(object: &Bound<'_, PyAny>) -> Option<Encoded> {
    if object.is_exact_instance_of::<PyString>() {
        return StrBytes::of(object).map(Encoded::Borrowed);
    }
    if object.is_exact_instance_of::<PyInt>() {
        return small(object).map(Encoded::Int);
    }
    None
}

/// Read a key.
#[inline]
pub(crate) fn encode(object: &Bound<'_, PyAny>, buffer: &mut KeyBuffer) -> PyResult<Encoded> {
    if let Some(content) = unbuffered(object) {
        return Ok(content);
    }
    if object.is_exact_instance_of::<PyString>() {
        buffer.push(&with_surrogates(object)?);
        return Ok(Encoded::Str);
    }
    if object.is_exact_instance_of::<PyInt>() {
        write_big(object, buffer)?;
        return Ok(Encoded::Tagged);
    }
    write_tuple(object, buffer, 0)?;
    Ok(Encoded::Tagged)
}

/// Return whether an object is a key that can be read without running Python, as almost all are.
#[inline]
pub(crate) fn is_simple(object: &Bound<'_, PyAny>, depth: usize) -> bool {
    if unbuffered(object).is_some() {
        return true;
    }
    let exact = object.is_exact_instance_of::<PyTuple>();
    if !exact
        && !request_type(object.py()).is_ok_and(|kind| object.get_type_ptr() == kind.as_type_ptr())
    {
        return false;
    }
    // SAFETY: a request is a tuple, too.
    let tuple = unsafe { object.cast_unchecked::<PyTuple>() };
    depth < DEPTH
        && tuple
            .iter_borrowed()
            .all(|part| is_simple(&part, depth + 1))
}

/// Write the encoding of `Request(name, namespace, cluster)`.
pub(crate) fn encode_request(request: &RequestRef<'_>, buffer: &mut KeyBuffer) {
    write_head(TUPLE, 3, buffer);
    for part in [request.name, request.namespace, request.cluster] {
        write_head(STR, part.len(), buffer);
        buffer.push(part.as_bytes());
    }
}

fn with_surrogates(object: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    object
        .call_method1("encode", ("utf-8", "surrogatepass"))?
        .extract()
}

fn small(object: &Bound<'_, PyAny>) -> Option<i64> {
    let mut overflow = 0;
    // SAFETY: the object is an `int`, and `overflow` may be written to.
    let int = unsafe { ffi::PyLong_AsLongLongAndOverflow(object.as_ptr(), &raw mut overflow) };
    (overflow == 0).then_some(int)
}

/// Write tag and length as two bytes.
#[inline]
fn write_head(tag: u8, len: usize, buffer: &mut KeyBuffer) {
    // One store: reading two bytes that were stored one by one would stall.
    let short = u16::try_from(len.min(LONG)).unwrap_or_default();
    buffer.push(&(short << 8 | u16::from(tag)).to_le_bytes());
    if len >= LONG {
        buffer.push(&(len as u64).to_le_bytes());
    }
}

fn write_big(object: &Bound<'_, PyAny>, buffer: &mut KeyBuffer) -> PyResult<()> {
    let bits: usize = object.call_method0("bit_length")?.extract()?;
    let signed = [("signed", true)].into_py_dict(object.py())?;
    let number = object.call_method("to_bytes", (bits / 8 + 1, "little"), Some(&signed))?;
    let number = number.extract::<&[u8]>()?;
    write_head(BIG_INT, number.len(), buffer);
    buffer.push(number);
    Ok(())
}

#[inline]
fn write_part(object: &Bound<'_, PyAny>, buffer: &mut KeyBuffer, depth: usize) -> PyResult<()> {
    if object.is_exact_instance_of::<PyString>() {
        if let Some(bytes) = StrBytes::of(object) {
            // SAFETY: the `str` is borrowed here.
            let bytes = unsafe { bytes.get() };
            write_head(STR, bytes.len(), buffer);
            buffer.push(bytes);
        } else {
            let bytes = with_surrogates(object)?;
            write_head(STR, bytes.len(), buffer);
            buffer.push(&bytes);
        }
        return Ok(());
    }
    if object.is_exact_instance_of::<PyInt>() {
        let Some(int) = small(object) else {
            return write_big(object, buffer);
        };
        write_head(INT, 0, buffer);
        buffer.push(&int.to_le_bytes());
        return Ok(());
    }
    write_tuple(object, buffer, depth)
}

fn write_tuple(object: &Bound<'_, PyAny>, buffer: &mut KeyBuffer, depth: usize) -> PyResult<()> {
    let py = object.py();
    let exact = object.is_exact_instance_of::<PyTuple>();
    if !exact && object.get_type_ptr() != request_type(py)?.as_type_ptr() {
        refuse_unless_tuple(object)?;
    }
    if depth == DEPTH {
        return Err(PyTypeError::new_err(format!(
            "key must not nest tuples more than {DEPTH} levels deep"
        )));
    }
    // SAFETY: the object is an instance of `tuple` or of a subclass.
    let tuple = unsafe { object.cast_unchecked::<PyTuple>() };
    write_head(TUPLE, tuple.len(), buffer);
    for part in tuple.iter_borrowed() {
        write_part(&part, buffer, depth + 1)?;
    }
    Ok(())
}

/// Refuse everything but tuples that are compared and hashed as tuples.
fn refuse_unless_tuple(object: &Bound<'_, PyAny>) -> PyResult<()> {
    let kind = object.get_type();
    let advice = if object.is_instance_of::<PyString>() || object.is_instance_of::<PyInt>() {
        "convert it with str() or int() first"
    } else {
        let tuple = object.py().get_type::<PyTuple>();
        if kind.is_subclass(&tuple)? {
            let same = |name| PyResult::Ok(kind.getattr(name)?.is(&tuple.getattr(name)?));
            if same("__eq__")? && same("__hash__")? {
                SUBCLASS_SEEN.store(true, Ordering::Relaxed);
                return Ok(());
            }
        }
        "a key must be a str, an int, or a tuple of keys"
    };
    let name = kind.fully_qualified_name()?;
    Err(PyTypeError::new_err(format!(
        "{name} cannot be a work queue's key: {advice}"
    )))
}
