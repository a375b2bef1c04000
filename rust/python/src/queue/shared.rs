//! The part of a queue that its Python object and the handlers that feed it share.

use std::sync::Arc;

use ctrlhost_core::clock::SystemClock;
use ctrlhost_core::handlers::{Causes, RequestRef, RequestSink};
use ctrlhost_core::queue::{Options, QueueGuard, WorkQueue};
use ctrlhost_core::ratelimit::ItemExponentialFailureRateLimiter;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

use super::groups::FairBy;
use super::metrics;
use crate::clock::{Seconds, core_clock, duration};
use crate::interpreter::{self, Local};
use crate::kept::Keeps;
use crate::key::{self, Key};
use crate::ratelimit::core_limiter;

pub(crate) struct Shared {
    queue: Local<Arc<WorkQueue<Key>>>,
    pub(crate) fair_by: FairBy,
    /// The changes that added chosen requests.
    pub(super) causes: Causes,
    /// The limiter and the callable of `fair_by`.
    pub(super) keeps: Keeps,
}

impl Shared {
    /// Make a queue from its constructor's arguments; `label` is its name in metrics, empty for none.
    pub(crate) fn make(
        label: &str,
        rate_limiter: Option<&Bound<'_, PyAny>>,
        clock: Option<&Bound<'_, PyAny>>,
        fair_by: Option<&Bound<'_, PyAny>>,
        aging: Option<Seconds>,
    ) -> PyResult<Self> {
        let keeps = Keeps::default();
        let fair_by = FairBy::new(fair_by, &keeps)?;
        let aging = aging.map(|aging| duration("aging", aging.0)).transpose()?;
        let limiter = rate_limiter
            .map(|limiter| core_limiter(limiter, &keeps))
            .transpose()?;
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
            queue: Local::new(queue),
            fair_by,
            causes: Causes::default(),
            keeps,
        })
    }

    /// Return the queue, unless it is that of the parent of a forked process.
    #[inline]
    pub(crate) fn queue(&self) -> PyResult<&Arc<WorkQueue<Key>>> {
        self.queue.get()
    }

    /// Run `operation` with the lock, without ever waiting for the lock while attached to the interpreter.
    ///
    /// `operation` runs once, attached, and may not use Python except to increment reference counts.
    #[inline]
    pub(crate) fn locked<R>(
        &self,
        _: Python<'_>,
        operation: impl FnOnce(&mut QueueGuard<'_, Key>) -> R,
    ) -> PyResult<R> {
        let queue = self.queue()?;
        Ok(operation(&mut queue.lock()))
    }

    /// Show the collector what the queue keeps, including keys that may refer back to it.
    ///
    /// This waits for the lock instead of trying: a key that is visited in one pass of the collector and not in the
    /// next would be taken for garbage. Nobody who has the lock waits for the interpreter.
    pub(super) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.keeps.traverse(visit)?;
        // After a fork the lock may never be free.
        let Some(queue) = self.queue().ok().filter(|_| key::any_subclass()) else {
            return Ok(());
        };
        interpreter::collecting(|| {
            let queue = queue.lock();
            queue.keys().try_for_each(|key| key.traverse(visit))
        })
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
        // Handlers refuse queues that were made before a fork.
        let Ok(queue) = self.queue() else { return };
        let groups = match &self.fair_by {
            FairBy::Off | FairBy::Namespace => Vec::new(),
            FairBy::Callable(_) => interpreter::attach(|py| {
                requests
                    .iter()
                    .map(|request| self.group(py, request))
                    .collect()
            }),
        };
        let keys: Vec<Key> = requests.iter().map(Key::of_request).collect();
        let mut unused = Vec::new();
        let mut queue = queue.lock();
        for (place, key) in keys.into_iter().enumerate() {
            let group = groups
                .get(place)
                .map_or(requests[place].namespace, String::as_str);
            unused.extend(queue.add(key, priority, group));
        }
        drop(queue);
    }

    fn is_native(&self) -> bool {
        self.fair_by.is_native()
    }

    fn causes(&self) -> Option<&Causes> {
        Some(&self.causes)
    }
}
