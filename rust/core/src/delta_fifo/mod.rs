//! The delta FIFO: the changes of each key since it was last handed out, keys in the order of their first change.
//!
//! Upstream's `DeltaFIFO` with two changes: no lock is held while deltas are processed, and `replace` is one step. So
//! a key counts as queued while its deltas are processed; otherwise a resync could bring back a state that is just
//! being replaced.

mod batch;
mod comparison;
mod delta;
mod line;

use std::sync::Arc;
use std::time::Instant;

use smallvec::smallvec;

pub use batch::{Batch, Popped};
pub use comparison::KnownObjects;
pub use delta::{Delta, DeltaObject, DeltaType, Deltas};

use batch::InFlight;
use line::Line;

use crate::object::{Key, Object};
use crate::sync::{Condvar, Mutex, Rank, wait, wait_until};

/// The result of [`DeltaFifo::take`].
pub enum Taken<'a> {
    /// Keys to process.
    Items(Batch<'a>),
    /// Closed and empty.
    Closed,
    /// The deadline passed.
    TimedOut,
}

/// See the module.
pub struct DeltaFifo {
    state: Mutex<State>,
    /// Where threads wait for a key, for the end of a batch or of a comparison. Notify all of them: one alone may have to
    /// wait again, while another could continue.
    changed: Condvar,
    emit_replaced: bool,
}

impl DeltaFifo {
    /// Create a FIFO that emits `Replaced` for the objects of a list, or `Sync` if not `emit_replaced`.
    pub fn new(emit_replaced: bool) -> Self {
        Self {
            state: Mutex::new(Rank::Fifo, State::default()),
            changed: Condvar::default(),
            emit_replaced,
        }
    }

    /// Add a new object.
    pub fn add(&self, key: Key, object: Arc<Object>) {
        self.enqueue(key, DeltaType::Added, object);
    }

    /// Update an object.
    pub fn update(&self, key: Key, object: Arc<Object>) {
        self.enqueue(key, DeltaType::Updated, object);
    }

    fn enqueue(&self, key: Key, kind: DeltaType, object: Arc<Object>) {
        let mut state = self.state.lock();
        if state.closed {
            return;
        }
        state.populated = true;
        state.push(key, Delta::live(kind, object));
        drop(state);
        self.changed.notify_all();
    }

    /// Delete an object. Ignored if neither the queue nor the known objects have the key.
    pub fn delete(&self, key: Key, object: DeltaObject, known: Option<&dyn KnownObjects>) {
        let exists = known.is_some_and(|known| known.get_by_key(&key).is_some());
        let mut state = self.state.lock();
        if state.closed {
            return;
        }
        state.populated = true;
        if exists || state.holds(&key) {
            let kind = DeltaType::Deleted;
            state.push(key, Delta { kind, object });
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Take up to `max` keys, and wait for one until the deadline (None: for ever). Other callers wait until this one
    /// drops the batch.
    pub fn take(&self, max: usize, deadline: Option<Instant>) -> Taken<'_> {
        let mut state = self.state.lock();
        loop {
            let blocked = state.taken || state.comparing > 0;
            if !blocked && !state.queue.is_empty() {
                return Taken::Items(Batch::new(self, state.hand_out(max), false));
            }
            if state.closed && state.queue.is_empty() {
                return Taken::Closed;
            }
            if wait_until(&self.changed, &mut state, deadline) {
                return Taken::TimedOut;
            }
        }
    }

    /// Take up to `max` keys if there are any, and wait only for others to finish.
    pub fn take_ready(&self, max: usize) -> Option<Batch<'_>> {
        self.take_now(max, false)
    }

    /// Do the same, but take at least all keys that were there at the last `replace`: all of a list.
    pub fn take_whole(&self, max: usize) -> Option<Batch<'_>> {
        self.take_now(max, true)
    }

    fn take_now(&self, max: usize, whole: bool) -> Option<Batch<'_>> {
        let mut state = self.state.lock();
        while state.taken || state.comparing > 0 {
            wait(&self.changed, &mut state, None);
        }
        if state.queue.is_empty() {
            return None;
        }
        let list = if whole {
            std::mem::take(&mut state.whole)
        } else {
            0
        };
        let items = state.hand_out(max.max(list));
        Some(Batch::new(self, items, list > 0))
    }

    /// Return whether everything of the first list was processed, or the first input was not a list.
    pub fn has_synced(&self) -> bool {
        let state = self.state.lock();
        state.populated && state.initial == 0
    }

    /// Ignore all further input, and wake all waiting threads once the queue is empty.
    pub fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }

    /// Return whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Return how many keys are queued.
    pub fn len(&self) -> usize {
        self.state.lock().queue.len()
    }

    /// Return whether no key is queued.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Return whether no key is queued and none is being processed.
    pub fn is_idle(&self) -> bool {
        let state = self.state.lock();
        state.queue.is_empty() && !state.taken
    }

    /// Return the queued keys, in order.
    pub fn keys(&self) -> Vec<Key> {
        let state = self.state.lock();
        state
            .queue
            .iter()
            .map(|queued| queued.key.clone())
            .collect()
    }
}

/// Memory for so many keys is kept for the next burst.
const KEEP: usize = 4096;

#[derive(Default)]
struct State {
    queue: Line<Popped>,
    /// Keys handed out and not finished, with their newest delta.
    in_flight: Line<InFlight>,
    /// Whether there was any input.
    populated: bool,
    /// Keys of the first list that are not processed yet.
    initial: usize,
    /// How many of `initial` are in flight.
    initial_in_flight: usize,
    /// Keys are being processed; other calls of `take` wait.
    taken: bool,
    /// The first so many keys make up a list, which [`DeltaFifo::take_whole`] hands out as a whole.
    whole: usize,
    /// Running comparisons with the known objects; nothing is handed out meanwhile.
    comparing: usize,
    closed: bool,
}

impl State {
    /// Return whether the key is queued or being processed.
    fn holds(&self, key: &str) -> bool {
        self.queue.contains(key) || self.in_flight.contains(key)
    }

    fn push(&mut self, key: Key, delta: Delta) {
        if let Some(Popped { deltas, .. }) = self.queue.get_mut(&key) {
            if let Some(last) = deltas
                .last_mut()
                .filter(|_| delta.kind == DeltaType::Deleted)
                && last.kind == DeltaType::Deleted
            {
                // The deletion with more information stays: a tombstone only guesses the last state.
                if matches!(last.object, DeltaObject::Tombstone(_)) {
                    *last = delta;
                }
                return;
            }
            deltas.push(delta);
        } else {
            self.queue.push(Popped {
                key,
                deltas: smallvec![delta],
                is_initial: false,
            });
        }
    }

    fn hand_out(&mut self, max: usize) -> Vec<Popped> {
        let count = max.min(self.queue.len());
        let mut popped = if count == self.queue.len() && count > KEEP {
            // A list, which is not copied.
            self.queue.take()
        } else {
            let mut popped = Vec::with_capacity(count);
            popped.extend(std::iter::from_fn(|| self.queue.pop()).take(count));
            self.queue.shrink(KEEP);
            popped
        };
        self.in_flight.reserve(count);
        for entry in &mut popped {
            if let Some(newest) = entry.deltas.last() {
                self.in_flight.push(InFlight {
                    key: entry.key.clone(),
                    delta: newest.clone(),
                });
            }
            // The flag from before the key was taken; nothing is synced before the first input.
            let first = self.initial > self.initial_in_flight;
            self.initial_in_flight += usize::from(first);
            entry.is_initial |= first;
        }
        self.taken = true;
        popped
    }
}
