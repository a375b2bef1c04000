//! Adding and removing the handlers of an informer, and their resyncs.

use std::sync::Arc;
use std::time::Instant;

use super::attached::Attached;
use super::{Handler, HandlerId, Resync, SharedInformer};

impl SharedInformer {
    /// Queue a resync if the period of a handler has passed; return whether one was queued. `now` is in seconds.
    pub fn resync(&self, now: f64) -> bool {
        let due = self.registry.lock().resync_due(now);
        if due {
            self.fifo.resync(&*self.store);
        }
        due
    }

    /// Return how often the caller should call `resync`, in seconds; 0 for never.
    pub fn resync_check_period(&self) -> f64 {
        self.registry.lock().check_period()
    }

    /// Add a handler, which gets everything cached as initial adds. Return None if the informer was stopped.
    ///
    /// The calling thread notifies a queue of those; a listener gets them in pieces, as its thread handles them. Changes go on
    /// meanwhile. May be called from a callback of any handler.
    pub fn add_handler(&self, handler: Handler, resync: Resync, now: f64) -> Option<HandlerId> {
        let attached = Arc::new(Attached::new(handler));
        let writing = self.store.writing();
        let mut registry = self.registry.lock();
        if registry.is_closed() {
            return None;
        }
        let synced = self.fifo.has_synced() || registry.is_synced();
        let id = registry.add(attached.clone(), resync, now);
        drop(registry);
        drop(writing);
        attached.replay(&self.store, synced);
        Some(id)
    }

    /// Remove a handler; an unknown one is no error. No notification of it begins after this has returned, and one that
    /// another thread has begun ends at its next change; see [`SharedInformer::wait_removed`]. May be called from a
    /// callback of any handler.
    pub fn remove_handler(&self, id: HandlerId) {
        if let Some(removed) = self.take_out(id) {
            removed.remove();
        }
    }

    fn take_out(&self, id: HandlerId) -> Option<Arc<Attached>> {
        let mut registry = self.registry.lock();
        let idle = registry.forget_idle();
        let removed = registry.remove(id);
        drop(registry);
        drop(idle);
        removed
    }

    /// Wait until no other thread notifies a handler that was removed; false if one does at the deadline (None: wait for
    /// ever). A callback must not wait: two of them could wait for each other.
    pub fn wait_removed(&self, id: HandlerId, deadline: Option<Instant>) -> bool {
        let removed = self.take_out(id);
        removed.is_none_or(|removed| removed.wait_idle(deadline))
    }

    /// Return the number of notifications that listeners have not handled.
    pub fn pending(&self) -> usize {
        let handlers = self.registry.lock().handlers();
        handlers.iter().map(|handler| handler.pending()).sum()
    }

    /// Return the number of handlers.
    pub fn handler_count(&self) -> usize {
        self.registry.lock().len()
    }
}
