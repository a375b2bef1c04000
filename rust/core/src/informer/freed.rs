//! Memory that is freed bit by bit: deleted objects, and new states that take less.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::memory::release_apart;

/// Keys after which the objects are weighed again.
const OFTEN: usize = 1_000;
/// Bytes that are worth the system calls.
const WORTH: usize = 16 << 20;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Freed {
    /// Keys since the objects were last weighed.
    keys: AtomicUsize,
    /// The most that the objects took since memory was last returned.
    peak: AtomicUsize,
}

impl Freed {
    /// Count processed keys; return what was freed to the system once it is much. `held` is what the objects take.
    pub(super) fn count(&self, keys: usize, held: impl FnOnce() -> usize) {
        if self.keys.fetch_add(keys, Ordering::Relaxed) + keys < OFTEN {
            return;
        }
        self.keys.store(0, Ordering::Relaxed);
        let held = held();
        let peak = self.peak.fetch_max(held, Ordering::Relaxed).max(held);
        if peak - held >= WORTH {
            self.peak.store(held, Ordering::Relaxed);
            release_apart();
        }
    }
}
