//! Limiters that count the failures of each key.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use parking_lot::Mutex;

use super::{LimiterError, RateLimiter};
use crate::key::{KeyRef, QueueKey};

/// How often each key was asked about since it was forgotten.
struct Counts<K> {
    table: Mutex<HashTable<(K, u64)>>,
    /// How many keys the table has, to be read without the lock: most keys never fail.
    known: AtomicUsize,
}

impl<K: QueueKey> Counts<K> {
    const fn new() -> Self {
        Self {
            table: Mutex::new(HashTable::new()),
            known: AtomicUsize::new(0),
        }
    }

    /// Counts one more; gives how many there were before.
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
        if let Ok(found) = table.find_entry(key.hash64(), |(held, _)| key.matches(held)) {
            found.remove();
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

/// Doubles the wait with each failure of a key, up to a limit.
pub struct ItemExponentialFailureRateLimiter<K> {
    base: Duration,
    max: Duration,
    failures: Counts<K>,
}

impl<K: QueueKey> ItemExponentialFailureRateLimiter<K> {
    /// Waits `base`, then twice as long each time, at most `max`.
    pub fn new(base: Duration, max: Duration) -> Self {
        Self {
            base,
            max,
            failures: Counts::new(),
        }
    }
}

impl<K: QueueKey> Default for ItemExponentialFailureRateLimiter<K> {
    fn default() -> Self {
        Self::new(Duration::from_millis(5), Duration::from_secs(1000))
    }
}

impl<K: QueueKey + Send> RateLimiter<K> for ItemExponentialFailureRateLimiter<K> {
    fn when(&self, key: &dyn KeyRef<K>) -> Result<Duration, LimiterError> {
        let failures = self.failures.count(key);
        // 2^failures as a multiplication that notices when it no longer fits.
        let factor = u32::try_from(failures)
            .ok()
            .and_then(|failures| 1_u128.checked_shl(failures));
        let nanos = factor.and_then(|factor| self.base.as_nanos().checked_mul(factor));
        let wait = match nanos.map(u64::try_from) {
            Some(Ok(nanos)) => Duration::from_nanos(nanos),
            _ if self.base.is_zero() => Duration::ZERO,
            _ => self.max,
        };
        Ok(wait.min(self.max))
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

/// Waits a short time for the first failures of a key and a long one for the others.
pub struct ItemFastSlowRateLimiter<K> {
    fast: Duration,
    slow: Duration,
    max_fast_attempts: u64,
    failures: Counts<K>,
}

impl<K: QueueKey> ItemFastSlowRateLimiter<K> {
    /// Waits `fast` for the first `max_fast_attempts` times, then `slow`.
    pub fn new(fast: Duration, slow: Duration, max_fast_attempts: u64) -> Self {
        Self {
            fast,
            slow,
            max_fast_attempts,
            failures: Counts::new(),
        }
    }
}

impl<K: QueueKey + Send> RateLimiter<K> for ItemFastSlowRateLimiter<K> {
    fn when(&self, key: &dyn KeyRef<K>) -> Result<Duration, LimiterError> {
        let failures = self.failures.count(key);
        Ok(if failures < self.max_fast_attempts {
            self.fast
        } else {
            self.slow
        })
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
