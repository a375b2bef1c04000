//! A buffer of notifications for a handler that lives beyond the border.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use super::Change;

/// A change for one listener.
pub type Notification = Change;

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
}

/// Notifications in order, without a bound: a slow handler delays neither the informer nor other handlers.
#[derive(Default)]
pub struct Listener {
    state: Mutex<State>,
    changed: Condvar,
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
