//! Time as an argument, so that tests step it instead of sleeping.
//!
//! Points in time are integral nanoseconds: sums of delays stay exact, and a delay of 50 ms is due after a step of 50
//! ms.

mod manual;
mod system;

use std::sync::Weak;
use std::time::Duration;

pub use manual::ManualClock;
pub use system::{SuspendAwareClock, SystemClock};

/// A point on a clock's time line, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(u64);

impl Tick {
    /// The start of the time line.
    pub const ZERO: Self = Self(0);
    /// A point that never comes.
    pub const NEVER: Self = Self(u64::MAX);

    /// Return the point that many nanoseconds after the start.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Return the nanoseconds since the start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Return the seconds since the start.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a float is what the reader asked for; 2^53 ns are 104 days to the ns"
    )]
    pub fn as_secs(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Return the point `delay` later; [`Tick::NEVER`] if that overflows.
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        let nanos = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }

    /// Return the time since `earlier`; zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Convert seconds to a duration, rounded to nanoseconds and limited to the range of durations. The caller has
/// rejected NaN.
pub fn seconds(seconds: f64) -> Duration {
    if seconds <= 0.0 {
        return Duration::ZERO;
    }
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

/// Called when a manual clock moves, for threads that wait on it.
pub trait TimeListener: Send + Sync {
    /// Do what is due and wake the threads whose time has come. Called without any lock of the clock.
    fn time_moved(&self);
}

/// A source of time.
pub trait Clock: Send + Sync {
    /// Return the monotonic time.
    fn now(&self) -> Tick;

    /// Return a monotonic time that may lag by a few milliseconds, for frequent reads that need no better.
    fn coarse(&self) -> Tick {
        self.now()
    }

    /// Return the seconds since the epoch, for timestamps in objects. The only time that an operator can set.
    fn unix_time(&self) -> f64;

    /// Return the real time to wait for `deadline`; None if only a step of the clock reaches it.
    fn real_wait(&self, deadline: Tick) -> Option<Duration>;

    /// Call `listener` whenever the clock is stepped. A clock that runs by itself ignores it.
    fn listen(&self, _listener: Weak<dyn TimeListener>) {}

    /// Note that one more thread waits.
    fn begin_wait(&self) {}

    /// Note that one thread no longer waits.
    fn end_wait(&self) {}
}
