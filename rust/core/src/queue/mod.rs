//! The work queue with client-go's guarantees (one run of a key at a time, adds before a run collapse into it, an add
//! during a run causes exactly one more), delays, back-off, priorities and fairness.
//!
//! All state is under one lock, held for some tens of nanoseconds. There is no thread: the next operation after a
//! delayed add is due queues it, and a waiting getter waits no longer than until then.

mod delays;
mod fair;
mod invariants;
mod levels;
mod limiter_calls;
mod list;
mod ops;
mod page;
mod ready;
mod slab;
mod snapshot;
mod state;
mod waiters;
mod waits;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

pub use limiter_calls::CallId;
pub use ops::QueueGuard;
pub use page::{Cursor, Known, Part};
pub use snapshot::{Counts, DelayedKey, HeldKey, QueuedKey, Snapshot};
pub use waits::{Drained, Woken};

use crate::clock::{Clock, TimeListener};
use crate::key::{IntoKey, KeyRef, QueueKey};
use crate::metrics::Scrape;
use crate::ratelimit::{Answer, LimiterError, RateLimiter};
use crate::sync::{AtomicBool, Condvar, Mutex, Rank};
use state::State;

/// How a queue behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// Count what happens.
    pub metrics: bool,
    /// Hand out by turns among the groups named when keys are added.
    pub fair: bool,
    /// At most once per this time, hand out the oldest key before higher priorities if it has waited that long.
    pub aging: Option<Duration>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            metrics: false,
            fair: false,
            aging: Some(Duration::from_secs(30)),
        }
    }
}

/// What a getter gets besides the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The priority that the key was queued with.
    pub priority: i32,
}

/// A queue of keys that need work.
pub struct WorkQueue<K> {
    state: Mutex<State<K>>,
    /// Whether a key may be delayed, or a call of the limiter may delay one: false means that none is. Written under the
    /// lock, and read without it.
    delays: AtomicBool,
    /// Where drains wait.
    drained: Condvar,
    clock: Arc<dyn Clock>,
    limiter: Arc<dyn RateLimiter<K>>,
}

impl<K: QueueKey + Send + 'static> WorkQueue<K> {
    /// Create an empty queue. The limiter gets the queue's clock unless it has its own.
    pub fn new(
        options: &Options,
        clock: Arc<dyn Clock>,
        limiter: Arc<dyn RateLimiter<K>>,
    ) -> Arc<Self> {
        limiter.adopt_clock(&clock);
        let queue = Arc::new(Self {
            state: Mutex::new(Rank::Queue, State::new(options)),
            delays: AtomicBool::new(false),
            drained: Condvar::default(),
            clock,
            limiter,
        });
        let listener: Weak<dyn TimeListener> = Arc::downgrade(&queue) as _;
        queue.clock.listen(listener);
        queue
    }
}

impl<K: QueueKey> WorkQueue<K> {
    /// Take the lock, waiting for it if necessary.
    pub fn lock(&self) -> QueueGuard<'_, K> {
        QueueGuard {
            state: self.state.lock(),
            queue: self,
            now: None,
        }
    }

    /// Take the lock if it is free.
    pub fn try_lock(&self) -> Option<QueueGuard<'_, K>> {
        Some(QueueGuard {
            state: self.state.try_lock()?,
            queue: self,
            now: None,
        })
    }

    /// Return whether there may be a back-off to end; cheaper than [`QueueGuard::no_back_off`], which is exact.
    pub fn may_back_off(&self) -> bool {
        self.delays.load(Ordering::Relaxed)
    }

    /// Return the limiter; call it without the lock.
    pub fn limiter(&self) -> &Arc<dyn RateLimiter<K>> {
        &self.limiter
    }

    /// Add a failed key after the time that the limiter returns.
    ///
    /// # Errors
    /// The error of the limiter; the key is not added then.
    pub fn add_rate_limited<A: IntoKey<K> + Clone>(
        &self,
        key: &A,
        priority: Option<i32>,
    ) -> Result<(), LimiterError> {
        let begun = self.lock().begin_rate_limited(key.clone(), priority, "");
        let Ok((call, known)) = begun else {
            return Ok(());
        };
        drop(known);
        let answer = Answer::of(&*self.limiter, key);
        let unused = self
            .lock()
            .finish_rate_limited(call, answer.delay(), priority, "");
        drop(unused);
        answer.into_result().map(|_| ())
    }

    /// Forget the failures of a key, and end its back-off; a delayed add that is pending stays.
    ///
    /// # Errors
    /// The error of the limiter; the back-off continues then.
    pub fn forget(&self, key: &impl KeyRef<K>) -> Result<(), LimiterError> {
        self.limiter.forget(key)?;
        self.lock().end_back_off(key);
        Ok(())
    }

    /// Return the metrics as of now.
    pub fn scrape(&self) -> Scrape {
        self.lock().scrape()
    }
}

impl<K: QueueKey + Send> TimeListener for WorkQueue<K> {
    fn time_moved(&self) {
        let mut guard = self.lock();
        guard.tick();
        guard.state.waiters.notify_all_waiting();
        self.drained.notify_all();
    }
}
