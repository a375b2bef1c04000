//! Indexes whose functions a thread of a plugin calls, and how readers wait for them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ctrlhost_core::store::{self, Store};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

use super::Indexer;
use super::index_functions::{index_function, is_indexing};
use crate::errors::{self, store_error};
use crate::interpreter::{self, Local};
use crate::kept::{Keeps, Kept};
use crate::queue::wait::wait_in_slices;
use crate::signal::Signal;

/// An index function that the thread of a plugin calls: `start` gets the index once it is part of the store.
#[pyclass(frozen, module = "ctrlhost._core")]
pub(crate) struct Deferred {
    pub(super) function: Arc<Kept>,
    pub(super) start: Arc<Kept>,
}

#[pymethods]
impl Deferred {
    #[new]
    fn new(function: Py<PyAny>, start: Py<PyAny>) -> Self {
        Self {
            function: Kept::new(function),
            start: Kept::new(start),
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.function.traverse(&visit)?;
        self.start.traverse(&visit)
    }

    fn __clear__(&self) {
        self.function.clear();
        self.start.clear();
    }
}

/// A deferred index, for the thread that calls its function.
#[pyclass(frozen, module = "ctrlhost._core")]
pub(crate) struct DeferredIndex(pub(super) Local<store::DeferredIndex>, pub(super) Arc<Kept>);

#[pymethods]
impl DeferredIndex {
    fn wake(&self, signal: &Bound<'_, Signal>) -> PyResult<()> {
        self.0.get()?.wake(signal.get().0.get()?.clone());
        Ok(())
    }

    fn deliver(&self) -> PyResult<bool> {
        Ok(self.0.get()?.catch_up())
    }

    fn close(&self) -> PyResult<()> {
        self.0.get()?.close();
        Ok(())
    }

    #[getter]
    fn closed(&self) -> PyResult<bool> {
        Ok(self.0.get()?.is_closed())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.1.traverse(&visit)
    }

    fn __clear__(&self) {
        self.1.clear();
    }
}

/// How long a reader waits for an index of a function in Python.
const WAIT: Duration = Duration::from_secs(2);

impl Indexer {
    /// Return the store once an index has everything that the store holds now.
    ///
    /// # Errors
    /// `Stale` if that takes too long, `RuntimeError` in an index function, `KeyError` for an unknown index.
    pub(super) fn caught_up(&self, py: Python<'_>, name: &str) -> PyResult<&Arc<Store>> {
        let store = self.store()?;
        let Some(lag) = store.lag(name).map_err(store_error)? else {
            return Ok(store);
        };
        if is_indexing() {
            return Err(PyRuntimeError::new_err(format!(
                "an index function cannot read the index {name}: the thread that it runs on fills it"
            )));
        }
        if !lag.wait(Some(Instant::now())) {
            let reached = wait_in_slices(py, Some(WAIT), |end| lag.wait(Some(end)).then_some(()))?;
            if reached.is_none() {
                let what = format!(
                    "the index {name} is behind its cache after {} s",
                    WAIT.as_secs()
                );
                return Err(errors::raise(py, "Stale", &what, ""));
            }
        }
        Ok(store)
    }

    /// Add the index of a function that another thread calls, and hand it to that thread.
    pub(super) fn defer(
        slf: &Bound<'_, Self>,
        name: &str,
        func: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        let deferred = func.cast::<Deferred>()?.get();
        let (store, native) = (this.store()?, py.None().into_bound(py));
        let function = deferred.function.get(py)?;
        let keeps = Keeps::default();
        let built = index_function(name, &function, &native, &this.index_errors, &keeps)?;
        let index = interpreter::detach(py, || store::DeferredIndex::add(store, name, built));
        let index = index.map_err(store_error)?;
        this.functions.lock().insert(name.to_owned(), keeps);
        // The indexer shows the function to the collector.
        let indexer = Kept::new(slf.clone().into_any().unbind());
        let index = Bound::new(py, DeferredIndex(Local::new(index), indexer))?;
        deferred.start.get(py)?.call1((index,))?;
        Ok(())
    }
}
