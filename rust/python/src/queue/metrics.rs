//! The numbers of all named queues of the process, for a collector.

use std::sync::{Arc, Weak};

use ctrlhost_core::metrics::{Histogram, Scrape};
use ctrlhost_core::queue::WorkQueue;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::interpreter;
use crate::key::Key;

struct Named {
    name: String,
    queue: Weak<WorkQueue<Key>>,
    generation: usize,
}

static QUEUES: Mutex<Vec<Named>> = Mutex::new(Vec::new());

/// Makes a queue known to collectors for as long as it lives.
pub(crate) fn register(name: &str, queue: &Arc<WorkQueue<Key>>) {
    let mut queues = QUEUES.lock();
    queues.retain(|named| named.queue.strong_count() > 0);
    queues.push(Named {
        name: name.to_owned(),
        queue: Arc::downgrade(queue),
        generation: interpreter::generation(),
    });
}

/// What one queue counted: name, adds, retries, spurious done, dropped, depth by priority and beyond, the two
/// histograms as counts and sum in seconds, then unfinished, longest, oldest in seconds, and the delayed keys.
type Row = (
    String,
    (u64, u64, u64, u64),
    (Vec<(i32, i64)>, Option<i64>),
    (Vec<u64>, f64),
    (Vec<u64>, f64),
    (f64, f64, f64, usize),
);

/// The numbers of every named queue that lives, in the order in which they were made.
#[pyfunction]
pub(crate) fn queue_metrics(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let generation = interpreter::generation();
    let queues: Vec<(String, Arc<WorkQueue<Key>>)> = {
        let queues = QUEUES.lock();
        let alive = queues.iter().filter(|named| named.generation == generation);
        alive
            .filter_map(|named| Some((named.name.clone(), named.queue.upgrade()?)))
            .collect()
    };
    // Waits for locks, and so not attached; each is held for a copy of a few hundred bytes.
    let scrapes: Vec<Scrape> =
        py.detach(|| queues.iter().map(|(_, queue)| queue.scrape()).collect());
    let rows = queues
        .into_iter()
        .zip(scrapes)
        .map(|((name, _), scrape)| row(name, &scrape));
    PyList::new(py, rows.collect::<Vec<_>>())
}

fn row(name: String, scrape: &Scrape) -> Row {
    let counted = &scrape.counted;
    (
        name,
        (
            counted.adds,
            counted.retries,
            counted.spurious_done,
            counted.dropped,
        ),
        (counted.depth.by_priority().to_vec(), counted.depth.beyond()),
        histogram(&counted.queue_duration),
        histogram(&counted.work_duration),
        (
            scrape.unfinished.as_secs_f64(),
            scrape.longest_running.as_secs_f64(),
            scrape.oldest.as_secs_f64(),
            scrape.delayed,
        ),
    )
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a sum of seconds is a float in every exposition format"
)]
fn histogram(histogram: &Histogram) -> (Vec<u64>, f64) {
    (histogram.buckets.to_vec(), histogram.sum as f64 / 1e9)
}
