//! The delta FIFO: what happened to each key since it was last handed out, keys in the order in which they first changed.
//!
//! Upstream's `DeltaFIFO` with two changes: no lock is held while deltas are processed, and `replace` is one step. So a
//! key whose deltas are being processed counts as queued, or a resync could bring back a state that is just being replaced.

mod state;

use std::sync::Arc;
use std::time::Instant;

use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};
use parking_lot::{Condvar, Mutex, MutexGuard};

pub use crate::delta::{Delta, DeltaObject, DeltaType};
use crate::object::{Key, Object};
use crate::store::Store;
use state::State;

/// What the consumer believes to exist, which `replace`, `delete` and `resync` compare with. Called without locks.
pub trait KnownObjects {
    /// The keys of all known objects; None if they can not be told, which abandons the comparison.
    fn list_keys(&self) -> Option<Vec<Key>>;
    /// The last known state of one.
    fn get_by_key(&self, key: &str) -> Option<Arc<Object>>;
}

impl KnownObjects for Store {
    fn list_keys(&self) -> Option<Vec<Key>> {
        Some(self.keys())
    }

    fn get_by_key(&self, key: &str) -> Option<Arc<Object>> {
        self.get(key)
    }
}

/// One key that was handed out.
#[derive(Debug)]
pub struct Popped {
    /// The key.
    pub key: Key,
    /// What happened to it, oldest first; never empty.
    pub deltas: Vec<Delta>,
    /// Whether it belongs to the first list.
    pub is_initial: bool,
}

/// What [`DeltaFifo::take`] found.
#[derive(Debug)]
pub enum Taken {
    /// Keys to process; [`DeltaFifo::finish`] must be called afterwards.
    Items(Vec<Popped>),
    /// Closed and empty.
    Closed,
    /// The deadline passed.
    TimedOut,
}

/// See the module.
pub struct DeltaFifo {
    state: Mutex<State>,
    changed: Condvar,
    emit_replaced: bool,
}

