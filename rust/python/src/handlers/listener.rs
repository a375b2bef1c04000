//! Buffered notifications for a handler in Python.

use std::sync::Arc;

use ctrlhost_core::handlers::{Change, Next, SharedListener};
use ctrlhost_core::informer::{self, HandlerId};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};

use crate::errors;
use crate::object::Object;
use crate::object::tombstone::object_or_tombstone;
use crate::queue::wait_slices::{deadline, is_over, slice_end};

/// Buffered notifications for one handler in Python.
#[pyclass(frozen, module = "ctrlhost._core")]
pub(crate) struct Listener {
    buffer: SharedListener,
    handle: u64,
    engine: Arc<informer::SharedInformer>,
}

impl Listener {
    pub(crate) fn new(
        buffer: SharedListener,
        handle: u64,
        engine: Arc<informer::SharedInformer>,
    ) -> Self {
        Self {
            buffer,
            handle,
            engine,
        }
    }

    pub(crate) fn id(&self) -> u64 {
        self.handle
    }
}

fn notification<'py>(py: Python<'py>, change: &Change) -> PyResult<Bound<'py, PyTuple>> {
    let wrap = |object: &Arc<ctrlhost_core::object::Object>| -> PyResult<Bound<'py, PyAny>> {
        Ok(Bound::new(py, Object::wrap(object.clone()))?.into_any())
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
        timeout: Option<f64>,
        max_items: usize,
    ) -> PyResult<Bound<'py, PyList>> {
        let deadline = deadline(timeout)?;
        loop {
            match py.detach(|| {
                self.buffer
                    .next(max_items.max(1), Some(slice_end(deadline)))
            }) {
                Next::Batch(batch) => {
                    let all = batch
                        .iter()
                        .map(|change| notification(py, change))
                        .collect::<PyResult<Vec<_>>>()?;
                    return PyList::new(py, all);
                }
                Next::Closed => {
                    return Err(errors::raise(py, "Closed", "the listener was removed", ""));
                }
                Next::TimedOut if is_over(deadline) => return Ok(PyList::empty(py)),
                Next::TimedOut => py.check_signals()?,
            }
        }
    }

    fn done(&self) {
        self.buffer.done();
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| self.engine.remove_handler(HandlerId(self.handle)));
        self.buffer.close();
    }

    #[getter]
    fn closed(&self) -> bool {
        self.buffer.is_closed()
    }

    #[getter]
    fn has_synced(&self) -> bool {
        self.buffer.has_synced()
    }

    #[getter]
    fn pending(&self) -> usize {
        self.buffer.pending()
    }

    #[getter]
    fn merged(&self) -> u64 {
        self.buffer.merged()
    }

    #[getter]
    fn handle(&self) -> u64 {
        self.handle
    }
}
