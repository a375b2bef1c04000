//! From Python objects to JSON text, without an intermediate tree.

use ctrlhost_core::json::MAX_DEPTH;
use ctrlhost_core::json::text::quote_into;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyMapping, PyString, PyTuple};

use super::Object;
use super::view::{ListView, MapView};
use crate::json::DIGITS;

/// Append a Python object as JSON: mappings, lists, tuples, our own views, strings, numbers, booleans and None.
pub(super) fn from_python(out: &mut Vec<u8>, value: &Bound<'_, PyAny>) -> PyResult<()> {
    write(out, value, 0)
}

fn write(out: &mut Vec<u8>, value: &Bound<'_, PyAny>, depth: usize) -> PyResult<()> {
    if depth > MAX_DEPTH {
        return Err(PyValueError::new_err(
            "the object is nested too deep or contains itself",
        ));
    }
    if let Ok(text) = value.cast::<PyString>() {
        quote_into(out, &lossy(text)?);
    } else if let Ok(dict) = value.cast::<PyDict>() {
        members(out, dict.iter().map(Ok), depth)?;
    } else if value.is_none() {
        out.extend_from_slice(b"null");
    } else if let Ok(truth) = value.cast::<PyBool>() {
        out.extend_from_slice(if truth.is_true() { b"true" } else { b"false" });
    } else if let Ok(int) = value.cast::<PyInt>() {
        write_int(out, int)?;
    } else if let Ok(float) = value.cast::<PyFloat>() {
        write_float(out, float.value())?;
    } else if let Ok(list) = value.cast::<PyList>() {
        elements(out, list.iter(), depth)?;
    } else if let Ok(tuple) = value.cast::<PyTuple>() {
        elements(out, tuple.iter(), depth)?;
    } else if let Ok(object) = value.cast::<Object>() {
        out.extend_from_slice(object.get().document(value.py())?.value().json().as_bytes());
    } else if let Ok(view) = value.cast::<MapView>() {
        out.extend_from_slice(view.get().value().json().as_bytes());
    } else if let Ok(view) = value.cast::<ListView>() {
        out.extend_from_slice(view.get().value().json().as_bytes());
    } else if let Ok(mapping) = value.cast::<PyMapping>() {
        let items = mapping.items()?;
        members(out, items.iter().map(|item| item.extract()), depth)?;
    } else {
        return Err(no_json_type(value)?);
    }
    Ok(())
}

/// Return the error for a value that JSON cannot express.
pub(super) fn no_json_type(value: &Bound<'_, PyAny>) -> PyResult<PyErr> {
    Ok(PyTypeError::new_err(format!(
        "{} is not a JSON type: {}",
        value.get_type().name()?,
        value.repr()?
    )))
}

fn members<'py>(
    out: &mut Vec<u8>,
    items: impl Iterator<Item = PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)>>,
    depth: usize,
) -> PyResult<()> {
    out.push(b'{');
    for (index, item) in items.enumerate() {
        let (key, inner) = item?;
        if index > 0 {
            out.push(b',');
        }
        let Ok(key) = key.cast::<PyString>() else {
            return Err(PyTypeError::new_err(format!(
                "keys must be strings, not {}",
                key.repr()?
            )));
        };
        quote_into(out, &lossy(key)?);
        out.push(b':');
        write(out, &inner, depth + 1)?;
    }
    out.push(b'}');
    Ok(())
}

fn elements<'py>(
    out: &mut Vec<u8>,
    items: impl Iterator<Item = Bound<'py, PyAny>>,
    depth: usize,
) -> PyResult<()> {
    out.push(b'[');
    for (index, inner) in items.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(out, &inner, depth + 1)?;
    }
    out.push(b']');
    Ok(())
}

/// Return the text, with U+FFFD for lone surrogates.
fn lossy(text: &Bound<'_, PyString>) -> PyResult<String> {
    if let Ok(text) = text.to_cow() {
        return Ok(text.into_owned());
    }
    let utf16 = text.call_method1("encode", ("utf-16-le", "surrogatepass"))?;
    utf16
        .call_method1("decode", ("utf-16-le", "replace"))?
        .extract()
}

fn write_int(out: &mut Vec<u8>, int: &Bound<'_, PyInt>) -> PyResult<()> {
    if let Ok(small) = int.extract::<i64>() {
        out.extend_from_slice(small.to_string().as_bytes());
        return Ok(());
    }
    // In pieces, because of the interpreter's limit for conversions to text; without the `__str__` of subclasses.
    let py = int.py();
    let (mut rest, negative) = if int.lt(0)? {
        (int.neg()?, true)
    } else {
        (int.clone().into_any(), false)
    };
    let scale = PyInt::new(py, 10).into_any().pow(DIGITS, py.None())?;
    let mut pieces: Vec<String> = Vec::new();
    while rest.is_truthy()? {
        let (higher, piece): (Bound<'_, PyAny>, Bound<'_, PyAny>) =
            rest.divmod(&scale)?.extract()?;
        pieces.push(piece.str()?.to_cow()?.into_owned());
        rest = higher;
    }
    if negative {
        out.push(b'-');
    }
    for (index, piece) in pieces.iter().rev().enumerate() {
        let zeros = if index == 0 { 0 } else { DIGITS - piece.len() };
        out.extend(std::iter::repeat_n(b'0', zeros));
        out.extend_from_slice(piece.as_bytes());
    }
    Ok(())
}

fn write_float(out: &mut Vec<u8>, value: f64) -> PyResult<()> {
    if value.is_nan() {
        return Err(PyValueError::new_err("JSON has no NaN"));
    }
    if value.is_infinite() {
        // Readers take a number beyond the range of a double as infinite.
        out.extend_from_slice(if value > 0.0 { b"1e999" } else { b"-1e999" });
        return Ok(());
    }
    out.extend_from_slice(format!("{value:?}").as_bytes());
    Ok(())
}
