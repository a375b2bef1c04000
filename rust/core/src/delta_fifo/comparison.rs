//! Comparison of the queue with what the consumer knows: for a new list, and for a resync.

use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};

use super::batch::InFlight;
use super::line::Line;
use super::{Delta, DeltaFifo, DeltaObject, DeltaType, State};
use crate::object::{Key, Object};
use crate::store::Store;

/// Keys that a resync queues under one lock.
const PIECE: usize = 1_000;

/// The objects that the consumer knows, with which `replace`, `delete` and `resync` compare. Called without locks.
pub trait KnownObjects {
    /// Return the keys of all known objects; None if they are unavailable, which abandons the comparison.
    fn list_keys(&self) -> Option<Vec<Key>>;
    /// Return the last known state of an object.
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

impl DeltaFifo {
    /// Replace the whole content: a delta for each object, and tombstones for other queued or known ones. With
    /// `skip_same`, an object that is known as the same instance and has nothing queued gets no delta.
    pub fn replace(
        &self,
        objects: Vec<(Key, Arc<Object>)>,
        known: Option<&dyn KnownObjects>,
        skip_same: bool,
    ) {
        let (_comparing, in_flight) = self.begin_comparing();
        let Some(differences) = Differences::find(&objects, known, skip_same) else {
            return;
        };
        let mut state = self.state.lock();
        if state.closed {
            return;
        }
        let kind = if self.emit_replaced {
            DeltaType::Replaced
        } else {
            DeltaType::Sync
        };
        let Differences {
            listed,
            same,
            gone: unlisted,
        } = differences;
        let new = objects.len() - same.iter().filter(|same| **same).count();
        state.queue.reserve(new);
        for ((key, object), same) in objects.into_iter().zip(same) {
            if !same || state.holds(&key) || in_flight.contains(&key) {
                state.push(key, Delta::live(kind, object));
            }
        }
        let mut gone: Vec<(Key, Option<Arc<Object>>)> = Vec::new();
        let State {
            queue,
            in_flight: still,
            ..
        } = &*state;
        for queued in queue.iter().filter(|queued| !listed.contains(&queued.key)) {
            let newest = queued.deltas.last();
            let object = newest.and_then(|delta| delta.object.object());
            gone.push((queued.key.clone(), object.cloned()));
        }
        // A key in processing may or may not be known by now; it counts as queued.
        let others = still.iter().filter(|other| !in_flight.contains(&other.key));
        for InFlight { key, delta } in in_flight.iter().chain(others) {
            if delta.kind != DeltaType::Deleted && !listed.contains(key) && !queue.contains(key) {
                gone.push((key.clone(), delta.object.object().cloned()));
            }
        }
        let queued_gone = gone.len();
        gone.extend(unlisted.into_iter().filter(|(key, _)| {
            let in_flight = in_flight.contains(key) || still.contains(key);
            !in_flight && !queue.contains(key)
        }));
        // The known objects have no order; the same input must give the same output.
        gone[queued_gone..].sort_unstable_by(|one, other| one.0.cmp(&other.0));
        for (key, object) in gone {
            let (kind, object) = (DeltaType::Deleted, DeltaObject::Tombstone(object));
            state.push(key, Delta { kind, object });
        }
        if !state.populated {
            state.populated = true;
            // Not what was listed: objects that were skipped are never processed.
            state.initial = state.queue.len();
        }
        state.whole = state.queue.len();
    }

    /// Add the list of a part of which nothing was known: a delta for each object, as of a first list. The rest stays.
    pub(crate) fn merge(&self, objects: Vec<(Key, Arc<Object>)>) {
        let mut state = self.state.lock();
        if state.closed {
            return;
        }
        state.populated = true;
        for (key, object) in objects {
            state.push(key.clone(), Delta::live(DeltaType::Replaced, object));
            if let Some(popped) = state.queue.get_mut(&key) {
                popped.is_initial |= popped.deltas.len() == 1;
            }
        }
        state.whole = state.queue.len();
        drop(state);
        self.changed.notify_all();
    }

