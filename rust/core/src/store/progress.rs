//! How far a deferred index has come.

use std::sync::Arc;
use std::time::Instant;

use crate::sync::{Condvar, Mutex, Rank, wait_until};

#[derive(Default)]
struct Seen {
    /// The number of the last write that the index has.
    write: u64,
    /// It gets nothing more.
    closed: bool,
}

/// How far an index has come; readers wait for it.
pub(super) struct Progress {
    seen: Mutex<Seen>,
    changed: Condvar,
}

impl Default for Progress {
    fn default() -> Self {
        Self {
            seen: Mutex::new(Rank::Progress, Seen::default()),
            changed: Condvar::default(),
        }
    }
}

impl Progress {
    /// Note that the index has this write and all before it.
    pub(super) fn reach(&self, write: u64) {
        self.seen.lock().write = write;
        self.changed.notify_all();
    }

    /// Note that the index gets nothing more.
    pub(super) fn close(&self) {
        self.seen.lock().closed = true;
        self.changed.notify_all();
    }

    pub(super) fn has(&self, write: u64) -> bool {
        self.seen.lock().write >= write
    }

    pub(super) fn is_closed(&self) -> bool {
        self.seen.lock().closed
    }
}

/// An index that has not seen everything that the store held at some moment.
pub struct Lag {
    pub(super) progress: Arc<Progress>,
    /// The number of the last of these writes.
    pub(super) write: u64,
}

impl Lag {
    /// Wait until the index has seen all of that; return false if it has not at the deadline.
    pub fn wait(&self, deadline: Option<Instant>) -> bool {
        let mut seen = self.progress.seen.lock();
        while seen.write < self.write && !seen.closed {
            if wait_until(&self.progress.changed, &mut seen, deadline) {
                return false;
            }
        }
        true
    }
}
