//! Back-off by id, to be asked rather than waited for.

use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::Mutex;

use crate::clock::{Clock, Tick};

/// Says whether an entry that was last updated so long ago counts no more; its arguments are that time and the longest
/// back-off.
pub type Expiry = fn(Duration, Duration) -> bool;

struct Entry {
    backoff: Duration,
    updated: Tick,
}

/// How long each id has to keep away: twice as long with each failure.
pub struct Backoff {
    initial: Duration,
    max: Duration,
    clock: Arc<dyn Clock>,
    expired: Expiry,
    /// How much of a back-off may be added at random, and where the randomness from 0 to 1 comes from.
    jitter: Option<(f64, Box<dyn Fn() -> f64 + Send + Sync>)>,
    entries: Mutex<HashMap<String, Entry>>,
}

impl Backoff {
    /// Starts with `initial`, doubles up to `max`, and forgets what was quiet for more than twice `max`.
    pub fn new(initial: Duration, max: Duration, clock: Arc<dyn Clock>) -> Self {
        let expired: Expiry = |quiet, max| quiet > max * 2;
        Self {
            initial,
            max,
            clock,
            expired,
            jitter: None,
            entries: Mutex::default(),
        }
    }

    /// Judges by another rule whether an id is forgotten.
    #[must_use]
    pub fn with_expiry(mut self, expired: Expiry) -> Self {
        self.expired = expired;
        self
    }

    /// Adds up to `factor` of each back-off at random; `random` gives numbers from 0 to 1.
    #[must_use]
    pub fn with_jitter(
        mut self,
        factor: f64,
        random: impl Fn() -> f64 + Send + Sync + 'static,
    ) -> Self {
        self.jitter = Some((factor, Box::new(random)));
        self
    }

    /// The back-off of an id, zero without one.
    pub fn get(&self, id: &str) -> Duration {
        self.entries
            .lock()
            .get(id)
            .map_or(Duration::ZERO, |entry| entry.backoff)
    }

    /// An id failed at `event`: it has to keep away for twice as long, or, after a quiet time, from the start.
    pub fn next(&self, id: &str, event: Tick) {
        let now = self.clock.now();
        let mut entries = self.entries.lock();
        let former = entries
            .get(id)
            .filter(|entry| !(self.expired)(event.since(entry.updated), self.max));
        let backoff = match former {
            None => self.initial + self.jitter(self.initial),
            Some(entry) => (entry.backoff * 2 + self.jitter(entry.backoff)).min(self.max),
        };
        entries.insert(
            id.to_owned(),
            Entry {
                backoff,
                updated: now,
            },
        );
    }

    /// Whether an id that failed at `event` has to keep away still.
    pub fn is_in_backoff_since(&self, id: &str, event: Tick) -> bool {
        self.holds(id, event, self.clock.now().since(event))
    }

    /// Whether, at `event`, an id had to keep away for its last update.
    pub fn is_in_backoff_since_update(&self, id: &str, event: Tick) -> bool {
        let updated = self.entries.lock().get(id).map(|entry| entry.updated);
        updated.is_some_and(|updated| self.holds(id, event, event.since(updated)))
    }

    fn holds(&self, id: &str, event: Tick, passed: Duration) -> bool {
        let entries = self.entries.lock();
        let known = entries.get(id);
        known.is_some_and(|entry| {
            !(self.expired)(event.since(entry.updated), self.max) && passed < entry.backoff
        })
    }

    /// Forgets what was quiet for long. To be called now and then.
    pub fn gc(&self) {
        let now = self.clock.now();
        self.entries
            .lock()
            .retain(|_, entry| !(self.expired)(now.since(entry.updated), self.max));
    }

    /// Starts over with an id.
    pub fn reset(&self, id: &str) {
        self.entries.lock().remove(id);
    }

    fn jitter(&self, backoff: Duration) -> Duration {
        self.jitter
            .as_ref()
            .map_or(Duration::ZERO, |(factor, random)| {
                backoff.mul_f64(factor * random())
            })
    }
}
