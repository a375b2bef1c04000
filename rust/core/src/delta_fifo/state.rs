//! What the delta FIFO holds under its lock.

use std::collections::VecDeque;

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use super::{Delta, DeltaObject, DeltaType, Popped};
use crate::object::Key;

/// The memory for so many keys is kept for the next burst.
const KEEP: usize = 4096;

#[derive(Default)]
pub(super) struct State {
    /// A key is in `queue` exactly when it is in `items`, once.
    pub(super) items: HashMap<Key, Vec<Delta>, RandomState>,
    pub(super) queue: VecDeque<Key>,
    /// Keys that were handed out and are not finished, with their newest delta.
    pub(super) in_flight: HashMap<Key, Delta, RandomState>,
    /// Whether anything ever came in.
    pub(super) populated: bool,
    /// Keys of the first list that are not processed yet.
    pub(super) initial: usize,
    /// How many of `initial` are in flight.
    pub(super) initial_in_flight: usize,
    /// Somebody processes; others wait with `take`.
    pub(super) taken: bool,
    /// Comparisons with the known objects that are under way; nothing is handed out meanwhile.
    pub(super) comparing: usize,
    pub(super) closed: bool,
}

impl State {
    /// Whether the key is queued or being processed.
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
                // Of two deletions the one that says more stays: a tombstone only guesses the last state.
                if matches!(last.object, DeltaObject::Tombstone(_)) {
                    *last = delta;
                }
                return;
            }
            deltas.push(delta);
        } else {
            // Most keys see one or two deltas, so the second one costs no second allocation.
            let mut deltas = Vec::with_capacity(2);
            deltas.push(delta);
            self.queue.push_back(key.clone());
            self.items.insert(key, deltas);
        }
    }

    /// Give back the memory of a list, once it was worked off.
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
            // The flag is that of before the key was taken; nothing is synced before the first population.
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
