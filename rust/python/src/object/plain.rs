//! Fresh dicts and lists from objects and views.

use ctrlhost_core::json::MAX_DEPTH;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyDict, PyFloat, PyInt, PyList, PyMapping, PyMappingMethods, PyString, PyTuple,
};

use super::Object;
use super::to_json::no_json_type;
use super::view::{AnyResult, ListView, MapView};
use crate::json::to_python;

/// Return a cached object, a view, or data with such in it, as new dicts and lists, which may be changed.
///
/// Strings, numbers, booleans and None are returned as they are. Fits `json.dumps(…, default=plain)`. PartialObject for
/// an object of which only a part is cached, TypeError for what JSON has no type for. May be called from any thread.
#[pyfunction]
pub(crate) fn plain<'py>(value: &Bound<'py, PyAny>) -> AnyResult<'py> {
    copy(value, 0)
}

fn copy<'py>(value: &Bound<'py, PyAny>, depth: usize) -> AnyResult<'py> {
    let py = value.py();
    if depth > MAX_DEPTH {
        return Err(PyValueError::new_err(
            "the data is nested too deep or contains itself",
        ));
    }
    if let Ok(object) = value.cast::<Object>() {
        object.get().to_dict(py)
    } else if let Ok(view) = value.cast::<MapView>() {
        to_python(py, view.get().value())
    } else if let Ok(view) = value.cast::<ListView>() {
        to_python(py, view.get().value())
    } else if is_scalar(value) {
        Ok(value.clone())
    } else if let Ok(list) = value.cast::<PyList>() {
        elements(py, list.iter(), depth)
    } else if let Ok(tuple) = value.cast::<PyTuple>() {
        elements(py, tuple.iter(), depth)
    } else if let Ok(mapping) = value.cast::<PyMapping>() {
        let dict = PyDict::new(py);
        for item in mapping.items()?.iter() {
            let (key, inner): (Bound<'py, PyAny>, Bound<'py, PyAny>) = item.extract()?;
            dict.set_item(key, copy(&inner, depth + 1)?)?;
        }
        Ok(dict.into_any())
    } else {
        Err(no_json_type(value)?)
    }
}

fn is_scalar(value: &Bound<'_, PyAny>) -> bool {
    value.is_none()
        || value.is_instance_of::<PyString>()
        || value.is_instance_of::<PyBool>()
        || value.is_instance_of::<PyInt>()
        || value.is_instance_of::<PyFloat>()
}

fn elements<'py>(
    py: Python<'py>,
    all: impl Iterator<Item = Bound<'py, PyAny>>,
    depth: usize,
) -> AnyResult<'py> {
    let list = PyList::empty(py);
    for inner in all {
        list.append(copy(&inner, depth + 1)?)?;
    }
    Ok(list.into_any())
}
