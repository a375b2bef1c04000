//! The list that is being read.

use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::object::{Key, Object};

/// Objects in the order in which their keys came first; of two of one key the last counts.
#[derive(Debug, Default)]
pub(super) struct Staged {
    /// None where an object was staged and deleted again.
    objects: Vec<Option<Arc<Object>>>,
    places: HashMap<Key, usize, RandomState>,
}

impl Staged {
    pub(super) fn insert(&mut self, object: Arc<Object>) {
        let place = *self
            .places
            .entry_ref(object.key())
            .or_insert(self.objects.len());
        match self.objects.get_mut(place) {
            Some(slot) => *slot = Some(object),
            None => self.objects.push(Some(object)),
        }
    }

    pub(super) fn remove(&mut self, key: &str) {
        if let Some(slot) = self
            .places
            .remove(key)
            .and_then(|place| self.objects.get_mut(place))
        {
            *slot = None;
        }
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn into_objects(self) -> Vec<(Key, Arc<Object>)> {
        let keyed = |object: Arc<Object>| (object.key().clone(), object);
        self.objects.into_iter().flatten().map(keyed).collect()
    }
}
