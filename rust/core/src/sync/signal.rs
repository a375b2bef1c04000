//! A signal: wakes a thread that waits for it, and one that waits later.

use std::time::Instant;

use super::{Condvar, Mutex, Rank, wait_until};

/// Raised by whoever has work for a thread. Any number of raises before a wait count as one.
pub struct Signal {
    raised: Mutex<bool>,
    changed: Condvar,
}

impl Default for Signal {
    fn default() -> Self {
        Self {
            raised: Mutex::new(Rank::Signal, false),
            changed: Condvar::default(),
        }
    }
}

impl Signal {
    /// Wake the thread that waits, or the next one that would.
    pub fn raise(&self) {
        let before = std::mem::replace(&mut *self.raised.lock(), true);
        if !before {
            self.changed.notify_one();
        }
    }

    /// Wait until the signal is raised, and lower it; return false at the deadline (None: wait for ever).
    pub fn wait(&self, deadline: Option<Instant>) -> bool {
        let mut raised = self.raised.lock();
        while !*raised {
            if wait_until(&self.changed, &mut raised, deadline) {
                return false;
            }
        }
        *raised = false;
        true
    }
}
