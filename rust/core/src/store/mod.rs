//! The indexed store: the last known state of every object of one informer.
//!
//! Index functions may call Python, so they run before the lock is taken; a write starts over if an index was added
//! meanwhile. Readers take the lock only to copy pointers.

mod build;
mod index;
mod slots;

use std::sync::Arc;

use hashbrown::HashSet;

pub use index::{IndexFailed, IndexFunc, NamespaceIndex, PathIndex, Values};

use crate::object::{Key, Object};
use crate::sync::{Rank, RwLock, assert_none_held};
use build::Change;
use index::Index;
use slots::{Named, Place, Slots};

/// One change of a store.
#[derive(Clone, Debug)]
pub enum Write {
    /// Add or replace the object of that key.
    Upsert(Key, Arc<Object>),
    /// Remove the key; the object, if there is one, has the resource version of the deletion.
    Delete(Key, Option<Arc<Object>>),
}

/// Why a store rejects a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// There is no index of that name.
    #[error("index with name {0} does not exist")]
    UnknownIndex(String),
    /// There already is an index of that name.
    #[error("indexer conflict: there is an index named {0}")]
    IndexExists(String),
}

/// A thread-safe store with secondary indexes.
pub struct Store {
    state: RwLock<State>,
}

impl Default for Store {
    fn default() -> Self {
        Self::new()
    }
}

/// Writes with the index values of their objects; see [`Store::prepare`].
pub struct Prepared {
    writes: Vec<Write>,
    values: Columns,
}

impl Store {
    /// Create an empty store without indexes.
    pub fn new() -> Self {
        Self {
            state: RwLock::new(Rank::Store, State::default()),
        }
    }

    /// Add or replace an object; return the one it replaces.
    pub fn upsert(&self, key: Key, object: Arc<Object>) -> Option<Arc<Object>> {
        self.apply(vec![Write::Upsert(key, object)]).pop().flatten()
    }

    /// Remove a key; return the removed object. A missing key is no error.
    pub fn delete(&self, key: Key, object: Option<Arc<Object>>) -> Option<Arc<Object>> {
        self.apply(vec![Write::Delete(key, object)]).pop().flatten()
    }

    /// Apply writes in order under one lock; return the former object of each.
    pub fn apply(&self, writes: Vec<Write>) -> Vec<Option<Arc<Object>>> {
        let mut prepared = self.prepare(writes);
        loop {
            prepared = match self.commit(prepared) {
                Ok(former) => return former,
                Err(writes) => self.prepare(writes),
            }
        }
    }

    /// Call the index functions for writes.
    pub fn prepare(&self, writes: Vec<Write>) -> Prepared {
        let objects: Vec<_> = writes.iter().filter_map(Write::indexed).collect();
        let values = Columns::compute(&self.index_funcs(), &objects);
        Prepared { writes, values }
    }

    /// Apply prepared writes in order under one lock; return the former object of each.
    ///
    /// # Errors
    /// An index was added meanwhile. Nothing was written; the writes have to be prepared again.
    pub fn commit(&self, prepared: Prepared) -> Result<Vec<Option<Arc<Object>>>, Vec<Write>> {
        let Prepared { writes, mut values } = prepared;
        let mut state = self.state.write();
        if state.indexes.len() != values.0.len() {
            return Err(writes);
        }
        let writes = writes.into_iter();
        Ok(writes
            .map(|write| state.write(write, &mut values))
            .collect())
    }

    /// Replace the whole content. Readers see the old content or the new one, never a mixture.
    pub fn replace(&self, objects: Vec<(Key, Arc<Object>)>, resource_version: Option<&str>) {
        loop {
            let all: Vec<_> = objects.iter().map(|(_, object)| object).collect();
            let mut values = Columns::compute(&self.index_funcs(), &all);
            let mut state = self.state.write();
            if state.indexes.len() != values.0.len() {
                continue;
            }
            let old = std::mem::take(&mut state.items);
            state.bytes = 0;
            state.indexes.iter_mut().for_each(Index::clear);
            for (key, object) in objects {
                state.put(&key, object, &mut values);
            }
            let end = old.end().max(state.items.end());
            state.note_all_changed(end);
            if let Some(resource_version) = resource_version {
                resource_version.clone_into(&mut state.resource_version);
            }
            drop(state);
            drop(old);
            return;
        }
    }

    /// Note that the store is current up to that resource version.
    pub fn bookmark(&self, resource_version: &str) {
        resource_version.clone_into(&mut self.state.write().resource_version);
    }

    /// Return the resource version of the last write, list or bookmark.
    pub fn resource_version(&self) -> String {
        self.state.read().resource_version.clone()
    }

    /// Return the object of that key.
    pub fn get(&self, key: &str) -> Option<Arc<Object>> {
        Some(self.state.read().item(key)?.object.clone())
    }

    /// Return all objects, in no order.
    pub fn list(&self) -> Vec<Arc<Object>> {
        let state = self.state.read();
        state.items.iter().map(|item| item.object.clone()).collect()
    }

