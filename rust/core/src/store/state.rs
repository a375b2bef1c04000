//! The content of the store, under its lock.

use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use super::{StoreError, Write};
use crate::index::{Index, Values};
use crate::object::{Key, Object};

/// The values of one object for each index.
pub(super) type AllValues = Vec<Option<Values>>;

pub(super) struct State {
    pub(super) items: HashMap<Key, Arc<Object>, RandomState>,
    pub(super) indexes: Vec<Index>,
    /// The resource version of the last written object, replaced list or bookmark; upstream's rule, without a
    /// comparison.
    pub(super) resource_version: String,
    pub(super) bytes: usize,
}

impl State {
    pub(super) fn index(&self, name: &str) -> Result<&Index, StoreError> {
        let found = self.indexes.iter().find(|index| *index.name == *name);
        found.ok_or_else(|| StoreError::UnknownIndex(name.to_owned()))
    }

    pub(super) fn write(&mut self, write: Write, values: AllValues) -> Option<Arc<Object>> {
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

    pub(super) fn put(
        &mut self,
        key: &Key,
        object: Arc<Object>,
        values: AllValues,
    ) -> Option<Arc<Object>> {
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
