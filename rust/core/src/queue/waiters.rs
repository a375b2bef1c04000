//! Threads that wait for a key.
//!
//! Each sleeps on a condition variable of its own, so that one new key wakes one thread. Of all of them one, the
//! timekeeper, sleeps no longer than until the next delayed add is due; that is why a queue needs no thread.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::sync::Condvar;

/// One thread that waits.
#[derive(Default)]
pub(super) struct Sleeper {
    pub(super) condvar: Condvar,
    /// Set when it was called for a key; touched under the queue's lock only.
    called: AtomicBool,
}

/// The threads that wait, the longest waiting first.
#[derive(Default)]
pub(super) struct Sleepers {
    waiting: VecDeque<Arc<Sleeper>>,
    timekeeper: Option<Arc<Sleeper>>,
}

impl Sleepers {
    /// Wakes one thread for one key. It is not asleep any more for the next key.
    #[inline]
    pub(super) fn call_one(&mut self) {
        if let Some(sleeper) = self.waiting.pop_front() {
            sleeper.called.store(true, Ordering::Relaxed);
            sleeper.condvar.notify_one();
        }
    }

    /// Wakes everybody for good.
    pub(super) fn call_all(&mut self) {
        while !self.waiting.is_empty() {
            self.call_one();
        }
    }

    /// Makes everybody look at the time and at the queue.
    pub(super) fn poke_all(&self) {
        for sleeper in &self.waiting {
            sleeper.condvar.notify_one();
        }
    }

    /// The next delayed add is due at another time: whoever minds the time must look, or somebody must begin to.
    pub(super) fn call_timekeeper(&self) {
        if let Some(sleeper) = self.timekeeper.as_ref().or(self.waiting.front()) {
            sleeper.condvar.notify_one();
        }
    }

    /// The thread goes to sleep. Tells whether it is the timekeeper, which it becomes if `timed` and there is none.
    pub(super) fn enter(&mut self, sleeper: &Arc<Sleeper>, timed: bool) -> bool {
        sleeper.called.store(false, Ordering::Relaxed);
        self.waiting.push_back(Arc::clone(sleeper));
        if timed && self.timekeeper.is_none() {
            self.timekeeper = Some(Arc::clone(sleeper));
            return true;
        }
        false
    }

    /// The thread woke up, for whatever reason.
    pub(super) fn leave(&mut self, sleeper: &Arc<Sleeper>) {
        if !sleeper.called.load(Ordering::Relaxed) {
            self.waiting.retain(|other| !Arc::ptr_eq(other, sleeper));
        }
        if self
            .timekeeper
            .as_ref()
            .is_some_and(|keeper| Arc::ptr_eq(keeper, sleeper))
        {
            self.timekeeper = None;
        }
    }

    /// Finds another timekeeper when the last one has gone.
    pub(super) fn replace_timekeeper(&self) {
        if self.timekeeper.is_none() {
            self.call_timekeeper();
        }
    }
}
