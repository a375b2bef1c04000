//! Waiting for a key, and for the end of a drain.

use std::sync::Arc;
use std::time::Duration;

use super::ops::QueueGuard;
use super::waiters::Waiter;
use super::{Taken, WorkQueue};
use crate::clock::Tick;
use crate::key::QueueKey;
use crate::sync::{Condvar, wait};

/// Why a wait for a key ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// A key was queued. Another thread may take it first.
    Ready,
    /// There is nothing to wait for after a shutdown.
    Over,
    /// The deadline passed.
    TimedOut,
    /// The real-time limit passed; the caller has other things to check.
    Limit,
}

/// Why a wait for a drain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// Nothing is queued and nothing is processed.
    Empty,
    /// `shut_down` was called meanwhile.
    Forced,
    /// The deadline passed.
    TimedOut,
    /// The real-time limit passed; the caller has other things to check.
    Limit,
}

impl<K: QueueKey> WorkQueue<K> {
    /// Return the point on the queue's clock that is `timeout` from now.
    pub fn deadline(&self, timeout: Duration) -> Tick {
        self.clock.now().after(timeout)
    }

    /// Wait until a key is queued, without taking it.
    ///
    /// `limit` bounds the wait in real time, whatever the clock is.
    pub fn wait_ready(&self, deadline: Option<Tick>, limit: Option<Duration>) -> Woken {
        self.lock().wait_ready(deadline, limit)
    }

    /// Wait for a key and take it: the result of `show`, called under the lock.
    ///
    /// # Errors
    /// The deadline passed, or no key will ever come.
    pub fn get<R>(
        &self,
        deadline: Option<Tick>,
        show: impl Fn(&K) -> R,
    ) -> Result<(R, Taken), Woken> {
        let mut guard = self.lock();
        loop {
            if let Some(taken) = guard.take(&show) {
                return Ok(taken);
            }
            match guard.wait_ready(deadline, None) {
                Woken::Ready => {}
                other => return Err(other),
            }
        }
    }

    /// Stop the intake, for a wait until nothing is queued or processed; see [`Self::wait_drained`].
    ///
    /// Return a token for the wait, and keys to be dropped.
    pub fn begin_drain(&self) -> (u64, Vec<K>) {
        let mut guard = self.lock();
        guard.tick();
        let unused = if guard.state.shutting_down {
            Vec::new()
        } else {
            guard.stop_intake()
        };
        (guard.state.shut_down_calls, unused)
    }

    /// Wait until nothing is queued or processed.
    pub fn wait_drained(
        &self,
        token: u64,
        deadline: Option<Tick>,
        limit: Option<Duration>,
    ) -> Drained {
        let mut guard = self.lock();
        let started = std::time::Instant::now();
        loop {
            if guard.is_drained() {
                return Drained::Empty;
            }
            if guard.state.shut_down_calls != token {
                return Drained::Forced;
            }
            let now = self.clock.now();
            if deadline.is_some_and(|deadline| deadline <= now) {
                return Drained::TimedOut;
            }
            if limit.is_some_and(|limit| started.elapsed() >= limit) {
                return Drained::Limit;
            }
            guard.state.drains += 1;
            guard.wait(&self.drained, deadline, limit);
            guard.state.drains -= 1;
        }
    }
}

impl<K: QueueKey> QueueGuard<'_, K> {
    fn wait_ready(&mut self, deadline: Option<Tick>, limit: Option<Duration>) -> Woken {
        let waiter = Arc::new(Waiter::default());
        let mut woke = false;
        let woken = loop {
            let now = self.exact_tick();
            if self.state.ready.len() > 0 {
                break Woken::Ready;
            }
            if self.is_over() {
                break Woken::Over;
            }
            if deadline.is_some_and(|deadline| deadline <= now) {
                break Woken::TimedOut;
            }
            if woke && limit.is_some() {
                // Perhaps woken before the limit; the caller then checks its other things a little early.
                break Woken::Limit;
            }
            let due = self.state.delays.next_due();
            let keeps_time = self.state.waiters.enter(&waiter, due.is_some());
            let until = if keeps_time {
                earlier(deadline, due)
            } else {
                deadline
            };
            self.wait(&waiter.condvar, until, limit);
            self.state.waiters.leave(&waiter);
            woke = true;
        };
        if woke && !self.state.delays.is_empty() {
            self.state.waiters.replace_timekeeper();
        }
        woken
    }

    /// Wait on the queue's clock; spurious wake-ups happen.
    fn wait(&mut self, condvar: &Condvar, until: Option<Tick>, limit: Option<Duration>) {
        let clock = &self.queue.clock;
        let real = until.and_then(|until| clock.real_wait(until));
        let limit = earlier(real, limit);
        // Under the lock that the wait releases: a step of the clock wakes every thread that counts as waiting.
        clock.begin_wait();
        wait(condvar, &mut self.state, limit);
        clock.end_wait();
        self.now = None;
    }
}

fn earlier<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    one.into_iter().chain(other).min()
}
