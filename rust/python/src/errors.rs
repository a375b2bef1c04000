//! Raising the errors of `ctrlhost.errors`, which are Python classes so that they can carry what Python wants to see.

use ctrlhost_core::store::StoreError;
use pyo3::exceptions::{PyKeyError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// An error of that class with a message and, unless empty, a hint.
pub(crate) fn raise(py: Python<'_>, class: &str, message: &str, hint: &str) -> PyErr {
    build(py, class, message, hint).unwrap_or_else(|error| error)
}

fn build(py: Python<'_>, class: &str, message: &str, hint: &str) -> PyResult<PyErr> {
    let class = py.import("ctrlhost.errors")?.getattr(class)?;
    let kwargs = PyDict::new(py);
    if !hint.is_empty() {
        kwargs.set_item("hint", hint)?;
    }
    Ok(PyErr::from_value(class.call((message,), Some(&kwargs))?))
}

/// A `DecodeError` of that resource.
pub(crate) fn decode_error(
    py: Python<'_>,
    resource: &str,
    error: &ctrlhost_core::decode::DecodeError,
) -> PyErr {
    let make = || -> PyResult<PyErr> {
        let class = py.import("ctrlhost.errors")?.getattr("DecodeError")?;
        let status = match &error.status {
            Some(text) => crate::json::to_python(py, ctrlhost_core::json::read::Value(text))?,
            None => py.None().into_bound(py),
        };
        let first_bytes = pyo3::types::PyBytes::new(py, &error.first_bytes);
        Ok(PyErr::from_value(class.call1((
            resource,
            error.offset,
            &error.what,
            first_bytes,
            status,
        ))?))
    };
    make().unwrap_or_else(|error| error)
}

/// What failed in user code is logged with its traceback, and the work goes on.
pub(crate) fn log_failure(py: Python<'_>, message: &str, error: &PyErr) {
    let write = || -> PyResult<()> {
        let logger = py
            .import("logging")?
            .call_method1("getLogger", ("ctrlhost.cache",))?;
        let kwargs = PyDict::new(py);
        kwargs.set_item("exc_info", error.value(py))?;
        logger.call_method("error", ("%s", message), Some(&kwargs))?;
        Ok(())
    };
    if let Err(failed) = write() {
        failed.write_unraisable(py, None);
    }
}

/// A lock or a pop was asked for from inside the callback that it waits for.
pub(crate) fn reentered(what: &str) -> PyErr {
    PyRuntimeError::new_err(format!(
        "{what} was called from inside its own callback, which it waits for"
    ))
}

/// What a store says of indexes.
pub(crate) fn store_error(error: StoreError) -> PyErr {
    match error {
        StoreError::UnknownIndex(name) => PyKeyError::new_err(name),
        StoreError::IndexExists(_) => PyValueError::new_err(error.to_string()),
    }
}
