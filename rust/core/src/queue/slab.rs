//! The entries of a queue, and the way from a key to its entry.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry as TableEntry;

use crate::clock::Tick;
use crate::key::{IntoKey, KeyRef, QueueKey};

/// The place of an entry in the slab.
pub(super) type Slot = u32;

/// No slot.
pub(super) const NONE: Slot = Slot::MAX;

/// Memory of at most so many entries is never released.
const KEEP: usize = 4096;

/// The stage of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Neither queued nor processed; the entry is for a delayed add, or for a call of the limiter.
    Idle,
    /// Queued.
    Queued,
    /// Handed out.
    Processing,
    /// Handed out and added again; queued once it is done.
    ProcessingDirty,
}

/// What a queue knows of one key. An entry exists as long as it holds anything.
pub(super) struct Entry<K> {
    /// `None` only in a free slot.
    pub(super) key: Option<K>,
    /// When it was queued, or added again while processed.
    pub(super) since: Tick,
    /// When it was handed out.
    pub(super) started: Tick,
    /// The neighbours in the line of its level (and group); `next` also links the free slots.
    pub(super) previous: Slot,
    pub(super) next: Slot,
    /// The neighbours in order of age: of all queued keys, or of all processed keys.
    pub(super) older: Slot,
    pub(super) newer: Slot,
    /// The place of its delayed add in the heap, [`NONE`] without one.
    pub(super) delayed: u32,
    /// The group for which it is queued, in a fair queue.
    pub(super) group: u32,
    /// The priority it is, or will be, queued with.
    pub(super) priority: i32,
    pub(super) stage: Stage,
    /// The limiter is being asked how long the key has to wait.
    pub(super) limiting: bool,
}

/// All entries, found by key or by slot.
pub(super) struct Slab<K> {
    entries: Vec<Entry<K>>,
    table: HashTable<Slot>,
    free: Slot,
    /// The slots from here on were not used since no key was known. They follow each other, while a slot in the list of free
    /// ones is found only by a read of the one before.
    fresh: usize,
    /// The largest number of used entries since there were none.
    peak: usize,
}

impl<K: QueueKey> Slab<K> {
    pub(super) fn new() -> Self {
        Self {
            entries: Vec::new(),
            table: HashTable::new(),
            free: NONE,
            fresh: 0,
            peak: 0,
        }
    }

    pub(super) fn get(&self, slot: Slot) -> &Entry<K> {
        &self.entries[slot as usize]
    }

    /// Return the entry of a slot from elsewhere; None if the slot is not in use.
    pub(super) fn used(&self, slot: Slot) -> Option<&Entry<K>> {
        let entry = self.entries.get(slot as usize);
        entry.filter(|entry| entry.key.is_some())
    }

    pub(super) fn get_mut(&mut self, slot: Slot) -> &mut Entry<K> {
        &mut self.entries[slot as usize]
    }

    /// Return the key in a used slot.
    pub(super) fn key(&self, slot: Slot) -> &K {
        key_of(&self.entries, slot)
    }

    /// Return the used entries, in order of their slots.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Slot, &Entry<K>)> {
        let entries = (0..).zip(&self.entries);
        entries.filter(|(_, entry)| entry.key.is_some())
    }

    pub(super) fn find(&self, key: &(impl KeyRef<K> + ?Sized)) -> Option<Slot> {
        self.table
            .find(key.hash64(), |&slot| {
                key.matches(key_of(&self.entries, slot))
            })
            .copied()
    }

    /// Return the slot of `key`, and the key itself if an equal one was there; otherwise create an idle entry.
    pub(super) fn find_or_insert<A: IntoKey<K>>(&mut self, key: A) -> (Slot, Option<A>) {
        let Self {
            entries,
            table,
            free,
            fresh,
            ..
        } = self;
        let equal = |&slot: &Slot| key.matches(key_of(entries, slot));
        match table.entry(key.hash64(), equal, |&slot| {
            QueueKey::hash64(key_of(entries, slot))
        }) {
            TableEntry::Occupied(found) => (*found.get(), Some(key)),
            TableEntry::Vacant(vacant) => {
                let slot = if *free == NONE {
                    *fresh += 1;
                    next_slot(*fresh - 1)
                } else {
                    let slot = *free;
                    *free = entries[slot as usize].next;
                    slot
                };
                vacant.insert(slot);
                let entry = Entry::idle(key.into_key());
                match entries.get_mut(slot as usize) {
                    Some(place) => *place = entry,
                    None => entries.push(entry),
                }
                (slot, None)
            }
        }
    }

    /// Make room for a burst of so many keys, which else grows the tables step by step. A queue that has keys may know
    /// most of them already, so it grows as needed.
    pub(super) fn expect(&mut self, keys: usize) {
        if self.table.is_empty() {
            self.entries
                .reserve(keys.saturating_sub(self.entries.len()));
            self.table.reserve(keys, |_| 0);
        }
    }

    /// Free a slot and return its key, to be dropped without the lock.
    pub(super) fn remove(&mut self, slot: Slot) -> K {
        let hash = QueueKey::hash64(self.key(slot));
        if let Ok(occupied) = self.table.find_entry(hash, |&other| other == slot) {
            occupied.remove();
        }
        let entry = &mut self.entries[slot as usize];
        let key = entry.key.take().expect("a slot in the table is in use");
        entry.next = self.free;
        self.free = slot;
        self.peak = self.peak.max(self.table.len() + 1);
        if self.table.is_empty() {
            // No slot is in use, so all memory can go: not after each of several bursts, but after one that did not
            // need it.
            if self.peak < self.entries.len() / 4 {
                self.shrink();
            } else if self.peak > KEEP {
                // The marks of removed keys would make the next burst write the table anew.
                self.table.clear();
            }
            (self.free, self.fresh, self.peak) = (NONE, 0, 0);
        }
        key
    }

    /// Release the memory of a burst if nothing is in use.
    pub(super) fn shrink(&mut self) {
        if self.table.is_empty() && self.entries.len() > KEEP {
            *self = Self::new();
        }
    }

    /// Return the number of used entries.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }
}

fn key_of<K>(entries: &[Entry<K>], slot: Slot) -> &K {
    entries[slot as usize]
        .key
        .as_ref()
        .expect("a slot in the table is in use")
}

fn next_slot(len: usize) -> Slot {
    Slot::try_from(len)
        .ok()
        .filter(|&slot| slot != NONE)
        .expect("no machine has the memory for 2^32 keys")
}

impl<K> Entry<K> {
    fn idle(key: K) -> Self {
        Self {
            key: Some(key),
            since: Tick::ZERO,
            started: Tick::ZERO,
            previous: NONE,
            next: NONE,
            older: NONE,
            newer: NONE,
            delayed: NONE,
            group: 0,
            priority: 0,
            stage: Stage::Idle,
            limiting: false,
        }
    }
}
