//! From JSON text to Python objects, without an intermediate tree.

use ctrlhost_core::json::read::{Kind, Value};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString};

use crate::recurring::recurring;

/// The number of digits for one call of `int`, below the interpreter's limit for conversions from text.
pub(crate) const DIGITS: usize = 4_000;

/// A dict or list, and the members or elements that it still lacks.
enum Open<'py, M, E> {
    Dict(Bound<'py, PyDict>, M),
    List(Bound<'py, PyList>, E),
}

impl<'py, M, E> Open<'py, M, E> {
    fn object(&self) -> Bound<'py, PyAny> {
        match self {
            Self::Dict(dict, _) => dict.clone().into_any(),
            Self::List(list, _) => list.clone().into_any(),
        }
    }
}

fn open<'a, 'py>(
    py: Python<'py>,
    value: Value<'a>,
) -> Open<'py, impl Iterator<Item = (Value<'a>, Value<'a>)>, impl Iterator<Item = Value<'a>>> {
    match value.kind() {
        Kind::Object => Open::Dict(PyDict::new(py), value.members()),
        _ => Open::List(PyList::empty(py), value.elements()),
    }
}

/// Return a new, mutable Python object for a value.
///
/// Without recursion, so that the stack does not limit the nesting.
pub(crate) fn to_python<'py>(py: Python<'py>, value: Value<'_>) -> PyResult<Bound<'py, PyAny>> {
    let is_scalar = |value: Value<'_>| !matches!(value.kind(), Kind::Object | Kind::Array);
    if is_scalar(value) {
        return scalar(py, value);
    }
    let outer = open(py, value);
    let whole = outer.object();
    let mut opened = vec![outer];
    while let Some(top) = opened.last_mut() {
        let mut inside = None;
        match top {
            Open::Dict(dict, members) => {
                for (key, inner) in members {
                    let key = key_to_python(py, key);
                    if is_scalar(inner) {
                        dict.set_item(key, scalar(py, inner)?)?;
                        continue;
                    }
                    let inner = open(py, inner);
                    dict.set_item(key, inner.object())?;
                    inside = Some(inner);
                    break;
                }
            }
            Open::List(list, elements) => {
                for inner in elements {
                    if is_scalar(inner) {
                        list.append(scalar(py, inner)?)?;
                        continue;
                    }
                    let inner = open(py, inner);
                    list.append(inner.object())?;
                    inside = Some(inner);
                    break;
                }
            }
        }
        match inside {
            Some(inside) => opened.push(inside),
            None => {
                opened.pop();
            }
        }
    }
    Ok(whole)
}

/// Return a key as a shared string: most keys recur often.
pub(crate) fn key_to_python<'py>(py: Python<'py>, key: Value<'_>) -> Bound<'py, PyString> {
    recurring(py, &key.as_str().unwrap_or_default())
}

/// Return the Python object for a string, number, boolean or null.
pub(crate) fn scalar<'py>(py: Python<'py>, value: Value<'_>) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value.kind() {
        Kind::String => PyString::new(py, &value.as_str().unwrap_or_default()).into_any(),
        Kind::Bool => PyBool::new(py, value.is_true()).to_owned().into_any(),
        Kind::Number => number(py, value.json())?,
        Kind::Object | Kind::Array | Kind::Null => py.None().into_bound(py),
    })
}

fn number<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    if let Ok(small) = text.parse::<i64>()
        && text != "-0"
    {
        return Ok(PyInt::new(py, small).into_any());
    }
    if text.bytes().any(|b| matches!(b, b'.' | b'e' | b'E')) {
        return Ok(PyFloat::new(py, text.parse().unwrap_or(f64::NAN)).into_any());
    }
    let (negative, digits) = text
        .strip_prefix('-')
        .map_or((false, text), |digits| (true, digits));
    let int = py.get_type::<PyInt>();
    let mut total = PyInt::new(py, 0).into_any();
    for piece in digits.as_bytes().chunks(DIGITS) {
        let piece = std::str::from_utf8(piece).unwrap_or_default();
        let scale = PyInt::new(py, 10).into_any().pow(piece.len(), py.None())?;
        total = total.mul(scale)?.add(int.call1((piece,))?)?;
    }
    if negative { total.neg() } else { Ok(total) }
}
