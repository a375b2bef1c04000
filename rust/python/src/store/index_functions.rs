//! Index functions: paths, the native one for namespaces, or Python functions.

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ctrlhost_core::json::path::Path;
use ctrlhost_core::object;
use ctrlhost_core::store::{IndexFailed, IndexFunc, NamespaceIndex, PathIndex, Values};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::callback_metrics::Function;
use crate::interpreter::{self, UNTIL_OTHERS};
use crate::kept::Keeps;
use crate::object::Object;
use crate::object::input::from_any;

/// Return the namespace of an object, as the default index does.
#[pyfunction]
pub(crate) fn namespace_index(object: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    Ok(vec![from_any(object)?.namespace().to_owned()])
}

thread_local! {
    /// This thread calls an index function.
    static INDEXING: Cell<bool> = const { Cell::new(false) };
}

/// Return whether the calling thread is in an index function, which must not wait for an index.
pub(super) fn is_indexing() -> bool {
    INDEXING.get()
}

/// Marks the thread as being in an index function until this is dropped.
struct Indexing(bool);

impl Drop for Indexing {
    fn drop(&mut self) {
        INDEXING.set(self.0);
    }
}

/// An index function written in Python.
struct PyIndex {
    name: String,
    function: Function,
    errors: Arc<AtomicU64>,
}

impl PyIndex {
    fn call(&self, func: &Bound<'_, PyAny>, object: &Arc<object::Object>) -> PyResult<Values> {
        let returned = func.call1((Object::of(object.clone()),))?;
        if returned.is_none() {
            return Ok(Values::new());
        }
        if returned.is_instance_of::<PyString>() {
            let name = &self.name;
            let what =
                format!("index {name}: the function must return an iterable of str, got a str");
            return Err(PyTypeError::new_err(what));
        }
        let (mut values, mut seen) = (Values::new(), HashSet::new());
        for (number, value) in returned.try_iter()?.enumerate() {
            if number % UNTIL_OTHERS == UNTIL_OTHERS - 1 {
                interpreter::detach(func.py(), || {});
            }
            let value: Arc<str> = value?.cast::<PyString>()?.to_cow()?.as_ref().into();
            if seen.insert(value.clone()) {
                values.push(value);
            }
        }
        Ok(values)
    }
}

impl IndexFunc for PyIndex {
    fn values(&self, object: &Arc<object::Object>) -> Result<Values, IndexFailed> {
        let failed = || {
            let (name, key) = (&self.name, object.key());
            format!("index {name} failed for {key}; object omitted from the index")
        };
        let _indexing = Indexing(INDEXING.replace(true));
        interpreter::attach(|py| {
            let call = |func: &Bound<'_, PyAny>| self.call(func, object);
            let values = self.function.call(py, object.key(), failed, call);
            values.ok_or_else(|| {
                self.errors.fetch_add(1, Ordering::Relaxed);
                IndexFailed
            })
        })
    }

    // The interpreter is taken once: each time may have to wait until a computing thread releases it.
    fn values_of_all(&self, objects: &[&Arc<object::Object>]) -> Vec<Result<Values, IndexFailed>> {
        interpreter::attach(|_| objects.iter().map(|object| self.values(object)).collect())
    }
}

/// Read an index function: `native`, a path, or a callable whose failures are counted in `errors`; and whether its calls
/// enter Python.
pub(crate) fn index_function(
    name: &str,
    func: &Bound<'_, PyAny>,
    native: &Bound<'_, PyAny>,
    errors: &Arc<AtomicU64>,
    keeps: &Keeps,
) -> PyResult<Arc<dyn IndexFunc>> {
    if func.is(native) {
        return Ok(Arc::new(NamespaceIndex));
    }
    if let Ok(path) = func.cast::<PyString>() {
        let path = Path::parse(&path.to_cow()?).map_err(|error| {
            PyValueError::new_err(format!(
                "invalid index path `{}`: {}",
                error.path, error.why
            ))
        })?;
        return Ok(Arc::new(PathIndex(path)));
    }
    let function = Function::of(func, keeps)?.ok_or_else(|| {
        PyTypeError::new_err(format!("indexer {name} must be a path or a callable"))
    })?;
    Ok(Arc::new(PyIndex {
        name: name.to_owned(),
        function,
        errors: errors.clone(),
    }))
}
