//! Delayed keys: a binary heap whose entries know their places, so that a deadline can move.

use std::collections::BinaryHeap;

use super::slab::{NONE, Slab, Slot};
use crate::clock::Tick;
use crate::key::QueueKey;

/// One delayed add.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delay {
    pub(super) due: Tick,
    /// Breaks ties: first inserted, first due. It stays when the deadline moves or the priority rises.
    pub(super) number: u64,
    pub(super) slot: Slot,
    pub(super) group: u32,
    /// The highest priority that was named.
    pub(super) priority: Option<i32>,
    /// One of the adds named no priority: that counts as the key's own, which is 0 unless it needs work already.
    pub(super) unnamed: bool,
    /// The limiter made the wait, so a further failure meanwhile must not raise it (kubernetes/kubernetes#132805),
    /// unless the key was forgotten.
    pub(super) back_off: bool,
}

impl Delay {
    /// Return the priority for a key that does not need work yet.
    pub(super) fn priority_if_new(&self) -> i32 {
        let own = self.unnamed.then_some(0);
        self.priority.max(own).unwrap_or(0)
    }

    /// Return the priority to show: None if it is that of the key.
    pub(super) fn shown_priority(&self) -> Option<i32> {
        self.priority
            .filter(|&priority| !self.unnamed || priority > 0)
    }
}

/// All delayed adds, at most one for each key.
#[derive(Default)]
pub(super) struct Delays {
    heap: Vec<Delay>,
    inserted: u64,
}

impl Delays {
    pub(super) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }

    /// Return when the next one is due.
    pub(super) fn next_due(&self) -> Option<Tick> {
        self.heap.first().map(|delay| delay.due)
    }

    pub(super) fn at(&self, place: u32) -> Option<&Delay> {
        self.heap.get(place as usize)
    }

    /// Return the first delayed adds, at most `limit`, that follow the time and number of another one, in order.
    ///
    /// The ones before are passed over, but not those after the last that is returned.
    pub(super) fn following(&self, after: Option<(Tick, u64)>, limit: usize) -> Vec<&Delay> {
        let mut nearest: BinaryHeap<(Tick, u64, usize)> = BinaryHeap::new();
        let mut open = vec![0];
        while let Some(place) = open.pop() {
            let Some(delay) = self.heap.get(place) else {
                continue;
            };
            let order = (delay.due, delay.number);
            let last = nearest.peek().map(|&(due, number, _)| (due, number));
            if nearest.len() >= limit && last.is_none_or(|last| order > last) {
                continue;
            }
            if after.is_none_or(|after| order > after) {
                nearest.push((delay.due, delay.number, place));
                if nearest.len() > limit {
                    nearest.pop();
                }
            }
            open.extend([2 * place + 2, 2 * place + 1]);
        }
        let places = nearest.into_sorted_vec();
        let delays = places.iter().map(|&(_, _, place)| &self.heap[place]);
        delays.collect()
    }

    /// Insert the delayed add of a key that has none.
    pub(super) fn insert<K: QueueKey>(&mut self, slab: &mut Slab<K>, mut delay: Delay) {
        delay.number = self.inserted;
        self.inserted += 1;
        self.heap.push(delay);
        self.sift_up(slab, self.heap.len() - 1);
    }

    /// Merge another delayed add of the same key into the one at `place`: the earlier time, the higher priority.
    pub(super) fn merge<K: QueueKey>(&mut self, slab: &mut Slab<K>, place: u32, other: &Delay) {
        let place = place as usize;
        let delay = &mut self.heap[place];
        delay.priority = delay.priority.max(other.priority);
        delay.unnamed |= other.unnamed;
        delay.back_off |= other.back_off;
        if other.due < delay.due {
            delay.due = other.due;
            self.sift_up(slab, place);
        }
    }

    /// Note that the one at `place`, if any, is no back-off any longer; it stays due.
    pub(super) fn end_back_off(&mut self, place: u32) {
        if let Some(delay) = self.heap.get_mut(place as usize) {
            delay.back_off = false;
        }
    }

    /// Remove and return the first one if it is due.
    pub(super) fn pop_due<K: QueueKey>(&mut self, slab: &mut Slab<K>, now: Tick) -> Option<Delay> {
        let first = *self.heap.first().filter(|delay| delay.due <= now)?;
        self.heap.swap_remove(0);
        slab.get_mut(first.slot).delayed = NONE;
        if !self.heap.is_empty() {
            self.sift_down(slab);
        }
        if self.heap.is_empty() && self.heap.capacity() > 4096 {
            self.heap = Vec::new();
        }
        Some(first)
    }

    /// Remove and return all of them, in no order.
    pub(super) fn clear<K: QueueKey>(&mut self, slab: &mut Slab<K>) -> Vec<Delay> {
        for delay in &self.heap {
            slab.get_mut(delay.slot).delayed = NONE;
        }
        std::mem::take(&mut self.heap)
    }

    fn sift_up<K: QueueKey>(&mut self, slab: &mut Slab<K>, mut place: usize) {
        while place > 0 {
            let parent = (place - 1) / 2;
            if !before(&self.heap[place], &self.heap[parent]) {
                break;
            }
            self.heap.swap(place, parent);
            self.record_place(slab, place);
            place = parent;
        }
        self.record_place(slab, place);
    }

    fn sift_down<K: QueueKey>(&mut self, slab: &mut Slab<K>) {
        let mut place = 0;
        loop {
            let mut least = place;
            for child in [2 * place + 1, 2 * place + 2] {
                if child < self.heap.len() && before(&self.heap[child], &self.heap[least]) {
                    least = child;
                }
            }
            if least == place {
                break;
            }
            self.heap.swap(place, least);
            self.record_place(slab, place);
            place = least;
        }
        self.record_place(slab, place);
    }

    /// Record in the entry where its delayed add is now.
    fn record_place<K: QueueKey>(&self, slab: &mut Slab<K>, place: usize) {
        // There are no more delayed adds than slots, which are 32 bits wide.
        slab.get_mut(self.heap[place].slot).delayed = u32::try_from(place).unwrap_or(NONE);
    }
}

fn before(one: &Delay, other: &Delay) -> bool {
    (one.due, one.number) < (other.due, other.number)
}
