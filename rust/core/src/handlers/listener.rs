//! A buffer of notifications for a handler beyond the border.

use std::sync::Arc;
use std::time::Instant;

use super::Change;
use super::pending::Pending;
use crate::sync::{Condvar, Mutex, Rank, Signal, ThreadId};
use crate::sync::{assert_none_held, this_thread, wait_until};

/// How many notifications a listener keeps.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The number of pending notifications from which a further one is merged with an earlier one of its object.
    pub merge_from: usize,
    /// Keep the state that the handler knows when an object was changed and deleted.
    pub both_states: bool,
    /// More pending notifications than this close the listener,
    pub limit: usize,
    /// unless they are no more than this many for each object of the informer.
    pub per_object: usize,
}

impl Bounds {
    /// Merge from that many pending notifications on; without a limit.
    pub fn merging_from(merge_from: usize) -> Self {
        Self {
            merge_from,
            both_states: false,
            limit: usize::MAX,
            per_object: 0,
        }
    }
}

#[derive(Default)]
struct State {
    pending: Pending,
    /// Initial adds in the batch that the handler is processing.
    handed_out: usize,
    /// The thread that processes a batch.
    busy: Option<ThreadId>,
    /// The informer's first list is processed, so no further initial adds come.
    synced: bool,
    closed: bool,
    /// What the handler has not heard of yet.
    replay: Option<Arc<dyn Replay>>,
    /// Wakes the thread of the handler.
    signal: Option<Arc<Signal>>,
}

/// What was there before a handler was added, and is told in pieces.
pub trait Replay: Send + Sync {
    /// Append the next piece to the listener; return whether there is more.
    fn next(&self) -> bool;
}

/// Called when a listener was closed because it was full; no lock is held.
pub type OnFull = Box<dyn Fn() + Send + Sync>;

/// Ordered notifications: a slow handler delays neither the informer nor other handlers.
///
/// Pending notifications are bounded by the number of objects, not of events: those of one object become one, from the
/// state that the handler knows to the newest; two if it was deleted and created again.
pub struct Listener {
    bounds: Bounds,
    on_full: Option<OnFull>,
    state: Mutex<State>,
    changed: Condvar,
}

impl State {
    fn take(&mut self) -> Option<Change> {
        let change = self.pending.take()?;
        self.handed_out += usize::from(change.is_initial());
        self.busy = Some(this_thread());
        Some(change)
    }

    fn raise(&self) {
        if let Some(signal) = &self.signal {
            signal.raise();
        }
    }

    /// Ignore further changes, and return what is pending, to be dropped without the lock.
    fn close(&mut self) -> Pending {
        self.closed = true;
        self.replay = None;
        self.raise();
        self.pending.take_all()
    }
}

/// The result of [`Listener::next`].
pub enum Next {
    /// Notifications, oldest first; never empty.
    Batch(Vec<Change>),
    /// The deadline passed.
    TimedOut,
    /// The listener was removed; pending notifications were dropped.
    Closed,
}

impl Listener {
    /// Create a listener.
    pub fn new(bounds: Bounds, on_full: Option<OnFull>) -> Self {
        Self {
            bounds,
            on_full,
            state: Mutex::new(Rank::Listener, State::default()),
            changed: Condvar::default(),
        }
    }

