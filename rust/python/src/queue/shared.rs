//! What a Python queue and the handlers that feed it own together.

use std::sync::Arc;

use ctrlhost_core::clock::{SystemClock, seconds};
use ctrlhost_core::handlers::{RequestRef, RequestSink};
use ctrlhost_core::queue::{Locked, Options, WorkQueue};
use ctrlhost_core::ratelimit::ItemExponentialFailureRateLimiter;
use pyo3::prelude::*;

use super::groups::FairBy;
use super::metrics;
use crate::clock::{core_clock, not_negative};
use crate::interpreter;
use crate::key::Key;
use crate::ratelimit::core_limiter;

/// How often a lock is tried before the interpreter is given to somebody else. It is held for some tens of nanoseconds.
const TRIES: usize = 40;

pub(crate) struct Shared {
    pub(crate) queue: Arc<WorkQueue<Key>>,
    pub(crate) fair_by: FairBy,
    /// How often the process had forked when the queue was made.
    generation: usize,
}

impl Shared {
    /// Makes a queue of what its constructor is given; `label` is its name in metrics, empty for none.
    pub(crate) fn make(
        label: &str,
        rate_limiter: Option<&Bound<'_, PyAny>>,
        clock: Option<&Bound<'_, PyAny>>,
        fair_by: Option<&Bound<'_, PyAny>>,
        aging: Option<f64>,
    ) -> PyResult<Self> {
        let fair_by = FairBy::new(fair_by)?;
        let aging = aging
            .map(|aging| not_negative("aging", aging).map(seconds))
            .transpose()?;
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

    /// Refuses a queue of the process that this one was forked from: its lock may be held by a thread that is not here.
    #[inline]
    pub(super) fn check(&self) -> PyResult<()> {
        if self.generation != interpreter::generation() {
            return Err(interpreter::forked());
        }
        Ok(())
    }

    /// Does `operation` with the lock, without ever waiting for it while attached to the interpreter.
    ///
    /// `operation` runs once, attached, and may do no more to Python than count references up.
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
            // Whoever holds it is not stopped by us; when it is free, it may be taken again before we are back.
            py.detach(|| drop(self.queue.lock()));
        }
    }

    /// What the plug-in's callable makes of a request; a failure is reported, and the request joins the group "".
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
