//! The content of a queue as of now.

use std::cmp::Reverse;
use std::time::Duration;

use super::QueueGuard;
use super::slab::{NONE, Slot, Stage};
use super::state::State;
use crate::clock::Tick;
use crate::key::QueueKey;

/// A queued key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedKey<R> {
    /// The key.
    pub key: R,
    /// Its priority.
    pub priority: i32,
    /// How long it has been queued.
    pub age: Duration,
}

/// A key that is handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldKey<R> {
    /// The key.
    pub key: R,
    /// How long ago it was handed out.
    pub running: Duration,
    /// The priority with which it is queued once done, if it was added again meanwhile.
    pub again: Option<i32>,
}

/// A delayed key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelayedKey<R> {
    /// The key.
    pub key: R,
    /// How long it has to wait.
    pub due_in: Duration,
    /// The priority with which it is queued.
    pub priority: Option<i32>,
    /// Whether the limiter made the wait, and has not forgotten the key since.
    pub back_off: bool,
}

/// How many keys each part has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Queued.
    pub queued: usize,
    /// Handed out.
    pub processing: usize,
    /// Delayed.
    pub delayed: usize,
}

/// The keys of a queue, or the first ones. A key can be both delayed and queued, or both delayed and processed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot<R> {
    /// The numbers of all keys.
    pub counts: Counts,
    /// Queued: by descending priority, then by age.
    pub queued: Vec<QueuedKey<R>>,
    /// Handed out, the longest running first.
    pub processing: Vec<HeldKey<R>>,
    /// Delayed, the next one first.
    pub delayed: Vec<DelayedKey<R>>,
}

impl<R> QueuedKey<R> {
    pub(super) fn of<K: QueueKey>(
        state: &State<K>,
        slot: Slot,
        now: Tick,
        show: impl Fn(&K) -> R,
    ) -> Self {
        let entry = state.slab.get(slot);
        Self {
            key: show(state.slab.key(slot)),
            priority: entry.priority,
            age: now.since(entry.since),
        }
    }
}

impl<R> HeldKey<R> {
    pub(super) fn of<K: QueueKey>(
        state: &State<K>,
        slot: Slot,
        now: Tick,
        show: impl Fn(&K) -> R,
    ) -> Self {
        let entry = state.slab.get(slot);
        Self {
            key: show(state.slab.key(slot)),
            running: now.since(entry.started),
            again: (entry.stage == Stage::ProcessingDirty).then_some(entry.priority),
        }
    }
}

impl<R> DelayedKey<R> {
    /// Return the delayed add of a key; None if it has none.
    pub(super) fn of<K: QueueKey>(
        state: &State<K>,
        slot: Slot,
        now: Tick,
        show: impl Fn(&K) -> R,
    ) -> Option<Self> {
        let delay = state.delays.at(state.slab.get(slot).delayed)?;
        Some(Self {
            key: show(state.slab.key(slot)),
            due_in: delay.due.since(now),
            priority: delay.shown_priority(),
            back_off: delay.back_off,
        })
    }
}

impl Counts {
    pub(super) fn of<K: QueueKey>(state: &State<K>) -> Self {
        Self {
            queued: state.ready.len(),
            processing: state.processing_count,
            delayed: state.delays.len(),
        }
    }
}

impl<K: QueueKey> QueueGuard<'_, K> {
    /// Return every key that the queue knows, in no order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        let slab = &self.state.slab;
        slab.iter().map(|(slot, _)| slab.key(slot))
    }
}

impl<R> Snapshot<R> {
    pub(super) fn of<K: QueueKey>(
        state: &State<K>,
        now: Tick,
        limit: usize,
        show: impl Fn(&K) -> R,
    ) -> Self {
        let counts = Counts::of(state);
        let mut queued = Vec::with_capacity(counts.queued);
        let mut processing = Vec::with_capacity(counts.processing);
        let mut delayed = Vec::with_capacity(counts.delayed);
        for (slot, entry) in state.slab.iter() {
            match entry.stage {
                Stage::Idle => {}
                Stage::Queued => queued.push(slot),
                Stage::Processing | Stage::ProcessingDirty => processing.push(slot),
            }
            if entry.delayed != NONE {
                delayed.push(slot);
            }
        }
        let entry = |slot| state.slab.get(slot);
        let order = |slot| (Reverse(entry(slot).priority), entry(slot).since);
        let queued = first(queued, limit, order).map(|slot| QueuedKey::of(state, slot, now, &show));
        let order = |slot| entry(slot).started;
        let processing =
            first(processing, limit, order).map(|slot| HeldKey::of(state, slot, now, &show));
        let order = |slot| {
            let delay = state.delays.at(entry(slot).delayed);
            delay.map(|delay| delay.due)
        };
        let delayed =
            first(delayed, limit, order).filter_map(|slot| DelayedKey::of(state, slot, now, &show));
        Self {
            counts,
            queued: queued.collect(),
            processing: processing.collect(),
            delayed: delayed.collect(),
        }
    }

    /// Sort each part. Call it without the lock, so that a snapshot does not block the queue.
    pub fn sort(&mut self) {
        self.queued
            .sort_by_key(|queued| (Reverse(queued.priority), Reverse(queued.age)));
        self.processing.sort_by_key(|held| Reverse(held.running));
        self.delayed.sort_by_key(|delayed| delayed.due_in);
    }
}

/// Return the first `limit` of these slots in order; or all of them as they are, to be sorted without the lock.
fn first<T: Ord>(
    slots: Vec<Slot>,
    limit: usize,
    order: impl Fn(Slot) -> T,
) -> impl ExactSizeIterator<Item = Slot> {
    if slots.len() <= limit {
        return slots.into_iter();
    }
    let keyed = slots.into_iter().map(|slot| (order(slot), slot));
    let mut keyed: Vec<(T, Slot)> = keyed.collect();
    keyed.select_nth_unstable(limit);
    keyed.truncate(limit);
    keyed.sort_unstable();
    let slots: Vec<Slot> = keyed.into_iter().map(|(_, slot)| slot).collect();
    slots.into_iter()
}
