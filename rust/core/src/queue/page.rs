//! Pages of a part of a queue, and the state of one key. Neither looks at the whole queue.

use std::time::Duration;

use super::QueueGuard;
use super::slab::{Entry, NONE, Slot, Stage};
use super::snapshot::{Counts, DelayedKey, HeldKey, QueuedKey, Snapshot};
use super::state::State;
use crate::clock::Tick;
use crate::key::{KeyRef, QueueKey};

/// The number of keys that one call looks at beyond those that it returns.
const SCANNED: usize = 4096;

/// A part of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The queued keys, the oldest first.
    Queued,
    /// The keys that are handed out, the longest running first.
    Processing,
    /// The delayed keys, the next one first.
    Delayed,
}

/// The last key of a page. The next page begins after it; if the key has left the part meanwhile, at its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    /// When it was queued or handed out, or when it is due, in nanoseconds.
    pub time: u64,
    /// Its slot, or the number of its delayed add.
    pub place: u64,
}

/// The state of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known<R> {
    /// The parts that the key is in, and the numbers of all keys.
    pub parts: Snapshot<R>,
    /// The number of keys that are handed out before it; None unless it is queued, in a fair queue, or for a large
    /// number.
    pub ahead: Option<usize>,
}

impl<K: QueueKey> QueueGuard<'_, K> {
    /// Return the next keys of a part, at most `limit`, and the cursor of the next page if there is one.
    ///
    /// A page may have fewer keys than `limit` although there are more, if the key of the cursor has left.
    pub fn page<R>(
        &mut self,
        part: Part,
        after: Option<Cursor>,
        limit: usize,
        show: impl Fn(&K) -> R,
    ) -> (Snapshot<R>, Option<Cursor>) {
        let now = self.exact_tick();
        let state = &*self.state;
        let mut page = Snapshot::empty(state);
        let (slots, next) = match part {
            Part::Queued => follow(state, part, state.ready.oldest(), after, limit),
            Part::Processing => {
                let first = Some(state.processing.first).filter(|_| !state.processing.is_empty());
                follow(state, part, first, after, limit)
            }
            Part::Delayed => delayed(state, after, limit),
        };
        for slot in slots {
            match part {
                Part::Queued => page.queued.push(QueuedKey::of(state, slot, now, &show)),
                Part::Processing => page.processing.push(HeldKey::of(state, slot, now, &show)),
                Part::Delayed => page.delayed.extend(DelayedKey::of(state, slot, now, &show)),
            }
        }
        (page, next)
    }

    /// Return how long a key was queued before it was handed out; zero for one that is not in progress, or is added again.
    pub fn waited(&self, key: &impl KeyRef<K>) -> Duration {
        let slab = &self.state.slab;
        match slab.find(key).map(|slot| slab.get(slot)) {
            Some(entry) if entry.stage == Stage::Processing => entry.started.since(entry.since),
            _ => Duration::ZERO,
        }
    }

    /// Return the state of one key.
    pub fn look<R>(&mut self, key: &impl KeyRef<K>, show: impl Fn(&K) -> R) -> Known<R> {
        let now = self.exact_tick();
        let state = &*self.state;
        let mut parts = Snapshot::empty(state);
        let mut ahead = None;
        if let Some(slot) = state.slab.find(key) {
            match state.slab.get(slot).stage {
                Stage::Idle => {}
                Stage::Queued => {
                    parts.queued.push(QueuedKey::of(state, slot, now, &show));
                    ahead = state.ready.ahead(&state.slab, slot, SCANNED);
                }
                Stage::Processing | Stage::ProcessingDirty => {
                    parts.processing.push(HeldKey::of(state, slot, now, &show));
                }
            }
            parts
                .delayed
                .extend(DelayedKey::of(state, slot, now, &show));
        }
        Known { parts, ahead }
    }
}

impl<R> Snapshot<R> {
    fn empty<K: QueueKey>(state: &State<K>) -> Self {
        Self {
            counts: Counts::of(state),
            queued: Vec::new(),
            processing: Vec::new(),
            delayed: Vec::new(),
        }
    }
}

/// Return the slots after the cursor in the list of a part that begins at `first`.
fn follow<K: QueueKey>(
    state: &State<K>,
    part: Part,
    first: Option<Slot>,
    after: Option<Cursor>,
    limit: usize,
) -> (Vec<Slot>, Option<Cursor>) {
    let time = |entry: &Entry<K>| match part {
        Part::Queued => entry.since.as_nanos(),
        _ => entry.started.as_nanos(),
    };
    let at = after.and_then(|cursor| {
        let entry = state.slab.used(Slot::try_from(cursor.place).ok()?)?;
        let queued = entry.stage == Stage::Queued;
        let held = matches!(entry.stage, Stage::Processing | Stage::ProcessingDirty);
        let here = if part == Part::Queued { queued } else { held };
        (here && time(entry) == cursor.time).then_some(entry.newer)
    });
    let from = after.filter(|_| at.is_none()).map(|cursor| cursor.time);
    let mut slot = at.or(first).unwrap_or(NONE);
    let (mut slots, mut next) = (Vec::new(), None);
    let mut left = SCANNED + limit;
    while slot != NONE && slots.len() < limit && left > 0 {
        let entry = state.slab.get(slot);
        if from.is_none_or(|from| time(entry) >= from) {
            slots.push(slot);
        }
        next = (entry.newer != NONE).then(|| Cursor {
            time: time(entry),
            place: u64::from(slot),
        });
        slot = entry.newer;
        left -= 1;
    }
    (slots, next)
}

fn delayed<K: QueueKey>(
    state: &State<K>,
    after: Option<Cursor>,
    limit: usize,
) -> (Vec<Slot>, Option<Cursor>) {
    let order = |cursor: Cursor| (Tick::from_nanos(cursor.time), cursor.place);
    let delays = state.delays.following(after.map(order), limit + 1);
    let last = delays
        .get(limit.wrapping_sub(1))
        .filter(|_| delays.len() > limit);
    let next = last.map(|delay| Cursor {
        time: delay.due.as_nanos(),
        place: delay.number,
    });
    let slots = delays.iter().take(limit).map(|delay| delay.slot);
    (slots.collect(), next)
}