    /// Let the keys go, which is told to nobody.
    pub(crate) fn drop_keys(&self, keys: Vec<Key>) {
        let mut state = self.state.lock();
        for key in keys {
            let (kind, object) = (DeltaType::Dropped, DeltaObject::Tombstone(None));
            state.push(key, Delta { kind, object });
        }
        state.whole = state.queue.len();
        drop(state);
        self.changed.notify_all();
    }

    /// Queue a `Sync` of every known object that has nothing queued and is not being processed.
    pub fn resync(&self, known: &dyn KnownObjects) {
        let (_comparing, in_flight) = self.begin_comparing();
        let mut keys = known.list_keys().unwrap_or_default();
        keys.sort_unstable();
        for keys in keys.chunks(PIECE) {
            let known = keys.iter().map(|key| (key, known.get_by_key(key)));
            let known: Vec<_> = known.collect();
            let mut state = self.state.lock();
            for (key, object) in known {
                if let Some(object) = object
                    && !state.closed
                    && !state.holds(key)
                    && !in_flight.contains(key)
                {
                    state.push(key.clone(), Delta::live(DeltaType::Sync, object));
                }
            }
        }
    }

    /// Return the newest state of every object: the known ones with what is queued and what is being processed.
    pub(crate) fn newest(&self, known: &Store) -> HashMap<Key, Arc<Object>, RandomState> {
        let state = self.state.lock();
        // Under the lock no batch ends, so whatever the store does not have yet is in flight.
        let mut newest: HashMap<_, _, _> = known.entries().into_iter().collect();
        let queued = state.queue.iter();
        let queued = queued.filter_map(|entry| Some((&entry.key, entry.deltas.last()?)));
        let in_flight = state.in_flight.iter();
        let in_flight = in_flight.map(|entry| (&entry.key, &entry.delta));
        for (key, delta) in in_flight.chain(queued) {
            match delta.object.object() {
                Some(object) if delta.kind != DeltaType::Deleted => {
                    newest.insert(key.clone(), object.clone());
                }
                _ => {
                    newest.remove(key);
                }
            }
        }
        newest
    }

    /// Hand nothing out until the returned guard is dropped; return what is in flight now, too.
    fn begin_comparing(&self) -> (Comparing<'_>, Line<InFlight>) {
        let mut state = self.state.lock();
        state.comparing += 1;
        (Comparing(self), state.in_flight.clone())
    }
}

/// A running comparison; it ends even if the known objects panic.
struct Comparing<'a>(&'a DeltaFifo);

impl Drop for Comparing<'_> {
    fn drop(&mut self) {
        self.0.state.lock().comparing -= 1;
        self.0.changed.notify_all();
    }
}

/// What a list changes of what is known.
struct Differences {
    listed: HashSet<Key, RandomState>,
    /// For each listed object, whether it is known as the same instance and may be skipped.
    same: Vec<bool>,
    /// What is known and was not listed.
    gone: Vec<(Key, Option<Arc<Object>>)>,
}

impl Differences {
    /// Compare, without the lock; None if what is known is unavailable.
    fn find(
        objects: &[(Key, Arc<Object>)],
        known: Option<&dyn KnownObjects>,
        skip_same: bool,
    ) -> Option<Self> {
        let known_keys = known.map_or(Some(Vec::new()), KnownObjects::list_keys)?;
        let of = |key: &str| known.and_then(|known| known.get_by_key(key));
        let is_same = |(key, object): &(Key, Arc<Object>)| {
            skip_same && of(key).is_some_and(|known| known.is_twin(object))
        };
        let same = objects.iter().map(is_same).collect();
        let listed: HashSet<Key, _> = objects.iter().map(|(key, _)| key.clone()).collect();
        let unlisted = known_keys.into_iter().filter(|key| !listed.contains(key));
        let with_object = |key: Key| {
            let object = of(&key);
            (key, object)
        };
        let gone = unlisted.map(with_object).collect();
        Some(Self { listed, same, gone })
    }
}
