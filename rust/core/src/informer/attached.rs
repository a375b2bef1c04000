//! One handler of an informer: notified by one thread at a time, and by none once it is removed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool as Flag, Ordering};
use std::time::Instant;

use super::Handler;
use crate::handlers::Change;
use crate::sync::{AtomicBool, Condvar, Mutex, Rank, ThreadId};
use crate::sync::{assert_none_held, this_thread, wait, wait_until};

/// A handler, shared by the informer's list and the threads that notify it. No lock is held while the handler runs.
pub(super) struct Attached {
    handler: Handler,
    /// The last queued resync is for this handler.
    syncing: Flag,
    /// It was removed, which ends even a running notification at its next change.
    removed: AtomicBool,
    /// The thread that notifies the handler.
    notifier: Mutex<Option<ThreadId>>,
    idle: Condvar,
}

/// The handlers of an informer as of one moment.
pub(super) type Handlers = Arc<[Arc<Attached>]>;

/// The right to notify a handler, until this is dropped.
struct Notifier<'a>(&'a Attached);

impl Attached {
    /// Attach a handler, which only this thread notifies until it calls [`Attached::replay`].
    pub(super) fn new(handler: Handler) -> Self {
        Self {
            handler,
            syncing: Flag::new(false),
            removed: AtomicBool::new(false),
            notifier: Mutex::new(Rank::Attached, Some(this_thread())),
            idle: Condvar::default(),
        }
    }

    /// Notify the handler of what was there before it was attached. Called once, by the thread that created this.
    pub(super) fn replay(&self, changes: &[Change], synced: bool) {
        let _notifier = Notifier(self);
        self.deliver(changes.iter(), changes.len());
        if synced {
            self.informer_synced();
        }
    }

    /// Notify the handler of changes, in order. Marked changes come from a resync and go only to its handlers. Return
    /// the number of notifications that were merged into others.
    pub(super) fn notify(&self, changes: &[(Change, bool)], objects: usize) -> usize {
        let Some(_notifier) = self.begin() else {
            return 0;
        };
        let syncing = self.syncing.load(Ordering::Relaxed);
        let changes = changes.iter().filter(|(_, sync)| syncing || !sync);
        self.deliver(changes.map(|(change, _)| change), objects)
    }

    /// Note that the informer has its first list, after the handler has what was there before.
    pub(super) fn notify_synced(&self) {
        if let Some(_notifier) = self.begin() {
            self.informer_synced();
        }
    }

    /// Wait until no other thread notifies the handler; None if it was removed.
    fn begin(&self) -> Option<Notifier<'_>> {
        let mut notifier = self.notifier.lock();
        loop {
            if self.is_removed() {
                return None;
            }
            if notifier.is_none() {
                *notifier = Some(this_thread());
                return Some(Notifier(self));
            }
            wait(&self.idle, &mut notifier, None);
        }
    }

    fn deliver<'a>(&self, changes: impl Iterator<Item = &'a Change>, objects: usize) -> usize {
        assert_none_held();
        match &self.handler {
            Handler::Queue(handler) => handler.handle(changes, &|| self.is_removed()),
            Handler::Listener(listener) => return listener.push(changes, objects),
        }
        0
    }

    fn informer_synced(&self) {
        if let Handler::Listener(listener) = &self.handler {
            listener.informer_synced();
        }
    }

    pub(super) fn set_syncing(&self, syncing: bool) {
        self.syncing.store(syncing, Ordering::Relaxed);
    }

    /// Return the number of notifications that a listener has not handled.
    pub(super) fn pending(&self) -> usize {
        match &self.handler {
            Handler::Queue(_) => 0,
            Handler::Listener(listener) => listener.pending(),
        }
    }

    pub(super) fn is_removed(&self) -> bool {
        self.removed.load(Ordering::SeqCst)
    }

    /// Begin no further notification, and end a running one at its next change.
    pub(super) fn remove(&self) {
        // Under the lock, so that a thread that is about to wait for its turn sees it.
        let notifier = self.notifier.lock();
        self.removed.store(true, Ordering::SeqCst);
        drop(notifier);
        self.idle.notify_all();
        if let Handler::Listener(listener) = &self.handler {
            listener.close();
        }
    }

    /// Wait until no other thread notifies the handler; false if that is not so at the deadline.
    pub(super) fn wait_idle(&self, deadline: Option<Instant>) -> bool {
        let mut notifier = self.notifier.lock();
        while notifier.is_some_and(|thread| thread != this_thread()) {
            if wait_until(&self.idle, &mut notifier, deadline) {
                return false;
            }
        }
        true
    }

    /// Return whether a thread notifies the handler.
    pub(super) fn is_notified(&self) -> bool {
        self.notifier.lock().is_some()
    }
}

impl Drop for Notifier<'_> {
    fn drop(&mut self) {
        *self.0.notifier.lock() = None;
        self.0.idle.notify_all();
    }
}
