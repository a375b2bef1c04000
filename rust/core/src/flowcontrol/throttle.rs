//! A token bucket that callers wait for.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::clock::{Clock, Tick, TimeListener};

/// The wait would end after the deadline, and so was not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the throttle would let this pass only after the deadline")]
pub struct TooLate;

struct Level {
    /// Fewer than none are tokens that somebody waits for.
    tokens: f64,
    at: Tick,
}

/// Lets so many callers a second pass, a burst of them at once.
pub struct Throttle {
    qps: f64,
    burst: f64,
    clock: Arc<dyn Clock>,
    level: Mutex<Level>,
    moved: Condvar,
}

impl Throttle {
    /// A full bucket.
    pub fn new(qps: f64, burst: u32, clock: Arc<dyn Clock>) -> Arc<Self> {
        let burst = f64::from(burst);
        let level = Mutex::new(Level {
            tokens: burst,
            at: clock.now(),
        });
        let throttle = Arc::new(Self {
            qps,
            burst,
            clock,
            level,
            moved: Condvar::new(),
        });
        let listener: Weak<dyn TimeListener> = Arc::downgrade(&throttle) as _;
        throttle.clock.listen(listener);
        throttle
    }

    /// How many a second.
    pub fn qps(&self) -> f64 {
        self.qps
    }

    fn refill(&self, level: &mut Level) -> Tick {
        let now = self.clock.now();
        let gained = now.since(level.at).as_secs_f64() * self.qps;
        level.tokens = (level.tokens + gained).min(self.burst);
        level.at = now;
        now
    }

    /// Takes a token if there is one.
    pub fn try_accept(&self) -> bool {
        let mut level = self.level.lock();
        self.refill(&mut level);
        let there = level.tokens >= 1.0;
        if there {
            level.tokens -= 1.0;
        }
        there
    }

    /// Waits for a token.
    pub fn accept(&self) {
        // Without a deadline nothing is too late.
        let _ = self.wait(None);
    }

    /// Waits for a token that comes before the deadline.
    ///
    /// # Errors
    /// Says at once that none will come in time; none is taken then.
    pub fn wait(&self, deadline: Option<Tick>) -> Result<(), TooLate> {
        let mut level = self.level.lock();
        let now = self.refill(&mut level);
        let missing = (1.0 - level.tokens).max(0.0);
        let due =
            now.after(Duration::try_from_secs_f64(missing / self.qps).unwrap_or(Duration::MAX));
        if deadline.is_some_and(|deadline| due > deadline) {
            return Err(TooLate);
        }
        level.tokens -= 1.0;
        while self.clock.now() < due {
            let real = self.clock.real_wait(due);
            self.clock.fall_asleep();
            match real {
                None => self.moved.wait(&mut level),
                Some(real) => {
                    self.moved.wait_for(&mut level, real);
                }
            }
            self.clock.wake_up();
        }
        Ok(())
    }
}

impl TimeListener for Throttle {
    fn time_moved(&self) {
        // Through the lock: whoever is about to sleep sleeps now, and hears this.
        drop(self.level.lock());
        self.moved.notify_all();
    }
}
