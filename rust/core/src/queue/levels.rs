//! The lines of a queue, one for each priority. Each key may have its own, so no step depends on their number by more
//! than its logarithm.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

use super::fair::Ring;
use super::list::{Line, List};
use super::slab::{NONE, Slab, Slot};
use crate::key::QueueKey;

/// How many empty levels are kept, so that a steady load creates none.
const KEEP: usize = 16;

/// Memory of at most so many levels is never released.
const KEEP_MEMORY: usize = 4096;

/// All keys of one priority.
struct Level {
    priority: i32,
    len: usize,
    line: List,
    /// The keys are in here instead of `line` if the queue is fair.
    ring: Option<Box<Ring>>,
}

/// All levels.
pub(super) struct Levels {
    /// In no order; those in `free` have no keys and no priority.
    all: Vec<Level>,
    free: Vec<u32>,
    /// The place of the level of each priority.
    places: BTreeMap<i32, u32>,
    /// The level of the last added key; most queues have one level.
    last: u32,
    /// The highest level with keys; any if all are empty.
    top: u32,
    fair: bool,
}

impl Levels {
    pub(super) fn new(fair: bool) -> Self {
        Self {
            all: Vec::new(),
            free: Vec::new(),
            places: BTreeMap::new(),
            last: 0,
            top: 0,
            fair,
        }
    }

    /// Return whether there is more than one level, perhaps an empty one.
    pub(super) fn are_several(&self) -> bool {
        self.places.len() > 1
    }

    /// Return the first key in line, of the highest priority; None if there is none, or the queue is fair.
    pub(super) fn first_in_line(&self) -> Option<Slot> {
        let line = self.all.get(self.top as usize)?.line;
        (!line.is_empty()).then_some(line.first)
    }

    /// Return the number of keys of higher priorities and before a key in its line, in a queue that is not fair; None
    /// after `most` steps.
    pub(super) fn ahead<K: QueueKey>(
        &self,
        slab: &Slab<K>,
        slot: Slot,
        most: usize,
    ) -> Option<usize> {
        let mut left = most;
        let mut ahead = 0;
        let above = (Excluded(slab.get(slot).priority), Unbounded);
        for (_, &place) in self.places.range(above) {
            ahead += self.all[place as usize].len;
            left = left.checked_sub(1)?;
        }
        let mut before = slab.get(slot).previous;
        while before != NONE {
            ahead += 1;
            before = slab.get(before).previous;
            left = left.checked_sub(1)?;
        }
        Some(ahead)
    }

    /// Remove and return the first key of the highest priority.
    #[inline]
    pub(super) fn pop<K: QueueKey>(&mut self, slab: &mut Slab<K>) -> Option<Slot> {
        let level = self.all.get_mut(self.top as usize)?;
        let slot = if let Some(ring) = &mut level.ring {
            ring.pop(slab)?
        } else if level.line.is_empty() {
            return None;
        } else {
            let slot = level.line.first;
            level.line.unlink::<Line, K>(slab, slot);
            slot
        };
        self.shorten(self.top);
        Some(slot)
    }

    /// Append a key to the line of its priority and group.
    #[inline]
    pub(super) fn enter<K: QueueKey>(&mut self, slab: &mut Slab<K>, slot: Slot) {
        let priority = slab.get(slot).priority;
        let place = self.find(priority).unwrap_or_else(|| self.make(priority));
        self.last = place;
        let top = &self.all[self.top as usize];
        if top.len == 0 || priority > top.priority {
            self.top = place;
        }
        let level = &mut self.all[place as usize];
        level.len += 1;
        match &mut level.ring {
            Some(ring) => ring.push(slab, slot),
            None => level.line.push::<Line, K>(slab, slot),
        }
    }

    /// Remove a key from the middle of its line.
    pub(super) fn leave<K: QueueKey>(&mut self, slab: &mut Slab<K>, slot: Slot) {
        let Some(place) = self.find(slab.get(slot).priority) else {
            return;
        };
        let level = &mut self.all[place as usize];
        match &mut level.ring {
            Some(ring) => ring.unlink(slab, slot),
            None => level.line.unlink::<Line, K>(slab, slot),
        }
        self.shorten(place);
    }

    #[inline]
    fn find(&self, priority: i32) -> Option<u32> {
        match self.all.get(self.last as usize) {
            Some(level) if level.priority == priority => Some(self.last),
            _ => self.places.get(&priority).copied(),
        }
    }

    fn make(&mut self, priority: i32) -> u32 {
        let level = Level {
            priority,
            len: 0,
            line: List::EMPTY,
            ring: self.fair.then(Box::default),
        };
        let place = if let Some(place) = self.free.pop() {
            self.all[place as usize] = level;
            place
        } else {
            self.all.push(level);
            u32::try_from(self.all.len() - 1)
                .expect("no more levels than keys, which are counted in 32 bits")
        };
        self.places.insert(priority, place);
        place
    }

    #[inline]
    fn shorten(&mut self, place: u32) {
        let level = &mut self.all[place as usize];
        level.len -= 1;
        if level.len == 0 && self.are_several() {
            self.emptied(place);
        }
    }

    /// Remove an empty level if there are many, and find the highest one with keys.
    fn emptied(&mut self, place: u32) {
        if self.places.len() > KEEP {
            self.places.remove(&self.all[place as usize].priority);
            self.free.push(place);
            if self.last == place {
                self.last = u32::MAX;
            }
        }
        if self.top != place {
            return;
        }
        let mut places = self.places.values().rev();
        match places.find(|&&place| self.all[place as usize].len > 0) {
            Some(&top) => self.top = top,
            None if self.all.len() > KEEP_MEMORY => *self = Self::new(self.fair),
            None => {}
        }
    }
}
