//! Waiting for a key, with an eye on signals.
#![expect(
    clippy::redundant_closure_for_method_calls,
    reason = "the method alone is not general enough"
)]

use std::time::Duration;

use ctrlhost_core::clock::Tick;
use ctrlhost_core::queue::{Locked, Woken};
use pyo3::prelude::*;

use crate::interpreter::{self, SLICE};
use crate::key::Key;
use crate::queue::WorkQueue;
use crate::queue_arguments::{Seconds, timeout};

impl WorkQueue {
    /// Does `take` until it gives something, and waits for a key in between.
    pub(crate) fn wait<R>(
        &self,
        py: Python<'_>,
        given: Option<Seconds>,
        mut take: impl FnMut(&mut Locked<'_, Key>) -> Option<R>,
    ) -> PyResult<R> {
        let timeout = timeout(given)?;
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
            let queue = &self.shared.queue;
            let deadline = *match &mut deadline {
                Some(deadline) => deadline,
                none => {
                    // Only a thread that has to wait pays for the clock and for this question.
                    limit = interpreter::in_main_thread(py)?.then_some(SLICE);
                    none.insert(timeout.map(|timeout| queue.deadline(timeout)))
                }
            };
            let woken = py.detach(|| queue.wait_ready(deadline, limit));
            if limit.is_some()
                && let Err(raised) = py.check_signals()
            {
                // The key that this thread may have been called for is somebody else's now.
                self.shared.locked(py, |queue| queue.pass_on())?;
                return Err(raised);
            }
            if woken == Woken::TimedOut {
                return Err(interpreter::empty(py));
            }
        }
    }
}
