//! Entries in the order in which they came, each with a key of its own by which it is found.

use std::collections::VecDeque;
use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::object::Key;

/// An entry of a [`Line`].
pub(super) trait Keyed {
    fn key(&self) -> &Key;
}

/// See the module.
#[derive(Clone)]
pub(super) struct Line<T> {
    entries: VecDeque<T>,
    /// The number of the first entry. Those of the others follow, and begin again after the last number.
    first: u32,
    numbers: HashTable<u32>,
    hasher: RandomState,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Self {
            entries: VecDeque::new(),
            first: 0,
            numbers: HashTable::new(),
            hasher: RandomState::default(),
        }
    }
}

impl<T: Keyed> Line<T> {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.iter()
    }

    pub(super) fn contains(&self, key: &str) -> bool {
        self.place(key).is_some()
    }

    pub(super) fn get_mut(&mut self, key: &str) -> Option<&mut T> {
        let place = self.place(key)?;
        self.entries.get_mut(place)
    }

    fn place(&self, key: &str) -> Option<usize> {
        let is_named = |number: &u32| {
            let entry = self.entries.get(place_of(*number, self.first));
            entry.is_some_and(|entry| **entry.key() == *key)
        };
        let number = self.numbers.find(self.hasher.hash_one(key), is_named)?;
        Some(place_of(*number, self.first))
    }

    /// Make room for so many more entries.
    pub(super) fn reserve(&mut self, more: usize) {
        let Self {
            entries,
            first,
            numbers,
            hasher,
        } = self;
        entries.reserve(more);
        numbers.reserve(more, |number| hash_of(*number, *first, entries, hasher));
    }

    /// Add an entry whose key is new.
    pub(super) fn push(&mut self, entry: T) {
        let hash = self.hasher.hash_one(&**entry.key());
        // Four billion keys do not fit into memory.
        let place = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        self.entries.push_back(entry);
        let Self {
            entries,
            first,
            numbers,
            hasher,
        } = self;
        numbers.insert_unique(hash, first.wrapping_add(place), |number| {
            hash_of(*number, *first, entries, hasher)
        });
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        let entry = self.entries.pop_front()?;
        let (hash, first) = (self.hasher.hash_one(&**entry.key()), self.first);
        if let Ok(number) = self.numbers.find_entry(hash, |number| *number == first) {
            number.remove();
        }
        self.first = first.wrapping_add(1);
        Some(entry)
    }

    /// Take all entries, with their memory.
    pub(super) fn take(&mut self) -> Vec<T> {
        std::mem::take(self).entries.into()
    }

    /// Drop all entries, and the memory of more than `kept` of them.
    pub(super) fn clear(&mut self, kept: usize) {
        self.entries.clear();
        self.numbers.clear();
        self.shrink(kept);
    }

    /// Drop the memory of more than `kept` entries if there are none.
    pub(super) fn shrink(&mut self, kept: usize) {
        if self.is_empty() && self.entries.capacity() > kept {
            *self = Self::default();
        }
    }
}

fn place_of(number: u32, first: u32) -> usize {
    number.wrapping_sub(first) as usize
}

fn hash_of<T: Keyed>(number: u32, first: u32, entries: &VecDeque<T>, hasher: &RandomState) -> u64 {
    let entry = entries.get(place_of(number, first));
    entry.map_or(0, |entry| hasher.hash_one(&**entry.key()))
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Keyed for Key {
        fn key(&self) -> &Key {
            self
        }
    }

    #[test]
    fn entries_keep_their_order_and_are_found_although_the_numbers_begin_again() {
        let mut line = Line::<Key> {
            first: u32::MAX - 1,
            ..Line::default()
        };
        let key = |number: usize| Key::from(format!("a/{number}"));
        for number in 0..1_000 {
            line.push(key(number));
        }
        for number in 0..500 {
            assert_eq!(line.pop(), Some(key(number)));
            assert!(!line.contains(&key(number)));
        }
        assert!((500..1_000).all(|number| line.contains(&key(number))));
        line.push(key(0));
        assert_eq!(line.get_mut("a/0").cloned(), Some(key(0)));
        assert_eq!(line.len(), 501);
        let taken = line.take();
        assert_eq!(
            (taken.first(), taken.last()),
            (Some(&key(500)), Some(&key(0)))
        );
        assert!(line.is_empty() && !line.contains("a/0") && line.pop().is_none());
    }
}
