//! The state of the delta FIFO, under its lock.

use std::collections::VecDeque;

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use super::{Delta, DeltaObject, DeltaType, Popped};
use crate::object::Key;

/// Memory for so many keys is kept for the next burst.
const KEEP: usize = 4096;

#[derive(Default)]
pub(super) struct State {
    /// A key is in `queue` exactly when it is in `items`, once.
    pub(super) items: HashMap<Key, Vec<Delta>, RandomState>,
    pub(super) queue: VecDeque<Key>,
    /// Keys handed out and not finished, with their newest delta.
    pub(super) in_flight: HashMap<Key, Delta, RandomState>,
    /// Whether there was any input.
    pub(super) populated: bool,
    /// Keys of the first list that are not processed yet.
    pub(super) initial: usize,
    /// How many of `initial` are in flight.
    pub(super) initial_in_flight: usize,
    /// Keys are being processed; other calls of `take` wait.
    pub(super) taken: bool,
    /// Running comparisons with the known objects; nothing is handed out meanwhile.
    pub(super) comparing: usize,
    pub(super) closed: bool,
}

impl State {
    /// Return whether the key is queued or being processed.
    pub(super) fn holds(&self, key: &str) -> bool {
        self.items.contains_key(key) || self.in_flight.contains_key(key)
    }

    pub(super) fn push(&mut self, key: Key, delta: Delta) {
        if let Some(deltas) = self.items.get_mut(&key) {
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
            // Most keys get one or two deltas, so the second one needs no second allocation.
            let mut deltas = Vec::with_capacity(2);
            deltas.push(delta);
            self.queue.push_back(key.clone());
            self.items.insert(key, deltas);
        }
    }

    /// Release the memory of a list after it was processed.
    pub(super) fn release(&mut self) {
        if self.queue.is_empty() && self.queue.capacity() > KEEP {
            self.items = HashMap::default();
            self.queue = VecDeque::new();
        }
    }

    pub(super) fn hand_out(&mut self, max: usize) -> Vec<Popped> {
        let mut popped = Vec::with_capacity(max.min(self.queue.len()));
        while popped.len() < max
            && let Some(key) = self.queue.pop_front()
        {
            let Some(deltas) = self.items.remove(&key) else {
                continue;
            };
            if let Some(newest) = deltas.last() {
                self.in_flight.insert(key.clone(), newest.clone());
            }
            // The flag from before the key was taken; nothing is synced before the first input.
            let is_initial = self.initial > self.initial_in_flight;
            self.initial_in_flight += usize::from(is_initial);
            popped.push(Popped {
                key,
                deltas,
                is_initial,
            });
        }
        self.taken = true;
        popped
    }
}
