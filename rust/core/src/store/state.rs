//! What the lock of a store protects: the objects, their indexes, and what has to be told of writes.

use std::sync::Arc;

use hashbrown::HashSet;

use super::change::Change;
use super::content::{Columns, Content, Item};
use super::deferred::Deferred;
use super::index::Index;
use super::overlay::Overlay;
use super::slots::Place;
use super::{StoreError, Write};
use crate::memory::Memory;
use crate::object::{Object, Sizes};

/// What a write has changed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Written {
    /// The object that was there before.
    pub(crate) old: Option<Arc<Object>>,
    /// Where the object is or was; None if there was none to delete.
    pub(crate) place: Option<Place>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) content: Content,
    /// Writes that readers see over the content, which they are just entering.
    pub(super) overlay: Option<Overlay>,
    /// Grows with each change of the list of indexes.
    pub(super) shape: u64,
    /// Indexes whose functions are called later.
    pub(super) deferred: Vec<Deferred>,
    /// Indexes that are being built, each with what changed meanwhile.
    pub(super) builds: Vec<Change>,
    /// The resource version of the last written object, replaced list or bookmark; upstream's rule, without a
    /// comparison.
    pub(super) resource_version: String,
}

// What readers see.
impl State {
    fn shows(&self, place: Place) -> bool {
        !self.overlay.as_ref().is_some_and(|over| over.hides(place))
    }

    pub(super) fn item(&self, key: &str) -> Option<&Item> {
        let over = self.overlay.as_ref();
        let new = over.and_then(|over| over.content.items.get(over.content.items.find(key)?));
        new.or_else(|| {
            let place = self.content.items.find(key)?;
            self.content.items.get(place).filter(|_| self.shows(place))
        })
    }

    pub(super) fn items(&self) -> impl Iterator<Item = &Item> {
        let items = &self.content.items;
        let known = items.range(0, items.end());
        let known = known.filter(|(place, _)| self.shows(*place));
        let new = self
            .overlay
            .iter()
            .flat_map(|over| over.content.items.iter());
        known.map(|(_, item)| item).chain(new)
    }

    pub(super) fn len(&self) -> usize {
        let over = self.overlay.as_ref();
        over.map_or(self.content.items.len(), |over| over.len)
    }

    pub(super) fn sizes(&self) -> Sizes {
        let over = self.overlay.as_ref();
        over.map_or(self.content.sizes, |over| over.sizes)
    }

    pub(super) fn memory(&self) -> Memory {
        let mut memory = self.sizes().memory;
        let new = self.overlay.as_ref().map(|over| &over.content);
        for content in new.into_iter().chain([&self.content]) {
            memory.table += content.items.memory();
            memory.index += content.indexes.iter().map(Index::memory).sum::<usize>();
        }
        let deferred = self.deferred.iter().map(|one| one.index.memory());
        memory.index += deferred.sum::<usize>();
        memory
    }

    pub(super) fn index(&self, name: &str) -> Result<&Index, StoreError> {
        let index = self.all_indexes().find(|index| *index.name == *name);
        index.ok_or_else(|| StoreError::UnknownIndex(name.to_owned()))
    }

    /// Return the same index of the overlay; a deferred one has no part there.
    fn index_over(&self, name: &str) -> Option<(&Content, &Index)> {
        let new = &self.overlay.as_ref()?.content;
        let index = new.indexes.iter().find(|index| *index.name == *name)?;
        Some((new, index))
    }

    /// Return the items with one of these values, each once.
    pub(super) fn holders<'a>(
        &'a self,
        name: &str,
        values: &[impl AsRef<str>],
    ) -> Result<Vec<&'a Item>, StoreError> {
        let places = |index: &Index| {
            if let [value] = values {
                return index.objects(value.as_ref());
            }
            let all = values.iter();
            let all = all.flat_map(|value| index.objects(value.as_ref()));
            all.collect::<HashSet<Place>>().into_iter().collect()
        };
        let known = places(self.index(name)?).into_iter();
        let known = known.filter(|place| self.shows(*place));
        let mut items: Vec<_> = known
            .filter_map(|place| self.content.items.get(place))
            .collect();
        if let Some((new, index)) = self.index_over(name) {
            let places = places(index).into_iter();
            items.extend(places.filter_map(|place| new.items.get(place)));
        }
        Ok(items)
    }

    /// Return the values that have an object.
    pub(super) fn values(&self, name: &str) -> Result<Vec<Arc<str>>, StoreError> {
        let index = self.index(name)?;
        if self.overlay.is_none() {
            return Ok(index.values());
        }
        let new = self.index_over(name).map(|(_, index)| index.values());
        let mut all: HashSet<Arc<str>> = new.unwrap_or_default().into_iter().collect();
        let known = index.values().into_iter();
        all.extend(known.filter(|value| index.objects(value).iter().any(|one| self.shows(*one))));
        Ok(all.into_iter().collect())
    }

    pub(super) fn all_indexes(&self) -> impl Iterator<Item = &Index> {
        let deferred = self.deferred.iter().map(|one| &one.index);
        self.content.indexes.iter().chain(deferred)
    }

    /// Return an error if the store has one of these indexes, or one is named twice.
    pub(super) fn check_new<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), StoreError> {
        let present = self.all_indexes().map(|index| &*index.name);
        let building = self.builds.iter().flat_map(Change::names);
        let mut taken: HashSet<&str> = present.chain(building).collect();
        match names.into_iter().find(|name| !taken.insert(name)) {
            Some(name) => Err(StoreError::IndexExists(name.to_owned())),
            None => Ok(()),
        }
    }
}

// What writers do.
impl State {
    /// Enter a write in the content, and tell those who have to know.
    pub(super) fn write(&mut self, write: Write, values: &mut Columns) -> Written {
        let upsert = matches!(write, Write::Upsert(..));
        let (place, old) = match write {
            Write::Upsert(key, object) => {
                let (place, old) = self.content.put(key, object, values);
                for deferred in &mut self.deferred {
                    deferred.note_written(place, false);
                }
                (place, old)
            }
            Write::Delete(key, _) => {
                let Some((place, old)) = self.content.remove(&key) else {
                    return Written::default();
                };
                let empty = self.content.items.end() == 0;
                for deferred in &mut self.deferred {
                    deferred.note_written(place, true);
                    if empty {
                        deferred.index = deferred.index.empty();
                    }
                }
                (place, Some(old))
            }
        };
        for build in &mut self.builds {
            build.note(place);
        }
        if let Some(over) = &mut self.overlay {
            over.entered(place, upsert);
        }
        Written {
            old,
            place: Some(place),
        }
    }

    /// Make other objects the content; return the former ones and the tables that nobody needs, to be dropped without
    /// the lock.
    pub(super) fn exchange(&mut self, content: Content) -> (Content, Vec<Index>) {
        let old = std::mem::replace(&mut self.content, content);
        let end = old.items.end().max(self.content.items.end());
        for build in &mut self.builds {
            build.note_all(end);
        }
        let deferred = self.deferred.iter_mut();
        let cleared = deferred.map(|one| one.start_over(end)).collect();
        (old, cleared)
    }

    pub(super) fn note_version(&mut self, object: &Object) {
        let version = object.resource_version();
        if !version.is_empty() {
            self.resource_version.clear();
            self.resource_version.push_str(&version);
        }
    }
}
