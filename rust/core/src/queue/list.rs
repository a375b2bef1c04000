//! Doubly linked lists through the slab: they own no memory, and any entry can leave from the middle.

use super::slab::{Entry, NONE, Slab, Slot};
use crate::key::QueueKey;

/// The ends of a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    pub(super) first: Slot,
    pub(super) last: Slot,
}

/// Which of the two pairs of neighbours of an entry a list uses.
pub(super) trait Links {
    fn before<K>(entry: &mut Entry<K>) -> &mut Slot;
    fn after<K>(entry: &mut Entry<K>) -> &mut Slot;
}

/// The line of a level, or of a group within it.
pub(super) struct Line;

impl Links for Line {
    fn before<K>(entry: &mut Entry<K>) -> &mut Slot {
        &mut entry.previous
    }

    fn after<K>(entry: &mut Entry<K>) -> &mut Slot {
        &mut entry.next
    }
}

/// The order of age.
pub(super) struct Age;

impl Links for Age {
    fn before<K>(entry: &mut Entry<K>) -> &mut Slot {
        &mut entry.older
    }

    fn after<K>(entry: &mut Entry<K>) -> &mut Slot {
        &mut entry.newer
    }
}

impl List {
    pub(super) const EMPTY: Self = Self {
        first: NONE,
        last: NONE,
    };

    pub(super) fn is_empty(self) -> bool {
        self.first == NONE
    }

    pub(super) fn push<L: Links, K: QueueKey>(&mut self, slab: &mut Slab<K>, slot: Slot) {
        let entry = slab.get_mut(slot);
        *L::before(entry) = self.last;
        *L::after(entry) = NONE;
        if self.last == NONE {
            self.first = slot;
        } else {
            *L::after(slab.get_mut(self.last)) = slot;
        }
        self.last = slot;
    }

    pub(super) fn unlink<L: Links, K: QueueKey>(&mut self, slab: &mut Slab<K>, slot: Slot) {
        let entry = slab.get_mut(slot);
        let (before, after) = (*L::before(entry), *L::after(entry));
        if before == NONE {
            self.first = after;
        } else {
            *L::after(slab.get_mut(before)) = after;
        }
        if after == NONE {
            self.last = before;
        } else {
            *L::before(slab.get_mut(after)) = before;
        }
    }
}
