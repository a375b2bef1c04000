//! The objects of a list in progress.

use std::hash::BuildHasher;
use std::hint::black_box;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

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
    slots: Vec<Slot>,
    /// The place of each key.
    places: HashTable<u32>,
    hasher: RandomState,
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

/// What is at a place.
#[derive(Debug)]
enum Slot {
    /// An object that the store lacks.
    New(Arc<Object>),
    /// An object that the store has, so that it takes nothing more.
    Known(Arc<Object>),
    /// The key of an object that was left out.
    LeftOut(Key),
    /// The object was deleted again.
    Gone,
}

impl Slot {
    fn object(&self) -> Option<&Arc<Object>> {
        match self {
            Self::New(object) | Self::Known(object) => Some(object),
            Self::LeftOut(_) | Self::Gone => None,
        }
    }

    fn key(&self) -> Option<&Key> {
        match self {
            Self::New(object) | Self::Known(object) => Some(object.key()),
            Self::LeftOut(key) => Some(key),
            Self::Gone => None,
        }
    }
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
        let place = self.empty_place(object.key(), account);
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
            let kind = if known { Slot::Known } else { Slot::New };
            self.set(place, kind(object));
            return Ok(());
        }
        if !listed || !account.has_room_for(self.whole) {
            return Err(account.over_budget(before));
        }
        self.incomplete = true;
        Ok(())
    }

    /// Put something at a place; return what was there.
    fn set(&mut self, place: usize, new: Slot) -> Slot {
        let slot = self.slots.get_mut(place);
        slot.map_or(Slot::Gone, |slot| std::mem::replace(slot, new))
    }

    /// Count what the object of a slot has taken as free.
    fn uncount(&mut self, slot: &Slot, account: &Account) {
        let Some(object) = slot.object() else {
            return;
        };
        let memory = taken_by(object);
        self.whole = self.whole.saturating_sub(memory.sum());
        self.plain_bytes = self.plain_bytes.saturating_sub(object.plain_len());
        if matches!(slot, Slot::New(_)) {
            self.memory -= memory;
            account.unstage(memory.sum());
        }
    }

    /// Return the place of a key, without its object.
    fn empty_place(&mut self, key: &Key, account: &Account) -> usize {
        let hash = self.hasher.hash_one(key);
        let slots = &self.slots;
        let known = self.places.find(hash, |place| is_at(slots, *place, key));
        if let Some(place) = known.map(|place| *place as usize) {
            let old = self.set(place, Slot::LeftOut(key.clone()));
            self.uncount(&old, account);
            return place;
        }
        let place = self.slots.len();
        self.slots.push(Slot::LeftOut(key.clone()));
        let (slots, hasher) = (&self.slots, &self.hasher);
        // Four billion objects do not fit into memory.
        let number = u32::try_from(place).unwrap_or(u32::MAX);
        self.places.insert_unique(hash, number, |place| {
            let key = slots.get(*place as usize).and_then(Slot::key);
            key.map_or(0, |key| hasher.hash_one(key))
        });
        place
    }

    /// Begin to learn a dictionary if it is time for that; compress some of what came before it.
    pub(super) fn pack(&mut self, packer: &Arc<Packer>, store: &Arc<Store>, account: &Account) {
        if packer.wants(self.len(), self.plain_bytes) {
            packer.learn(&self.objects(), store);
        }
        if !packer.is_ready() {
            return;
        }
        let left = self.plain.len().saturating_sub(CHUNK);
        for place in self.plain.drain(left..) {
            if let Some(Slot::New(object)) = self.slots.get_mut(place)
                && let Some(packed) = packer.pack_apart(object)
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
        packer.learn_early(&self.objects(), store) || packer.is_ready() && !self.plain.is_empty()
    }

    fn objects(&self) -> Vec<&Arc<Object>> {
        self.slots.iter().filter_map(Slot::object).collect()
    }

    pub(super) fn remove(&mut self, key: &Key, account: &Account) {
        let (hash, slots) = (self.hasher.hash_one(key), &self.slots);
        let known = self
            .places
            .find_entry(hash, |place| is_at(slots, *place, key));
        if let Ok(entry) = known {
            let (place, _) = entry.remove();
            let old = self.set(place as usize, Slot::Gone);
            self.uncount(&old, account);
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
        let mut objects = Vec::with_capacity(self.slots.len());
        objects.extend(self.slots.into_iter().filter_map(|slot| match slot {
            Slot::New(object) | Slot::Known(object) => Some((object.key().clone(), object)),
            Slot::LeftOut(key) => {
                let known = store.get(&key)?;
                Some((key, known))
            }
            Slot::Gone => None,
        }));
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

/// Return whether the key is at a place.
fn is_at(slots: &[Slot], place: u32, key: &Key) -> bool {
    let slot = slots.get(place as usize);
    slot.and_then(Slot::key).is_some_and(|known| known == key)
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
