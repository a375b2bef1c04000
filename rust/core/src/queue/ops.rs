//! The operations on a queue, all of them under its lock.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::WorkQueue;
use super::limiter_calls::CallId;
use super::list::Age;
use super::slab::{NONE, Slot, Stage};
use super::state::{DelayedAdd, State};
use super::{Taken, snapshot::Snapshot};
use crate::clock::Tick;
use crate::key::{IntoKey, KeyRef, QueueKey};
use crate::metrics::{QueueMetrics, Scrape};
use crate::sync::MutexGuard;

/// The lock of a queue, held until this is dropped. Every operation first queues the delayed keys that are due.
///
/// Keys are returned to be dropped without the lock.
pub struct QueueGuard<'a, K> {
    pub(super) state: MutexGuard<'a, State<K>>,
    pub(super) queue: &'a WorkQueue<K>,
    /// The time, once it was read: one reading serves all operations under one lock.
    pub(super) now: Option<Tick>,
}

impl<K: QueueKey> QueueGuard<'_, K> {
    /// Read the clock as exactly as needed and queue what is due.
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

    /// Read the clock exactly, for deadlines, and queue what is due.
    pub(super) fn exact_tick(&mut self) -> Tick {
        let now = self.queue.clock.now();
        self.state.promote(now);
        self.now = Some(now);
        now
    }

    /// Add a key. Without a priority, a queued key keeps its own and a new key gets 0. Ignored after shutdown.
    ///
    /// `group` is the group whose turn the key uses in a fair queue. Return the key if an equal one was known.
    #[inline]
    pub fn add<A: IntoKey<K>>(&mut self, key: A, priority: Option<i32>, group: &str) -> Option<A> {
        let now = self.tick();
        if self.state.shutting_down {
            return Some(key);
        }
        let (slot, known) = self.state.slab.find_or_insert(key);
        self.state.add_slot(slot, priority, group, now);
        known
    }

    /// Make room for so many keys, before they are added.
    pub fn expect(&mut self, keys: usize) {
        if !self.state.shutting_down {
            self.state.slab.expect(keys);
        }
    }

    /// Add a key after a delay; zero means at once. Of two delayed adds of a key the earlier one stays.
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
        self.count_retry(delay);
        self.queue.delays.store(true, Ordering::Relaxed);
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

    /// Begin a rate-limited add: the caller then asks the limiter without the lock, and finishes, even if the limiter
    /// fails or panics. Return the name of the call, and the key if an equal one was known.
    ///
    /// # Errors
    /// The key, if the caller has nothing more to do: after shutdown, or if the key still waits for an earlier back-off that
    /// [`Self::end_back_off`] has not ended: it must neither grow nor take another token.
    /// If another caller is asking the limiter and the key was not forgotten since, this add shares the delay, and is
    /// queued at once if the limiter fails.
    pub fn begin_rate_limited<A: IntoKey<K>>(
        &mut self,
        key: A,
        priority: Option<i32>,
        group: &str,
    ) -> Result<(CallId, Option<A>), A> {
        self.tick();
        if self.state.shutting_down {
            return Err(key);
        }
        self.queue.delays.store(true, Ordering::Relaxed);
        let state = &mut *self.state;
        let (slot, known) = state.slab.find_or_insert(key);
        let entry = state.slab.get_mut(slot);
        let waits = || {
            let delay = state.delays.at(entry.delayed);
            delay.is_some_and(|delay| delay.back_off)
        };
        match known {
            Some(key) if entry.limiting && state.limiter_calls.follow(slot, priority, group) => {
                Err(key)
            }
            Some(key) if waits() => Err(key),
            known => {
                entry.limiting = true;
                Ok((state.limiter_calls.begin(slot), known))
            }
        }
    }

    /// End a rate-limited add with the limiter's delay; None if the limiter failed, which adds the key only for other
    /// callers that began meanwhile.
    pub fn finish_rate_limited(
        &mut self,
        call: CallId,
        delay: Option<Duration>,
        priority: Option<i32>,
        group: &str,
    ) -> Option<K> {
        let (call, another) = self.state.limiter_calls.end(call)?;
        let slot = call.slot;
        self.state.slab.get_mut(slot).limiting = another;
        if self.state.shutting_down {
            return self.state.remove_unused(slot);
        }
        let now = self.exact_tick();
        let Some(delay) = delay else {
            for follower in call.followers {
                self.state
                    .add_slot(slot, follower.priority, &follower.group, now);
            }
            return self.state.remove_unused(slot);
        };
        self.count_retry(delay);
        let delay = DelayedAdd {
            due: now.after(delay),
            priority,
            group,
            back_off: !call.forgotten,
        };
        self.state.add_at(slot, &delay, now);
        self.state.remove_unused(slot)
    }

    /// Count an add that waits; one without a delay is no retry.
    fn count_retry(&mut self, delay: Duration) {
        if let Some(metrics) = &mut self.state.metrics
            && !delay.is_zero()
        {
            metrics.retries += 1;
        }
    }

    /// Return whether there is no back-off to end: no key is delayed, and no call of the limiter will delay one.
    pub fn no_back_off(&self) -> bool {
        let none = self.state.delays.is_empty() && self.state.limiter_calls.is_empty();
        if none {
            self.queue.delays.store(false, Ordering::Relaxed);
        }
        none
    }

    /// End the back-off of a key that its limiter has forgotten: the next failure asks the limiter again, also while a
    /// call from before has not returned.
    ///
    /// The delayed add itself stays.
    pub fn end_back_off(&mut self, key: &(impl KeyRef<K> + ?Sized)) {
        if self.no_back_off() {
            return;
        }
        self.tick();
        let state = &mut *self.state;
        if let Some(slot) = state.slab.find(key) {
            state.delays.end_back_off(state.slab.get(slot).delayed);
            state.limiter_calls.forget(slot);
        }
    }

    /// Hand out the next key: the result of `show`, called under the lock, and the priority.
    #[inline]
    pub fn take<R>(&mut self, show: impl FnOnce(&K) -> R) -> Option<(R, Taken)> {
        if self.state.ready.len() == 0 && self.state.delays.is_empty() {
            return None;
        }
        let now = self.tick();
        let state = &mut *self.state;
        let slot = state.ready.pop(&mut state.slab, now)?;
        let entry = state.slab.get_mut(slot);
        entry.stage = Stage::Processing;
        entry.started = now;
        let priority = entry.priority;
        let (since, group) = (entry.since, entry.group);
        state.processing.push::<Age, K>(&mut state.slab, slot);
        state.processing_count += 1;
        state.started_sum += u128::from(now.as_nanos());
        if let Some(groups) = &mut state.groups {
            groups.leave(group);
        }
        if let Some(metrics) = &mut state.metrics {
            metrics.depth.add(priority, -1);
            metrics.queue_duration.observe(now.since(since));
        }
        self.wake_if_over();
        let taken = Taken { priority };
        Some((show(self.state.slab.key(slot)), taken))
    }

    /// End the work on a key, and queue it if it was added again meanwhile. Any other key is ignored.
    #[inline]
    pub fn done(&mut self, key: &(impl KeyRef<K> + ?Sized)) -> Option<K> {
        let now = self.end_of_work();
        let state = &mut *self.state;
        let held = |slot: &Slot| {
            matches!(
                state.slab.get(*slot).stage,
                Stage::Processing | Stage::ProcessingDirty
            )
        };
        let Some(slot) = state.slab.find(key).filter(held) else {
            if let Some(metrics) = &mut state.metrics {
                metrics.spurious_done += 1;
            }
            return None;
        };
        self.end(slot, now)
    }

    /// Do the same as [`Self::done`] for the key that was handed out last, if `is` it: without a look-up. None for
    /// another key.
    #[inline]
    pub fn done_last(&mut self, is: impl FnOnce(&K) -> bool) -> Option<Option<K>> {
        let slot = self.state.processing.last;
        if slot == NONE || !is(self.state.slab.key(slot)) {
            return None;
        }
        let now = self.end_of_work();
        Some(self.end(slot, now))
    }

    /// Return the time if anything needs that of the end of work: metrics, or delays.
    fn end_of_work(&mut self) -> Tick {
        let timed = self.state.metrics.is_some() || !self.state.delays.is_empty();
        if timed { self.tick() } else { Tick::ZERO }
    }

    fn end(&mut self, slot: Slot, now: Tick) -> Option<K> {
        let state = &mut *self.state;
        state.processing.unlink::<Age, K>(&mut state.slab, slot);
        state.processing_count -= 1;
        let entry = state.slab.get_mut(slot);
        state.started_sum -= u128::from(entry.started.as_nanos());
        if let Some(metrics) = &mut state.metrics {
            metrics.work_duration.observe(now.since(entry.started));
        }
        let unused = if entry.stage == Stage::ProcessingDirty {
            state.dirty_count -= 1;
            state.queue(slot);
            None
        } else {
            entry.stage = Stage::Idle;
            state.remove_unused(slot)
        };
        self.wake_if_over();
        if self.state.drains > 0 && self.is_drained() {
            self.queue.drained.notify_all();
        }
        unused
    }

    /// Return the number of queued keys.
    pub fn len(&mut self) -> usize {
        self.tick();
        self.state.ready.len()
    }

    /// Return whether no key is queued.
    pub fn is_empty(&mut self) -> bool {
        self.len() == 0
    }

    /// Return whether `shut_down` or a drain was called.
    pub fn shutting_down(&self) -> bool {
        self.state.shutting_down
    }

    /// Return whether no getter has anything to wait for: no key is queued, and none will be, or a second `shut_down`
    /// waits for no worker.
    pub fn is_over(&self) -> bool {
        let state = &*self.state;
        state.shutting_down && state.ready.len() == 0 && (state.dirty_count == 0 || state.forced)
    }

    /// Wake the getters if no key can come: they would wait for ever.
    fn wake_if_over(&mut self) {
        if self.is_over() {
            self.state.waiters.wake_all();
        }
    }

    /// Return whether a drain has nothing left to wait for.
    pub(super) fn is_drained(&self) -> bool {
        self.state.ready.len() == 0 && self.state.processing_count == 0
    }

    /// Shut down: ignore later adds, drop delayed keys that are not due, and end a running drain. After a shutdown or a
    /// drain, also end the getters that wait for keys which workers still hold.
    pub fn shut_down(&mut self) -> Vec<K> {
        self.tick();
        self.state.forced = self.state.shutting_down;
        self.state.shut_down_calls += 1;
        self.queue.drained.notify_all();
        self.stop_intake()
    }

    /// Ignore later adds, drop what is not due and wake all getters. Return the keys that are no longer used.
    pub(super) fn stop_intake(&mut self) -> Vec<K> {
        let state = &mut *self.state;
        state.shutting_down = true;
        let dropped = state.delays.clear(&mut state.slab);
        if let Some(metrics) = &mut state.metrics {
            metrics.dropped += dropped.len() as u64;
        }
        let mut unused = Vec::new();
        for delay in dropped {
            if let Some(groups) = &mut state.groups {
                groups.leave(delay.group);
            }
            unused.extend(state.remove_unused(delay.slot));
        }
        state.slab.shrink();
        state.waiters.wake_all();
        unused
    }

    /// Return the first `limit` keys of each part as of now, each as `show` returns it under the lock.
    pub fn snapshot<R>(&mut self, limit: usize, show: impl Fn(&K) -> R) -> Snapshot<R> {
        let now = self.exact_tick();
        Snapshot::of(&self.state, now, limit, show)
    }

    /// Panic unless the queue's entries are consistent; for tests, since it takes time quadratic in the keys.
    #[doc(hidden)]
    pub fn check(&mut self) {
        let now = self.exact_tick();
        self.state.check(now);
    }

    /// Return the number of keys that the queue knows, for whatever reason.
    pub fn known(&self) -> usize {
        self.state.slab.len()
    }

    pub(super) fn scrape(&mut self) -> Scrape {
        let now = self.exact_tick();
        let state = &*self.state;
        let held = u128::try_from(state.processing_count).unwrap_or(0);
        let unfinished = (u128::from(now.as_nanos()) * held).saturating_sub(state.started_sum);
        let age = |since: Option<Tick>| since.map_or(Duration::ZERO, |since| now.since(since));
        let longest =
            (!state.processing.is_empty()).then(|| state.slab.get(state.processing.first).started);
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

    /// Wake another getter, for one that was woken and leaves without a look at the queue.
    pub fn pass_on(&mut self) {
        if self.state.ready.len() > 0 {
            self.state.waiters.wake_one();
        }
    }
}
