//! Waits for keys and for the end of work on them; signals are handled meanwhile.
#![expect(
    clippy::redundant_closure_for_method_calls,
    reason = "the method alone is not general enough"
)]

use std::time::{Duration, Instant};

use ctrlhost_core::clock::Tick;
use ctrlhost_core::queue::{Drained, QueueGuard, Taken, Woken};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::WorkQueue;
use crate::interpreter::{self, SLICE};
use crate::key::{Key, Shown};

impl WorkQueue {
    /// Call `take` until it returns something, and wait for a key in between.
    pub(super) fn wait<R>(
        &self,
        py: Python<'_>,
        timeout: Option<Duration>,
        mut take: impl FnMut(&mut QueueGuard<'_, Key>) -> Option<R>,
    ) -> PyResult<R> {
        let mut deadline: Option<Option<Tick>> = None;
        let mut limit: Option<Duration> = None;
        loop {
            let (taken, over) = self.shared.locked(py, |queue| {
                let taken = take(queue);
                let over = taken.is_none() && queue.is_over();
                (taken, over)
            })?;
            if let Some(taken) = taken {
                return Ok(taken);
            }
            if over {
                return Err(interpreter::shut_down(py));
            }
            if timeout == Some(Duration::ZERO) {
                return Err(interpreter::empty(py));
            }
            let queue = self.shared.queue()?;
            let deadline = *match &mut deadline {
                Some(deadline) => deadline,
                none => {
                    // Only a thread that has to wait pays for the clock and for this check.
                    limit = interpreter::in_main_thread(py)?.then_some(SLICE);
                    none.insert(timeout.map(|timeout| queue.deadline(timeout)))
                }
            };
            let woken = interpreter::detach(py, || queue.wait_ready(deadline, limit));
            if limit.is_some()
                && let Err(raised) = py.check_signals()
            {
                // This thread may have been woken for a key; another thread has to take it now.
                self.shared.locked(py, |queue| queue.pass_on())?;
                return Err(raised);
            }
            if woken == Woken::TimedOut {
                return Err(interpreter::empty(py));
            }
        }
    }

    /// Stop accepting keys and wait until nothing is queued or in progress, or another thread shuts down at once.
    pub(super) fn drain(&self, py: Python<'_>, timeout: Option<Duration>) -> PyResult<bool> {
        let queue = self.shared.queue()?;
        let deadline = timeout.map(|timeout| queue.deadline(timeout));
        let (token, unused) = interpreter::detach(py, || queue.begin_drain());
        drop(unused);
        let limit = interpreter::in_main_thread(py)?.then_some(SLICE);
        loop {
            match interpreter::detach(py, || queue.wait_drained(token, deadline, limit)) {
                Drained::Empty => return Ok(true),
                Drained::Forced | Drained::TimedOut => return Ok(false),
                Drained::Limit => py.check_signals()?,
            }
        }
    }

    /// Take the queued keys, at most `max_items`; wait only if there are none.
    pub(super) fn take_batch(
        &self,
        py: Python<'_>,
        max_items: i64,
        timeout: Option<Duration>,
    ) -> PyResult<Vec<(Shown, Taken)>> {
        let max = usize::try_from(max_items)
            .ok()
            .filter(|&max| max > 0)
            .ok_or_else(|| {
                PyValueError::new_err(format!("max_items must be at least 1, got {max_items}"))
            })?;
        self.wait(py, timeout, |queue| {
            let mut batch: Vec<(Shown, Taken)> = Vec::with_capacity(queue.len().min(max));
            while batch.len() < max {
                match queue.take(|key| key.show(py)) {
                    Some(taken) => batch.push(taken),
                    None => break,
                }
            }
            Some(batch).filter(|batch| !batch.is_empty())
        })
    }
}

/// Call `step`, which waits until the given instant, until it returns something; return None after `timeout`.
///
/// Signals, which do not end a wait by themselves, are handled in between.
pub(crate) fn wait_in_slices<R: Send>(
    py: Python<'_>,
    timeout: Option<Duration>,
    step: impl Fn(Instant) -> Option<R> + Sync,
) -> PyResult<Option<R>> {
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    loop {
        let slice = Instant::now() + SLICE;
        let end = deadline.map_or(slice, |deadline| deadline.min(slice));
        let answer = interpreter::detach(py, || step(end));
        if answer.is_some() || deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            return Ok(answer);
        }
        py.check_signals()?;
    }
}
