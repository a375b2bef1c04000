//! The part of a queue that its Python object and the handlers that feed it share.

use std::sync::Arc;

use ctrlhost_core::clock::SystemClock;
use ctrlhost_core::handlers::{RequestRef, RequestSink};
use ctrlhost_core::queue::{Locked, Options, WorkQueue};
use ctrlhost_core::ratelimit::ItemExponentialFailureRateLimiter;
use pyo3::prelude::*;

use super::groups::FairBy;
use super::metrics;
use crate::clock::{core_clock, duration};
use crate::interpreter;
use crate::key::Key;
use crate::ratelimit::core_limiter;

/// How often a lock is tried before the GIL is released. The lock is held for some tens of nanoseconds.
const TRIES: usize = 40;

pub(crate) struct Shared {
    pub(crate) queue: Arc<WorkQueue<Key>>,
    pub(crate) fair_by: FairBy,
    /// How often the process had forked when the queue was created.
    generation: usize,
}

impl Shared {
    /// Make a queue from its constructor's arguments; `label` is its name in metrics, empty for none.
    pub(crate) fn make(
        label: &str,
        rate_limiter: Option<&Bound<'_, PyAny>>,
        clock: Option<&Bound<'_, PyAny>>,
        fair_by: Option<&Bound<'_, PyAny>>,
        aging: Option<f64>,
    ) -> PyResult<Self> {
        let fair_by = FairBy::new(fair_by)?;
        let aging = aging.map(|aging| duration("aging", aging)).transpose()?;
        let limiter = rate_limiter.map(core_limiter).transpose()?;
        let limiter =
            limiter.unwrap_or_else(|| Arc::new(ItemExponentialFailureRateLimiter::default()));
        let clock = clock.map_or_else(|| Ok(Arc::new(SystemClock) as _), core_clock)?;
        let options = Options {
            metrics: !label.is_empty(),
            fair: fair_by.is_fair(),
            aging,
        };
        let queue = WorkQueue::new(&options, clock, limiter);
        if options.metrics {
            metrics::register(label, &queue);
        }
        Ok(Self {
            queue,
            fair_by,
            generation: interpreter::generation(),
        })
    }

    /// Refuse a queue of the parent of a forked process: its lock may be held by a thread that does not exist here.
    #[inline]
    pub(super) fn check(&self) -> PyResult<()> {
        if self.generation != interpreter::generation() {
            return Err(interpreter::forked());
        }
        Ok(())
    }

    /// Run `operation` with the lock, without ever waiting for the lock while attached to the interpreter.
    ///
    /// `operation` runs once, attached, and may not use Python except to increment reference counts.
    #[inline]
    pub(crate) fn locked<R>(
        &self,
        py: Python<'_>,
        operation: impl FnOnce(&mut Locked<'_, Key>) -> R,
    ) -> PyResult<R> {
        self.check()?;
        let locked = self.queue.try_lock();
        let mut locked = locked.unwrap_or_else(|| self.contended(py));
        Ok(operation(&mut locked))
    }

    #[cold]
    fn contended(&self, py: Python<'_>) -> Locked<'_, Key> {
        loop {
            for _ in 0..TRIES {
                if let Some(locked) = self.queue.try_lock() {
                    return locked;
                }
                std::hint::spin_loop();
            }
            // Detached, so that the holder can continue. Once free, the lock may be taken again before we are attached.
            py.detach(|| drop(self.queue.lock()));
        }
    }

    /// Return the group that the plug-in's callable gives a request; on failure report it and return "".
    fn group(&self, py: Python<'_>, request: &RequestRef<'_>) -> String {
        let key = Key::of_request(request).to_object(py);
        let group = key.and_then(|key| {
            let key = key.into_bound(py);
            self.fair_by.group(&key).map(std::borrow::Cow::into_owned)
        });
        group.unwrap_or_else(|error| {
            error.write_unraisable(py, None);
            String::new()
        })
    }
}

impl RequestSink for Shared {
    fn add_requests(&self, requests: &[RequestRef<'_>], priority: Option<i32>) {
        let groups = match &self.fair_by {
            FairBy::Off | FairBy::Namespace => Vec::new(),
            FairBy::Callable(_) => Python::attach(|py| {
                requests
                    .iter()
                    .map(|request| self.group(py, request))
                    .collect()
            }),
        };
        let keys: Vec<Key> = requests.iter().map(Key::of_request).collect();
        let mut unused = Vec::new();
        let mut queue = self.queue.lock();
        for (place, key) in keys.into_iter().enumerate() {
            let group = groups
                .get(place)
                .map_or(requests[place].namespace, String::as_str);
            unused.extend(queue.add(key, priority, group));
        }
        drop(queue);
    }
}
