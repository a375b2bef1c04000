//! The keys of one queue as NamedTuples of `ctrlhost.workqueue`, made without the queue's lock.

use ctrlhost_core::queue::{Counts, Snapshot};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple, PyType};

use crate::interpreter;
use crate::key::buffer::KeyBuffer;
use crate::key::{Probe, Shown, new_tuple};
use crate::ratelimit::{SharedLimiter, into_py_err};

/// After so many keys other threads run. This many take some milliseconds.
const SLICE: usize = 2000;

/// Make a `QueueSnapshot`; ask the limiter about each key.
pub(super) fn snapshot(
    py: Python<'_>,
    mut snapshot: Snapshot<Shown>,
    limiter: &SharedLimiter,
) -> PyResult<Py<PyAny>> {
    interpreter::detach(py, || snapshot.sort());
    let none_failed = limiter.forgets_nothing();
    let read = |key: Shown| -> PyResult<(Py<PyAny>, u64)> {
        let key = key.into_object(py)?;
        if none_failed {
            return Ok((key, 0));
        }
        let failures = limiter
            .num_requeues(&Probe::new(key.bind(py), &mut KeyBuffer::new())?)
            .map_err(into_py_err)?;
        Ok((key, failures))
    };
    let queued = list(py, "QueuedKey", snapshot.queued, |entry| {
        let (key, failures) = read(entry.key)?;
        (key, entry.priority, entry.age.as_secs_f64(), failures).into_pyobject(py)
    })?;
    let processing = list(py, "ProcessingKey", snapshot.processing, |entry| {
        let (key, failures) = read(entry.key)?;
        (key, entry.running.as_secs_f64(), entry.again, failures).into_pyobject(py)
    })?;
    let delayed = list(py, "DelayedKey", snapshot.delayed, |entry| {
        let (key, failures) = read(entry.key)?;
        let due_in = entry.due_in.as_secs_f64();
        (key, due_in, entry.priority, entry.back_off, failures).into_pyobject(py)
    })?;
    let parts = (queued, processing, delayed).into_pyobject(py)?;
    new_tuple(&class(py, "QueueSnapshot")?, &parts)
}

/// Make a `QueueSummary`.
pub(super) fn summary(py: Python<'_>, counts: Counts, first: Py<PyAny>) -> PyResult<Py<PyAny>> {
    let fields = (counts.queued, counts.processing, counts.delayed, first);
    new_tuple(&class(py, "QueueSummary")?, &fields.into_pyobject(py)?)
}

/// Make a list of instances of the class.
fn list<'py, T>(
    py: Python<'py>,
    name: &str,
    entries: Vec<T>,
    fields: impl Fn(T) -> PyResult<Bound<'py, PyTuple>>,
) -> PyResult<Bound<'py, PyList>> {
    let (list, class) = (PyList::empty(py), class(py, name)?);
    for (place, entry) in entries.into_iter().enumerate() {
        if place % SLICE == SLICE - 1 {
            // Detached for a moment, which threads that wait for the interpreter can use.
            interpreter::detach(py, std::thread::yield_now);
        }
        list.append(new_tuple(&class, &fields(entry)?)?)?;
    }
    Ok(list)
}

pub(super) fn class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyType>> {
    let module = py.import("ctrlhost.workqueue")?;
    Ok(module.getattr(name)?.cast_into::<PyType>()?)
}
