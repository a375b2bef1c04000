//! Limiters made from others.

use std::sync::Arc;
use std::time::Duration;

use super::{LimiterError, RateLimiter};
use crate::clock::Clock;
use crate::key::KeyRef;

/// The longest wait of several limiters, all of which are asked.
pub struct MaxOfRateLimiter<K> {
    limiters: Vec<Arc<dyn RateLimiter<K>>>,
}

impl<K> MaxOfRateLimiter<K> {
    /// Combine limiters; without any there is no wait.
    pub fn new(limiters: Vec<Arc<dyn RateLimiter<K>>>) -> Self {
        Self { limiters }
    }
}

impl<K> RateLimiter<K> for MaxOfRateLimiter<K> {
    fn when(&self, key: &dyn KeyRef<K>) -> Result<Duration, LimiterError> {
        let mut waits = self.limiters.iter().map(|limiter| limiter.when(key));
        waits.try_fold(Duration::ZERO, |longest, wait| Ok(longest.max(wait?)))
    }

    fn forget(&self, key: &dyn KeyRef<K>) -> Result<(), LimiterError> {
        // All of them, even if one fails; the first error is returned.
        self.limiters
            .iter()
            .map(|limiter| limiter.forget(key))
            .fold(Ok(()), Result::and)
    }

    fn num_requeues(&self, key: &dyn KeyRef<K>) -> Result<u64, LimiterError> {
        let mut counts = self
            .limiters
            .iter()
            .map(|limiter| limiter.num_requeues(key));
        counts.try_fold(0, |most, count| Ok(most.max(count?)))
    }

    fn adopt_clock(&self, clock: &Arc<dyn Clock>) {
        for limiter in &self.limiters {
            limiter.adopt_clock(clock);
        }
    }

    fn forgets_nothing(&self) -> bool {
        self.limiters
            .iter()
            .all(|limiter| limiter.forgets_nothing())
    }
}

/// The wait of another limiter, with a maximum. A bucket inside still counts its full wait.
pub struct WithMaxWaitRateLimiter<K> {
    limiter: Arc<dyn RateLimiter<K>>,
    max_delay: Duration,
}

impl<K> WithMaxWaitRateLimiter<K> {
    /// Bound the waits of `limiter`.
    pub fn new(limiter: Arc<dyn RateLimiter<K>>, max_delay: Duration) -> Self {
        Self { limiter, max_delay }
    }
}

impl<K> RateLimiter<K> for WithMaxWaitRateLimiter<K> {
    fn when(&self, key: &dyn KeyRef<K>) -> Result<Duration, LimiterError> {
        Ok(self.limiter.when(key)?.min(self.max_delay))
    }

    fn forget(&self, key: &dyn KeyRef<K>) -> Result<(), LimiterError> {
        self.limiter.forget(key)
    }

    fn num_requeues(&self, key: &dyn KeyRef<K>) -> Result<u64, LimiterError> {
        self.limiter.num_requeues(key)
    }

    fn adopt_clock(&self, clock: &Arc<dyn Clock>) {
        self.limiter.adopt_clock(clock);
    }

    fn forgets_nothing(&self) -> bool {
        self.limiter.forgets_nothing()
    }
}
