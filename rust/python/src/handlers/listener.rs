//! Buffered notifications for a handler in Python.

use std::sync::Arc;
use std::time::Duration;

use ctrlhost_core::handlers::{Change, Next, SharedListener};
use ctrlhost_core::informer::{self, HandlerId};
use ctrlhost_core::object;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use pyo3::{PyTraverseError, PyVisit};

use crate::clock::timeout;
use crate::errors;
use crate::interpreter::Local;
use crate::kept::Keeps;
use crate::object::Object;
use crate::object::tombstone::object_or_tombstone;
use crate::queue::wait::wait_in_slices;

/// Buffered notifications for one handler in Python.
#[pyclass(frozen, module = "ctrlhost._core")]
pub(crate) struct Listener {
    pub(crate) buffer: Local<SharedListener>,
    pub(crate) handle: u64,
    pub(crate) engine: Arc<informer::SharedInformer>,
    /// The informer, whose engine has functions that only the informer shows to the collector.
    pub(crate) keeps: Keeps,
}

fn notification<'py>(py: Python<'py>, change: &Change) -> PyResult<Bound<'py, PyTuple>> {
    let wrap = |object: &Arc<object::Object>| {
        PyResult::Ok(Bound::new(py, Object(object.clone()))?.into_any())
    };
    let none = || py.None().into_bound(py);
    let (kind, old, new, initial) = match change {
        Change::Add { object, initial } => ("add", none(), wrap(object)?, *initial),
        Change::Update { old, new } => ("update", wrap(old)?, wrap(new)?, false),
        Change::Delete { key, object } => (
            "delete",
            object_or_tombstone(py, key, object)?,
            none(),
            false,
        ),
    };
    (PyString::intern(py, kind), old, new, initial).into_pyobject(py)
}

#[pymethods]
impl Listener {
    #[pyo3(signature = (timeout=None, max_items=1000))]
    fn next<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = timeout)] timeout: Option<Duration>,
        max_items: usize,
    ) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let max = max_items.max(1);
        let buffer = self.buffer.get()?;
        let next = wait_in_slices(py, timeout, |end| match buffer.next(max, Some(end)) {
            Next::TimedOut => None,
            next => Some(next),
        })?;
        match next {
            Some(Next::Batch(batch)) => batch.iter().map(|one| notification(py, one)).collect(),
            Some(Next::Closed) => Err(errors::raise(py, "Closed", "the listener was removed", "")),
            Some(Next::TimedOut) | None => Ok(Vec::new()),
        }
    }

    fn done(&self) -> PyResult<()> {
        self.buffer.get()?.done();
        Ok(())
    }

    fn close(&self) -> PyResult<()> {
        let buffer = self.buffer.get()?;
        self.engine.remove_handler(HandlerId(self.handle));
        buffer.close();
        Ok(())
    }

    #[getter]
    fn closed(&self) -> PyResult<bool> {
        Ok(self.buffer.get()?.is_closed())
    }

    #[getter]
    fn has_synced(&self) -> PyResult<bool> {
        Ok(self.buffer.get()?.has_synced())
    }

    #[getter]
    fn pending(&self) -> PyResult<usize> {
        Ok(self.buffer.get()?.pending())
    }

    #[getter]
    fn merged(&self) -> PyResult<u64> {
        Ok(self.buffer.get()?.merged())
    }

    #[getter]
    fn handle(&self) -> u64 {
        self.handle
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.keeps.traverse(&visit)
    }

    fn __clear__(&self) {
        self.keeps.clear();
    }
}
