//! The work queue in Python.
//!
//! A thread that holds the GIL never blocks on a queue's lock: it tries, and if another thread has the lock, it
//! releases the GIL, waits and tries again. Nothing runs Python under the lock: keys are read before, objects are made
//! and dropped after.
#![expect(
    clippy::redundant_closure_for_method_calls,
    reason = "the methods alone are not general enough"
)]

mod batch;
mod groups;
pub(crate) mod metrics;
mod page;
mod shared;
mod snapshot;
pub(crate) mod wait;

use std::sync::Arc;
use std::time::Duration;

use ctrlhost_core::handlers::OwnedRequest;
use ctrlhost_core::queue::{Counts, QueueGuard};
use ctrlhost_core::ratelimit::Answer;
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyString};
use pyo3::{PyTraverseError, PyVisit};

use crate::clock::{Seconds, delay, timeout};
use crate::key::buffer::KeyBuffer;
use crate::key::{Key, Probe, is_simple};
use crate::ratelimit::into_py_err;
use batch::Batch;
use shared::Shared;

/// A queue of keys that need work.
#[pyclass(frozen, generic, weakref, module = "ctrlhost.workqueue")]
pub(crate) struct WorkQueue {
    pub(crate) shared: Arc<Shared>,
    name: Py<PyString>,
}

