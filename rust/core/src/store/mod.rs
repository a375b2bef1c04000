//! The indexed store: the last known state of every object of one informer.
//!
//! Index functions may call Python, so they run before the lock is taken; a write starts over if an index was added
//! meanwhile. Readers take the lock only to copy pointers.

mod index;

use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};
use parking_lot::RwLock;
use smallvec::SmallVec;

pub use index::{IndexFailed, IndexFunc, NamespaceIndex, PathIndex, Values};

use crate::object::{Key, Object};
use index::Index;

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
#[derive(Default)]
pub struct Store {
    state: RwLock<State>,
}

impl Store {
    /// Create an empty store without indexes.
    pub fn new() -> Self {
        Self::default()
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
        loop {
            let funcs = self.index_funcs();
            let values: Vec<AllValues> = writes
                .iter()
                .map(|write| match write {
                    Write::Upsert(_, object) => compute(&funcs, object),
                    Write::Delete(..) => AllValues::new(),
                })
                .collect();
            let mut state = self.state.write();
            if state.indexes.len() != funcs.len() {
                continue;
            }
            return writes
                .into_iter()
                .zip(values)
                .map(|(write, values)| state.write(write, values))
                .collect();
        }
    }

    /// Replace the whole content. Readers see the old content or the new one, never a mixture.
    pub fn replace(&self, objects: Vec<(Key, Arc<Object>)>, resource_version: Option<&str>) {
        loop {
            let funcs = self.index_funcs();
            let values: Vec<AllValues> = objects
                .iter()
                .map(|(_, object)| compute(&funcs, object))
                .collect();
            let mut state = self.state.write();
            if state.indexes.len() != funcs.len() {
                continue;
            }
            let old = std::mem::take(&mut state.items);
            state.bytes = 0;
            state.indexes.iter_mut().for_each(Index::clear);
            for ((key, object), values) in objects.into_iter().zip(values) {
                state.put(&key, object, values);
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

    /// Add indexes; they contain all current items when the call returns.
    ///
    /// # Errors
    /// There already is an index of one of the names; nothing was added.
    pub fn add_indexes(&self, new: &[(Box<str>, Arc<dyn IndexFunc>)]) -> Result<(), StoreError> {
        let funcs: Vec<_> = new.iter().map(|(_, func)| func.clone()).collect();
        let mut computed: HashMap<Key, (Arc<Object>, AllValues), RandomState> = HashMap::default();
        let mut names = HashSet::<&str>::new();
        if let Some((name, _)) = new.iter().find(|(name, _)| !names.insert(name)) {
            return Err(StoreError::IndexExists(name.to_string()));
        }
        loop {
            // Items that changed while the functions ran without the lock are computed in the next round.
            let known = |key: &Key, object: &Arc<Object>| {
                computed
                    .get(key)
                    .is_some_and(|(seen, _)| Arc::ptr_eq(seen, object))
            };
            let mut state = self.state.write();
            if let Some((name, _)) = new
                .iter()
                .find(|(name, _)| state.indexes.iter().any(|i| i.name == *name))
            {
                return Err(StoreError::IndexExists(name.to_string()));
            }
            let missing: Vec<_> = state
                .items
                .iter()
                .filter(|(key, object)| !known(key, object))
                .map(|(key, object)| (key.clone(), object.clone()))
                .collect();
            if missing.is_empty() {
                let mut indexes: Vec<_> = new
                    .iter()
                    .map(|(name, func)| Index::new(name, func.clone()))
                    .collect();
                for key in state.items.keys() {
                    let Some((_, values)) = computed.remove(key) else {
                        continue;
                    };
                    for (index, values) in indexes.iter_mut().zip(values) {
                        index.change(key, None, values);
                    }
                }
                state.indexes.extend(indexes);
                return Ok(());
            }
            drop(state);
            for (key, object) in missing {
                let values = compute(&funcs, &object);
                computed.insert(key, (object, values));
            }
        }
    }

    /// Return the object of that key.
    pub fn get(&self, key: &str) -> Option<Arc<Object>> {
        self.state.read().items.get(key).cloned()
    }

    /// Return all objects, in no order.
    pub fn list(&self) -> Vec<Arc<Object>> {
        self.state.read().items.values().cloned().collect()
    }

    /// Return all objects with their keys, in no order.
    pub fn entries(&self) -> Vec<(Key, Arc<Object>)> {
        self.state
            .read()
            .items
            .iter()
            .map(|(key, object)| (key.clone(), object.clone()))
            .collect()
    }

    /// Return all keys, in no order.
    pub fn keys(&self) -> Vec<Key> {
        self.state.read().items.keys().cloned().collect()
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
        let values = func.values(object).unwrap_or_default();
        let state = self.state.read();
        let index = state.index(name)?;
        let keys: HashSet<Key, RandomState> =
            values.iter().flat_map(|value| index.keys(value)).collect();
        Ok(keys
            .iter()
            .filter_map(|key| state.items.get(key).cloned())
            .collect())
    }

    /// Return the objects with that index value.
    ///
    /// # Errors
    /// There is no index of that name.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Arc<Object>>, StoreError> {
        let state = self.state.read();
        Ok(state
            .index(name)?
            .keys(value)
            .iter()
            .filter_map(|key| state.items.get(key).cloned())
            .collect())
    }

    /// Return the keys with that index value.
    ///
    /// # Errors
    /// There is no index of that name.
    pub fn index_keys(&self, name: &str, value: &str) -> Result<Vec<Key>, StoreError> {
        Ok(self.state.read().index(name)?.keys(value))
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

/// The values of one object for each index.
type AllValues = SmallVec<[Option<Values>; 2]>;

#[derive(Default)]
struct State {
    items: HashMap<Key, Arc<Object>, RandomState>,
    indexes: Vec<Index>,
    /// The resource version of the last written object, replaced list or bookmark; upstream's rule, without a
    /// comparison.
    resource_version: String,
    bytes: usize,
}

impl State {
    fn index(&self, name: &str) -> Result<&Index, StoreError> {
        let found = self.indexes.iter().find(|index| *index.name == *name);
        found.ok_or_else(|| StoreError::UnknownIndex(name.to_owned()))
    }

    fn write(&mut self, write: Write, values: AllValues) -> Option<Arc<Object>> {
        match write {
            Write::Upsert(key, object) => {
                self.note_version(&object);
                self.put(&key, object, values)
            }
            Write::Delete(key, object) => {
                if let Some(object) = object {
                    self.note_version(&object);
                }
                let old = self.items.remove(&key)?;
                self.bytes = self.bytes.saturating_sub(old.memory());
                for index in &mut self.indexes {
                    index.change(&key, Some(&old), None);
                }
                Some(old)
            }
        }
    }

    fn put(&mut self, key: &Key, object: Arc<Object>, values: AllValues) -> Option<Arc<Object>> {
        self.bytes += object.memory();
        let old = self.items.insert(key.clone(), object);
        if let Some(old) = &old {
            self.bytes = self.bytes.saturating_sub(old.memory());
        }
        for (index, values) in self.indexes.iter_mut().zip(values) {
            index.change(key, old.as_ref(), values);
        }
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

fn compute(funcs: &[Arc<dyn IndexFunc>], object: &Arc<Object>) -> AllValues {
    funcs.iter().map(|func| func.values(object).ok()).collect()
}
