//! One secondary index of a store: from a value to the keys of the objects with that value.

use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};
use smallvec::{SmallVec, smallvec};

use crate::json::path::Path;
use crate::object::{Key, Object};

/// The values of one object in an index, usually one.
pub type Values = SmallVec<[Arc<str>; 1]>;

/// An index function failed for one object, which then has no value in that index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexFailed;

/// Computes the index values of an object. Called without any lock of the store.
pub trait IndexFunc: Send + Sync {
    /// Return the values of the object.
    ///
    /// # Errors
    /// The function failed; its implementation has reported why.
    fn values(&self, object: &Arc<Object>) -> Result<Values, IndexFailed>;

    /// Return whether the values of an old object may be computed again when it is replaced. Otherwise they are kept.
    fn is_pure(&self) -> bool {
        true
    }
}

/// The default index: by namespace, empty for cluster-scoped objects.
#[derive(Clone, Copy, Debug, Default)]
pub struct NamespaceIndex;

impl IndexFunc for NamespaceIndex {
    fn values(&self, object: &Arc<Object>) -> Result<Values, IndexFailed> {
        Ok(smallvec![object.namespace().into()])
    }
}

/// Index by the scalars at a path.
#[derive(Clone, Debug)]
pub struct PathIndex(pub Path);

impl IndexFunc for PathIndex {
    fn values(&self, object: &Arc<Object>) -> Result<Values, IndexFailed> {
        Ok(self
            .0
            .texts(object.value())
            .into_iter()
            .map(|text| Arc::from(&*text))
            .collect())
    }
}

/// The keys under one value. Most values of most indexes (an owner's uid, a host name) have one key.
#[derive(Debug)]
enum Keys {
    One(Key),
    Many(HashSet<Key, RandomState>),
}

/// An index; the store updates it together with its items, under the store's lock.
pub(crate) struct Index {
    pub(crate) name: Box<str>,
    pub(crate) func: Arc<dyn IndexFunc>,
    /// No value in here has an empty set of keys.
    entries: HashMap<Arc<str>, Keys, RandomState>,
    /// The values of each key if they cannot be computed again.
    kept: HashMap<Key, Values, RandomState>,
}

impl Index {
    pub(crate) fn new(name: &str, func: Arc<dyn IndexFunc>) -> Self {
        Self {
            name: name.into(),
            func,
            entries: HashMap::default(),
            kept: HashMap::default(),
        }
    }

    /// Move a key from the values of the old object to the new ones. `new` is None if the object is gone.
    pub(crate) fn change(&mut self, key: &Key, old: Option<&Arc<Object>>, new: Option<Values>) {
        let pure = self.func.is_pure();
        let before = match old {
            None => Values::new(),
            Some(_) if !pure => self.kept.remove(key).unwrap_or_default(),
            Some(old) => self.func.values(old).unwrap_or_default(),
        };
        let after = new.unwrap_or_default();
        if before != after || old.is_none() {
            for value in &before {
                if !after.contains(value) {
                    self.remove(value, key);
                }
            }
            for value in &after {
                if !before.contains(value) {
                    self.insert(value, key);
                }
            }
        }
        if !pure && !after.is_empty() {
            self.kept.insert(key.clone(), after);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.entries = HashMap::default();
        self.kept = HashMap::default();
    }

    fn insert(&mut self, value: &Arc<str>, key: &Key) {
        let Some(keys) = self.entries.get_mut(value) else {
            self.entries.insert(value.clone(), Keys::One(key.clone()));
            return;
        };
        match keys {
            Keys::One(only) if only == key => {}
            Keys::One(only) => {
                *keys = Keys::Many([only.clone(), key.clone()].into_iter().collect());
            }
            Keys::Many(many) => {
                many.insert(key.clone());
            }
        }
    }

    fn remove(&mut self, value: &str, key: &Key) {
        let empty = match self.entries.get_mut(value) {
            None => false,
            Some(Keys::One(only)) => only == key,
            Some(Keys::Many(many)) => {
                many.remove(key);
                many.is_empty()
            }
        };
        if empty {
            self.entries.remove(value);
        }
    }

    /// Return the keys of a value.
    pub(crate) fn keys(&self, value: &str) -> Vec<Key> {
        match self.entries.get(value) {
            None => Vec::new(),
            Some(Keys::One(key)) => vec![key.clone()],
            Some(Keys::Many(many)) => many.iter().cloned().collect(),
        }
    }

    /// Return the values that have a key.
    pub(crate) fn values(&self) -> Vec<Arc<str>> {
        self.entries.keys().cloned().collect()
    }
}
