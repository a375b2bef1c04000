//! The queued keys: by priority, within one priority in order of arrival or group by group, and by age.

use std::time::Duration;

use super::levels::Levels;
use super::list::{Age, List};
use super::slab::{Slab, Slot};
use crate::clock::Tick;
use crate::key::QueueKey;

/// Hands out the oldest key now and then, whatever its priority, so that no key starves.
struct Aging {
    /// How long a key waits at least, and the time between two such keys.
    after: Duration,
    last: Option<Tick>,
}

/// The queued keys.
pub(super) struct Ready {
    levels: Levels,
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
            levels: Levels::new(fair),
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

    /// Return the number of keys that are handed out before a queued one, if the order stays; None after `most` steps, or
    /// if groups take turns.
    pub(super) fn ahead<K: QueueKey>(
        &self,
        slab: &Slab<K>,
        slot: Slot,
        most: usize,
    ) -> Option<usize> {
        if self.fair {
            return None;
        }
        self.levels.ahead(slab, slot, most)
    }

    /// Return whether the choice of the next key needs the time: with one level in order of age, the oldest key is
    /// first anyway.
    pub(super) fn needs_time(&self) -> bool {
        self.aging.is_some() && (self.levels.are_several() || self.fair)
    }

    /// Append a key to the line of its priority and group.
    #[inline]
    pub(super) fn push<K: QueueKey>(&mut self, slab: &mut Slab<K>, slot: Slot) {
        self.ages.push::<Age, K>(slab, slot);
        self.len += 1;
        self.levels.enter(slab, slot);
    }

    /// Append a queued key to the line of another priority; its age stays.
    pub(super) fn raise<K: QueueKey>(&mut self, slab: &mut Slab<K>, slot: Slot, priority: i32) {
        self.levels.leave(slab, slot);
        slab.get_mut(slot).priority = priority;
        self.levels.enter(slab, slot);
    }

    /// Remove and return the next key to hand out.
    #[inline]
    pub(super) fn pop<K: QueueKey>(&mut self, slab: &mut Slab<K>, now: Tick) -> Option<Slot> {
        if self.len == 0 {
            return None;
        }
        let slot = self.overdue(slab, now).or_else(|| self.levels.pop(slab))?;
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
        if !self.fair && self.levels.first_in_line() == Some(oldest) {
            // It is first anyway, and the next one may need the turn more.
            return None;
        }
        let aging = self.aging.as_mut()?;
        let rested = aging.last.is_none_or(|last| now.since(last) >= aging.after);
        if !rested || now.since(slab.get(oldest).since) < aging.after {
            return None;
        }
        aging.last = Some(now);
        self.levels.leave(slab, oldest);
        Some(oldest)
    }
}
