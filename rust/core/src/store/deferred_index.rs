//! The thread that calls the functions of deferred indexes, and how readers wait for it.

use std::sync::Arc;

use super::deferred::Deferred;
use super::index::{Index, IndexFailed, IndexFunc, Values};
use super::progress::{Lag, Progress};
use super::slots::Place;
use super::state::State;
use super::{Store, StoreError};
use crate::object::Object;
use crate::sync::{Signal, assert_none_held};

/// Objects that enter the index under one lock.
const PIECE: usize = super::PIECE;

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
        let _writing = store.writing();
        let mut state = store.state.write();
        state.check_new([name])?;
        let mut deferred = Deferred::new(Index::new(name, func.clone()));
        let progress = deferred.progress.clone();
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
        let Some((places, write)) = taken.filter(|(_, write)| !self.progress.has(*write)) else {
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
                let texts = self.func.values(&object);
                values.push((place, object, texts));
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
        for (place, object, texts) in values {
            let Some(item) = content.items.get(place) else {
                continue;
            };
            // It may have been compressed meanwhile.
            if item.object.is_twin(&object) {
                let texts = texts.as_deref().unwrap_or_default();
                deferred.index.change(place, texts);
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
        self.progress.is_closed()
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