#[pymethods]
impl WorkQueue {
    #[new]
    #[pyo3(
        signature = (name=None, *, rate_limiter=None, clock=None, fair_by=None, aging=Some(Seconds(30.0))),
        text_signature = "(name=None, *, rate_limiter=None, clock=None, fair_by=None, aging=30.0)"
    )]
    fn new(
        py: Python<'_>,
        name: Option<Bound<'_, PyString>>,
        rate_limiter: Option<&Bound<'_, PyAny>>,
        clock: Option<&Bound<'_, PyAny>>,
        fair_by: Option<&Bound<'_, PyAny>>,
        aging: Option<Seconds>,
    ) -> PyResult<Self> {
        let name = name.unwrap_or_else(|| PyString::new(py, ""));
        let shared = Shared::make(name.to_str()?, rate_limiter, clock, fair_by, aging)?;
        Ok(Self {
            shared: Arc::new(shared),
            name: name.unbind(),
        })
    }

    /// The queue's name in metrics; empty for a queue without metrics.
    #[getter]
    fn name(&self, py: Python<'_>) -> Py<PyString> {
        self.name.clone_ref(py)
    }

    /// A number that no other live queue has, as in the rows of the metrics.
    #[getter]
    fn id(&self) -> PyResult<usize> {
        self.shared.queue().map(metrics::identity)
    }

    /// Add a key unless it is queued already; a key in progress is queued again once it is done.
    ///
    /// Without a priority a queued key keeps its own, and a new key has 0; a lower one than the key's changes nothing.
    /// After shutdown the call does nothing. Raises TypeError for an invalid key and OverflowError for a priority
    /// beyond 32 bits.
    #[pyo3(signature = (key, *, priority=None))]
    fn add(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = priority)] priority: Option<i32>,
    ) -> PyResult<()> {
        let mut buffer = KeyBuffer::new();
        let probe = Probe::new(key, &mut buffer)?;
        let group = self.shared.fair_by.group(key)?;
        self.shared.locked(py, |queue| {
            queue.add(probe, priority, &group);
        })
    }

    /// Add all keys in their order, under one lock. An invalid key raises TypeError, and nothing is added.
    #[pyo3(signature = (keys, *, priority=None))]
    fn add_many(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = priority)] priority: Option<i32>,
    ) -> PyResult<()> {
        let keys = Batch::read(keys)?;
        let groups = self.shared.fair_by.groups(&keys.objects)?;
        let group = |place: usize| groups.get(place).map_or("", String::as_str);
        self.shared.locked(py, |queue| {
            queue.expect(keys.objects.len());
            keys.for_each(|place, probe| {
                queue.add(probe, priority, group(place));
            });
        })
    }

    /// Add a key after a delay in seconds: at once if it is not positive, never if it is infinite.
    ///
    /// Of two delayed adds of a key the earlier deadline and the higher priority count. A plain `add` neither cancels a
    /// delayed one nor is cancelled by it. Raises ValueError for NaN.
    #[pyo3(signature = (key, seconds, *, priority=None))]
    fn add_after(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = delay)] seconds: Duration,
        #[pyo3(from_py_with = priority)] priority: Option<i32>,
    ) -> PyResult<()> {
        let mut buffer = KeyBuffer::new();
        let probe = Probe::new(key, &mut buffer)?;
        let group = self.shared.fair_by.group(key)?;
        self.shared.locked(py, |queue| {
            queue.add_after(probe, seconds, priority, &group);
        })
    }

    /// Add a failed key after the delay that the rate limiter returns.
    ///
    /// A key whose earlier back-off is pending is left alone, unless `forget` ended it: the limiter is not called. Exceptions of a limiter
    /// written in Python reach the caller, and nothing is queued. A call during another one's call of the limiter shares
    /// its delay; if the limiter fails then, the key is queued at once.
    #[pyo3(signature = (key, *, priority=None))]
    fn add_rate_limited(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = priority)] priority: Option<i32>,
    ) -> PyResult<()> {
        let mut buffer = KeyBuffer::new();
        let probe = Probe::new(key, &mut buffer)?;
        let group = self.shared.fair_by.group(key)?;
        let mut second = KeyBuffer::new();
        let same = Probe::new(key, &mut second)?;
        let begin = |queue: &mut QueueGuard<'_, Key>| {
            let begun = queue.begin_rate_limited(same, priority, &group);
            begun.ok().map(|(call, _)| call)
        };
        let Some(call) = self.shared.locked(py, begin)? else {
            return Ok(());
        };
        let answer = Answer::of(&**self.shared.queue()?.limiter(), &probe);
        let unused = self.shared.locked(py, |queue| {
            queue.finish_rate_limited(call, answer.delay(), priority, &group)
        });
        answer.into_result().map_err(into_py_err)?;
        unused.map(drop)
    }

    /// Wait for a key and return the object that was added first; give it back with `done`.
    ///
    /// Raises `queue.Empty` after `timeout` seconds, and `ShutDown` once the queue is shut down and empty.
    #[pyo3(signature = (timeout=None))]
    fn get(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = timeout)] timeout: Option<Duration>,
    ) -> PyResult<Py<PyAny>> {
        Ok(self.get_with_priority(py, timeout)?.0)
    }

    /// Do the same as `get`, and return the key's priority, too.
    #[pyo3(signature = (timeout=None))]
    fn get_with_priority(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = timeout)] timeout: Option<Duration>,
    ) -> PyResult<(Py<PyAny>, i32)> {
        let (key, taken) = self.wait(py, timeout, |queue| queue.take(|key| key.show(py)))?;
        Ok((key.into_object(py)?, taken.priority))
    }

    /// Return a key that is queued now, or raise as `get` does.
    fn get_nowait(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.get(py, Some(Duration::ZERO))
    }

    /// Return the queued keys, at most `max_items`; wait as `get` does only if there are none.
    #[pyo3(signature = (max_items, timeout=None))]
    fn get_batch(
        &self,
        py: Python<'_>,
        max_items: i64,
        #[pyo3(from_py_with = timeout)] timeout: Option<Duration>,
    ) -> PyResult<Vec<Py<PyAny>>> {
        let taken = self.take_batch(py, max_items, timeout)?.into_iter();
        taken.map(|(key, _)| key.into_object(py)).collect()
    }

    /// Do the same as `get_batch`, and return each key's priority, too.
    #[pyo3(signature = (max_items, timeout=None))]
    fn get_batch_with_priority(
        &self,
        py: Python<'_>,
        max_items: i64,
        #[pyo3(from_py_with = timeout)] timeout: Option<Duration>,
    ) -> PyResult<Vec<(Py<PyAny>, i32)>> {
        let taken = self.take_batch(py, max_items, timeout)?.into_iter();
        taken
            .map(|(key, taken)| Ok((key.into_object(py)?, taken.priority)))
            .collect()
    }

    /// End the work on a key; it is queued again if it was added meanwhile. Does nothing for a key not in progress.
    fn done(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        // A single worker gives back what `get` has just returned: its content is not read again.
        let last = self
            .shared
            .locked(py, |queue| queue.done_last(|known| known.is_object(key)))?;
        if last.is_some() {
            return Ok(());
        }
        let mut buffer = KeyBuffer::new();
        let probe = Probe::new(key, &mut buffer)?;
        // The returned key is dropped after the lock is free.
        self.shared.locked(py, |queue| queue.done(&probe)).map(drop)
    }

    /// End the work on all these keys, under one lock. An invalid key raises TypeError, and no work is ended.
    fn done_many(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<()> {
        let keys = Batch::read(keys)?;
        let mut unused = Vec::with_capacity(keys.objects.len());
        self.shared.locked(py, |queue| {
            keys.for_each(|_, probe| unused.extend(queue.done(&probe)));
        })
    }

    /// Reset the rate limiter for a key that succeeded or was given up; its next failure starts afresh.
    ///
    /// A delayed add that is pending stays.
    fn forget(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let queue = self.shared.queue()?;
        let no_back_off =
            !queue.may_back_off() || self.shared.locked(py, |queue| queue.no_back_off())?;
        let limiter = queue.limiter();
        if no_back_off && limiter.forgets_nothing() && is_simple(key, 0) {
            return Ok(());
        }
        let mut buffer = KeyBuffer::new();
        let probe = Probe::new(key, &mut buffer)?;
        limiter.forget(&probe).map_err(into_py_err)?;
        self.shared.locked(py, |queue| queue.end_back_off(&probe))
    }

    /// Return how often a key was added rate-limited since it was last forgotten.
    fn num_requeues(&self, key: &Bound<'_, PyAny>) -> PyResult<u64> {
        self.shared
            .queue()?
            .limiter()
            .num_requeues(&Probe::new(key, &mut KeyBuffer::new())?)
            .map_err(into_py_err)
    }

    /// Return the number of queued keys, without those in progress, delayed, or added again while in progress.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.shared.locked(py, |queue| queue.len())
    }

    /// Return the queued, processing and delayed keys with their times, all of one instant.
    ///
    /// Other threads run meanwhile, except for some milliseconds in a queue of 100,000 keys; `summary` takes less.
    fn snapshot(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(self.first(py, usize::MAX)?.1)
    }

    /// Return the numbers of queued, processing and delayed keys, and a snapshot of the first `limit` keys of each part.
    ///
    /// Raises ValueError for a negative limit.
    #[pyo3(signature = (limit=100))]
    fn summary(&self, py: Python<'_>, limit: i64) -> PyResult<Py<PyAny>> {
        let limit = usize::try_from(limit).map_err(|_| {
            PyValueError::new_err(format!("limit must not be negative, got {limit}"))
        })?;
        let (counts, first) = self.first(py, limit)?;
        snapshot::summary(py, counts, first)
    }

    /// Return the next keys of a part after those of another page, at most `limit`, without a look at the whole part.
    ///
    /// `part` is "queued", "processing" or "delayed"; `after` is the `next` of that page. Raises ValueError for others.
    #[pyo3(signature = (part, limit=100, after=None))]
    fn page(
        &self,
        py: Python<'_>,
        part: &str,
        limit: usize,
        after: Option<&str>,
    ) -> PyResult<Py<PyAny>> {
        let part = page::part(part)?;
        let after = after.map(page::cursor).transpose()?;
        let (keys, next) = self.shared.locked(py, |queue| {
            queue.page(part, after, limit, |key| key.show(py))
        })?;
        page::page(py, part, keys, next, self.shared.queue()?.limiter())
    }

    /// Return where a key is: in which parts, and how many keys are handed out before it.
    fn look(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let mut buffer = KeyBuffer::new();
        let probe = Probe::new(key, &mut buffer)?;
        let known = self
            .shared
            .locked(py, |queue| queue.look(&probe, |key| key.show(py)))?;
        page::known(py, known, self.shared.queue()?.limiter())
    }

    /// Return the seconds that a key was queued before it was handed out; 0 for one that is not in progress.
    fn waited(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<f64> {
        let mut buffer = KeyBuffer::new();
        let probe = Probe::new(key, &mut buffer)?;
        let waited = self.shared.locked(py, |queue| queue.waited(&probe))?;
        Ok(waited.as_secs_f64())
    }

    /// Record the changes of objects that add this `Request` from now on, for `take_causes`.
    fn record_causes(&self, request: Requested) {
        self.shared.causes.record(request.owned());
    }

    /// Stop recording the changes that add this `Request`.
    fn forget_causes(&self, request: Requested) {
        self.shared.causes.forget(&request.owned());
    }

    /// Return the recorded changes since the last call, oldest first, as pairs of uid and resource version.
    ///
    /// The version of a deletion is empty. Of more than 64 changes some are dropped; the first pair is empty then.
    fn take_causes(&self, request: Requested) -> Vec<(String, String)> {
        let causes = self.shared.causes.take(&request.owned()).into_iter();
        causes
            .map(|cause| (cause.uid, cause.resource_version))
            .collect()
    }

    /// Stop accepting keys. Queued keys are still handed out, delayed keys are dropped, later adds are ignored.
    ///
    /// Wakes all waiters; a running drain gives up. The second call also ends getters that wait for a key whose worker
    /// still holds it, such as one that never returns.
    fn shut_down(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.locked(py, |queue| queue.shut_down()).map(drop)
    }

    /// Stop accepting keys and wait until nothing is queued or in progress.
    ///
    /// Returns False if `timeout` seconds passed before, or `shut_down` was called meanwhile.
    #[pyo3(signature = (timeout=None))]
    fn shut_down_with_drain(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = timeout)] timeout: Option<Duration>,
    ) -> PyResult<bool> {
        self.drain(py, timeout)
    }

    /// Whether the queue is shut down or draining.
    #[getter]
    fn shutting_down(&self, py: Python<'_>) -> PyResult<bool> {
        self.shared.locked(py, |queue| queue.shutting_down())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.name)?;
        self.shared.traverse(&visit)
    }

    // Keys are immutable: the cycles that they are in are cut at a dictionary.
    fn __clear__(&self) {
        self.shared.keeps.clear();
    }
}

