//! The numbers of all named queues of the process, for a collector; the keys of one queue, for a debug page.

use std::sync::{Arc, Weak};

use ctrlhost_core::metrics::{Depth, Histogram, Number, Scrape};
use ctrlhost_core::queue::{Snapshot, WorkQueue};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict, PyList, PyType};

use crate::interpreter;
use crate::key::buffer::KeyBuffer;
use crate::key::{Key, Probe, Shown, new_tuple};
use crate::ratelimit::{SharedLimiter, into_py_err};

struct Named {
    name: String,
    queue: Weak<WorkQueue<Key>>,
    generation: usize,
}

static QUEUES: Mutex<Vec<Named>> = Mutex::new(Vec::new());

/// Report a queue to collectors for as long as it lives.
pub(super) fn register(name: &str, queue: &Arc<WorkQueue<Key>>) {
    let mut queues = QUEUES.lock();
    queues.retain(|named| named.queue.strong_count() > 0);
    queues.push(Named {
        name: name.to_owned(),
        queue: Arc::downgrade(queue),
        generation: interpreter::generation(),
    });
}

/// Return the numbers of every live named queue, in order of creation.
#[pyfunction]
pub(crate) fn queue_metrics(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let generation = interpreter::generation();
    let queues: Vec<(String, Arc<WorkQueue<Key>>)> = QUEUES
        .lock()
        .iter()
        .filter(|named| named.generation == generation)
        .filter_map(|named| Some((named.name.clone(), named.queue.upgrade()?)))
        .collect();
    // Waits for locks, and so detached; each is held for a copy of a few hundred bytes.
    let scrapes: Vec<Scrape> = interpreter::detach(py, || {
        queues.iter().map(|(_, queue)| queue.scrape()).collect()
    });
    let rows = queues.iter().zip(&scrapes);
    rows.map(|((name, _), scrape)| row(py, name, scrape))
        .collect()
}

/// Make the row of a queue.
fn row<'py>(py: Python<'py>, name: &str, scrape: &Scrape) -> PyResult<Bound<'py, PyDict>> {
    let row = PyDict::new(py);
    row.set_item("name", name)?;
    for (field, number) in scrape.numbers() {
        match number {
            Number::Count(count) => row.set_item(field, count)?,
            Number::Seconds(time) => row.set_item(field, time.as_secs_f64())?,
            Number::Depth(keys) => row.set_item(field, depth(py, keys)?)?,
            Number::Histogram(times) => row.set_item(field, histogram(times))?,
        }
    }
    Ok(row)
}

/// Return the depth by the label of each priority; the priorities beyond the first ones share a label.
fn depth<'py>(py: Python<'py>, depth: &Depth) -> PyResult<Bound<'py, PyDict>> {
    let known = depth.by_priority().iter();
    let known = known.map(|(priority, keys)| (priority.to_string(), *keys));
    let beyond = depth
        .beyond()
        .map(|keys| ("exceeded_cardinality_limit".to_owned(), keys));
    known.chain(beyond).into_py_dict(py)
}

/// Return the counts of the buckets, and the sum in seconds.
#[expect(
    clippy::cast_precision_loss,
    reason = "a sum of seconds is a float in every exposition format"
)]
fn histogram(histogram: &Histogram) -> (Vec<u64>, f64) {
    (histogram.buckets.to_vec(), histogram.sum as f64 / 1e9)
}

/// Make the snapshot's NamedTuples of `ctrlhost.workqueue`; asks the limiter about each key, so not under a lock.
pub(super) fn snapshot(
    py: Python<'_>,
    mut snapshot: Snapshot<Shown>,
    limiter: &SharedLimiter,
) -> PyResult<Py<PyAny>> {
    snapshot.sort();
    let module = py.import("ctrlhost.workqueue")?;
    let class = |name| PyResult::Ok(module.getattr(name)?.cast_into::<PyType>()?);
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
    let (queued, queued_key) = (PyList::empty(py), class("QueuedKey")?);
    for entry in snapshot.queued {
        let (key, failures) = read(entry.key)?;
        let fields = (key, entry.priority, entry.age.as_secs_f64(), failures);
        queued.append(new_tuple(&queued_key, &fields.into_pyobject(py)?)?)?;
    }
    let (processing, processing_key) = (PyList::empty(py), class("ProcessingKey")?);
    for entry in snapshot.processing {
        let (key, failures) = read(entry.key)?;
        let fields = (key, entry.running.as_secs_f64(), entry.again, failures);
        processing.append(new_tuple(&processing_key, &fields.into_pyobject(py)?)?)?;
    }
    let (delayed, delayed_key) = (PyList::empty(py), class("DelayedKey")?);
    for entry in snapshot.delayed {
        let (key, failures) = read(entry.key)?;
        let due_in = entry.due_in.as_secs_f64();
        let fields = (key, due_in, entry.priority, entry.back_off, failures);
        delayed.append(new_tuple(&delayed_key, &fields.into_pyobject(py)?)?)?;
    }
    let parts = (queued, processing, delayed).into_pyobject(py)?;
    new_tuple(&class("QueueSnapshot")?, &parts)
}
