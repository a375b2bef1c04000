//! A token bucket over all keys.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::{LimiterError, RateLimiter};
use crate::clock::{Clock, SystemClock, Tick, seconds};
use crate::key::KeyRef;
use crate::sync::{Mutex, Rank};

/// Tokens at a point in time; a negative number is tokens already promised.
struct Level {
    tokens: f64,
    at: Option<Tick>,
}

/// Lets `qps` keys per second pass, `burst` of them at once. The wait is not bounded.
pub struct BucketRateLimiter {
    qps: f64,
    burst: f64,
    level: Mutex<Level>,
    clock: OnceLock<Arc<dyn Clock>>,
}

impl BucketRateLimiter {
    /// Create a full bucket. Without a clock it uses that of the first queue it is given to, otherwise the system
    /// clock.
    pub fn new(qps: f64, burst: u32, clock: Option<Arc<dyn Clock>>) -> Self {
        let burst = f64::from(burst);
        let clock = clock.map_or_else(OnceLock::new, OnceLock::from);
        Self {
            qps,
            burst,
            level: Mutex::new(
                Rank::Limiter,
                Level {
                    tokens: burst,
                    at: None,
                },
            ),
            clock,
        }
    }

    /// Take one token and return the wait until it is available.
    pub fn reserve(&self) -> Duration {
        let now = self
            .clock
            .get()
            .map_or_else(|| SystemClock.now(), |clock| clock.now());
        let mut level = self.level.lock();
        if self.qps.is_infinite() {
            return Duration::ZERO;
        }
        let passed = level.at.map_or(Duration::ZERO, |at| now.since(at));
        level.at = Some(level.at.map_or(now, |at| at.max(now)));
        level.tokens = (level.tokens + passed.as_secs_f64() * self.qps).min(self.burst) - 1.0;
        seconds(-level.tokens / self.qps)
    }
}

impl<K> RateLimiter<K> for BucketRateLimiter {
    fn when(&self, _key: &dyn KeyRef<K>) -> Result<Duration, LimiterError> {
        Ok(self.reserve())
    }

    fn adopt_clock(&self, clock: &Arc<dyn Clock>) {
        // The first queue's clock stays: tokens cannot be counted on two time lines.
        let _ = self.clock.set(Arc::clone(clock));
    }

    fn forgets_nothing(&self) -> bool {
        true
    }
}