    /// Return all objects with their keys, in no order.
    pub fn entries(&self) -> Vec<(Key, Arc<Object>)> {
        let state = self.state.read();
        let items = state.items.iter();
        items
            .map(|item| (item.key.clone(), item.object.clone()))
            .collect()
    }

    /// Return all keys, in no order.
    pub fn keys(&self) -> Vec<Key> {
        let state = self.state.read();
        state.items.iter().map(|item| item.key.clone()).collect()
    }

    /// Return the number of objects.
    pub fn len(&self) -> usize {
        self.state.read().items.len()
    }

    /// Return whether there is no object.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Return the bytes that the objects take.
    pub fn bytes(&self) -> usize {
        self.state.read().bytes
    }

    /// Return the names of the indexes.
    pub fn index_names(&self) -> Vec<Box<str>> {
        self.state
            .read()
            .indexes
            .iter()
            .map(|index| index.name.clone())
            .collect()
    }

    /// Return the objects that share an index value with the object, which need not be stored.
    ///
    /// # Errors
    /// There is no index of that name.
    pub fn index(&self, name: &str, object: &Arc<Object>) -> Result<Vec<Arc<Object>>, StoreError> {
        let func = self.state.read().index(name)?.func.clone();
        assert_none_held();
        let values = func.values(object).unwrap_or_default();
        let state = self.state.read();
        let index = state.index(name)?;
        let objects = values.iter().flat_map(|value| index.objects(value));
        let objects: HashSet<Place> = objects.collect();
        Ok(state.at(objects).map(|item| item.object.clone()).collect())
    }

    /// Return the objects with that index value.
    ///
    /// # Errors
    /// There is no index of that name.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Arc<Object>>, StoreError> {
        let state = self.state.read();
        let items = state.at(state.index(name)?.objects(value));
        Ok(items.map(|item| item.object.clone()).collect())
    }

    /// Return the keys with that index value.
    ///
    /// # Errors
    /// There is no index of that name.
    pub fn index_keys(&self, name: &str, value: &str) -> Result<Vec<Key>, StoreError> {
        let state = self.state.read();
        let items = state.at(state.index(name)?.objects(value));
        Ok(items.map(|item| item.key.clone()).collect())
    }

    /// Return the values of that index that have an object.
    ///
    /// # Errors
    /// There is no index of that name.
    pub fn index_values(&self, name: &str) -> Result<Vec<Arc<str>>, StoreError> {
        Ok(self.state.read().index(name)?.values())
    }

    fn index_funcs(&self) -> Vec<Arc<dyn IndexFunc>> {
        self.state
            .read()
            .indexes
            .iter()
            .map(|index| index.func.clone())
            .collect()
    }
}

impl Write {
    /// Return the object whose index values have to be known.
    fn indexed(&self) -> Option<&Arc<Object>> {
        match self {
            Self::Upsert(_, object) => Some(object),
            Self::Delete(..) => None,
        }
    }
}

/// The values of objects: for each index, those that were not used yet.
struct Columns(Vec<std::vec::IntoIter<Result<Values, IndexFailed>>>);

impl Columns {
    fn compute(funcs: &[Arc<dyn IndexFunc>], objects: &[&Arc<Object>]) -> Self {
        assert_none_held();
        let columns = funcs.iter().map(|func| func.values_of_all(objects));
        Self(columns.map(Vec::into_iter).collect())
    }

    /// Change each index to its values of the next object.
    fn next(&mut self, indexes: &mut [Index], object: Place) {
        for (index, column) in indexes.iter_mut().zip(&mut self.0) {
            let values = column.next().and_then(Result::ok);
            index.change(object, values.as_deref().unwrap_or_default());
        }
    }
}

struct Item {
    key: Key,
    object: Arc<Object>,
}

impl Named for Item {
    fn name(&self) -> &str {
        &self.key
    }
}

#[derive(Default)]
struct State {
    items: Slots<Item>,
    indexes: Vec<Index>,
    /// Indexes that are being built, each with what changed meanwhile.
    builds: Vec<Change>,
    /// The resource version of the last written object, replaced list or bookmark; upstream's rule, without a
    /// comparison.
    resource_version: String,
    bytes: usize,
}

impl State {
    fn item(&self, key: &str) -> Option<&Item> {
        self.items.get(self.items.find(key)?)
    }

    fn at(&self, places: impl IntoIterator<Item = Place>) -> impl Iterator<Item = &Item> {
        places.into_iter().filter_map(|place| self.items.get(place))
    }

    fn index(&self, name: &str) -> Result<&Index, StoreError> {
        let found = self.indexes.iter().find(|index| *index.name == *name);
        found.ok_or_else(|| StoreError::UnknownIndex(name.to_owned()))
    }

    fn write(&mut self, write: Write, values: &mut Columns) -> Option<Arc<Object>> {
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
                self.note_changed(place);
                Some(old)
            }
        }
    }

    fn put(&mut self, key: &Key, object: Arc<Object>, values: &mut Columns) -> Option<Arc<Object>> {
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
