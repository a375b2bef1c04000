//! Time as an argument, so that tests step it instead of sleeping.
//!
//! Points in time are whole nanoseconds: sums of delays stay exact, and a delay of 50 ms is due after a step of 50 ms.

mod manual;
mod system;

use std::sync::Weak;
use std::time::Duration;

pub use manual::ManualClock;
pub use system::SystemClock;

/// A point on a clock's own time line, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(u64);

impl Tick {
    /// The start of the time line.
    pub const ZERO: Self = Self(0);
    /// A point that never comes.
    pub const NEVER: Self = Self(u64::MAX);

    /// The point that many nanoseconds after the start.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the start.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a float is what the reader asked for; 2^53 ns are 104 days to the ns"
    )]
    pub fn as_secs(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The point `delay` later; [`Tick::NEVER`] where that can not be told.
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        let nanos = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }

    /// The time from `earlier` to here; zero where `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Turns seconds into a duration, rounded to the nanosecond: at most zero is zero, what is too long is the longest one.
///
/// The caller has refused NaN before.
pub fn seconds(seconds: f64) -> Duration {
    if seconds <= 0.0 {
        return Duration::ZERO;
    }
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

/// Somebody with threads asleep who must look again once a clock was moved by hand.
pub trait TimeListener: Send + Sync {
    /// The clock moved; do what is due and wake those whose time has come. Called without any lock of the clock's.
    fn time_moved(&self);
}

/// Where time comes from.
pub trait Clock: Send + Sync {
    /// Monotonic time.
    fn now(&self) -> Tick;

    /// Monotonic time that may lag a few milliseconds, for what needs no better and is read often.
    fn coarse(&self) -> Tick {
        self.now()
    }

    /// Seconds since the epoch, for timestamps in objects. The only time that an operator can set.
    fn unix_time(&self) -> f64;

    /// How long to sleep in real time for `deadline` to come; `None` if only a step of the clock brings it.
    fn real_wait(&self, deadline: Tick) -> Option<Duration>;

    /// Call `listener` whenever the clock is stepped. A clock that runs by itself ignores it.
    fn listen(&self, _listener: Weak<dyn TimeListener>) {}

    /// Note that one more thread waits.
    fn begin_wait(&self) {}

    /// Note that one thread no longer waits.
    fn end_wait(&self) {}
}
