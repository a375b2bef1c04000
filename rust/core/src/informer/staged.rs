//! The objects of a list in progress.

use std::hint::black_box;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use super::packer::{CHUNK, Packer};
use crate::budget::{Account, OverBudget};
use crate::memory::Memory;
use crate::object::{Key, Object};
use crate::store::{Store, dispose};

/// The heap grows by so much at a time; a larger block would not come from the heap.
const HEAP_STEP: usize = 96 << 10;

/// What an object will take in the tables of the store and of the index by namespace, which double as they grow.
const TABLES: usize = 64;

/// A whole list, or one that lacks what the budget has room for only without what is gone.
pub(super) struct List {
    pub(super) objects: Vec<(Key, Arc<Object>)>,
    pub(super) is_incomplete: bool,
}

impl List {
    /// Return whether a known object is not in the list.
    pub(super) fn drops_any(&self, store: &Store) -> bool {
        let known = self
            .objects
            .iter()
            .filter(|(key, _)| store.get(key).is_some());
        known.count() < store.len()
    }
}

/// Objects in the order in which their keys first came; the last object of a key counts.
#[derive(Debug, Default)]
pub(super) struct Staged {
    /// None for an object that was staged and deleted again, or left out.
    objects: Vec<Option<One>>,
    places: HashMap<Key, usize, RandomState>,
    /// Bytes of objects since the heap last grew.
    grown: usize,
    /// What the objects take that the store does not have.
    memory: Memory,
    /// What the whole list takes, with the objects that the store has and those that were left out.
    whole: usize,
    /// The budget had no room for some objects beside those of the store.
    incomplete: bool,
    /// Bytes of the plain bodies.
    plain_bytes: usize,
    /// The places of new objects that came before there was a dictionary.
    plain: Vec<usize>,
}

/// A staged object.
#[derive(Debug)]
struct One {
    object: Arc<Object>,
    /// The store has it, so that it takes nothing more.
    known: bool,
}

impl Staged {
    /// Stage an object, which is `known` if the store has it; a new one may be compressed. One for which the budget has
    /// room only without what the store holds is left out if that is a list.
    ///
    /// # Errors
    /// There is no room for it, whatever becomes of the store.
    pub(super) fn stage(
        &mut self,
        object: Arc<Object>,
        known: bool,
        listed: bool,
        packer: &Packer,
        account: &Account,
    ) -> Result<(), OverBudget> {
        let object = if known {
            object
        } else {
            packer.pack(&object).unwrap_or(object)
        };
        let memory = taken_by(&object);
        let before = self.len();
        let place = self.place(object.key());
        self.clear(place, account);
        self.whole += memory.sum();
        self.plain_bytes += object.plain_len();
        if known || account.stage(memory.sum()) {
            if !known {
                self.memory += memory;
                if !object.is_packed() && !packer.is_ready() {
                    self.plain.push(place);
                }
            }
            self.grown += memory.sum();
            if self.grown >= HEAP_STEP {
                grow_heap();
                self.grown = 0;
            }
            self.set(place, Some(One { object, known }));
            return Ok(());
        }
        if !listed || !account.has_room_for(self.whole) {
            return Err(account.over_budget(before));
        }
        self.incomplete = true;
        self.set(place, None);
        Ok(())
    }

    fn set(&mut self, place: usize, one: Option<One>) {
        match self.objects.get_mut(place) {
            Some(slot) => *slot = one,
            None => self.objects.push(one),
        }
    }

    /// Drop the object of a place, and give back what it takes.
    fn clear(&mut self, place: usize, account: &Account) {
        let Some(one) = self.objects.get_mut(place).and_then(Option::take) else {
            return;
        };
        let memory = taken_by(&one.object);
        self.whole = self.whole.saturating_sub(memory.sum());
        self.plain_bytes = self.plain_bytes.saturating_sub(one.object.plain_len());
        if !one.known {
            self.memory -= memory;
            account.unstage(memory.sum());
        }
    }

    fn place(&mut self, key: &Key) -> usize {
        *self.places.entry_ref(key).or_insert(self.objects.len())
    }

    /// Begin to learn a dictionary if it is time for that; compress some of what came before it.
    pub(super) fn pack(&mut self, packer: &Arc<Packer>, store: &Arc<Store>, account: &Account) {
        if packer.wants(self.len(), self.plain_bytes) {
            let staged = self.objects.iter().flatten();
            let objects: Vec<_> = staged.map(|one| &one.object).collect();
            packer.learn(&objects, store);
        }
        if !packer.is_ready() {
            return;
        }
        let left = self.plain.len().saturating_sub(CHUNK);
        for place in self.plain.drain(left..) {
            let slot = self.objects.get_mut(place).and_then(Option::as_mut);
            if let Some(One {
                object,
                known: false,
            }) = slot
                && let Some(packed) = packer.pack(object)
            {
                let (before, after) = (taken_by(object), taken_by(&packed));
                self.memory -= before;
                self.memory += after;
                let saved = before.sum().saturating_sub(after.sum());
                self.whole = self.whole.saturating_sub(saved);
                account.unstage(saved);
                *object = packed;
            }
        }
    }

    /// Learn a dictionary, however few objects there are, since there is no room for more; return whether the objects
    /// will take less when they come again.
    pub(super) fn learn(&self, packer: &Arc<Packer>, store: &Arc<Store>) -> bool {
        let staged = self.objects.iter().flatten();
        let objects: Vec<_> = staged.map(|one| &one.object).collect();
        packer.learn_early(&objects, store) || packer.is_ready() && !self.plain.is_empty()
    }

    pub(super) fn remove(&mut self, key: &str, account: &Account) {
        if let Some(place) = self.places.remove(key) {
            self.clear(place, account);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Return what the objects take that the store does not have.
    pub(super) fn memory(&self) -> Memory {
        self.memory
    }

    /// Return the list. In the place of an object that was left out it has the one of the store, if there is one.
    pub(super) fn into_list(self, store: &Store) -> List {
        let mut objects = Vec::with_capacity(self.objects.len());
        if self.incomplete {
            let slot = |place: &usize| self.objects.get(*place).and_then(Option::as_ref);
            let left_out = self
                .places
                .iter()
                .filter(|(_, place)| slot(place).is_none());
            objects.extend(left_out.filter_map(|(key, _)| Some((key.clone(), store.get(key)?))));
        }
        let staged = self.objects.into_iter().flatten();
        objects.extend(staged.map(|one| (one.object.key().clone(), one.object)));
        List {
            objects,
            is_incomplete: self.incomplete,
        }
    }

    /// Drop the objects; nobody waits for the end of many.
    pub(super) fn dispose(self) {
        let objects = self.len();
        dispose(self, objects);
    }
}

/// Return what an object takes with its share of the tables.
pub(super) fn taken_by(object: &Object) -> Memory {
    let mut memory = object.memory();
    memory.table += TABLES;
    memory
}

/// Grow the heap for the objects to come.
///
/// Outside a process's first thread glibc grows it only by what is missing, which is a system call per object of a
/// list. A block that was allocated and freed stays, up to somewhat more than this.
fn grow_heap() {
    drop(black_box(Vec::<u8>::with_capacity(HEAP_STEP)));
}
