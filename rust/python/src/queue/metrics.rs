//! The numbers of all named queues of the process, for a collector.

use std::sync::{Arc, Weak};

use ctrlhost_core::metrics::{Depth, Histogram, Number, Scrape};
use ctrlhost_core::queue::WorkQueue;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};

use crate::interpreter;
use crate::key::Key;

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
    rows.map(|((name, queue), scrape)| row(py, name, identity(queue), scrape))
        .collect()
}

/// Return a number that no other live queue has.
pub(super) fn identity(queue: &Arc<WorkQueue<Key>>) -> usize {
    Arc::as_ptr(queue).addr()
}

/// Make the row of a queue.
fn row<'py>(
    py: Python<'py>,
    name: &str,
    id: usize,
    scrape: &Scrape,
) -> PyResult<Bound<'py, PyDict>> {
    let row = PyDict::new(py);
    row.set_item("name", name)?;
    row.set_item("id", id)?;
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