impl DeltaFifo {
    /// A FIFO that says `Replaced` for the objects of a list, or `Sync` if not `emit_replaced`.
    pub fn new(emit_replaced: bool) -> Self {
        Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            emit_replaced,
        }
    }

    /// The object is new.
    pub fn add(&self, key: Key, object: Arc<Object>) {
        self.enqueue(key, DeltaType::Added, object);
    }

    /// The object changed.
    pub fn update(&self, key: Key, object: Arc<Object>) {
        self.enqueue(key, DeltaType::Updated, object);
    }

    fn enqueue(&self, key: Key, kind: DeltaType, object: Arc<Object>) {
        let mut state = self.state.lock();
        if state.closed {
            return;
        }
        state.populated = true;
        state.push(
            key,
            Delta {
                kind,
                object: DeltaObject::Live(object),
            },
        );
        drop(state);
        self.changed.notify_one();
    }

    /// The object is gone. Ignored if nobody knows the key: neither the queue nor the known objects.
    pub fn delete(&self, key: Key, object: DeltaObject, known: Option<&dyn KnownObjects>) {
        let exists = known.is_some_and(|known| known.get_by_key(&key).is_some());
        let mut state = self.state.lock();
        if state.closed {
            return;
        }
        state.populated = true;
        if exists || state.holds(&key) {
            state.push(
                key,
                Delta {
                    kind: DeltaType::Deleted,
                    object,
                },
            );
            drop(state);
            self.changed.notify_one();
        }
    }

    /// Make the objects all that there is: a delta for each, and tombstones for what is queued or known beside them.
    /// `skip_same` leaves out what is known as the very same object and has nothing queued.
    pub fn replace(
        &self,
        objects: Vec<(Key, Arc<Object>)>,
        known: Option<&dyn KnownObjects>,
        skip_same: bool,
    ) {
        let in_flight = self.begin_comparing();
        let known_objects = known.map_or(Some(Known::default()), known_of);
        let mut state = self.end_comparing();
        let Some(known_objects) = known_objects.filter(|_| !state.closed) else {
            drop(state);
            self.changed.notify_all();
            return;
        };
        let kind = if self.emit_replaced {
            DeltaType::Replaced
        } else {
            DeltaType::Sync
        };
        let mut listed: HashSet<Key, RandomState> =
            HashSet::with_capacity_and_hasher(objects.len(), RandomState::default());
        if known_objects.is_empty() {
            // All of them are news.
            state.items.reserve(objects.len());
            state.queue.reserve(objects.len());
        }
        for (key, object) in objects {
            listed.insert(key.clone());
            let same = known_objects
                .get(&key)
                .and_then(Option::as_ref)
                .is_some_and(|known| Arc::ptr_eq(known, &object));
            if !(skip_same && same) || state.holds(&key) || in_flight.contains_key(&key) {
                state.push(
                    key,
                    Delta {
                        kind,
                        object: DeltaObject::Live(object),
                    },
                );
            }
        }
        let mut gone: Vec<(Key, Option<Arc<Object>>)> = Vec::new();
        let State {
            queue,
            items,
            in_flight: still,
            ..
        } = &*state;
        for key in queue.iter().filter(|key| !listed.contains(*key)) {
            let newest = items.get(key).and_then(|deltas| deltas.last());
            gone.push((
                key.clone(),
                newest.and_then(|delta| delta.object.object().cloned()),
            ));
        }
        // What is being processed may or may not be known by now; it is as good as queued.
        let others = still
            .iter()
            .filter(|(key, _)| !in_flight.contains_key(*key));
        for (key, delta) in in_flight.iter().chain(others) {
            if delta.kind != DeltaType::Deleted && !listed.contains(key) && !items.contains_key(key)
            {
                gone.push((key.clone(), delta.object.object().cloned()));
            }
        }
        let queued_gone = gone.len();
        for (key, object) in known_objects {
            let queued = items.contains_key(&key)
                || in_flight.contains_key(&key)
                || still.contains_key(&key);
            if !listed.contains(&key) && !queued {
                gone.push((key, object));
            }
        }
        // The known objects come in no order; the same input is to give the same output.
        gone[queued_gone..].sort_unstable_by(|one, other| one.0.cmp(&other.0));
        let expected = listed.len() + gone.len();
        for (key, object) in gone {
            state.push(
                key,
                Delta {
                    kind: DeltaType::Deleted,
                    object: DeltaObject::Tombstone(object),
                },
            );
        }
        if !state.populated {
            state.populated = true;
            state.initial = expected;
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Queue a `Sync` of every known object that has nothing queued and is not being processed.
    pub fn resync(&self, known: &dyn KnownObjects) {
        let in_flight = self.begin_comparing();
        let mut known_objects: Vec<_> = known_of(known).unwrap_or_default().into_iter().collect();
        known_objects.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        let mut state = self.end_comparing();
        for (key, object) in known_objects {
            if let Some(object) = object
                && !state.closed
                && !state.holds(&key)
                && !in_flight.contains_key(&key)
            {
                state.push(
                    key,
                    Delta {
                        kind: DeltaType::Sync,
                        object: DeltaObject::Live(object),
                    },
                );
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Take up to `max` keys, waiting for one until the deadline (None: for ever). While one caller has not called
    /// `finish`, the others wait.
    pub fn take(&self, max: usize, deadline: Option<Instant>) -> Taken {
        let mut state = self.state.lock();
        loop {
            let blocked = state.taken || state.comparing > 0;
            if !blocked && !state.queue.is_empty() {
                return Taken::Items(state.hand_out(max));
            }
            if state.closed && state.queue.is_empty() {
                return Taken::Closed;
            }
            match deadline {
                None => self.changed.wait(&mut state),
                Some(deadline) => {
                    if self.changed.wait_until(&mut state, deadline).timed_out() {
                        return Taken::TimedOut;
                    }
                }
            }
        }
    }

    /// Take up to `max` keys if there are any, waiting only for others to finish. [`DeltaFifo::finish`] must be called
    /// unless nothing came.
    pub fn take_ready(&self, max: usize) -> Vec<Popped> {
        let mut state = self.state.lock();
        while state.taken || state.comparing > 0 {
            self.changed.wait(&mut state);
        }
        if state.queue.is_empty() {
            return Vec::new();
        }
        state.hand_out(max)
    }

    /// What was taken is processed, or its processing failed: either way it is not queued again.
    pub fn finish(&self) {
        let mut state = self.state.lock();
        state.in_flight.clear();
        state.initial -= state.initial_in_flight;
        state.initial_in_flight = 0;
        state.taken = false;
        state.release();
        drop(state);
        self.changed.notify_all();
    }

    /// Whether everything of the first list was processed, or the first thing that came in was no list.
    pub fn has_synced(&self) -> bool {
        let state = self.state.lock();
        state.populated && state.initial == 0
    }

    /// Take nothing in any more; whoever waits is woken once the queue is empty.
    pub fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// How many keys are queued.
    pub fn len(&self) -> usize {
        self.state.lock().queue.len()
    }

    /// Whether no key is queued.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether no key is queued and none is being processed.
    pub fn is_idle(&self) -> bool {
        let state = self.state.lock();
        state.queue.is_empty() && !state.taken
    }

    /// The queued keys, in order.
    pub fn keys(&self) -> Vec<Key> {
        self.state.lock().queue.iter().cloned().collect()
    }

    fn begin_comparing(&self) -> HashMap<Key, Delta, RandomState> {
        let mut state = self.state.lock();
        state.comparing += 1;
        state.in_flight.clone()
    }

    fn end_comparing(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        state.comparing -= 1;
        state
    }
}

type Known = HashMap<Key, Option<Arc<Object>>, RandomState>;

fn known_of(known: &dyn KnownObjects) -> Option<Known> {
    Some(
        known
            .list_keys()?
            .into_iter()
            .map(|key| (key.clone(), known.get_by_key(&key)))
            .collect(),
    )
}
