//! The content of keys as bytes.
//!
//! A `str` is its UTF-8; everything else but a small `int` is a tag, a length where one is needed, and what it is made of.

use std::ptr::NonNull;

use ctrlhost_core::handlers::RequestRef;
use pyo3::exceptions::{PyTypeError, PyUnicodeEncodeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyInt, PyString, PyTuple, PyType};
use smallvec::SmallVec;

/// Room for the usual request without an allocation.
pub(crate) type Buffer = SmallVec<[u8; 128]>;

/// How deep tuples may be nested; Python itself gives up hashing a few levels later.
const DEPTH: usize = 100;

const TUPLE: u8 = b'(';
const STR: u8 = b's';
const INT: u8 = b'i';
const BIG_INT: u8 = b'I';

/// The content of a key, as read from its object.
pub(crate) enum Encoded {
    /// The UTF-8 that belongs to the `str` itself.
    Borrowed(NonNull<u8>, usize),
    /// A `str` with lone surrogates, in a form like UTF-8 that no other `str` has.
    Str(Buffer),
    Int(i64),
    Bytes(Buffer),
}

/// `ctrlhost.Request`.
pub(crate) fn request_type(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static REQUEST: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    REQUEST.import(py, "ctrlhost.request", "Request")
}

/// Reads a key.
#[inline]
pub(crate) fn encode(object: &Bound<'_, PyAny>) -> PyResult<Encoded> {
    // SAFETY: the object is valid, and its type is only read.
    if unsafe { ffi::PyUnicode_CheckExact(object.as_ptr()) } != 0 {
        return match utf8(object) {
            Some((start, len)) => Ok(Encoded::Borrowed(start, len)),
            None => Ok(Encoded::Str(with_surrogates(object)?)),
        };
    }
    // SAFETY: as above.
    if unsafe { ffi::PyLong_CheckExact(object.as_ptr()) } != 0 {
        if let Some(int) = small(object) {
            return Ok(Encoded::Int(int));
        }
        let mut bytes = Buffer::new();
        write_big(object, &mut bytes)?;
        return Ok(Encoded::Bytes(bytes));
    }
    let mut bytes = Buffer::new();
    write_tuple(object, &mut bytes, 0)?;
    Ok(Encoded::Bytes(bytes))
}

/// Writes what `Request(name, namespace, cluster)` would be written as.
pub(crate) fn encode_request(request: &RequestRef<'_>, bytes: &mut Buffer) {
    write_head(TUPLE, 3, bytes);
    for part in [request.name, request.namespace, request.cluster] {
        write_head(STR, part.len(), bytes);
        bytes.extend_from_slice(part.as_bytes());
    }
}

/// The UTF-8 of an exact `str`, which it keeps; none if it holds lone surrogates.
#[inline]
pub(crate) fn utf8(object: &Bound<'_, PyAny>) -> Option<(NonNull<u8>, usize)> {
    let mut len: ffi::Py_ssize_t = 0;
    // SAFETY: the object is a `str`, and `len` may be written to.
    let start = unsafe { ffi::PyUnicode_AsUTF8AndSize(object.as_ptr(), &raw mut len) };
    if let Some(start) = NonNull::new(start.cast_mut().cast::<u8>()) {
        return Some((start, len.unsigned_abs()));
    }
    drop(PyErr::take(object.py()));
    None
}

fn with_surrogates(object: &Bound<'_, PyAny>) -> PyResult<Buffer> {
    let bytes = object.call_method1("encode", ("utf-8", "surrogatepass"))?;
    Ok(Buffer::from_slice(bytes.extract::<&[u8]>()?))
}

fn small(object: &Bound<'_, PyAny>) -> Option<i64> {
    let mut overflow = 0;
    // SAFETY: the object is an `int`, and `overflow` may be written to.
    let int = unsafe { ffi::PyLong_AsLongLongAndOverflow(object.as_ptr(), &raw mut overflow) };
    (overflow == 0).then_some(int)
}

fn write_head(tag: u8, len: usize, bytes: &mut Buffer) {
    bytes.push(tag);
    bytes.extend_from_slice(&(len as u64).to_le_bytes()[..5]);
}

fn write_big(object: &Bound<'_, PyAny>, bytes: &mut Buffer) -> PyResult<()> {
    let bits: usize = object.call_method0("bit_length")?.extract()?;
    let signed = PyDict::new(object.py());
    signed.set_item("signed", true)?;
    let number = object.call_method("to_bytes", (bits / 8 + 1, "little"), Some(&signed))?;
    let number = number.extract::<&[u8]>()?;
    write_head(BIG_INT, number.len(), bytes);
    bytes.extend_from_slice(number);
    Ok(())
}

fn write_part(object: &Bound<'_, PyAny>, bytes: &mut Buffer, depth: usize) -> PyResult<()> {
    // SAFETY: the object is valid, and its type is only read.
    if unsafe { ffi::PyUnicode_CheckExact(object.as_ptr()) } != 0 {
        if let Some((start, len)) = utf8(object) {
            write_head(STR, len, bytes);
            // SAFETY: the bytes belong to the `str`, which is borrowed here.
            bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(start.as_ptr(), len) });
        } else {
            let part = with_surrogates(object)?;
            write_head(STR, part.len(), bytes);
            bytes.extend_from_slice(&part);
        }
        return Ok(());
    }
    // SAFETY: as above.
    if unsafe { ffi::PyLong_CheckExact(object.as_ptr()) } != 0 {
        let Some(int) = small(object) else {
            return write_big(object, bytes);
        };
        bytes.push(INT);
        bytes.extend_from_slice(&int.to_le_bytes());
        return Ok(());
    }
    write_tuple(object, bytes, depth)
}

