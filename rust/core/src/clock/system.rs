//! The system clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{Clock, Tick};

/// The system's monotonic clock that also counts while the machine is suspended, where there is one.
#[derive(Clone, Copy, Debug, Default)]
pub struct SuspendAwareClock;

/// The system's monotonic clock; setting the wall clock changes only [`Clock::unix_time`].
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

#[cfg(target_os = "linux")]
mod source {
    use rustix::time::{ClockId, Timespec, clock_gettime};

    use super::Tick;

    fn tick(time: Timespec) -> Tick {
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
        Tick::from_nanos(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
    }

    pub(super) fn now() -> Tick {
        tick(clock_gettime(ClockId::Monotonic))
    }

    pub(super) fn with_suspensions() -> Tick {
        tick(clock_gettime(ClockId::Boottime))
    }

    /// Return the time of the last timer interrupt, on the same line: it costs a fifth of the exact time.
    pub(super) fn coarse() -> Tick {
        tick(clock_gettime(ClockId::MonotonicCoarse))
    }
}

#[cfg(not(target_os = "linux"))]
mod source {
    use std::sync::OnceLock;
    use std::time::Instant;

    use super::Tick;

    pub(super) fn now() -> Tick {
        static START: OnceLock<Instant> = OnceLock::new();
        // Start after zero, so that zero is never a time that was read.
        Tick::from_nanos(1_000_000_000).after(START.get_or_init(Instant::now).elapsed())
    }

    pub(super) fn with_suspensions() -> Tick {
        now()
    }

    pub(super) fn coarse() -> Tick {
        now()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Tick {
        source::now()
    }

    fn coarse(&self) -> Tick {
        source::coarse()
    }

    fn unix_time(&self) -> f64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0.0, |passed| passed.as_secs_f64())
    }

    fn real_wait(&self, deadline: Tick) -> Option<Duration> {
        Some(deadline.since(self.now()))
    }
}

impl Clock for SuspendAwareClock {
    fn now(&self) -> Tick {
        source::with_suspensions()
    }

    fn unix_time(&self) -> f64 {
        SystemClock.unix_time()
    }

    fn real_wait(&self, deadline: Tick) -> Option<Duration> {
        Some(deadline.since(self.now()))
    }
}
