//! Index functions: paths, the native one for namespaces, or Python functions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ctrlhost_core::json::path::Path;
use ctrlhost_core::object;
use ctrlhost_core::store::{IndexFailed, IndexFunc, NamespaceIndex, PathIndex, Values};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::errors;
use crate::interpreter;
use crate::kept::{Keeps, Kept};
use crate::object::Object;
use crate::object::input::from_any;

/// Return the namespace of an object, as the default index does.
#[pyfunction]
pub(crate) fn namespace_index(object: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    Ok(vec![from_any(object)?.namespace().to_owned()])
}

/// An index function written in Python.
struct PyIndex {
    name: String,
    func: Arc<Kept>,
    errors: Arc<AtomicU64>,
}

impl PyIndex {
    fn call(&self, py: Python<'_>, object: &Arc<object::Object>) -> PyResult<Values> {
        let found = self.func.get(py)?.call1((Object(object.clone()),))?;
        if found.is_none() {
            return Ok(Values::new());
        }
        if found.is_instance_of::<PyString>() {
            let name = &self.name;
            let what =
                format!("index {name}: the function must return an iterable of str, got a str");
            return Err(PyTypeError::new_err(what));
        }
        let mut values = Values::new();
        for value in found.try_iter()? {
            let value: Arc<str> = value?.cast::<PyString>()?.to_cow()?.as_ref().into();
            if !values.contains(&value) {
                values.push(value);
            }
        }
        Ok(values)
    }
}

impl IndexFunc for PyIndex {
    fn values(&self, object: &Arc<object::Object>) -> Result<Values, IndexFailed> {
        interpreter::attach(|py| {
            self.call(py, object).map_err(|error| {
                if self.errors.fetch_add(1, Ordering::Relaxed) == 0 {
                    let (name, key) = (&self.name, object.key());
                    let what =
                        format!("index {name} failed for {key}; object omitted from the index");
                    errors::log_failure(py, &what, &error);
                }
                IndexFailed
            })
        })
    }

    // The interpreter is taken once: each time may have to wait until a computing thread releases it.
    fn values_of_all(&self, objects: &[&Arc<object::Object>]) -> Vec<Result<Values, IndexFailed>> {
        interpreter::attach(|_| objects.iter().map(|object| self.values(object)).collect())
    }
}

/// Read an index function: `native`, a path, or a callable whose failures are counted in `errors`.
pub(crate) fn index_function(
    name: &str,
    func: &Bound<'_, PyAny>,
    native: &Bound<'_, PyAny>,
    errors: &Arc<AtomicU64>,
    keeps: &Keeps,
) -> PyResult<Arc<dyn IndexFunc>> {
    Ok(if func.is(native) {
        Arc::new(NamespaceIndex)
    } else if let Ok(path) = func.cast::<PyString>() {
        let path = Path::parse(&path.to_cow()?)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        Arc::new(PathIndex(path))
    } else if func.is_callable() {
        Arc::new(PyIndex {
            name: name.to_owned(),
            func: keeps.add(func),
            errors: errors.clone(),
        })
    } else {
        return Err(PyTypeError::new_err(format!(
            "indexer {name} must be a path or a callable"
        )));
    })
}