fn write_tuple(object: &Bound<'_, PyAny>, bytes: &mut Buffer, depth: usize) -> PyResult<()> {
    let py = object.py();
    // SAFETY: the object is valid, and its type is only read.
    let exact = unsafe { ffi::PyTuple_CheckExact(object.as_ptr()) } != 0;
    if !exact && object.get_type_ptr() != request_type(py)?.as_type_ptr() {
        refuse_unless_tuple(object)?;
    }
    if depth == DEPTH {
        return Err(PyTypeError::new_err(format!(
            "a key may not nest tuples more than {DEPTH} levels deep"
        )));
    }
    // SAFETY: all that gets here are tuples or of subclasses of it.
    let tuple = unsafe { object.cast_unchecked::<PyTuple>() };
    write_head(TUPLE, tuple.len(), bytes);
    for part in tuple.iter_borrowed() {
        write_part(&part, bytes, depth + 1)?;
    }
    Ok(())
}

/// Refuses all but tuples that are compared and hashed as such.
fn refuse_unless_tuple(object: &Bound<'_, PyAny>) -> PyResult<()> {
    let kind = object.get_type();
    let advice = if object.is_instance_of::<PyString>() || object.is_instance_of::<PyInt>() {
        "convert it with str() or int() first"
    } else {
        let tuple = object.py().get_type::<PyTuple>();
        if kind.is_subclass(&tuple)? {
            let same = |name: &str| -> PyResult<bool> {
                Ok(kind.getattr(name)?.is(&tuple.getattr(name)?))
            };
            if same("__eq__")? && same("__hash__")? {
                return Ok(());
            }
        }
        "a key is a str, an int, or a tuple of keys"
    };
    let name = kind.fully_qualified_name()?;
    Err(PyTypeError::new_err(format!(
        "{name} can not be a work queue's key: {advice}"
    )))
}

/// Makes the `str` of these bytes.
pub(crate) fn decode_str(py: Python<'_>, bytes: &[u8]) -> PyResult<Py<PyAny>> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Ok(PyString::new(py, text).into_any().unbind());
    }
    let bytes = PyBytes::new(py, bytes);
    Ok(bytes
        .call_method1("decode", ("utf-8", "surrogatepass"))?
        .unbind())
}

/// Makes an object like the one that was encoded; a tuple of three `str` becomes a request.
pub(crate) fn decode(py: Python<'_>, mut bytes: &[u8]) -> PyResult<Py<PyAny>> {
    let object = read_part(py, &mut bytes)?;
    let Ok(tuple) = object.bind(py).cast::<PyTuple>() else {
        return Ok(object);
    };
    let is_request = tuple.len() == 3
        && tuple
            .iter_borrowed()
            .all(|part| part.is_instance_of::<PyString>());
    if is_request {
        new_tuple(request_type(py)?, tuple)
    } else {
        Ok(object)
    }
}

/// Makes an instance of a NamedTuple without running the `__new__` that Python wrote for it.
pub(crate) fn new_tuple(
    kind: &Bound<'_, PyType>,
    parts: &Bound<'_, PyTuple>,
) -> PyResult<Py<PyAny>> {
    let py = kind.py();
    let arguments = PyTuple::new(py, [parts])?;
    // SAFETY: `tuple` is a static type, which has the slot.
    let slot = unsafe { ffi::PyType_GetSlot(&raw mut ffi::PyTuple_Type, ffi::Py_tp_new) };
    // SAFETY: that is the type of this slot.
    let new = unsafe { std::mem::transmute::<*mut std::ffi::c_void, ffi::newfunc>(slot) };
    // SAFETY: `kind` is a subclass of `tuple`, and the arguments are a tuple of one iterable.
    unsafe {
        let object = new(kind.as_type_ptr(), arguments.as_ptr(), std::ptr::null_mut());
        Bound::from_owned_ptr_or_err(py, object).map(Bound::unbind)
    }
}

fn read_part(py: Python<'_>, bytes: &mut &[u8]) -> PyResult<Py<PyAny>> {
    match take(bytes, 1)? {
        [STR] => {
            let len = read_len(bytes)?;
            decode_str(py, take(bytes, len)?)
        }
        [INT] => {
            let mut int = [0; 8];
            int.copy_from_slice(take(bytes, 8)?);
            Ok(i64::from_le_bytes(int)
                .into_pyobject(py)?
                .into_any()
                .unbind())
        }
        [BIG_INT] => {
            let len = read_len(bytes)?;
            let number = PyBytes::new(py, take(bytes, len)?);
            let signed = PyDict::new(py);
            signed.set_item("signed", true)?;
            let int = py.get_type::<PyInt>();
            Ok(int
                .call_method("from_bytes", (number, "little"), Some(&signed))?
                .unbind())
        }
        _ => {
            let len = read_len(bytes)?;
            let parts = (0..len)
                .map(|_| read_part(py, bytes))
                .collect::<PyResult<Vec<_>>>()?;
            Ok(PyTuple::new(py, parts)?.into_any().unbind())
        }
    }
}

fn read_len(bytes: &mut &[u8]) -> PyResult<usize> {
    let mut len = [0; 8];
    len[..5].copy_from_slice(take(bytes, 5)?);
    usize::try_from(u64::from_le_bytes(len)).map_err(Into::into)
}

fn take<'a>(bytes: &mut &'a [u8], len: usize) -> PyResult<&'a [u8]> {
    let (part, rest) = bytes
        .split_at_checked(len)
        .ok_or_else(|| PyUnicodeEncodeError::new_err("a key's content is cut"))?;
    *bytes = rest;
    Ok(part)
}
