//! The state of a queue, and its transitions. All of it is under the queue's lock.

use super::delays::{Delay, Delays};
use super::fair::Groups;
use super::list::{Age, List};
use super::ready::Ready;
use super::slab::{NONE, Slab, Slot, Stage};
use super::waiters::Waiters;
use super::{Options, Taken};
use crate::clock::Tick;
use crate::key::{IntoKey, KeyRef, QueueKey};
use crate::metrics::QueueMetrics;

/// Everything under the lock.
pub(super) struct State<K> {
    pub(super) slab: Slab<K>,
    /// The keys in stage `Queued`.
    pub(super) ready: Ready,
    /// The keys in stages `Processing` and `ProcessingDirty`, in the order in which they were handed out.
    pub(super) processing: List,
    pub(super) processing_count: usize,
    /// The sum of the times, in nanoseconds, at which the keys in `processing` were handed out.
    pub(super) started_sum: u128,
    /// The number of keys in stage `ProcessingDirty`.
    pub(super) dirty_count: usize,
    pub(super) delays: Delays,
    pub(super) groups: Option<Groups>,
    pub(super) shutting_down: bool,
    /// How often `shut_down` was called; a drain that began before the last call ends.
    pub(super) shut_down_calls: u64,
    pub(super) waiters: Waiters,
    /// The number of waiting drains, which are woken when nothing is left.
    pub(super) drains: usize,
    /// None for a queue without a name.
    pub(super) metrics: Option<Box<QueueMetrics>>,
}

