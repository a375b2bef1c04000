//! Limiters that count the failures of each key.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::{LimiterError, RateLimiter};
use crate::key::{KeyRef, QueueKey};
use crate::sync::{Mutex, Rank};

/// How often each key was asked for since it was forgotten.
struct Counts<K> {
    table: Mutex<HashTable<(K, u64)>>,
    /// The number of keys in the table, readable without the lock: most keys never fail.
    known: AtomicUsize,
}

impl<K: QueueKey> Counts<K> {
    fn new() -> Self {
        Self {
            table: Mutex::new(Rank::Limiter, HashTable::new()),
            known: AtomicUsize::new(0),
        }
    }

    /// Count one more; return the count before.
    fn count(&self, key: &dyn KeyRef<K>) -> u64 {
        let mut table = self.table.lock();
        match table.entry(
            key.hash64(),
            |(held, _)| key.matches(held),
            |(held, _)| held.hash64(),
        ) {
            Entry::Occupied(mut found) => {
                let count = &mut found.get_mut().1;
                *count += 1;
                *count - 1
            }
            Entry::Vacant(vacant) => {
                vacant.insert((key.content(), 1));
                self.known.fetch_add(1, Ordering::Relaxed);
                0
            }
        }
    }

    fn get(&self, key: &dyn KeyRef<K>) -> u64 {
        self.table
            .lock()
            .find(key.hash64(), |(held, _)| key.matches(held))
            .map_or(0, |(_, count)| *count)
    }

    fn forget(&self, key: &dyn KeyRef<K>) {
        let mut table = self.table.lock();
        if let Ok(occupied) = table.find_entry(key.hash64(), |(held, _)| key.matches(held)) {
            occupied.remove();
            self.known.fetch_sub(1, Ordering::Relaxed);
            if table.is_empty() && table.capacity() > 4096 {
                *table = HashTable::new();
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.known.load(Ordering::Relaxed) == 0
    }
}

/// The wait as a function of failures.
pub trait Wait: Send + Sync {
    /// Return the wait after `failures` earlier failures.
    fn after(&self, failures: u64) -> Duration;
}

/// A limiter whose waits depend on the failures of the key alone.
pub struct ItemRateLimiter<K, W> {
    wait: W,
    failures: Counts<K>,
}

impl<K: QueueKey + Send, W: Wait> RateLimiter<K> for ItemRateLimiter<K, W> {
    fn when(&self, key: &dyn KeyRef<K>) -> Result<Duration, LimiterError> {
        Ok(self.wait.after(self.failures.count(key)))
    }

    fn forget(&self, key: &dyn KeyRef<K>) -> Result<(), LimiterError> {
        self.failures.forget(key);
        Ok(())
    }

    fn num_requeues(&self, key: &dyn KeyRef<K>) -> Result<u64, LimiterError> {
        Ok(self.failures.get(key))
    }

    fn forgets_nothing(&self) -> bool {
        self.failures.is_empty()
    }
}

/// Doubles the wait with each failure of a key, up to a limit.
pub type ItemExponentialFailureRateLimiter<K> = ItemRateLimiter<K, Exponential>;

/// Waits a short time for the first failures of a key and a long time for the others.
pub type ItemFastSlowRateLimiter<K> = ItemRateLimiter<K, FastSlow>;

/// The waits of an [`ItemExponentialFailureRateLimiter`].
pub struct Exponential {
    base: Duration,
    max: Duration,
}

impl<K: QueueKey> ItemExponentialFailureRateLimiter<K> {
    /// Wait `base`, then twice as long each time, at most `max`.
    pub fn new(base: Duration, max: Duration) -> Self {
        Self {
            wait: Exponential { base, max },
            failures: Counts::new(),
        }
    }
}

impl<K: QueueKey> Default for ItemExponentialFailureRateLimiter<K> {
    fn default() -> Self {
        Self::new(Duration::from_millis(5), Duration::from_secs(1000))
    }
}

impl Wait for Exponential {
    fn after(&self, failures: u64) -> Duration {
        // 2^failures as a checked multiplication.
        let factor = u32::try_from(failures)
            .ok()
            .and_then(|failures| 1_u128.checked_shl(failures));
        let nanos = factor.and_then(|factor| self.base.as_nanos().checked_mul(factor));
        let wait = match nanos.map(u64::try_from) {
            Some(Ok(nanos)) => Duration::from_nanos(nanos),
            _ if self.base.is_zero() => Duration::ZERO,
            _ => self.max,
        };
        wait.min(self.max)
    }
}

/// The waits of an [`ItemFastSlowRateLimiter`].
pub struct FastSlow {
    fast: Duration,
    slow: Duration,
    max_fast_attempts: u64,
}

impl<K: QueueKey> ItemFastSlowRateLimiter<K> {
    /// Wait `fast` for the first `max_fast_attempts` times, then `slow`.
    pub fn new(fast: Duration, slow: Duration, max_fast_attempts: u64) -> Self {
        let wait = FastSlow {
            fast,
            slow,
            max_fast_attempts,
        };
        let failures = Counts::new();
        Self { wait, failures }
    }
}

impl Wait for FastSlow {
    fn after(&self, failures: u64) -> Duration {
        if failures < self.max_fast_attempts {
            self.fast
        } else {
            self.slow
        }
    }
}
