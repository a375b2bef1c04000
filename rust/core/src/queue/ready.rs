//! The queued keys: by priority, within one priority in order of arrival or group by group, and by age.

use std::time::Duration;

use super::fair::Ring;
use super::list::{Age, Line, List};
use super::slab::{Slab, Slot};
use crate::clock::Tick;
use crate::key::QueueKey;

/// How many empty levels are kept, so that a steady load creates none.
const KEEP: usize = 16;

/// All keys of one priority.
struct Level {
    priority: i32,
    len: usize,
    line: List,
    /// The keys are in here instead of `line` if the queue is fair.
    ring: Option<Box<Ring>>,
}

/// Hands out the oldest key now and then, whatever its priority, so that no key starves.
struct Aging {
    /// How long a key waits at least, and the time between two such keys.
    after: Duration,
    last: Option<Tick>,
}

/// The queued keys.
pub(super) struct Ready {
    /// In descending order of priority.
    levels: Vec<Level>,
    /// The level of the last added key; most queues have one level.
    last: usize,
    /// Every key, in order of arrival.
    ages: List,
    len: usize,
    aging: Option<Aging>,
    fair: bool,
}

impl Ready {
    pub(super) fn new(fair: bool, aging: Option<Duration>) -> Self {
        let aging = aging.map(|after| Aging { after, last: None });
        Self {
            levels: Vec::new(),
            last: 0,
            ages: List::EMPTY,
            len: 0,
            aging,
            fair,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Return the key that has been queued longest.
    pub(super) fn oldest(&self) -> Option<Slot> {
        Some(self.ages.first).filter(|_| !self.ages.is_empty())
    }

    /// Return whether the choice of the next key needs the time: with one level in order of age, the oldest key is
    /// first anyway.
    pub(super) fn needs_time(&self) -> bool {
        self.aging.is_some() && (self.levels.len() > 1 || self.fair)
    }

    /// Append a key to the line of its priority and group.
    #[inline]
    pub(super) fn push<K: QueueKey>(&mut self, slab: &mut Slab<K>, slot: Slot) {
        self.ages.push::<Age, K>(slab, slot);
        self.len += 1;
        self.enter_level(slab, slot);
    }

    /// Append a queued key to the line of another priority; its age stays.
    pub(super) fn raise<K: QueueKey>(&mut self, slab: &mut Slab<K>, slot: Slot, priority: i32) {
        self.leave_level(slab, slot);
        slab.get_mut(slot).priority = priority;
        self.enter_level(slab, slot);
    }

    /// Remove and return the next key to hand out.
    #[inline]
    pub(super) fn pop<K: QueueKey>(&mut self, slab: &mut Slab<K>, now: Tick) -> Option<Slot> {
        if self.len == 0 {
            return None;
        }
        let slot = self.overdue(slab, now).or_else(|| self.first(slab))?;
        self.ages.unlink::<Age, K>(slab, slot);
        self.len -= 1;
        Some(slot)
    }

    /// Remove and return the oldest key if it has waited long enough to go before higher priorities and other groups.
    fn overdue<K: QueueKey>(&mut self, slab: &mut Slab<K>, now: Tick) -> Option<Slot> {
        if !self.needs_time() {
            return None;
        }
        let oldest = self.ages.first;
        if !self.fair && self.levels.iter().find(|level| level.len > 0)?.line.first == oldest {
            // It is first anyway, and the next one may need the turn more.
            return None;
        }
        let aging = self.aging.as_mut()?;
        let rested = aging.last.is_none_or(|last| now.since(last) >= aging.after);
        if !rested || now.since(slab.get(oldest).since) < aging.after {
            return None;
        }
        aging.last = Some(now);
        self.leave_level(slab, oldest);
        Some(oldest)
    }

    /// Remove and return the first key of the highest priority.
    fn first<K: QueueKey>(&mut self, slab: &mut Slab<K>) -> Option<Slot> {
        let place = self.levels.iter().position(|level| level.len > 0)?;
        let level = &mut self.levels[place];
        let slot = if let Some(ring) = &mut level.ring {
            ring.pop(slab)?
        } else {
            let slot = level.line.first;
            level.line.unlink::<Line, K>(slab, slot);
            slot
        };
        level.len -= 1;
        self.drop_if_empty(place);
        Some(slot)
    }

    fn enter_level<K: QueueKey>(&mut self, slab: &mut Slab<K>, slot: Slot) {
        let priority = slab.get(slot).priority;
        let place = match self.levels.get(self.last) {
            Some(level) if level.priority == priority => self.last,
            _ => self.find_or_make(priority),
        };
        self.last = place;
        let level = &mut self.levels[place];
        level.len += 1;
        match &mut level.ring {
            Some(ring) => ring.push(slab, slot),
            None => level.line.push::<Line, K>(slab, slot),
        }
    }

    fn leave_level<K: QueueKey>(&mut self, slab: &mut Slab<K>, slot: Slot) {
        let priority = slab.get(slot).priority;
        let place = self.find_or_make(priority);
        let level = &mut self.levels[place];
        level.len -= 1;
        match &mut level.ring {
            Some(ring) => ring.unlink(slab, slot),
            None => level.line.unlink::<Line, K>(slab, slot),
        }
        self.drop_if_empty(place);
    }

    fn find_or_make(&mut self, priority: i32) -> usize {
        match self
            .levels
            .binary_search_by(|level| priority.cmp(&level.priority))
        {
            Ok(place) => place,
            Err(place) => {
                let ring = self.fair.then(Box::default);
                self.levels.insert(
                    place,
                    Level {
                        priority,
                        len: 0,
                        line: List::EMPTY,
                        ring,
                    },
                );
                place
            }
        }
    }

    fn drop_if_empty(&mut self, place: usize) {
        if self.levels[place].len == 0 && self.levels.len() > KEEP {
            self.levels.remove(place);
        }
    }
}
