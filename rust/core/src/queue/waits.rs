//! Waiting: for a key, and for a drain to end.

use std::sync::Arc;
use std::time::Duration;

use super::ops::Locked;
use super::waiters::Sleeper;
use super::{Taken, WorkQueue};
use crate::clock::Tick;
use crate::key::QueueKey;
use crate::sync::{Condvar, sleep};

/// Why a wait for a key ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// There was a key in line. Somebody else may take it first.
    Ready,
    /// No key will ever be handed out again.
    Over,
    /// The deadline came.
    TimedOut,
    /// The real-time limit came; the caller has something else to look after.
    Limit,
}

/// Why a wait for a drain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// Nothing is in line and nothing is processed.
    Empty,
    /// `shut_down` was called meanwhile.
    Forced,
    /// The deadline came.
    TimedOut,
    /// The real-time limit came; the caller has something else to look after.
    Limit,
}

impl<K: QueueKey> WorkQueue<K> {
    /// The point on the queue's clock that is `timeout` from now.
    pub fn deadline(&self, timeout: Duration) -> Tick {
        self.clock.now().after(timeout)
    }

    /// Waits until a key is in line, without taking it.
    ///
    /// `limit` bounds the sleep in real time, whatever the clock is.
    pub fn wait_ready(&self, deadline: Option<Tick>, limit: Option<Duration>) -> Woken {
        self.lock().wait_ready(deadline, limit)
    }

    /// Waits for a key and takes it: what `show` makes of it, under the lock.
    ///
    /// # Errors
    /// Says whether the deadline came or the queue is over.
    pub fn get<R>(
        &self,
        deadline: Option<Tick>,
        show: impl Fn(&K) -> R,
    ) -> Result<(R, Taken), Woken> {
        let mut locked = self.lock();
        loop {
            if let Some(taken) = locked.take(&show) {
                return Ok(taken);
            }
            match locked.wait_ready(deadline, None) {
                Woken::Ready => {}
                other => return Err(other),
            }
        }
    }

    /// Ends the intake and begins to wait until nothing is in line or processed; [`Self::wait_drained`] goes on.
    ///
    /// Gives a token for the wait, and keys to be dropped.
    pub fn begin_drain(&self) -> (u64, Vec<K>) {
        let mut locked = self.lock();
        locked.tick();
        let unused = if locked.state.shutting_down {
            Vec::new()
        } else {
            locked.state.shut_down()
        };
        (locked.state.forced, unused)
    }

    /// Waits until nothing is in line or processed.
    pub fn wait_drained(
        &self,
        token: u64,
        deadline: Option<Tick>,
        limit: Option<Duration>,
    ) -> Drained {
        let mut locked = self.lock();
        let started = std::time::Instant::now();
        loop {
            if locked.state.is_drained() {
                return Drained::Empty;
            }
            if locked.state.forced != token {
                return Drained::Forced;
            }
            let now = self.clock.now();
            if deadline.is_some_and(|deadline| deadline <= now) {
                return Drained::TimedOut;
            }
            if limit.is_some_and(|limit| started.elapsed() >= limit) {
                return Drained::Limit;
            }
            locked.state.drainers += 1;
            locked.sleep(&self.drained, deadline, limit);
            locked.state.drainers -= 1;
        }
    }
}

impl<K: QueueKey> Locked<'_, K> {
    fn wait_ready(&mut self, deadline: Option<Tick>, limit: Option<Duration>) -> Woken {
        let sleeper = Arc::new(Sleeper::default());
        let mut slept = false;
        let woken = loop {
            let now = self.exact_tick();
            if self.state.ready.len() > 0 {
                break Woken::Ready;
            }
            if self.state.is_over() {
                break Woken::Over;
            }
            if deadline.is_some_and(|deadline| deadline <= now) {
                break Woken::TimedOut;
            }
            if slept && limit.is_some() {
                // Perhaps woken before the limit; the caller then looks at its other things a little early.
                break Woken::Limit;
            }
            let due = self.state.delays.next_due();
            let minds_time = self.state.sleepers.enter(&sleeper, due.is_some());
            let until = if minds_time {
                earlier(deadline, due)
            } else {
                deadline
            };
            self.sleep(&sleeper.condvar, until, limit);
            self.state.sleepers.leave(&sleeper);
            slept = true;
        };
        if slept && !self.state.delays.is_empty() {
            self.state.sleepers.replace_timekeeper();
        }
        woken
    }

    /// Sleeps on the queue's clock; wake-ups without a reason happen.
    fn sleep(&mut self, condvar: &Condvar, until: Option<Tick>, limit: Option<Duration>) {
        let clock = &self.queue.clock;
        let real = until.and_then(|until| clock.real_wait(until));
        let limit = earlier(real, limit);
        // Under the lock that the sleep gives up: whoever sees a sleeper and steps the clock finds it asleep.
        clock.begin_wait();
        sleep(condvar, &mut self.state, limit);
        clock.end_wait();
        self.now = None;
    }
}

fn earlier<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    one.into_iter().chain(other).min()
}
