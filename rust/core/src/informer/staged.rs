//! The list that is being read.

use std::hint::black_box;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::object::{Key, Object};

/// How far the heap is grown at a time; a larger block would not be taken from it.
const ROOM: usize = 96 << 10;

/// Objects in the order in which their keys came first; of two of one key the last counts.
#[derive(Debug, Default)]
pub(super) struct Staged {
    /// None where an object was staged and deleted again.
    objects: Vec<Option<Arc<Object>>>,
    places: HashMap<Key, usize, RandomState>,
    /// Bytes of objects since room was made for more.
    grown: usize,
}

impl Staged {
    pub(super) fn insert(&mut self, object: Arc<Object>) {
        self.grown += object.memory();
        if self.grown >= ROOM {
            make_room();
            self.grown = 0;
        }
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

/// Have the heap grow for the objects to come.
///
/// Away from a process's first thread glibc grows it by no more than what is missing, which is a system call for each
/// object of a list. What was asked for and given back stays, up to somewhat more than this.
fn make_room() {
    drop(black_box(Vec::<u8>::with_capacity(ROOM)));
}
