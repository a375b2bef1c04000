//! How long a key that failed has to wait: client-go's limiters.

mod bucket;
mod combine;
mod counts;

use std::sync::Arc;
use std::time::Duration;

pub use bucket::BucketRateLimiter;
pub use combine::{MaxOfRateLimiter, WithMaxWaitRateLimiter};
pub use counts::{ItemExponentialFailureRateLimiter, ItemFastSlowRateLimiter, ItemRateLimiter};

use crate::clock::Clock;
use crate::key::{KeyRef, QueueKey};

/// What a limiter from outside failed with.
pub type LimiterError = Box<dyn std::error::Error + Send + Sync>;

/// Says how long a key has to wait. Called from any thread, never with a queue's lock.
pub trait RateLimiter<K>: Send + Sync {
    /// How long the key has to wait this time; [`Duration::MAX`] is for ever.
    ///
    /// # Errors
    /// A limiter from outside may fail; nothing is queued then.
    fn when(&self, key: &dyn KeyRef<K>) -> Result<Duration, LimiterError>;

    /// The key is fine, or given up: its failures do not count any more.
    ///
    /// # Errors
    /// As for [`RateLimiter::when`].
    fn forget(&self, key: &dyn KeyRef<K>) -> Result<(), LimiterError>;

    /// How often the key was asked about since it was last forgotten.
    ///
    /// # Errors
    /// As for [`RateLimiter::when`].
    fn num_requeues(&self, key: &dyn KeyRef<K>) -> Result<u64, LimiterError>;

    /// Takes the clock of the queue that uses it, unless it was made with one or has one from another queue.
    fn adopt_clock(&self, _clock: &Arc<dyn Clock>) {}

    /// Whether there is nothing to forget of any key, which spares the search for one.
    fn forgets_nothing(&self) -> bool {
        false
    }
}

/// What every controller of client-go gets: 5 ms to 1000 s by key, and ten keys a second over all, 100 at once.
pub fn default_controller_rate_limiter<K: QueueKey + Send + 'static>(
    clock: Option<Arc<dyn Clock>>,
) -> MaxOfRateLimiter<K> {
    MaxOfRateLimiter::new(vec![
        Arc::new(ItemExponentialFailureRateLimiter::default()),
        Arc::new(BucketRateLimiter::new(10.0, 100, clock)),
    ])
}
