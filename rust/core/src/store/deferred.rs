//! Indexes whose functions are called later, on a thread of their own: a write only notes what has changed.

use std::sync::Arc;
use std::time::Instant;

use foldhash::fast::RandomState;
use hashbrown::HashSet;

use super::index::{Index, IndexFailed, IndexFunc, Values};
use super::slots::Place;
use super::state::State;
use super::{Store, StoreError};
use crate::object::Object;
use crate::sync::{Condvar, Mutex, Rank, Signal, assert_none_held, wait_until};

/// Objects that enter the index under one lock.
const PIECE: usize = super::PIECE;

#[derive(Default)]
struct Seen {
    /// The number of the last write that the index has.
    write: u64,
    /// It gets nothing more.
    closed: bool,
}

/// How far an index has come; readers wait for it.
struct Progress {
    seen: Mutex<Seen>,
    changed: Condvar,
}

impl Progress {
    fn reach(&self, write: u64) {
        self.seen.lock().write = write;
        self.changed.notify_all();
    }

    fn close(&self) {
        self.seen.lock().closed = true;
        self.changed.notify_all();
    }
}

/// The part of a deferred index that the store's lock protects.
pub(super) struct Deferred {
    pub(super) index: Index,
    changed: HashSet<Place, RandomState>,
    /// Everything below this place has changed.
    all_below: usize,
    /// The number of the last write.
    written: u64,
    progress: Arc<Progress>,
    signal: Option<Arc<Signal>>,
}

impl Deferred {
    fn note(&mut self, places: impl IntoIterator<Item = Place>) {
        self.changed.extend(places);
        self.written += 1;
        if let Some(signal) = &self.signal {
            signal.raise();
        }
    }

    /// Note that an object was written; one that is gone leaves the index at once.
    pub(super) fn note_written(&mut self, place: Place, gone: bool) {
        if gone {
            self.index.change(place, &[]);
            self.changed.remove(&place);
        } else {
            self.note([place]);
        }
    }

    /// Note that all objects were replaced by those below a place; return the former index, to be dropped without the
    /// lock.
    pub(super) fn start_over(&mut self, end: usize) -> Index {
        let empty = self.index.empty();
        self.changed = HashSet::default();
        self.all_below = end;
        self.note([]);
        std::mem::replace(&mut self.index, empty)
    }

    fn take_changed(&mut self) -> (Vec<Place>, u64) {
        let below = Place::try_from(std::mem::take(&mut self.all_below)).unwrap_or(Place::MAX);
        let changed = std::mem::take(&mut self.changed).into_iter();
        let changed = changed.filter(|place| *place >= below);
        (changed.chain(0..below).collect(), self.written)
    }
}

/// An index that has not seen everything that the store held at some moment.
pub struct Lag {
    progress: Arc<Progress>,
    write: u64,
}

impl Lag {
    /// Wait until the index has seen all of that; return false if it has not at the deadline.
    pub fn wait(&self, deadline: Option<Instant>) -> bool {
        let mut seen = self.progress.seen.lock();
        while seen.write < self.write && !seen.closed {
            if wait_until(&self.progress.changed, &mut seen, deadline) {
                return false;
            }
        }
        true
    }
}

/// The thread's part of a deferred index.
pub struct DeferredIndex {
    store: Arc<Store>,
    func: Arc<dyn IndexFunc>,
    progress: Arc<Progress>,
}

impl DeferredIndex {
    /// Add an index, to which [`DeferredIndex::catch_up`] adds the objects.
    ///
    /// # Errors
    /// There already is an index of that name.
    pub fn add(
        store: &Arc<Store>,
        name: &str,
        func: Arc<dyn IndexFunc>,
    ) -> Result<Self, StoreError> {
        let progress = Arc::new(Progress {
            seen: Mutex::new(Rank::Progress, Seen::default()),
            changed: Condvar::default(),
        });
        let _writing = store.writing();
        let mut state = store.state.write();
        state.check_new([name])?;
        let mut deferred = Deferred {
            index: Index::new(name, func.clone()),
            changed: HashSet::default(),
            all_below: 0,
            written: 0,
            progress: progress.clone(),
            signal: None,
        };
        drop(deferred.start_over(state.content.items.end()));
        state.deferred.push(deferred);
        drop(state);
        Ok(Self {
            store: store.clone(),
            func,
            progress,
        })
    }

