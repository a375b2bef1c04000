//! A queue's snapshot, as the NamedTuples of `ctrlhost.workqueue`.

use ctrlhost_core::queue::Snapshot;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyList, PyTuple, PyType};

use crate::key::buffer::KeyBuffer;
use crate::key::{Probe, Shown, new_tuple};
use crate::ratelimit::{SharedLimiter, into_py_err};

struct Types {
    snapshot: Py<PyType>,
    queued: Py<PyType>,
    processing: Py<PyType>,
    delayed: Py<PyType>,
}

fn types(py: Python<'_>) -> PyResult<&Types> {
    static TYPES: PyOnceLock<Types> = PyOnceLock::new();
    TYPES.get_or_try_init(py, || {
        let module = py.import("ctrlhost.workqueue")?;
        let get = |name: &str| PyResult::Ok(module.getattr(name)?.cast_into::<PyType>()?.unbind());
        Ok(Types {
            snapshot: get("QueueSnapshot")?,
            queued: get("QueuedKey")?,
            processing: get("ProcessingKey")?,
            delayed: get("DelayedKey")?,
        })
    })
}

/// Makes the objects, and asks the limiter about each key. Not under a lock.
pub(crate) fn into_object(
    py: Python<'_>,
    snapshot: Snapshot<Shown>,
    limiter: &SharedLimiter,
) -> PyResult<Py<PyAny>> {
    let mut snapshot = snapshot;
    snapshot.sort();
    let types = types(py)?;
    let none_failed = limiter.forgets_nothing();
    let failures = |key: &Py<PyAny>| -> PyResult<u64> {
        if none_failed {
            return Ok(0);
        }
        limiter
            .num_requeues(&Probe::new(key.bind(py), &mut KeyBuffer::new())?)
            .map_err(into_py_err)
    };
    let queued = PyList::empty(py);
    for entry in snapshot.queued {
        let key = entry.key.into_object(py)?;
        let failures = failures(&key)?;
        let fields = (key, entry.priority, entry.age.as_secs_f64(), failures).into_pyobject(py)?;
        queued.append(new_tuple(types.queued.bind(py), &fields)?)?;
    }
    let processing = PyList::empty(py);
    for entry in snapshot.processing {
        let key = entry.key.into_object(py)?;
        let failures = failures(&key)?;
        let fields = (key, entry.running.as_secs_f64(), entry.again, failures).into_pyobject(py)?;
        processing.append(new_tuple(types.processing.bind(py), &fields)?)?;
    }
    let delayed = PyList::empty(py);
    for entry in snapshot.delayed {
        let key = entry.key.into_object(py)?;
        let failures = failures(&key)?;
        let fields = (
            key,
            entry.due_in.as_secs_f64(),
            entry.priority,
            entry.back_off,
            failures,
        )
            .into_pyobject(py)?;
        delayed.append(new_tuple(types.delayed.bind(py), &fields)?)?;
    }
    let parts: Bound<'_, PyTuple> = (queued, processing, delayed).into_pyobject(py)?;
    new_tuple(types.snapshot.bind(py), &parts)
}
