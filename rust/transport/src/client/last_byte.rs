//! When the last byte came from a server, on any connection of the clients that share it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The time of the last byte of a response. Clones share it.
#[derive(Clone, Debug)]
pub struct LastByte(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    created: Instant,
    /// Milliseconds from `created` to the last byte, plus one; zero before the first byte.
    at: AtomicU64,
}

impl LastByte {
    /// Start without a byte.
    pub fn new() -> Self {
        Self(Arc::new(Shared {
            created: Instant::now(),
            at: AtomicU64::new(0),
        }))
    }

    /// Return how long ago the last byte came; None if none has.
    pub fn age(&self) -> Option<Duration> {
        let at = self.0.at.load(Ordering::Relaxed).checked_sub(1)?;
        let since = self.0.created.elapsed();
        Some(since.saturating_sub(Duration::from_millis(at)))
    }

    pub(super) fn arrived(&self) {
        let millis = self.0.created.elapsed().as_millis();
        let at = u64::try_from(millis).unwrap_or(u64::MAX - 1) + 1;
        self.0.at.store(at, Ordering::Relaxed);
    }
}

impl Default for LastByte {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: operations/OP127
    #[test]
    fn clones_share_the_time_of_the_last_byte() {
        let first = LastByte::new();
        let second = first.clone();
        assert_eq!(second.age(), None);
        first.arrived();
        assert!(
            second
                .age()
                .is_some_and(|age| age <= first.0.created.elapsed())
        );
    }
}
