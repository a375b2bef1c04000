//! The indexed store: the last known state of every object of one informer.
//!
//! Index functions may call Python, so they run before the lock is taken; a write starts over if an index was added or
//! removed meanwhile. Those of [`DeferredIndex`] are called later. Readers take the lock only to copy pointers.

mod build;
mod deferred;
mod index;
mod slots;
mod state;

use std::sync::Arc;

use hashbrown::HashSet;

pub use deferred::{DeferredIndex, Lag};
pub use index::{IndexFailed, IndexFunc, NamespaceIndex, PathIndex, Values};

use crate::object::{Key, Object};
use crate::sync::{Rank, RwLock, assert_none_held};
use deferred::Deferred;
use index::Index;
use slots::Place;
use state::{Columns, State};

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
        let values = self.columns(&objects);
        Prepared { writes, values }
    }

    /// Apply prepared writes in order under one lock; return the former object of each.
    ///
    /// # Errors
    /// An index was added meanwhile. Nothing was written; the writes have to be prepared again.
    pub fn commit(&self, prepared: Prepared) -> Result<Vec<Option<Arc<Object>>>, Vec<Write>> {
        let Prepared { writes, mut values } = prepared;
        let mut state = self.state.write();
        if state.shape != values.shape {
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
            let mut values = self.columns(&all);
            let mut state = self.state.write();
            if state.shape != values.shape {
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
            let places: Vec<_> = state.places().collect();
            for one in &mut state.deferred {
                one.note_replaced(places.iter().copied());
            }
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
        let state = self.state.read();
        state
            .all_indexes()
            .map(|index| index.name.clone())
            .collect()
    }

    /// Remove indexes; unknown names are no error.
    pub fn remove_indexes(&self, names: &[&str]) {
        let mut state = self.state.write();
        let is_kept = |index: &Index| !names.contains(&&*index.name);
        let removed: Vec<_> = state
            .indexes
            .extract_if(.., |index| !is_kept(index))
            .collect();
        state.shape += u64::from(!removed.is_empty());
        let mut deferred: Vec<_> = state
            .deferred
            .extract_if(.., |one| !is_kept(&one.index))
            .collect();
        deferred.iter_mut().for_each(Deferred::close);
        drop(state);
        // The end of their functions may call the store.
        drop((removed, deferred));
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

    /// Call the functions of all indexes for these objects.
    fn columns(&self, objects: &[&Arc<Object>]) -> Columns {
        let state = self.state.read();
        let funcs: Vec<_> = state
            .indexes
            .iter()
            .map(|index| index.func.clone())
            .collect();
        let shape = state.shape;
        drop(state);
        Columns::compute(shape, &funcs, objects)
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
