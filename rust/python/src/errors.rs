//! Raises the errors of `ctrlhost.errors`, which are Python classes with attributes of their own.

use ctrlhost_core::budget::OverBudget;
use ctrlhost_core::decode::DecodeError;
use ctrlhost_core::json::read::Value;
use ctrlhost_core::object::Damaged;
use ctrlhost_core::store::StoreError;
use pyo3::exceptions::{PyKeyError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyBytes};

use crate::json::to_python;

/// Make an error of `class` with a message and, unless empty, a hint.
pub(crate) fn raise(py: Python<'_>, class: &str, message: &str, hint: &str) -> PyErr {
    let make = || -> PyResult<PyErr> {
        let class = py.import("ctrlhost.errors")?.getattr(class)?;
        let hint = Some(("hint", hint)).filter(|(_, hint)| !hint.is_empty());
        let hint = hint.into_py_dict(py)?;
        Ok(PyErr::from_value(class.call((message,), Some(&hint))?))
    };
    make().unwrap_or_else(|error| error)
}

/// Make a `DecodeError` of a resource.
pub(crate) fn decode_error(py: Python<'_>, resource: &str, error: &DecodeError) -> PyErr {
    let make = || -> PyResult<PyErr> {
        let class = py.import("ctrlhost.errors")?.getattr("DecodeError")?;
        let status = error.status.as_ref();
        let status = status
            .map(|text| to_python(py, Value::of_json(text)))
            .transpose()?;
        let first = PyBytes::new(py, &error.first_bytes);
        let arguments = (resource, error.offset, &error.what, first, status);
        Ok(PyErr::from_value(class.call1(arguments)?))
    };
    make().unwrap_or_else(|error| error)
}

/// Make an `OverBudget`.
pub(crate) fn over_budget(py: Python<'_>, over: &OverBudget) -> PyErr {
    let make = || -> PyResult<PyErr> {
        let class = py.import("ctrlhost.errors")?.getattr("OverBudget")?;
        let arguments = (over.limit, over.objects, over.made_room, over.learning);
        Ok(PyErr::from_value(class.call1(arguments)?))
    };
    make().unwrap_or_else(|error| error)
}

/// Log a failure of user code with its traceback; the work continues.
pub(crate) fn log_failure(py: Python<'_>, message: &str, error: &PyErr) {
    let write = || -> PyResult<()> {
        let logging = py.import("logging")?;
        let logger = logging.call_method1("getLogger", ("ctrlhost.cache",))?;
        // The value alone may lack its traceback.
        let exception = error.clone_ref(py).into_value(py);
        let kwargs = [("exc_info", exception)].into_py_dict(py)?;
        logger.call_method("error", ("%s", message), Some(&kwargs))?;
        Ok(())
    };
    if let Err(failed) = write() {
        failed.write_unraisable(py, None);
    }
}

/// Make the error for a call from inside the callback that the call waits for.
pub(crate) fn reentered(what: &str) -> PyErr {
    PyRuntimeError::new_err(format!(
        "{what} was called from inside its own callback, which it waits for"
    ))
}

/// Convert the error of a cached object that does not decompress.
pub(crate) fn damaged(py: Python<'_>, error: &Damaged) -> PyErr {
    let hint = "its informer lists again, at the next event or bookmark";
    raise(py, "CtrlhostError", &error.to_string(), hint)
}

/// Convert an error of a store's indexes.
pub(crate) fn store_error(error: StoreError) -> PyErr {
    match error {
        StoreError::UnknownIndex(name) => PyKeyError::new_err(name),
        StoreError::IndexExists(_) => PyValueError::new_err(error.to_string()),
    }
}
