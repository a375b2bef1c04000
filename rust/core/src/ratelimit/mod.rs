//! How long a failed key of a work queue waits: client-go's limiters. Controllers have their own back-off.

mod answer;
mod bucket;
mod combine;
mod counts;

use std::sync::Arc;
use std::time::Duration;

pub use answer::Answer;
pub use bucket::BucketRateLimiter;
pub use combine::{MaxOfRateLimiter, WithMaxWaitRateLimiter};
pub use counts::{ItemExponentialFailureRateLimiter, ItemFastSlowRateLimiter, ItemRateLimiter};

use crate::clock::Clock;
use crate::key::{KeyRef, QueueKey};

/// The error of a limiter from beyond the border.
pub type LimiterError = Box<dyn std::error::Error + Send + Sync>;

/// Decides how long a key waits. Called from any thread, never under the lock of a queue.
pub trait RateLimiter<K>: Send + Sync {
    /// Return how long the key has to wait this time; [`Duration::MAX`] means for ever.
    ///
    /// # Errors
    /// A limiter from beyond the border may fail; the key is not added then.
    fn when(&self, key: &dyn KeyRef<K>) -> Result<Duration, LimiterError>;

    /// Forget the failures of a key that succeeded or was given up.
    ///
    /// # Errors
    /// As for [`RateLimiter::when`].
    fn forget(&self, _key: &dyn KeyRef<K>) -> Result<(), LimiterError> {
        Ok(())
    }

    /// Return how often the key was asked for since it was last forgotten.
    ///
    /// # Errors
    /// As for [`RateLimiter::when`].
    fn num_requeues(&self, _key: &dyn KeyRef<K>) -> Result<u64, LimiterError> {
        Ok(0)
    }

    /// Adopt the clock of a queue, unless the limiter was created with one or has that of another queue.
    fn adopt_clock(&self, _clock: &Arc<dyn Clock>) {}

    /// Return whether there is nothing to forget for any key, which saves the lookup.
    fn forgets_nothing(&self) -> bool {
        false
    }
}

/// Create client-go's default for controllers: 5 ms to 1000 s per key, and ten keys per second over all, 100 at once.
pub fn default_controller_rate_limiter<K: QueueKey + Send + 'static>(
    clock: Option<Arc<dyn Clock>>,
) -> MaxOfRateLimiter<K> {
    MaxOfRateLimiter::new(vec![
        Arc::new(ItemExponentialFailureRateLimiter::default()),
        Arc::new(BucketRateLimiter::new(10.0, 100, clock)),
    ])
}