    /// Raise a signal for objects that have to be indexed, present and future.
    pub fn wake(&self, signal: Arc<Signal>) {
        self.with(|deferred| {
            signal.raise();
            deferred.signal = Some(signal);
        });
    }

    /// Call the function for each object that has changed, and index it; return whether there was any.
    pub fn catch_up(&self) -> bool {
        let taken = self.with(Deferred::take_changed);
        let Some((places, write)) =
            taken.filter(|(_, write)| *write > self.progress.seen.lock().write)
        else {
            return false;
        };
        for piece in places.chunks(PIECE) {
            let objects = self.store.objects(piece);
            let mut values = Vec::with_capacity(objects.len());
            for (place, object) in objects {
                if self.is_closed() {
                    return false;
                }
                assert_none_held();
                let found = self.func.values(&object);
                values.push((place, object, found));
            }
            self.put(values);
        }
        self.progress.reach(write);
        true
    }

    /// Index the values of objects, except where the store has another object by now.
    fn put(&self, values: Vec<(Place, Arc<Object>, Result<Values, IndexFailed>)>) {
        let mut state = self.store.state.write();
        let State {
            content, deferred, ..
        } = &mut *state;
        let mine = |one: &&mut Deferred| Arc::ptr_eq(&one.progress, &self.progress);
        let Some(deferred) = deferred.iter_mut().find(mine) else {
            return;
        };
        for (place, object, found) in values {
            let Some(item) = content.items.get(place) else {
                continue;
            };
            // It may have been compressed meanwhile.
            if item.object.is_twin(&object) {
                let found = found.as_deref().unwrap_or_default();
                deferred.index.change(place, found);
            } else {
                deferred.note([place]);
            }
        }
    }

    fn with<R>(&self, work: impl FnOnce(&mut Deferred) -> R) -> Option<R> {
        let mut state = self.store.state.write();
        let mut all = state.deferred.iter_mut();
        let mine = all.find(|one| Arc::ptr_eq(&one.progress, &self.progress))?;
        Some(work(mine))
    }

    /// Index nothing more; what is indexed remains.
    pub fn close(&self) {
        self.with(Deferred::close);
    }

    /// Return whether nothing more is indexed: the index was removed, or its informer stopped.
    pub fn is_closed(&self) -> bool {
        self.progress.seen.lock().closed
    }
}

impl Deferred {
    pub(super) fn close(&mut self) {
        self.progress.close();
        if let Some(signal) = &self.signal {
            signal.raise();
        }
    }
}

impl Store {
    /// Return how far an index is behind the store; None if its function is called with each write.
    ///
    /// # Errors
    /// There is no index of that name.
    pub fn lag(&self, name: &str) -> Result<Option<Lag>, StoreError> {
        let state = self.state.read();
        let deferred = state.deferred.iter().find(|one| *one.index.name == *name);
        if let Some(deferred) = deferred {
            // What readers see already, but the index is not told of yet.
            let outstanding = state.overlay.as_ref().map_or(0, |over| over.outstanding);
            return Ok(Some(Lag {
                progress: deferred.progress.clone(),
                write: deferred.written + outstanding,
            }));
        }
        state.index(name).map(|_| None)
    }

    /// End the work for deferred indexes; what is indexed remains.
    pub(crate) fn close_deferred(&self) {
        self.state
            .write()
            .deferred
            .iter_mut()
            .for_each(Deferred::close);
    }

    /// Return the objects at these places, as far as they are in use.
    fn objects(&self, places: &[Place]) -> Vec<(Place, Arc<Object>)> {
        let state = self.state.read();
        let object =
            |place: &Place| Some((*place, state.content.items.get(*place)?.object.clone()));
        places.iter().filter_map(object).collect()
    }
}
