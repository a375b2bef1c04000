//! Decodes a key's bytes to an equal object.

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyBytes, PyInt, PyString, PyTuple, PyType};

use super::{BIG_INT, INT, LONG, STR, request_type};

/// Make the `str` of these bytes.
pub(crate) fn decode_str(py: Python<'_>, bytes: &[u8]) -> PyResult<Py<PyAny>> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Ok(PyString::new(py, text).into_any().unbind());
    }
    let text = PyBytes::new(py, bytes).call_method1("decode", ("utf-8", "surrogatepass"))?;
    Ok(text.unbind())
}

/// Make an object equal to the encoded one; a tuple of three `str` becomes a request.
pub(crate) fn decode(py: Python<'_>, mut bytes: &[u8]) -> PyResult<Py<PyAny>> {
    let object = read_part(py, &mut bytes)?;
    let Ok(tuple) = object.bind(py).cast::<PyTuple>() else {
        return Ok(object);
    };
    let mut parts = tuple.iter_borrowed();
    if tuple.len() == 3 && parts.all(|part| part.is_instance_of::<PyString>()) {
        return new_tuple(request_type(py)?, tuple);
    }
    Ok(object)
}

/// Make an instance of a NamedTuple without running the `__new__` that Python generated for it.
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
    let (tag, len) = read_head(bytes)?;
    match tag {
        STR => decode_str(py, take(bytes, len)?),
        INT => {
            let mut int = [0; 8];
            int.copy_from_slice(take(bytes, 8)?);
            Ok(PyInt::new(py, i64::from_le_bytes(int)).into_any().unbind())
        }
        BIG_INT => {
            let number = PyBytes::new(py, take(bytes, len)?);
            let signed = [("signed", true)].into_py_dict(py)?;
            let int = py.get_type::<PyInt>();
            Ok(int
                .call_method("from_bytes", (number, "little"), Some(&signed))?
                .unbind())
        }
        _ => {
            let parts = (0..len)
                .map(|_| read_part(py, bytes))
                .collect::<PyResult<Vec<_>>>()?;
            Ok(PyTuple::new(py, parts)?.into_any().unbind())
        }
    }
}

fn read_head(bytes: &mut &[u8]) -> PyResult<(u8, usize)> {
    let mut head = [0; 2];
    head.copy_from_slice(take(bytes, 2)?);
    let [tag, short] = head;
    if usize::from(short) < LONG {
        return Ok((tag, short.into()));
    }
    let mut word = [0; 8];
    word.copy_from_slice(take(bytes, 8)?);
    Ok((tag, usize::try_from(u64::from_le_bytes(word))?))
}

fn take<'a>(bytes: &mut &'a [u8], len: usize) -> PyResult<&'a [u8]> {
    let (part, rest) = bytes
        .split_at_checked(len)
        .ok_or_else(|| PyRuntimeError::new_err("a key's content is truncated"))?;
    *bytes = rest;
    Ok(part)
}
