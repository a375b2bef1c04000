//! One secondary index of a store: from a value to the objects with that value.

use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};
use smallvec::{SmallVec, smallvec};

use super::slots::{Named, Place, Slots, index};
use crate::json::path::Path;
use crate::memory::block;
use crate::object::Object;

/// The values of one object in an index, usually one.
pub type Values = SmallVec<[Arc<str>; 1]>;

/// An index function failed for one object, which then has no value in that index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexFailed;

/// Computes the index values of an object: once for each state of it, and without any lock of the store.
pub trait IndexFunc: Send + Sync {
    /// Return the values of the object.
    ///
    /// # Errors
    /// The function failed; its implementation has reported why.
    fn values(&self, object: &Arc<Object>) -> Result<Values, IndexFailed>;

    /// Return the values of several objects, in their order.
    fn values_of_all(&self, objects: &[&Arc<Object>]) -> Vec<Result<Values, IndexFailed>> {
        objects.iter().map(|object| self.values(object)).collect()
    }
}

/// The default index: by namespace, empty for cluster-scoped objects.
#[derive(Clone, Copy, Debug, Default)]
pub struct NamespaceIndex;

impl IndexFunc for NamespaceIndex {
    fn values(&self, object: &Arc<Object>) -> Result<Values, IndexFailed> {
        Ok(smallvec![object.namespace().into()])
    }

    // One allocation for a namespace instead of one for each of its objects.
    fn values_of_all(&self, objects: &[&Arc<Object>]) -> Vec<Result<Values, IndexFailed>> {
        let mut known: HashMap<&str, Arc<str>, RandomState> = HashMap::default();
        let mut values = Vec::with_capacity(objects.len());
        for object in objects {
            let namespace = object.namespace();
            let value = known.entry(namespace).or_insert_with(|| namespace.into());
            values.push(Ok(smallvec![value.clone()]));
        }
        values
    }
}

/// Index by the scalars at a path.
#[derive(Clone, Debug)]
pub struct PathIndex(pub Path);

impl IndexFunc for PathIndex {
    fn values(&self, object: &Arc<Object>) -> Result<Values, IndexFailed> {
        let texts = object.texts(&self.0).map_err(|_| IndexFailed)?.into_iter();
        Ok(texts.map(Arc::from).collect())
    }
}

/// The objects under one value. Most values of most indexes (an owner's uid, a host name) have one.
enum Holders {
    One(Place),
    Many(Box<HashSet<Place, RandomState>>),
}

struct Value {
    text: Arc<str>,
    holders: Holders,
}

impl Value {
    /// Return the bytes of the text and of the set.
    fn blocks(&self) -> usize {
        let set = match &self.holders {
            Holders::One(_) => 0,
            Holders::Many(many) => block(size_of_val(&**many)) + block(many.allocation_size()),
        };
        block(self.text.len() + 2 * size_of::<usize>()) + set
    }
}

impl Named for Value {
    fn name(&self) -> &str {
        &self.text
    }
}

/// The ids of an object's values.
type Ids = SmallVec<[Place; 4]>;

/// An object without values.
const NONE: Place = Place::MAX;
/// An object with several values, which are in [`Index::several`].
const SEVERAL: Place = Place::MAX - 1;

/// An index; the store updates it together with its items, under the store's lock. Objects go by their places there.
pub(super) struct Index {
    pub(super) name: Box<str>,
    pub(super) func: Arc<dyn IndexFunc>,
    /// Each has an object.
    values: Slots<Value>,
    /// The id of each object's value: four bytes instead of a second call of the function when the object changes.
    held: Vec<Place>,
    several: HashMap<Place, Ids, RandomState>,
    /// What the values and their sets of objects take beside the tables.
    blocks: usize,
}

impl Index {
    pub(super) fn new(name: &str, func: Arc<dyn IndexFunc>) -> Self {
        Self {
            name: name.into(),
            func,
            values: Slots::default(),
            held: Vec::new(),
            several: HashMap::default(),
            blocks: 0,
        }
    }

    /// Return the same index of no objects.
    pub(super) fn empty(&self) -> Self {
        Self::new(&self.name, self.func.clone())
    }