    /// Append changes; the informer has so many `objects`. Return how many notifications were merged into others.
    pub fn push<'a>(&self, changes: impl Iterator<Item = &'a Change>, objects: usize) -> usize {
        let mut state = self.state.lock();
        if state.closed {
            return 0;
        }
        let merged = state.pending.merged;
        for change in changes {
            state.pending.push(change.clone(), self.bounds);
        }
        let merged = state.pending.merged - merged;
        let limit = self
            .bounds
            .limit
            .max(objects.saturating_mul(self.bounds.per_object));
        if state.pending.len() > limit {
            let dropped = state.close();
            drop(state);
            self.changed.notify_all();
            drop(dropped);
            assert_none_held();
            if let Some(on_full) = &self.on_full {
                on_full();
            }
        } else if !state.pending.is_empty() {
            state.raise();
            drop(state);
            self.changed.notify_all();
        }
        merged
    }

    /// Raise a signal for pending changes, present and future, and when the listener is closed.
    pub fn wake(&self, signal: Arc<Signal>) {
        let mut state = self.state.lock();
        if !state.pending.is_empty() || state.closed {
            signal.raise();
        }
        state.signal = Some(signal);
    }

    /// Note that the last batch is handled. Called by the handler's thread when its callbacks have returned.
    pub fn done(&self) {
        let mut state = self.state.lock();
        state.handed_out = 0;
        state.busy = None;
        drop(state);
        self.changed.notify_all();
    }

    /// Append what was there before the handler was added: a piece now, and a further one whenever the handler has taken
    /// the last one.
    pub fn replay(&self, replay: Arc<dyn Replay>) {
        let mut state = self.state.lock();
        if !state.closed {
            state.replay = Some(replay);
        }
        drop(state);
        self.refill();
    }

    /// Append the next piece of the replay if the handler has taken the last one.
    fn refill(&self) {
        loop {
            let state = self.state.lock();
            let Some(replay) = state.replay.clone().filter(|_| state.pending.initial == 0) else {
                return;
            };
            drop(state);
            if !replay.next() {
                let ended = self.state.lock().replay.take();
                self.changed.notify_all();
                drop(ended);
                return;
            }
        }
    }

    /// Take the oldest change; None if there is none, or the listener is closed. [`Listener::done`] comes afterwards.
    pub fn take(&self) -> Option<Change> {
        self.refill();
        self.state.lock().take()
    }

    /// Wait for notifications until the deadline (None: for ever) and take up to `max`. The call also means that the
    /// last batch is handled.
    pub fn next(&self, max: usize, deadline: Option<Instant>) -> Next {
        self.done();
        self.refill();
        let mut state = self.state.lock();
        loop {
            if state.closed {
                return Next::Closed;
            }
            if !state.pending.is_empty() {
                let count = state.pending.len().min(max);
                return Next::Batch((0..count).filter_map(|_| state.take()).collect());
            }
            if wait_until(&self.changed, &mut state, deadline) {
                return Next::TimedOut;
            }
        }
    }

    /// Wait until no other thread processes a batch; return false at the deadline (None: wait for ever).
    pub fn wait_idle(&self, deadline: Option<Instant>) -> bool {
        let mut state = self.state.lock();
        while state.busy.is_some_and(|thread| thread != this_thread()) {
            if wait_until(&self.changed, &mut state, deadline) {
                return false;
            }
        }
        true
    }

    /// Note that the informer has its first list: from now on only pending initial adds keep the listener from being
    /// synced.
    pub fn informer_synced(&self) {
        self.state.lock().synced = true;
        self.changed.notify_all();
    }

    /// Return whether the informer is synced and the handler has returned from every initial add.
    pub fn has_synced(&self) -> bool {
        let state = self.state.lock();
        state.synced && state.replay.is_none() && state.pending.initial + state.handed_out == 0
    }

    /// Return the number of pending notifications, plus one while the handler processes others.
    pub fn pending(&self) -> usize {
        let state = self.state.lock();
        state.pending.len() + usize::from(state.busy.is_some())
    }

    /// Return the number of notifications merged into others because the handler was slower than the changes.
    pub fn merged(&self) -> usize {
        self.state.lock().pending.merged
    }

    /// Close the listener: drop what is pending, ignore further changes, and wake all waiting threads.
    pub fn close(&self) {
        let mut state = self.state.lock();
        let dropped = state.close();
        drop(state);
        self.changed.notify_all();
        drop(dropped);
    }

    /// Return whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.state.lock().closed
    }
}

/// A listener shared by an informer and the thread of a handler.
pub type SharedListener = Arc<Listener>;
