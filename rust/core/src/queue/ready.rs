//! The keys in line: by priority, within one priority first come first served or group by group, and by age.

use std::time::Duration;

use super::fair::Ring;
use super::list::{Age, Line, List};
use super::slab::{Slab, Slot};
use crate::clock::Tick;
use crate::key::QueueKey;

/// How many levels stay when they are empty, so that a steady load builds none.
const KEEP: usize = 16;

/// All keys of one priority.
struct Level {
    priority: i32,
    len: usize,
    line: List,
    /// The keys are here and not in `line` if the queue is fair.
    ring: Option<Box<Ring>>,
}

/// Hands out the oldest key now and then, whatever its priority, so that none starves.
struct Aging {
    /// How long a key waits at least, and how much time is between two such hand-outs.
    after: Duration,
    last: Option<Tick>,
}

/// The keys in line.
pub(super) struct Ready {
    /// In falling order of priority.
    levels: Vec<Level>,
    /// Where the last key was put; most queues have one level.
    last: usize,
    /// Every key, in the order in which they came into line.
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

    /// The key that is in line for the longest time.
    pub(super) fn oldest(&self) -> Option<Slot> {
        Some(self.ages.first).filter(|_| !self.ages.is_empty())
    }

    /// Whether picking the next key takes the time: with one level in order of age, the oldest is first anyway.
    pub(super) fn asks_the_time(&self) -> bool {
        self.aging.is_some() && (self.levels.len() > 1 || self.fair)
    }

    /// Puts a key at the end of the line that its priority and group say.
    #[inline]
    pub(super) fn push<K: QueueKey>(&mut self, slab: &mut Slab<K>, slot: Slot) {
        self.ages.push::<Age, K>(slab, slot);
        self.len += 1;
        self.enter_level(slab, slot);
    }

    /// Moves a key that is in line to the end of the line of another priority; its age stays.
    pub(super) fn raise<K: QueueKey>(&mut self, slab: &mut Slab<K>, slot: Slot, priority: i32) {
        self.leave_level(slab, slot);
        slab.get_mut(slot).priority = priority;
        self.enter_level(slab, slot);
    }

    /// Takes out the key to hand out next.
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

    /// The oldest key, if it waited so long that it goes before higher priorities and other groups.
    fn overdue<K: QueueKey>(&mut self, slab: &mut Slab<K>, now: Tick) -> Option<Slot> {
        if !self.asks_the_time() {
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

    /// The first key of the highest priority, out of its line.
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
