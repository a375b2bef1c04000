//! One handler of an informer: notified by one thread at a time, and by none once it is removed.
//!
//! A handler that is added late hears of what is there in pieces, place by place of the store, while changes go on. A change
//! at a place that was replayed is told as it comes; of the others the replay tells the newest state. Whoever writes has
//! the store's turn, and the replay takes it to read a piece, so each change is clearly before that or after.

use std::sync::atomic::{AtomicBool as Flag, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use super::Handler;
use crate::handlers::{Change, Replay};
use crate::object::Object;
use crate::store::{Store, Writing};
use crate::sync::{AtomicBool, Condvar, Mutex, Rank, ThreadId};
use crate::sync::{assert_none_held, this_thread, wait, wait_until};

/// The places of the store that are replayed at a time. The models of loom have few objects.
const PIECE: usize = if cfg!(feature = "loom") { 1 } else { 1_000 };

/// Everything was replayed.
const ALL: usize = usize::MAX;

/// A handler, shared by the informer's list and the threads that notify it. No lock is held while the handler runs.
pub(super) struct Attached {
    handler: Handler,
    /// The last queued resync is for this handler.
    syncing: Flag,
    /// It was removed, which ends even a running notification at its next change.
    removed: AtomicBool,
    /// The handler has heard of what is at places below this one; changed only with the store's turn.
    replayed: AtomicUsize,
    notifier: Mutex<Turns>,
    idle: Condvar,
}

/// The handlers of an informer as of one moment.
pub(super) type Handlers = Arc<[Arc<Attached>]>;

/// A change with what decides who hears of it.
pub(super) struct Noted {
    pub(super) change: Change,
    /// It comes from a resync, for the handlers that want one.
    pub(super) sync: bool,
    /// Where the object is or was in the store.
    pub(super) place: Option<usize>,
}

impl Noted {
    /// Return the object that has entered the store.
    pub(super) fn entered(&self) -> Option<&Arc<Object>> {
        match &self.change {
            Change::Add { object, .. } => Some(object),
            Change::Update { new, .. } => Some(new),
            Change::Delete { .. } => None,
        }
    }
}

/// Those who notify the handler, in the order in which they came: neither a replay nor the changes wait for more than one
/// piece of the other.
#[derive(Default)]
struct Turns {
    /// The thread whose turn it is.
    holder: Option<ThreadId>,
    /// The number that the next one gets.
    next: u64,
    /// The number of the one whose turn it is.
    now: u64,
}

/// The right to notify a handler, until this is dropped.
struct Notifier<'a>(&'a Attached);

impl Attached {
    /// Attach a handler that has heard of nothing.
    pub(super) fn new(handler: Handler) -> Self {
        Self {
            handler,
            syncing: Flag::new(false),
            removed: AtomicBool::new(false),
            replayed: AtomicUsize::new(0),
            notifier: Mutex::new(Rank::Attached, Turns::default()),
            idle: Condvar::default(),
        }
    }

    /// Notify the handler of what was there before it was attached: of all of it, or of a piece whenever the thread of a
    /// listener has handled the last one.
    pub(super) fn replay(self: &Arc<Self>, store: &Arc<Store>, synced: bool) {
        match &self.handler {
            Handler::Queue(_) => while self.replay_piece(store) {},
            Handler::Listener(listener) => listener.replay(Arc::new(Rest {
                attached: Arc::downgrade(self),
                store: store.clone(),
            })),
        }
        if synced {
            self.notify_synced();
        }
    }

    /// Notify the handler of the next piece of what was there; return whether there is more.
    fn replay_piece(&self, store: &Store) -> bool {
        let Some(_notifier) = self.begin() else {
            return false;
        };
        let writing = store.writing();
        let from = self.replayed.load(Ordering::Relaxed);
        if from == ALL {
            return false;
        }
        let (objects, next) = writing.piece(from, PIECE);
        self.replayed.store(next.unwrap_or(ALL), Ordering::Relaxed);
        drop(writing);
        let initial = |object| Change::Add {
            object,
            initial: true,
        };
        let changes: Vec<Change> = objects.into_iter().map(initial).collect();
        self.deliver(changes.iter(), store.len());
        next.is_some()
    }

    /// Return the place below which the handler has heard of everything, as long as the turn lasts.
    pub(super) fn replayed(&self, _: &Writing<'_>) -> usize {
        self.replayed.load(Ordering::Relaxed)
    }

    /// Notify the handler of changes, in order, for which it had heard of what is at places below `replayed`. Return the
    /// number of notifications that were merged into others.
    pub(super) fn notify(&self, changes: &[Noted], replayed: usize, objects: usize) -> usize {
        let Some(_notifier) = self.begin() else {
            return 0;
        };
        let syncing = self.syncing.load(Ordering::Relaxed);
        let heard = |place: Option<usize>| replayed == ALL || place.is_some_and(|at| at < replayed);
        let changes = changes.iter();
        let changes = changes.filter(|one| (syncing || !one.sync) && heard(one.place));
        self.deliver(changes.map(|one| &one.change), objects)
    }

    /// Note that the informer has its first list, after the handler has what was there before.
    pub(super) fn notify_synced(&self) {
        if let Some(_notifier) = self.begin() {
            self.informer_synced();
        }
    }

    /// Wait for a turn to notify the handler; None if it was removed.
    fn begin(&self) -> Option<Notifier<'_>> {
        let mut turns = self.notifier.lock();
        let mine = turns.next;
        turns.next += 1;
        loop {
            // It stays removed, so nobody waits for a number that was not used.
            if self.is_removed() {
                return None;
            }
            if turns.now == mine {
                turns.holder = Some(this_thread());
                return Some(Notifier(self));
            }
            wait(&self.idle, &mut turns, None);
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
        let mut turns = self.notifier.lock();
        while turns.holder.is_some_and(|thread| thread != this_thread()) {
            if wait_until(&self.idle, &mut turns, deadline) {
                return false;
            }
        }
        true
    }

    /// Return whether a thread notifies the handler.
    pub(super) fn is_notified(&self) -> bool {
        self.notifier.lock().holder.is_some()
    }
}

impl Drop for Notifier<'_> {
    fn drop(&mut self) {
        let mut turns = self.0.notifier.lock();
        turns.holder = None;
        turns.now += 1;
        drop(turns);
        self.0.idle.notify_all();
    }
}

/// What a listener has not heard of yet.
struct Rest {
    attached: Weak<Attached>,
    store: Arc<Store>,
}

impl Replay for Rest {
    fn next(&self) -> bool {
        let attached = self.attached.upgrade();
        attached.is_some_and(|attached| attached.replay_piece(&self.store))
    }
}
