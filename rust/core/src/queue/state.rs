//! The state of a queue, all of it under the queue's lock, and the steps that several operations share.

use super::Options;
use super::delays::{Delay, Delays};
use super::fair::Groups;
use super::limiter_calls::LimiterCalls;
use super::list::List;
use super::ready::Ready;
use super::slab::{NONE, Slab, Slot, Stage};
use super::waiters::Waiters;
use crate::clock::Tick;
use crate::key::QueueKey;
use crate::metrics::QueueMetrics;

/// Everything under the lock.
///
/// What client-go keeps in a list and two sets is the [`Stage`] of an entry here: a key is dirty in `Queued` and in
/// `ProcessingDirty`, and processing in `Processing` and in `ProcessingDirty`. `State::check` asserts what follows.
pub(super) struct State<K> {
    /// Every key that is known for any reason, once; an entry that is idle, has no delayed add and waits for no limiter
    /// is removed.
    pub(super) slab: Slab<K>,
    /// The order in which keys are handed out. Every key in it is dirty and not processing.
    pub(super) ready: Ready,
    /// The keys that a worker holds, in the order in which they were handed out. A key that is added meanwhile becomes
    /// dirty and stays here; `done` takes it out and, if it is dirty, queues it. So no key has two workers.
    pub(super) processing: List,
    pub(super) processing_count: usize,
    /// The sum of the times, in nanoseconds, at which the keys in `processing` were handed out.
    pub(super) started_sum: u128,
    /// The number of keys that are dirty and processing: they need work, but are not in `ready` yet.
    pub(super) dirty_count: usize,
    /// Adds that are not due, at most one for each key, whatever its stage.
    pub(super) delays: Delays,
    pub(super) limiter_calls: LimiterCalls,
    pub(super) groups: Option<Groups>,
    pub(super) shutting_down: bool,
    /// `shut_down` was called during a shutdown: getters no longer wait for keys that come back from a worker.
    pub(super) forced: bool,
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
            limiter_calls: LimiterCalls::default(),
            groups: options.fair.then(Groups::default),
            shutting_down: false,
            forced: false,
            shut_down_calls: 0,
            waiters: Waiters::default(),
            drains: 0,
            metrics: options.metrics.then(Box::default),
        }
    }

    /// Add the key of a slot; if it needs work already, only raise its priority.
    #[inline]
    pub(super) fn add_slot(&mut self, slot: Slot, priority: Option<i32>, group: &str, now: Tick) {
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

    pub(super) fn queue(&mut self, slot: Slot) {
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
            unnamed: priority.is_none(),
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
                self.need_work(delay.slot, delay.priority_if_new(), delay.group, delay.due);
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
