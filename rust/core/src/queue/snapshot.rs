//! The content of a queue as of now.

use std::time::Duration;

use super::Locked;
use super::slab::Stage;
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

/// All keys of a queue. A key can be both delayed and queued, or both delayed and processed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot<R> {
    /// Queued: by descending priority, then by age.
    pub queued: Vec<QueuedKey<R>>,
    /// Handed out, the longest running first.
    pub processing: Vec<HeldKey<R>>,
    /// Delayed, the next one first.
    pub delayed: Vec<DelayedKey<R>>,
}

impl<K: QueueKey> Locked<'_, K> {
    /// Return every key that the queue knows, in no order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.state.slab.iter().map(|(key, _)| key)
    }
}

impl<R> Snapshot<R> {
    pub(super) fn of<K: QueueKey>(state: &State<K>, now: Tick, show: impl Fn(&K) -> R) -> Self {
        let mut snapshot = Self {
            queued: Vec::with_capacity(state.ready.len()),
            processing: Vec::with_capacity(state.processing_count),
            delayed: Vec::with_capacity(state.delays.len()),
        };
        for (key, entry) in state.slab.iter() {
            match entry.stage {
                Stage::Idle => {}
                Stage::Queued => {
                    snapshot.queued.push(QueuedKey {
                        key: show(key),
                        priority: entry.priority,
                        age: now.since(entry.since),
                    });
                }
                Stage::Processing | Stage::ProcessingDirty => {
                    snapshot.processing.push(HeldKey {
                        key: show(key),
                        running: now.since(entry.started),
                        again: (entry.stage == Stage::ProcessingDirty).then_some(entry.priority),
                    });
                }
            }
            if let Some(delay) = state.delays.at(entry.delayed) {
                snapshot.delayed.push(DelayedKey {
                    key: show(key),
                    due_in: delay.due.since(now),
                    priority: delay.shown_priority(),
                    back_off: delay.back_off,
                });
            }
        }
        snapshot
    }

    /// Sort each part. Call it without the lock, so that a snapshot does not block the queue.
    pub fn sort(&mut self) {
        self.queued.sort_by_key(|queued| {
            (
                std::cmp::Reverse(queued.priority),
                std::cmp::Reverse(queued.age),
            )
        });
        self.processing
            .sort_by_key(|held| std::cmp::Reverse(held.running));
        self.delayed.sort_by_key(|delayed| delayed.due_in);
    }
}
