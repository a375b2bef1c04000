//! Indexes whose functions are called later: a write only notes what has changed.

use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashSet;

use super::index::Index;
use super::progress::Progress;
use super::slots::Place;
use crate::sync::Signal;

/// The part of a deferred index that the store's lock protects.
pub(super) struct Deferred {
    pub(super) index: Index,
    changed: HashSet<Place, RandomState>,
    /// Everything below this place has changed.
    all_below: usize,
    /// The number of the last write.
    pub(super) written: u64,
    pub(super) progress: Arc<Progress>,
    pub(super) signal: Option<Arc<Signal>>,
}

impl Deferred {
    pub(super) fn new(index: Index) -> Self {
        Self {
            index,
            changed: HashSet::default(),
            all_below: 0,
            written: 0,
            progress: Arc::default(),
            signal: None,
        }
    }

    pub(super) fn note(&mut self, places: impl IntoIterator<Item = Place>) {
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

    pub(super) fn take_changed(&mut self) -> (Vec<Place>, u64) {
        let below = Place::try_from(std::mem::take(&mut self.all_below)).unwrap_or(Place::MAX);
        let changed = std::mem::take(&mut self.changed).into_iter();
        let changed = changed.filter(|place| *place >= below);
        (changed.chain(0..below).collect(), self.written)
    }

    pub(super) fn close(&mut self) {
        self.progress.close();
        if let Some(signal) = &self.signal {
            signal.raise();
        }
    }
}
