//! The entries of a queue and how a key finds its own.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry as TableEntry;

use crate::clock::Tick;
use crate::key::{IntoKey, KeyRef, QueueKey};

/// Where an entry stands in the slab.
pub(super) type Slot = u32;

/// No slot.
pub(super) const NONE: Slot = Slot::MAX;

/// How few entries are not worth giving memory back for.
const KEEP: usize = 4096;

/// Where a key is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Neither queued nor processed; the entry stands for a delayed add, or for a limiter that is being asked.
    Idle,
    /// In line.
    Queued,
    /// Handed out.
    Processing,
    /// Handed out and added again; in line once it is done.
    ProcessingDirty,
}

/// What a queue knows of one key. An entry exists while there is something to know.
pub(super) struct Entry<K> {
    /// `None` only in a free slot.
    pub(super) key: Option<K>,
    /// When it came into line, or was added again while processed.
    pub(super) since: Tick,
    /// When it was handed out.
    pub(super) started: Tick,
    /// The neighbours in the line of its level (and group); `next` links the free slots, too.
    pub(super) previous: Slot,
    pub(super) next: Slot,
    /// The neighbours in the order of age: of all queued keys, or of all that are processed.
    pub(super) older: Slot,
    pub(super) newer: Slot,
    /// The place of its delayed add in the heap, [`NONE`] without one.
    pub(super) delayed: u32,
    /// The group it is queued for, where the queue is fair.
    pub(super) group: u32,
    /// The priority it is, or will be, queued with.
    pub(super) priority: i32,
    pub(super) stage: Stage,
    /// A limiter is being asked how long the key has to wait.
    pub(super) asking: bool,
}

/// All entries, found by key or by slot.
pub(super) struct Slab<K> {
    entries: Vec<Entry<K>>,
    table: HashTable<Slot>,
    free: Slot,
    /// The most entries that were in use since there were none.
    peak: usize,
}

impl<K: QueueKey> Slab<K> {
    pub(super) fn new() -> Self {
        Self {
            entries: Vec::new(),
            table: HashTable::new(),
            free: NONE,
            peak: 0,
        }
    }

    pub(super) fn get(&self, slot: Slot) -> &Entry<K> {
        &self.entries[slot as usize]
    }

    pub(super) fn get_mut(&mut self, slot: Slot) -> &mut Entry<K> {
        &mut self.entries[slot as usize]
    }

    /// The key in a slot that is in use.
    pub(super) fn key(&self, slot: Slot) -> &K {
        key_of(&self.entries, slot)
    }

    /// The entries in use, in no order that means anything.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &Entry<K>)> {
        self.entries
            .iter()
            .filter_map(|entry| entry.key.as_ref().map(|key| (key, entry)))
    }

    pub(super) fn find(&self, key: &(impl KeyRef<K> + ?Sized)) -> Option<Slot> {
        self.table
            .find(key.hash64(), |&slot| {
                key.matches(key_of(&self.entries, slot))
            })
            .copied()
    }

    /// The slot of `key`, and the key back if an equal one was held before; else it gets an idle entry.
    pub(super) fn find_or_insert<A: IntoKey<K>>(&mut self, key: A) -> (Slot, Option<A>) {
        let Self {
            entries,
            table,
            free,
            ..
        } = self;
        let equal = |&slot: &Slot| key.matches(key_of(entries, slot));
        match table.entry(key.hash64(), equal, |&slot| {
            QueueKey::hash64(key_of(entries, slot))
        }) {
            TableEntry::Occupied(found) => (*found.get(), Some(key)),
            TableEntry::Vacant(vacant) => {
                let slot = if *free == NONE {
                    next_slot(entries.len())
                } else {
                    *free
                };
                vacant.insert(slot);
                let entry = Entry::idle(key.into_key());
                if *free == NONE {
                    entries.push(entry);
                } else {
                    let place = &mut entries[slot as usize];
                    *free = place.next;
                    *place = entry;
                }
                (slot, None)
            }
        }
    }

    /// Frees the slot and gives its key, to be dropped without the lock.
    pub(super) fn remove(&mut self, slot: Slot) -> K {
        let hash = QueueKey::hash64(self.key(slot));
        if let Ok(found) = self.table.find_entry(hash, |&other| other == slot) {
            found.remove();
        }
        let entry = &mut self.entries[slot as usize];
        let key = entry.key.take().expect("a slot in the table is in use");
        entry.next = self.free;
        self.free = slot;
        self.peak = self.peak.max(self.table.len() + 1);
        if self.table.is_empty() {
            // Nobody holds a slot, so the memory can go as a whole; not after each of a row of bursts, but after what
            // would not have needed it.
            if self.peak < self.entries.len() / 4 {
                self.shrink();
            }
            self.peak = 0;
        }
        key
    }

    /// Gives the memory of a burst back, if nothing is in use.
    pub(super) fn shrink(&mut self) {
        if self.table.is_empty() && self.entries.len() > KEEP {
            *self = Self::new();
        }
    }

    /// How many entries are in use.
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
            asking: false,
        }
    }
}
