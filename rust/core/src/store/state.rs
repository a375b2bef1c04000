//! What the lock of a store protects: the objects, their indexes, and what has to be told of writes.

use std::sync::Arc;

use hashbrown::HashSet;

use super::build::Change;
use super::deferred::Deferred;
use super::index::{Index, IndexFailed, IndexFunc, Values};
use super::slots::{Named, Place, Slots};
use super::{StoreError, Write};
use crate::object::{Key, Object};
use crate::sync::assert_none_held;

/// The values of objects: for each index, those that were not used yet.
pub(super) struct Columns {
    values: Vec<std::vec::IntoIter<Result<Values, IndexFailed>>>,
    /// The indexes of the store for which they are.
    pub(super) shape: u64,
}

impl Columns {
    pub(super) fn compute(
        shape: u64,
        funcs: &[Arc<dyn IndexFunc>],
        objects: &[&Arc<Object>],
    ) -> Self {
        assert_none_held();
        let columns = funcs.iter().map(|func| func.values_of_all(objects));
        Self {
            values: columns.map(Vec::into_iter).collect(),
            shape,
        }
    }

    /// Change each index to its values of the next object.
    pub(super) fn next(&mut self, indexes: &mut [Index], object: Place) {
        for (index, column) in indexes.iter_mut().zip(&mut self.values) {
            let values = column.next().and_then(Result::ok);
            index.change(object, values.as_deref().unwrap_or_default());
        }
    }
}

pub(super) struct Item {
    pub(super) key: Key,
    pub(super) object: Arc<Object>,
}

impl Named for Item {
    fn name(&self) -> &str {
        &self.key
    }
}

#[derive(Default)]
pub(super) struct State {
    pub(super) items: Slots<Item>,
    pub(super) indexes: Vec<Index>,
    /// Grows with each change of `indexes`.
    pub(super) shape: u64,
    /// Indexes whose functions are called later.
    pub(super) deferred: Vec<Deferred>,
    /// Indexes that are being built, each with what changed meanwhile.
    pub(super) builds: Vec<Change>,
    /// The resource version of the last written object, replaced list or bookmark; upstream's rule, without a
    /// comparison.
    pub(super) resource_version: String,
    pub(super) bytes: usize,
}

impl State {
    pub(super) fn item(&self, key: &str) -> Option<&Item> {
        self.items.get(self.items.find(key)?)
    }

    pub(super) fn at(
        &self,
        places: impl IntoIterator<Item = Place>,
    ) -> impl Iterator<Item = &Item> {
        places.into_iter().filter_map(|place| self.items.get(place))
    }

    pub(super) fn index(&self, name: &str) -> Result<&Index, StoreError> {
        let found = self.all_indexes().find(|index| *index.name == *name);
        found.ok_or_else(|| StoreError::UnknownIndex(name.to_owned()))
    }

    pub(super) fn all_indexes(&self) -> impl Iterator<Item = &Index> {
        let deferred = self.deferred.iter().map(|one| &one.index);
        self.indexes.iter().chain(deferred)
    }

    /// Return the places in use.
    pub(super) fn places(&self) -> impl Iterator<Item = Place> {
        self.items
            .range(0, self.items.end())
            .map(|(place, _)| place)
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

    pub(super) fn write(&mut self, write: Write, values: &mut Columns) -> Option<Arc<Object>> {
        match write {
            Write::Upsert(key, object) => {
                self.note_version(&object);
                self.put(&key, object, values)
            }
            Write::Delete(key, object) => {
                if let Some(object) = object {
                    self.note_version(&object);
                }
                let place = self.items.find(&key)?;
                let old = self.items.remove(place)?.object;
                self.bytes = self.bytes.saturating_sub(old.memory());
                for index in &mut self.indexes {
                    index.change(place, &[]);
                }
                for one in &mut self.deferred {
                    one.note_written(place, true);
                }
                self.note_changed(place);
                Some(old)
            }
        }
    }

    pub(super) fn put(
        &mut self,
        key: &Key,
        object: Arc<Object>,
        values: &mut Columns,
    ) -> Option<Arc<Object>> {
        self.bytes += object.memory();
        let item = Item {
            key: key.clone(),
            object,
        };
        let known = self.items.find(key);
        let (place, old) = match known.and_then(|place| Some((place, self.items.get_mut(place)?))) {
            Some((place, known)) => (place, Some(std::mem::replace(known, item).object)),
            None => (self.items.insert(item), None),
        };
        if let Some(old) = &old {
            self.bytes = self.bytes.saturating_sub(old.memory());
        }
        values.next(&mut self.indexes, place);
        for one in &mut self.deferred {
            one.note_written(place, false);
        }
        self.note_changed(place);
        old
    }

    fn note_version(&mut self, object: &Object) {
        let version = object.resource_version();
        if !version.is_empty() {
            self.resource_version.clear();
            self.resource_version.push_str(&version);
        }
    }
}
