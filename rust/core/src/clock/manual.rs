//! A clock that only moves when a test steps it.

use std::sync::Weak;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use super::{Clock, Tick, TimeListener};
use crate::sync::{Mutex, Rank};

/// 2026-01-01T00:00:00Z, the wall-clock time of a manual clock's zero.
const UNIX_TIME_OF_ZERO: f64 = 1_767_225_600.0;

/// A clock that moves only by [`ManualClock::advance`], which wakes the threads whose time has come.
pub struct ManualClock {
    now: AtomicU64,
    waiting: AtomicUsize,
    listeners: Mutex<Vec<Weak<dyn TimeListener>>>,
}

impl ManualClock {
    /// Create a clock at `start`.
    pub fn new(start: Tick) -> Self {
        Self {
            now: AtomicU64::new(start.as_nanos()),
            waiting: AtomicUsize::new(0),
            listeners: Mutex::new(Rank::Clock, Vec::new()),
        }
    }

    /// Step the clock. Whatever became due has happened when this returns.
    pub fn advance(&self, step: Duration) {
        let nanos = u64::try_from(step.as_nanos()).unwrap_or(u64::MAX);
        let add = |now: u64| Some(now.saturating_add(nanos));
        // `fetch_update` fails only if the closure gives None.
        let _ = self
            .now
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, add);
        let listeners: Vec<_> = {
            let mut known = self.listeners.lock();
            known.retain(|listener| listener.strong_count() > 0);
            known.iter().filter_map(Weak::upgrade).collect()
        };
        // Without the lock: a listener takes its own, under which it may call `listen`.
        for listener in listeners {
            listener.time_moved();
        }
    }

    /// Return the number of threads that wait on this clock.
    pub fn waiters(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Tick {
        Tick::from_nanos(self.now.load(Ordering::SeqCst))
    }

    fn unix_time(&self) -> f64 {
        UNIX_TIME_OF_ZERO + self.now().as_secs()
    }

    fn real_wait(&self, _deadline: Tick) -> Option<Duration> {
        None
    }

    fn listen(&self, listener: Weak<dyn TimeListener>) {
        let mut known = self.listeners.lock();
        known.retain(|listener| listener.strong_count() > 0);
        known.push(listener);
    }

    fn begin_wait(&self) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
    }

    fn end_wait(&self) {
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_add_up_exactly() {
        let clock = ManualClock::new(Tick::ZERO);
        for _ in 0..10 {
            clock.advance(crate::clock::seconds(0.1));
        }
        assert_eq!(clock.now(), Tick::from_nanos(1_000_000_000));
        assert!((clock.unix_time() - 1_767_225_601.0).abs() < 1e-6);
    }

    #[test]
    fn a_step_too_far_stops_at_the_end_of_time() {
        let clock = ManualClock::new(Tick::from_nanos(5));
        clock.advance(Duration::MAX);
        assert_eq!(clock.now(), Tick::NEVER);
    }
}