impl WorkQueue {
    /// Return the numbers of all keys, and a snapshot of the first ones.
    fn first(&self, py: Python<'_>, limit: usize) -> PyResult<(Counts, Py<PyAny>)> {
        let snapshot = self
            .shared
            .locked(py, |queue| queue.snapshot(limit, |key| key.show(py)))?;
        let counts = snapshot.counts;
        let entries = snapshot::snapshot(py, snapshot, self.shared.queue()?.limiter())?;
        Ok((counts, entries))
    }
}

/// The name, namespace and cluster of a `Request`.
#[derive(FromPyObject)]
struct Requested(String, String, String);

impl Requested {
    fn owned(self) -> OwnedRequest {
        let Self(name, namespace, cluster) = self;
        OwnedRequest {
            name,
            namespace,
            cluster,
        }
    }
}

/// Read a priority: an `int` of 32 bits, or None.
fn priority(value: &Bound<'_, PyAny>) -> PyResult<Option<i32>> {
    if value.is_none() {
        return Ok(None);
    }
    if !value.is_instance_of::<PyInt>() || value.is_instance_of::<PyBool>() {
        let kind = value.get_type().name()?;
        let message = format!("priority must be an int, got {kind}");
        return Err(PyTypeError::new_err(message));
    }
    value
        .extract()
        .map(Some)
        .map_err(|_| PyOverflowError::new_err("priority must be from -2147483648 to 2147483647"))
}
