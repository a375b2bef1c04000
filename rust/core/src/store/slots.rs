//! Entries by their text, each in a place of its own that it keeps until it is removed.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

/// The place of an entry. Places are used again, so that they stay small.
pub(super) type Place = u32;

/// An entry with a text that no other entry has.
pub(super) trait Named {
    fn name(&self) -> &str;
}

pub(super) struct Slots<T> {
    table: HashTable<Place>,
    hasher: RandomState,
    entries: Vec<Option<T>>,
    free: Vec<Place>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self {
            table: HashTable::new(),
            hasher: RandomState::default(),
            entries: Vec::new(),
            free: Vec::new(),
        }
    }
}

/// Return where an entry is in the list of entries.
pub(super) fn index(place: Place) -> usize {
    place as usize
}

impl<T: Named> Slots<T> {
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// Return a number above all places in use.
    pub(super) fn end(&self) -> usize {
        self.entries.len()
    }

    /// Return what the tables take, without the texts of the entries.
    pub(super) fn memory(&self) -> usize {
        self.table.allocation_size()
            + self.entries.capacity() * size_of::<Option<T>>()
            + self.free.capacity() * size_of::<Place>()
    }

    pub(super) fn find(&self, name: &str) -> Option<Place> {
        let named = |place: &Place| self.get(*place).is_some_and(|entry| entry.name() == name);
        self.table.find(self.hasher.hash_one(name), named).copied()
    }

    pub(super) fn get(&self, place: Place) -> Option<&T> {
        self.entries.get(index(place))?.as_ref()
    }

    pub(super) fn get_mut(&mut self, place: Place) -> Option<&mut T> {
        self.entries.get_mut(index(place))?.as_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().flatten()
    }

    /// Return the entries of a range of places, as far as they are in use.
    pub(super) fn range(&self, from: usize, to: usize) -> impl Iterator<Item = (Place, &T)> {
        let entries = self.entries.get(from..to.min(self.entries.len()));
        let entries = entries.unwrap_or_default().iter().enumerate();
        entries.filter_map(move |(at, entry)| {
            let place = Place::try_from(from + at).ok()?;
            Some((place, entry.as_ref()?))
        })
    }

    /// Add an entry whose text is new.
    pub(super) fn insert(&mut self, entry: T) -> Place {
        let hash = self.hasher.hash_one(entry.name());
        let place = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            // Four billion objects do not fit into memory.
            Place::try_from(self.entries.len() - 1).unwrap_or(Place::MAX)
        });
        if let Some(slot) = self.entries.get_mut(index(place)) {
            *slot = Some(entry);
        }
        let (entries, hasher) = (&self.entries, &self.hasher);
        self.table.insert_unique(hash, place, |place| {
            let entry = entries.get(index(*place)).and_then(Option::as_ref);
            entry.map_or(0, |entry| hasher.hash_one(entry.name()))
        });
        place
    }

    pub(super) fn remove(&mut self, place: Place) -> Option<T> {
        let entry = self.entries.get_mut(index(place))?.take()?;
        let hash = self.hasher.hash_one(entry.name());
        if let Ok(occupied) = self.table.find_entry(hash, |known| *known == place) {
            occupied.remove();
        }
        self.free.push(place);
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Named for String {
        fn name(&self) -> &str {
            self
        }
    }

    #[test]
    fn an_entry_keeps_its_place_and_a_free_place_is_used_again() {
        let mut slots = Slots::<String>::default();
        let places: Vec<_> = (0..1_000)
            .map(|number| slots.insert(number.to_string()))
            .collect();
        assert_eq!(slots.remove(places[7]).as_deref(), Some("7"));
        assert_eq!((slots.find("7"), slots.get(places[7])), (None, None));
        assert_eq!(slots.find("8"), Some(places[8]));
        assert_eq!(slots.insert("again".to_owned()), places[7]);
        assert_eq!((slots.len(), slots.end()), (1_000, 1_000));
        let entries: Vec<_> = slots.range(6, 9).map(|(_, entry)| entry.as_str()).collect();
        assert_eq!(entries, ["6", "again", "8"]);
    }
}
