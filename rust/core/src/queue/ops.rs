//! One operation on a queue: the lock, taken.

use std::time::Duration;

use super::WorkQueue;
use super::slab::NONE;
use super::state::{DelayedAdd, State};
use super::{Taken, snapshot::Snapshot};
use crate::clock::Tick;
use crate::key::{IntoKey, KeyRef, QueueKey};
use crate::metrics::{QueueMetrics, Scrape};
use crate::sync::MutexGuard;

/// A queue whose lock is held. Every operation first brings what is due into line.
///
/// Whatever gives a key back gives it to be dropped without the lock.
pub struct Locked<'a, K> {
    pub(super) state: MutexGuard<'a, State<K>>,
    pub(super) queue: &'a WorkQueue<K>,
    /// The time, once it was read: one reading does for all that happens under the lock.
    pub(super) now: Option<Tick>,
}

impl<K: QueueKey> Locked<'_, K> {
    /// Reads the clock, as exactly as somebody will look, and brings what is due into line.
    #[inline]
    pub(super) fn tick(&mut self) -> Tick {
        if let Some(now) = self.now {
            return now;
        }
        let exact = self.state.metrics.is_some() || !self.state.delays.is_empty();
        if exact {
            return self.exact_tick();
        }
        let now = self.queue.clock.coarse();
        self.now = Some(now);
        now
    }

    /// Reads the clock exactly, for deadlines, and brings what is due into line.
    pub(super) fn exact_tick(&mut self) -> Tick {
        let now = self.queue.clock.now();
        self.state.promote(now);
        self.now = Some(now);
        now
    }

    /// Adds a key; no priority keeps what a queued key has and is 0 for a new one. Ignored after shutdown.
    ///
    /// `group` is whose turn the key uses; it means something only in a fair queue. Gives the key back if it was known.
    #[inline]
    pub fn add<A: IntoKey<K>>(&mut self, key: A, priority: Option<i32>, group: &str) -> Option<A> {
        let now = self.tick();
        self.state.add(key, priority, group, now)
    }

    /// Adds a key after a delay, zero being at once. Of two delayed adds of a key the earlier one stays.
    pub fn add_after<A: IntoKey<K>>(
        &mut self,
        key: A,
        delay: Duration,
        priority: Option<i32>,
        group: &str,
    ) -> Option<A> {
        let now = self.exact_tick();
        if self.state.shutting_down {
            return Some(key);
        }
        if let Some(metrics) = &mut self.state.metrics {
            metrics.retries += 1;
        }
        let due = now.after(delay);
        if due == Tick::NEVER {
            return Some(key);
        }
        let (slot, known) = self.state.slab.find_or_insert(key);
        let delay = DelayedAdd {
            due,
            priority,
            group,
            back_off: false,
        };
        self.state.add_at(slot, &delay, now);
        known
    }

    /// Begins a rate-limited add: asks the caller to ask the limiter, without the lock, and to finish.
    ///
    /// # Errors
    /// Gives the key back where there is nothing to do: after shutdown, or if the key still waits for an earlier
    /// back-off, which must neither grow nor cost a token for being asked for again.
    pub fn begin_rate_limited<A: IntoKey<K>>(&mut self, key: A) -> Result<Option<A>, A> {
        self.tick();
        if self.state.shutting_down {
            return Err(key);
        }
        let (slot, known) = self.state.slab.find_or_insert(key);
        let entry = self.state.slab.get(slot);
        let waits = entry.delayed != NONE
            && self
                .state
                .delays
                .at(entry.delayed)
                .is_some_and(|delay| delay.back_off);
        match known {
            Some(key) if waits || entry.asking => Err(key),
            known => {
                self.state.slab.get_mut(slot).asking = true;
                Ok(known)
            }
        }
    }

    /// Ends a rate-limited add with what the limiter said; `None` if it failed, which adds nothing.
    pub fn finish_rate_limited(
        &mut self,
        key: &(impl KeyRef<K> + ?Sized),
        delay: Option<Duration>,
        priority: Option<i32>,
        group: &str,
    ) -> Option<K> {
        let slot = self.state.slab.find(key)?;
        self.state.slab.get_mut(slot).asking = false;
        let Some(delay) = delay.filter(|_| !self.state.shutting_down) else {
            return self.state.remove_unused(slot);
        };
        let now = self.exact_tick();
        if let Some(metrics) = &mut self.state.metrics {
            metrics.retries += 1;
        }
        let delay = DelayedAdd {
            due: now.after(delay),
            priority,
            group,
            back_off: true,
        };
        self.state.add_at(slot, &delay, now);
        self.state.remove_unused(slot)
    }

    /// Hands out the next key: what `show` makes of it, under the lock, and its priority.
    #[inline]
    pub fn take<R>(&mut self, show: impl FnOnce(&K) -> R) -> Option<(R, Taken)> {
        if self.state.ready.len() == 0 && self.state.delays.is_empty() {
            return None;
        }
        let now = self.tick();
        let (slot, taken) = self.state.take(now)?;
        Some((show(self.state.slab.key(slot)), taken))
    }

    /// Ends the work on a key, which comes into line again if it was added meanwhile. Harmless for any other key.
    #[inline]
    pub fn done(&mut self, key: &(impl KeyRef<K> + ?Sized)) -> Option<K> {
        // Without metrics nobody asks how long the work took.
        let timed = self.state.metrics.is_some() || !self.state.delays.is_empty();
        let now = if timed { self.tick() } else { Tick::ZERO };
        let unused = self.state.done(key, now);
        if self.state.drainers > 0 && self.state.is_drained() {
            self.queue.drained.notify_all();
        }
        unused
    }

    /// How many keys are in line.
    pub fn len(&mut self) -> usize {
        self.tick();
        self.state.ready.len()
    }

    /// Whether no key is in line.
    pub fn is_empty(&mut self) -> bool {
        self.len() == 0
    }

    /// Whether `shut_down` or a drain was called.
    pub fn shutting_down(&self) -> bool {
        self.state.shutting_down
    }

    /// Whether no key will ever be handed out again.
    pub fn is_over(&self) -> bool {
        self.state.is_over()
    }

    /// Ends the intake: later adds are ignored, delayed ones that are not due are dropped. A drain that runs gives up.
    pub fn shut_down(&mut self) -> Vec<K> {
        self.tick();
        self.state.forced += 1;
        self.queue.drained.notify_all();
        self.state.shut_down()
    }

    /// All keys of this instant, each as `show` makes it under the lock.
    pub fn snapshot<R>(&mut self, show: impl Fn(&K) -> R) -> Snapshot<R> {
        let now = self.exact_tick();
        Snapshot::of(&self.state, now, show)
    }

    /// How many keys the queue knows, for whatever reason.
    pub fn known(&self) -> usize {
        self.state.slab.len()
    }

    pub(super) fn scrape(&mut self) -> Scrape {
        let now = self.exact_tick();
        let state = &*self.state;
        let held = u128::try_from(state.held_count).unwrap_or(0);
        let unfinished = (u128::from(now.as_nanos()) * held).saturating_sub(state.held_since);
        let age = |since: Option<Tick>| since.map_or(Duration::ZERO, |since| now.since(since));
        let longest = (!state.held.is_empty()).then(|| state.slab.get(state.held.first).started);
        Scrape {
            counted: state
                .metrics
                .as_deref()
                .cloned()
                .unwrap_or_else(QueueMetrics::default),
            unfinished: Duration::from_nanos(u64::try_from(unfinished).unwrap_or(u64::MAX)),
            longest_running: age(longest),
            oldest: age(state.ready.oldest().map(|slot| state.slab.get(slot).since)),
            delayed: state.delays.len(),
        }
    }

    /// Calls another getter, for one that was called and leaves without looking.
    pub fn pass_on(&mut self) {
        if self.state.ready.len() > 0 {
            self.state.sleepers.call_one();
        }
    }
}
