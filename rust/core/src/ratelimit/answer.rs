//! The answer of a limiter, even where it panics.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use super::{LimiterError, RateLimiter};
use crate::key::KeyRef;

/// What a limiter returned, or its panic: to be continued when the queue's state is in order again.
pub struct Answer(std::thread::Result<Result<Duration, LimiterError>>);

impl Answer {
    /// Ask a limiter how long a key has to wait.
    pub fn of<K>(limiter: &dyn RateLimiter<K>, key: &dyn KeyRef<K>) -> Self {
        Self(catch_unwind(AssertUnwindSafe(|| limiter.when(key))))
    }

    /// Return the delay, unless the limiter failed.
    pub fn delay(&self) -> Option<Duration> {
        self.0.as_ref().ok()?.as_ref().ok().copied()
    }

    /// Return what the limiter returned, or continue its panic.
    ///
    /// # Errors
    /// The error of the limiter.
    pub fn into_result(self) -> Result<Duration, LimiterError> {
        self.0.unwrap_or_else(|panic| resume_unwind(panic))
    }
}
