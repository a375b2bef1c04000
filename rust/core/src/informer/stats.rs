//! The counters of an informer.

use std::sync::atomic::{AtomicU64, Ordering};

use super::SharedInformer;

/// Counts since the informer was created.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) events: AtomicU64,
    pub(crate) bookmarks: AtomicU64,
    pub(crate) backward_bookmarks: AtomicU64,
    pub(crate) listed: AtomicU64,
    pub(crate) unchanged: AtomicU64,
    pub(crate) skipped: AtomicU64,
    pub(crate) decode_errors: AtomicU64,
    pub(crate) transform_errors: AtomicU64,
    pub(crate) relists: AtomicU64,
    pub(crate) processed: AtomicU64,
    pub(crate) bytes_in: AtomicU64,
}

/// A copy of the counts; see [`SharedInformer::stats`].
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Name and value, in a fixed order.
    pub counts: Vec<(&'static str, u64)>,
    /// Why the last skipped object was skipped.
    pub last_skip: String,
}

impl SharedInformer {
    /// Return what the informer has seen and what it holds.
    pub fn stats(&self) -> Stats {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let counters = &*self.counters;
        let counts = vec![
            ("objects", self.store.len() as u64),
            ("bytes", self.store.bytes() as u64),
            ("queued", self.fifo.len() as u64),
            ("handlers", self.handler_count() as u64),
            ("staged", self.intake.lock().staged() as u64),
            ("bytes_in", load(&counters.bytes_in)),
            ("listed", load(&counters.listed)),
            ("unchanged", load(&counters.unchanged)),
            ("events", load(&counters.events)),
            ("bookmarks", load(&counters.bookmarks)),
            ("backward_bookmarks", load(&counters.backward_bookmarks)),
            ("processed", load(&counters.processed)),
            ("relists", load(&counters.relists)),
            ("skipped", load(&counters.skipped)),
            ("decode_errors", load(&counters.decode_errors)),
            ("transform_errors", load(&counters.transform_errors)),
        ];
        Stats {
            counts,
            last_skip: self.intake.lock().last_skip().to_owned(),
        }
    }
}
