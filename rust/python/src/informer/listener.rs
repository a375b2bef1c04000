//! Buffered notifications for a handler in Python, or for one whose map or predicates are in Python.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use ctrlhost_core::handlers::{self, Bounds, Change, Next, OnFull, QueueHandler, SharedListener};
use ctrlhost_core::informer::{self, HandlerId};
use ctrlhost_core::object;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use pyo3::{PyTraverseError, PyVisit};

use super::SharedInformer;
use crate::clock::timeout;
use crate::errors;
use crate::interpreter::{self, Local};
use crate::kept::{Keeps, Kept};
use crate::object::Object;
use crate::object::tombstone::object_or_tombstone;
use crate::queue::wait::wait_in_slices;
use crate::signal::Signal;

/// How often the thread of a map looks whether its handler was removed, while it waits for an index.
const SLICE: Duration = Duration::from_millis(50);

/// Buffered notifications for one handler.
#[pyclass(frozen, module = "ctrlhost._core")]
pub(crate) struct Listener {
    buffer: Local<SharedListener>,
    pub(crate) handle: u64,
    engine: Arc<informer::SharedInformer>,
    /// Maps the changes to requests; None for a handler that takes the notifications.
    handler: Option<QueueHandler>,
    /// The informer, whose engine has functions that only the informer shows to the collector.
    keeps: Keeps,
    /// What the handler and the buffer keep.
    functions: Arc<Keeps>,
}

/// Return the bounds of a buffer; `limits` are the most entries, and the most for each object.
pub(crate) fn bounds(merge_from: usize, limits: Option<(usize, usize)>) -> Bounds {
    let unbounded = Bounds::merging_from(merge_from);
    limits.map_or(unbounded, |(limit, per_object)| Bounds {
        limit,
        per_object,
        ..unbounded
    })
}

/// Return what calls `func` when a buffer is full; the buffer does not keep it alive.
fn on_full(func: Option<&Bound<'_, PyAny>>, keeps: &Keeps) -> Option<OnFull> {
    let kept: Weak<Kept> = Arc::downgrade(&keeps.add(func?));
    Some(Box::new(move || {
        let Some(kept) = kept.upgrade() else { return };
        interpreter::attach(|py| {
            let called = kept.get(py).and_then(|func| func.call0());
            if let Err(error) = called {
                errors::log_failure(py, "reporting a full callback buffer failed", &error);
            }
        });
    }))
}

impl Listener {
    /// Add a buffer to an informer, for `handler` if there is one.
    pub(crate) fn attach(
        informer: &Bound<'_, SharedInformer>,
        bounds: Bounds,
        full: Option<&Bound<'_, PyAny>>,
        resync: Option<f64>,
        handler: Option<QueueHandler>,
        functions: Arc<Keeps>,
    ) -> PyResult<Self> {
        let listener = handlers::Listener::new(bounds, on_full(full, &functions));
        let listener = SharedListener::new(listener);
        let added = informer::Handler::Listener(listener.clone());
        let handle = informer.get().add_handler(informer.py(), added, resync)?;
        let keeps = Keeps::default();
        keeps.add(informer);
        Ok(Self {
            buffer: Local::new(listener),
            handle,
            engine: informer.get().engine.get()?.clone(),
            handler,
            keeps,
            functions,
        })
    }

    /// Wait until the index of the mapping has everything that its store has now, or the handler is removed.
    fn wait_for_index(&self, py: Python<'_>, handler: &QueueHandler, buffer: &SharedListener) {
        let Some(lag) = handler.mapping.lag() else {
            return;
        };
        interpreter::detach(py, || {
            while !buffer.is_closed() && !lag.wait(Instant::now().checked_add(SLICE)) {}
        });
    }
}

fn notification<'py>(py: Python<'py>, change: &Change) -> PyResult<Bound<'py, PyTuple>> {
    let wrap = |object: &Arc<object::Object>| {
        PyResult::Ok(Bound::new(py, Object::of(object.clone()))?.into_any())
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

    fn wake(&self, signal: &Bound<'_, Signal>) -> PyResult<()> {
        self.buffer.get()?.wake(signal.get().0.get()?.clone());
        Ok(())
    }

    #[pyo3(signature = (max_items=1000))]
    fn deliver(&self, py: Python<'_>, max_items: usize) -> PyResult<bool> {
        let buffer = self.buffer.get()?;
        let Some(handler) = &self.handler else {
            return Ok(false);
        };
        let _done = Done(buffer);
        // One at a time: those of an object that changes meanwhile are merged, also while a call takes long.
        for _ in 0..max_items {
            let Some(change) = buffer.take() else {
                return Ok(false);
            };
            self.wait_for_index(py, handler, buffer);
            handler.handle([change].iter(), &|| buffer.is_closed());
            buffer.done();
        }
        Ok(true)
    }

    #[pyo3(signature = (timeout=None))]
    fn wait(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = timeout)] timeout: Option<Duration>,
    ) -> PyResult<bool> {
        let buffer = self.buffer.get()?;
        let idle = wait_in_slices(py, timeout, |end| buffer.wait_idle(Some(end)).then_some(()))?;
        Ok(idle.is_some())
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
    fn merged(&self) -> PyResult<usize> {
        Ok(self.buffer.get()?.merged())
    }

    #[getter]
    fn handle(&self) -> u64 {
        self.handle
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.keeps.traverse(&visit)?;
        self.functions.traverse(&visit)
    }

    fn __clear__(&self) {
        self.keeps.clear();
        self.functions.clear();
    }
}

/// Ends a batch, also when a call panics.
struct Done<'a>(&'a SharedListener);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.done();
    }
}