impl<K: QueueKey> State<K> {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            slab: Slab::new(),
            ready: Ready::new(options.fair, options.aging),
            processing: List::EMPTY,
            processing_count: 0,
            started_sum: 0,
            dirty_count: 0,
            delays: Delays::default(),
            groups: options.fair.then(Groups::default),
            shutting_down: false,
            shut_down_calls: 0,
            waiters: Waiters::default(),
            drains: 0,
            metrics: options.metrics.then(Box::default),
        }
    }

    /// Add a key; return it if an equal one was there before.
    #[inline]
    pub(super) fn add<A: IntoKey<K>>(
        &mut self,
        key: A,
        priority: Option<i32>,
        group: &str,
        now: Tick,
    ) -> Option<A> {
        if self.shutting_down {
            return Some(key);
        }
        let (slot, known) = self.slab.find_or_insert(key);
        self.add_slot(slot, priority, group, now);
        known
    }

    #[inline]
    fn add_slot(&mut self, slot: Slot, priority: Option<i32>, group: &str, now: Tick) {
        if matches!(self.slab.get(slot).stage, Stage::Idle | Stage::Processing) {
            let group = self.groups.as_mut().map_or(0, |groups| groups.enter(group));
            self.need_work(slot, priority.unwrap_or(0), group, now);
        } else if let Some(priority) = priority {
            self.raise(slot, priority);
        }
    }

    /// Note that a key needs work: queue it, at once or when it is done.
    fn need_work(&mut self, slot: Slot, priority: i32, group: u32, now: Tick) {
        if let Some(metrics) = &mut self.metrics {
            metrics.adds += 1;
            metrics.depth.add(priority, 1);
        }
        let entry = self.slab.get_mut(slot);
        entry.priority = priority;
        entry.group = group;
        entry.since = now;
        if entry.stage == Stage::Processing {
            entry.stage = Stage::ProcessingDirty;
            self.dirty_count += 1;
        } else {
            self.queue(slot);
        }
    }

    fn queue(&mut self, slot: Slot) {
        self.slab.get_mut(slot).stage = Stage::Queued;
        self.ready.push(&mut self.slab, slot);
        self.waiters.wake_one();
    }

    /// Raise the priority of a key that needs work; a lower priority changes nothing.
    fn raise(&mut self, slot: Slot, priority: i32) {
        let entry = self.slab.get_mut(slot);
        let former = entry.priority;
        if priority <= former {
            return;
        }
        if entry.stage == Stage::Queued {
            self.ready.raise(&mut self.slab, slot, priority);
        } else {
            entry.priority = priority;
        }
        if let Some(metrics) = &mut self.metrics {
            metrics.depth.add(former, -1);
            metrics.depth.add(priority, 1);
        }
    }

    /// Hand out the next key.
    #[inline]
    pub(super) fn take(&mut self, now: Tick) -> Option<(Slot, Taken)> {
        let slot = self.ready.pop(&mut self.slab, now)?;
        let entry = self.slab.get_mut(slot);
        entry.stage = Stage::Processing;
        entry.started = now;
        let taken = Taken {
            priority: entry.priority,
        };
        let (since, group) = (entry.since, entry.group);
        self.processing.push::<Age, K>(&mut self.slab, slot);
        self.processing_count += 1;
        self.started_sum += u128::from(now.as_nanos());
        if let Some(groups) = &mut self.groups {
            groups.leave(group);
        }
        if let Some(metrics) = &mut self.metrics {
            metrics.depth.add(taken.priority, -1);
            metrics.queue_duration.observe(now.since(since));
        }
        if self.shutting_down {
            self.wake_if_over();
        }
        Some((slot, taken))
    }

    /// End the work on a key. Return the key if the queue no longer needs it.
    #[inline]
    pub(super) fn done(&mut self, key: &(impl KeyRef<K> + ?Sized), now: Tick) -> Option<K> {
        let held = |slot: &Slot| {
            matches!(
                self.slab.get(*slot).stage,
                Stage::Processing | Stage::ProcessingDirty
            )
        };
        let Some(slot) = self.slab.find(key).filter(held) else {
            if let Some(metrics) = &mut self.metrics {
                metrics.spurious_done += 1;
            }
            return None;
        };
        self.processing.unlink::<Age, K>(&mut self.slab, slot);
        self.processing_count -= 1;
        let entry = self.slab.get_mut(slot);
        self.started_sum -= u128::from(entry.started.as_nanos());
        if let Some(metrics) = &mut self.metrics {
            metrics.work_duration.observe(now.since(entry.started));
        }
        let unused = if entry.stage == Stage::ProcessingDirty {
            self.dirty_count -= 1;
            self.queue(slot);
            None
        } else {
            entry.stage = Stage::Idle;
            self.remove_unused(slot)
        };
        if self.shutting_down {
            self.wake_if_over();
        }
        unused
    }

    /// Add the key of a slot at `delay.due`: at once if that is no later than `now`, never for [`Tick::NEVER`].
    pub(super) fn add_at(&mut self, slot: Slot, delay: &DelayedAdd<'_>, now: Tick) {
        let DelayedAdd {
            due,
            priority,
            back_off,
            group,
        } = *delay;
        if due <= now {
            return self.add_slot(slot, priority, group, now);
        }
        if due == Tick::NEVER {
            return;
        }
        let mut new = Delay {
            slot,
            due,
            number: 0,
            group: 0,
            priority,
            back_off,
        };
        let earliest = self.delays.next_due();
        let place = self.slab.get(slot).delayed;
        if place == NONE {
            new.group = self.groups.as_mut().map_or(0, |groups| groups.enter(group));
            self.delays.insert(&mut self.slab, new);
        } else {
            self.delays.merge(&mut self.slab, place, &new);
        }
        if self.delays.next_due() != earliest {
            self.waiters.wake_timekeeper();
        }
    }

    /// Queue what is due.
    #[inline]
    pub(super) fn promote(&mut self, now: Tick) {
        while let Some(delay) = self.delays.pop_due(&mut self.slab, now) {
            if matches!(
                self.slab.get(delay.slot).stage,
                Stage::Idle | Stage::Processing
            ) {
                self.need_work(
                    delay.slot,
                    delay.priority.unwrap_or(0),
                    delay.group,
                    delay.due,
                );
                continue;
            }
            if let Some(groups) = &mut self.groups {
                groups.leave(delay.group);
            }
            if let Some(priority) = delay.priority {
                self.raise(delay.slot, priority);
            }
        }
    }

    /// Shut down: drop what is not due and wake all threads. Return the keys that are no longer used.
    pub(super) fn shut_down(&mut self) -> Vec<K> {
        self.shutting_down = true;
        let dropped = self.delays.clear(&mut self.slab);
        if let Some(metrics) = &mut self.metrics {
            metrics.dropped += dropped.len() as u64;
        }
        let mut unused = Vec::new();
        for delay in dropped {
            if let Some(groups) = &mut self.groups {
                groups.leave(delay.group);
            }
            unused.extend(self.remove_unused(delay.slot));
        }
        self.slab.shrink();
        self.waiters.wake_all();
        unused
    }

    /// Return whether no key will ever be handed out again.
    pub(super) fn is_over(&self) -> bool {
        self.shutting_down && self.ready.len() == 0 && self.dirty_count == 0
    }

    /// Return whether a drain has nothing left to wait for.
    pub(super) fn is_drained(&self) -> bool {
        self.ready.len() == 0 && self.processing_count == 0
    }

    /// Wake the getters if no key can come: they would wait for ever.
    fn wake_if_over(&mut self) {
        if self.is_over() {
            self.waiters.wake_all();
        }
    }

    /// Remove an entry that holds nothing; return its key.
    pub(super) fn remove_unused(&mut self, slot: Slot) -> Option<K> {
        let entry = self.slab.get(slot);
        let unused = entry.stage == Stage::Idle && entry.delayed == NONE && !entry.limiting;
        unused.then(|| self.slab.remove(slot))
    }
}

/// A delayed add.
#[derive(Clone, Copy, Debug)]
pub(super) struct DelayedAdd<'a> {
    pub(super) due: Tick,
    pub(super) priority: Option<i32>,
    pub(super) group: &'a str,
    pub(super) back_off: bool,
}
