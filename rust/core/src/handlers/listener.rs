//! A buffer of notifications for a handler beyond the border.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use super::Change;
use super::coalesce::coalesced;
use crate::sync::{Condvar, Mutex, Rank, wait_until};

/// The number of pending notifications from which those of one object are coalesced.
pub const COALESCE_AFTER: usize = 1024;

#[derive(Default)]
struct State {
    pending: VecDeque<Change>,
    /// Initial adds that were pushed and whose callbacks have not returned.
    initial: usize,
    /// Initial adds in the batch that the handler is processing.
    handed_out: usize,
    /// The informer's first list is processed, so no further initial adds come.
    synced: bool,
    closed: bool,
    /// The number of pending notifications at which they are coalesced.
    coalesce_at: usize,
    /// The number of notifications that were merged into others.
    merged: u64,
}

/// Ordered notifications: a slow handler delays neither the informer nor other handlers.
///
/// Pending notifications are bounded by the number of objects, not of events: once many are pending, those of one
/// object become one, from the state that the handler knows to the newest; two if it was deleted and created again.
pub struct Listener {
    state: Mutex<State>,
    changed: Condvar,
}

impl Default for Listener {
    fn default() -> Self {
        Self::new(true)
    }
}

impl State {
    /// Merge the notifications of each object, and again when twice as many are pending: the cost per change is
    /// constant.
    fn coalesce(&mut self) {
        let before = self.pending.len();
        self.pending = coalesced(std::mem::take(&mut self.pending));
        self.merged += (before - self.pending.len()) as u64;
        let waiting = self.pending.iter().filter(|change| change.is_initial());
        self.initial = self.handed_out + waiting.count();
        self.coalesce_at = COALESCE_AFTER.max(2 * self.pending.len());
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
    /// Create a listener. One that does not coalesce keeps every change, without a bound.
    pub fn new(coalesce: bool) -> Self {
        let state = State {
            coalesce_at: if coalesce { COALESCE_AFTER } else { usize::MAX },
            ..State::default()
        };
        Self {
            state: Mutex::new(Rank::Listener, state),
            changed: Condvar::default(),
        }
    }

    /// Append changes.
    pub fn push<'a>(&self, changes: impl Iterator<Item = &'a Change>) {
        let mut state = self.state.lock();
        if state.closed {
            return;
        }
        let before = state.pending.len();
        for change in changes {
            state.initial += usize::from(change.is_initial());
            state.pending.push_back(change.clone());
        }
        if state.pending.len() > before {
            if state.pending.len() >= state.coalesce_at {
                state.coalesce();
            }
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Note that the last batch is handled. Called by the handler's thread when its callbacks have returned.
    pub fn done(&self) {
        let mut state = self.state.lock();
        state.initial -= state.handed_out;
        state.handed_out = 0;
        drop(state);
        self.changed.notify_all();
    }

    /// Wait for notifications until the deadline (None: for ever) and take up to `max`. The call also means that the
    /// last batch is handled.
    pub fn next(&self, max: usize, deadline: Option<Instant>) -> Next {
        self.done();
        let mut state = self.state.lock();
        loop {
            if state.closed {
                return Next::Closed;
            }
            if !state.pending.is_empty() {
                let count = state.pending.len().min(max);
                let batch: Vec<_> = state.pending.drain(..count).collect();
                state.handed_out = batch.iter().filter(|change| change.is_initial()).count();
                return Next::Batch(batch);
            }
            if wait_until(&self.changed, &mut state, deadline) {
                return Next::TimedOut;
            }
        }
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
        state.synced && state.initial == 0
    }

    /// Return the number of pending notifications.
    pub fn pending(&self) -> usize {
        self.state.lock().pending.len()
    }

    /// Return the number of notifications merged into others because the handler was slower than the changes.
    pub fn merged(&self) -> u64 {
        self.state.lock().merged
    }

    /// Close the listener: drop what is pending, ignore further changes, and wake all waiting threads.
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let dropped = std::mem::take(&mut state.pending);
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