    /// Return the tables, which are as many as the objects, without the function.
    pub(super) fn into_tables(self) -> impl Send + 'static {
        (self.values, self.held, self.several)
    }

    /// Return the bytes that the index takes.
    pub(super) fn memory(&self) -> usize {
        self.values.memory()
            + self.held.capacity() * size_of::<Place>()
            + self.several.allocation_size()
            + self.blocks
    }

    /// Set the values of an object; none if it is gone.
    pub(super) fn change(&mut self, object: Place, values: &[Arc<str>]) {
        let before = self.ids(object);
        let text = |id: &Place| self.values.get(*id).map(|value| &*value.text);
        if before
            .iter()
            .map(text)
            .eq(values.iter().map(|value| Some(&**value)))
        {
            return;
        }
        let mut after = Ids::new();
        for value in values {
            let id = self.add(value, object);
            if !after.contains(&id) {
                after.push(id);
            }
        }
        for id in before.iter().filter(|id| !after.contains(id)) {
            self.remove(*id, object);
        }
        self.hold(object, after);
    }

    /// Return the ids of the values of an object.
    fn ids(&self, object: Place) -> Ids {
        match self.held.get(index(object)).copied().unwrap_or(NONE) {
            NONE => Ids::new(),
            SEVERAL => self.several.get(&object).cloned().unwrap_or_default(),
            one => smallvec![one],
        }
    }

    fn hold(&mut self, object: Place, ids: Ids) {
        if self.held.len() <= index(object) {
            self.held.resize(index(object) + 1, NONE);
        }
        let Some(held) = self.held.get_mut(index(object)) else {
            return;
        };
        if *held == SEVERAL {
            self.several.remove(&object);
        }
        *held = match ids.as_slice() {
            [] => NONE,
            [one] => *one,
            _ => {
                self.several.insert(object, ids);
                SEVERAL
            }
        };
    }

    /// Add an object to a value; return the id of the value.
    fn add(&mut self, text: &Arc<str>, object: Place) -> Place {
        let Some(id) = self.values.find(text) else {
            let value = Value {
                text: text.clone(),
                holders: Holders::One(object),
            };
            self.blocks += value.blocks();
            return self.values.insert(value);
        };
        if let Some(value) = self.values.get_mut(id) {
            let before = value.blocks();
            match &mut value.holders {
                Holders::One(only) if *only == object => {}
                Holders::One(only) => {
                    let both = [*only, object].into_iter().collect();
                    value.holders = Holders::Many(Box::new(both));
                }
                Holders::Many(many) => {
                    many.insert(object);
                }
            }
            self.blocks = (self.blocks + value.blocks()).saturating_sub(before);
        }
        id
    }

    fn remove(&mut self, id: Place, object: Place) {
        let empty = match self.values.get_mut(id).map(|value| &mut value.holders) {
            None => false,
            Some(Holders::One(only)) => *only == object,
            Some(Holders::Many(many)) => {
                many.remove(&object);
                many.is_empty()
            }
        };
        if empty && let Some(value) = self.values.remove(id) {
            self.blocks = self.blocks.saturating_sub(value.blocks());
        }
    }

    /// Return the objects with a value.
    pub(super) fn objects(&self, text: &str) -> Vec<Place> {
        let value = self.values.find(text).and_then(|id| self.values.get(id));
        match value.map(|value| &value.holders) {
            None => Vec::new(),
            Some(Holders::One(object)) => vec![*object],
            Some(Holders::Many(many)) => many.iter().copied().collect(),
        }
    }

    /// Return how many objects have a value.
    pub(super) fn count(&self, text: &str) -> usize {
        let value = self.values.find(text).and_then(|id| self.values.get(id));
        match value.map(|value| &value.holders) {
            None => 0,
            Some(Holders::One(_)) => 1,
            Some(Holders::Many(many)) => many.len(),
        }
    }

    /// Return how many values have an object.
    pub(super) fn value_count(&self) -> usize {
        self.values.len()
    }

    /// Return the values that have an object.
    pub(super) fn values(&self) -> Vec<Arc<str>> {
        self.values.iter().map(|value| value.text.clone()).collect()
    }
}
