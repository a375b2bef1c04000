//! A buffer of notifications for a handler that lives beyond the border.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use super::Change;
use super::coalesce::coalesced;

/// A change for one listener.
pub type Notification = Change;

/// So many notifications wait at least before those of one object are merged into fewer.
pub const COALESCE_AFTER: usize = 1024;

#[derive(Default)]
struct State {
    pending: VecDeque<Notification>,
    /// Initial adds that were put in and whose callbacks have not returned.
    initial: usize,
    /// Initial adds in the batch that the handler works on.
    handed_out: usize,
    /// The informer's first list is processed, so no more initial adds come.
    synced: bool,
    closed: bool,
    /// When so many wait, what can be merged is merged.
    coalesce_at: usize,
    /// How many notifications were merged into others.
    merged: u64,
}

/// Notifications in order: a slow handler delays neither the informer nor other handlers.
///
/// What waits is bounded by the number of objects, not of events: once many notifications wait, those of one object
/// become one, which leads from the state that the handler knows to the newest; two where it was deleted and made anew.
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
    /// Merge the notifications of each object, and look again when twice as many wait: the cost per change is constant.
    fn coalesce(&mut self) {
        let before = self.pending.len();
        self.pending = coalesced(std::mem::take(&mut self.pending));
        self.merged += (before - self.pending.len()) as u64;
        let waiting = self.pending.iter().filter(|change| change.is_initial());
        self.initial = self.handed_out + waiting.count();
        self.coalesce_at = COALESCE_AFTER.max(2 * self.pending.len());
    }
}

/// What [`Listener::next`] found.
pub enum Next {
    /// Notifications, oldest first; never empty.
    Batch(Vec<Notification>),
    /// The deadline passed.
    TimedOut,
    /// The listener was removed; what was pending is dropped.
    Closed,
}

impl Listener {
    /// A listener whose handler has heard nothing yet. One that does not coalesce keeps every change, without a bound.
    pub fn new(coalesce: bool) -> Self {
        let state = State {
            coalesce_at: if coalesce { COALESCE_AFTER } else { usize::MAX },
            ..State::default()
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    /// Put changes in.
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

    /// The batch that was handed out last is handled. Called by the handler's thread when its callbacks returned.
    pub fn done(&self) {
        let mut state = self.state.lock();
        state.initial -= state.handed_out;
        state.handed_out = 0;
        drop(state);
        self.changed.notify_all();
    }

    /// Wait for notifications until the deadline (None: for ever) and take up to `max`. Asking again says that the
    /// batch before is handled.
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
            match deadline {
                None => self.changed.wait(&mut state),
                Some(deadline) => {
                    if self.changed.wait_until(&mut state, deadline).timed_out() {
                        return Next::TimedOut;
                    }
                }
            }
        }
    }

    /// The informer has its first list: from now on only outstanding initial adds keep the listener from being synced.
    pub fn informer_synced(&self) {
        self.state.lock().synced = true;
        self.changed.notify_all();
    }

    /// Whether the informer is synced and the handler has returned from every initial add.
    pub fn has_synced(&self) -> bool {
        let state = self.state.lock();
        state.synced && state.initial == 0
    }

    /// How many notifications wait.
    pub fn pending(&self) -> usize {
        self.state.lock().pending.len()
    }

    /// How many notifications were merged into others, since the handler was slower than the changes.
    pub fn merged(&self) -> u64 {
        self.state.lock().merged
    }

    /// Take nothing more; drop what is pending and wake who waits.
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let dropped = std::mem::take(&mut state.pending);
        drop(state);
        self.changed.notify_all();
        drop(dropped);
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.state.lock().closed
    }
}

/// A listener that an informer and a handler's thread share.
pub type SharedListener = Arc<Listener>;
