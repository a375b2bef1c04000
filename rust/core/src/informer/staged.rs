//! The objects of a list in progress.

use std::hint::black_box;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::object::{Key, Object};

/// The heap grows by so much at a time; a larger block would not come from the heap.
const HEAP_STEP: usize = 96 << 10;

/// Objects in the order in which their keys first came; the last object of a key counts.
#[derive(Debug, Default)]
pub(super) struct Staged {
    /// None for an object that was staged and deleted again.
    objects: Vec<Option<Arc<Object>>>,
    places: HashMap<Key, usize, RandomState>,
    /// Bytes of objects since the heap last grew.
    grown: usize,
}

impl Staged {
    pub(super) fn insert(&mut self, object: Arc<Object>) {
        self.grown += object.memory();
        if self.grown >= HEAP_STEP {
            grow_heap();
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

/// Grow the heap for the objects to come.
///
/// Outside a process's first thread glibc grows it only by what is missing, which is a system call per object of a
/// list. A block that was allocated and freed stays, up to somewhat more than this.
fn grow_heap() {
    drop(black_box(Vec::<u8>::with_capacity(HEAP_STEP)));
}
