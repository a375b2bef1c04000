//! What readers ask a store. Each answer is of one moment.

use std::sync::Arc;

use super::content::Item;
use super::index::Index;
use super::{Store, StoreError};
use crate::memory::Memory;
use crate::object::{Key, Object, Sizes};
use crate::sync::assert_none_held;

impl Store {
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
        let mut all = Vec::with_capacity(state.len());
        all.extend(state.items().map(object));
        all
    }

    /// Return all objects with their keys, in no order.
    pub fn entries(&self) -> Vec<(Key, Arc<Object>)> {
        let state = self.state.read();
        let mut all = Vec::with_capacity(state.len());
        all.extend(state.items().map(|item| (key(item), object(item))));
        all
    }

    /// Return all keys, in no order.
    pub fn keys(&self) -> Vec<Key> {
        let state = self.state.read();
        let mut all = Vec::with_capacity(state.len());
        all.extend(state.items().map(key));
        all
    }

    /// Return the number of objects.
    pub fn len(&self) -> usize {
        self.state.read().len()
    }

    /// Return whether there is no object.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Return the bytes that the objects, the tables and the indexes take; counted as they change.
    pub fn memory(&self) -> Memory {
        self.state.read().memory()
    }

    /// Return what the objects take, without tables and indexes.
    pub fn sizes(&self) -> Sizes {
        self.state.read().sizes()
    }

    /// Return the names of the indexes.
    pub fn index_names(&self) -> Vec<Box<str>> {
        let state = self.state.read();
        let indexes = state.all_indexes();
        indexes.map(|index| index.name.clone()).collect()
    }

    /// Return the objects that share an index value with the object, which need not be stored.
    ///
    /// # Errors
    /// There is no index of that name.
    pub fn index(&self, name: &str, object: &Arc<Object>) -> Result<Vec<Arc<Object>>, StoreError> {
        let func = self.state.read().index(name)?.func.clone();
        assert_none_held();
        let values = func.values(object).unwrap_or_default();
        self.holders(name, &values, self::object)
    }

    /// Return the objects with that index value.
    ///
    /// # Errors
    /// There is no index of that name.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Arc<Object>>, StoreError> {
        self.holders(name, &[value], object)
    }

    /// Return the selected objects of a namespace, or of all; only these are looked at, and without the lock.
    ///
    /// # Errors
    /// There is no index `namespace`.
    pub fn select(
        &self,
        namespace: Option<&str>,
        mut selects: impl FnMut(&Object) -> bool,
    ) -> Result<Vec<Arc<Object>>, StoreError> {
        let mut objects = match namespace {
            Some(namespace) => self.by_index("namespace", namespace)?,
            None => self.list(),
        };
        objects.retain(|object| selects(object));
        Ok(objects)
    }

    /// Return the keys with that index value.
    ///
    /// # Errors
    /// There is no index of that name.
    pub fn index_keys(&self, name: &str, value: &str) -> Result<Vec<Key>, StoreError> {
        self.holders(name, &[value], key)
    }

    fn holders<T>(
        &self,
        name: &str,
        values: &[impl AsRef<str>],
        show: fn(&Item) -> T,
    ) -> Result<Vec<T>, StoreError> {
        let state = self.state.read();
        let items = state.holders(name, values)?.into_iter();
        Ok(items.map(show).collect())
    }

    /// Return the values of that index that have an object.
    ///
    /// # Errors
    /// There is no index of that name.
    pub fn index_values(&self, name: &str) -> Result<Vec<Arc<str>>, StoreError> {
        self.state.read().values(name)
    }

    /// Return about how many objects [`Store::by_index`] would return; 0 for an unknown index.
    pub fn index_count(&self, name: &str, value: &str) -> usize {
        let state = self.state.read();
        state.index(name).map_or(0, |index| index.count(value))
    }

    /// Return about how many values [`Store::index_values`] would return; 0 for an unknown index.
    pub fn index_value_count(&self, name: &str) -> usize {
        let state = self.state.read();
        state.index(name).map_or(0, Index::value_count)
    }
}

fn object(item: &Item) -> Arc<Object> {
    item.object.clone()
}

fn key(item: &Item) -> Key {
    item.key.clone()
}
