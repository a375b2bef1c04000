//! Threads that wait for a key.
//!
//! Each waits on its own condition variable, so that one new key wakes one thread. One of them, the timekeeper, waits
//! no longer than until the next delayed add is due; that is why a queue needs no thread.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::sync::Condvar;

/// One waiting thread.
#[derive(Default)]
pub(super) struct Waiter {
    pub(super) condvar: Condvar,
    /// Set when it was woken for a key; accessed under the queue's lock only.
    woken: AtomicBool,
}

/// The waiting threads, the longest waiting one first.
#[derive(Default)]
pub(super) struct Waiters {
    all: VecDeque<Arc<Waiter>>,
    timekeeper: Option<Arc<Waiter>>,
}

impl Waiters {
    /// Wake one thread for one key. It no longer counts as waiting.
    #[inline]
    pub(super) fn wake_one(&mut self) {
        if let Some(waiter) = self.all.pop_front() {
            waiter.woken.store(true, Ordering::Relaxed);
            waiter.condvar.notify_one();
        }
    }

    /// Wake all threads for good.
    pub(super) fn wake_all(&mut self) {
        while !self.all.is_empty() {
            self.wake_one();
        }
    }

    /// Wake all threads to check the time and the queue.
    pub(super) fn notify_all_waiting(&self) {
        for waiter in &self.all {
            waiter.condvar.notify_one();
        }
    }

    /// Wake the timekeeper, or a thread to become it: the next delayed add is due at another time.
    pub(super) fn wake_timekeeper(&self) {
        if let Some(waiter) = self.timekeeper.as_ref().or(self.all.front()) {
            waiter.condvar.notify_one();
        }
    }

    /// Add a waiting thread. Return whether it is the timekeeper, which it becomes if `timed` and there is none.
    pub(super) fn enter(&mut self, waiter: &Arc<Waiter>, timed: bool) -> bool {
        waiter.woken.store(false, Ordering::Relaxed);
        self.all.push_back(Arc::clone(waiter));
        if timed && self.timekeeper.is_none() {
            self.timekeeper = Some(Arc::clone(waiter));
            return true;
        }
        false
    }

    /// Remove a thread that woke up, for whatever reason.
    pub(super) fn leave(&mut self, waiter: &Arc<Waiter>) {
        if !waiter.woken.load(Ordering::Relaxed) {
            self.all.retain(|other| !Arc::ptr_eq(other, waiter));
        }
        if self
            .timekeeper
            .as_ref()
            .is_some_and(|keeper| Arc::ptr_eq(keeper, waiter))
        {
            self.timekeeper = None;
        }
    }

    /// Find another timekeeper when the last one has left.
    pub(super) fn replace_timekeeper(&self) {
        if self.timekeeper.is_none() {
            self.wake_timekeeper();
        }
    }
}
