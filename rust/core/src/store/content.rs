//! Objects with their indexes, and the index values that were computed before the objects enter.

use std::sync::Arc;

use super::index::{Index, IndexFailed, IndexFunc, Values};
use super::slots::{Named, Place, Slots};
use crate::object::{Key, Object, Sizes};
use crate::sync::assert_none_held;

/// Memory for so many objects is kept when all are gone.
const KEEP: usize = 1024;

/// The values of objects, in their order, for each index.
pub(super) struct Columns {
    values: Vec<Vec<Result<Values, IndexFailed>>>,
    /// The number of the next object.
    next: usize,
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
            values: columns.collect(),
            next: 0,
            shape,
        }
    }

    /// Change each index to its values of the next object.
    pub(super) fn next(&mut self, indexes: &mut [Index], object: Place) {
        for (index, column) in indexes.iter_mut().zip(&self.values) {
            let values = column.get(self.next).and_then(|one| one.as_ref().ok());
            index.change(object, values.map(Values::as_slice).unwrap_or_default());
        }
        self.next += 1;
    }

    /// Begin again with the first object.
    pub(super) fn rewind(&mut self) {
        self.next = 0;
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
pub(super) struct Content {
    pub(super) items: Slots<Item>,
    pub(super) indexes: Vec<Index>,
    /// What the objects take.
    pub(super) sizes: Sizes,
}

impl Content {
    /// Return a content without objects that has the same indexes.
    pub(super) fn empty(&self) -> Self {
        Self {
            indexes: self.indexes.iter().map(Index::empty).collect(),
            ..Self::default()
        }
    }

    /// Add or replace an object, with the next values.
    pub(super) fn put(
        &mut self,
        key: Key,
        object: Arc<Object>,
        values: &mut Columns,
    ) -> (Place, Option<Arc<Object>>) {
        self.sizes += object.sizes();
        let known = self.items.find(&key);
        let item = Item { key, object };
        let (place, old) = match known.and_then(|place| Some((place, self.items.get_mut(place)?))) {
            Some((place, known)) => (place, Some(std::mem::replace(known, item).object)),
            None => (self.items.insert(item), None),
        };
        if let Some(old) = &old {
            self.sizes -= old.sizes();
        }
        values.next(&mut self.indexes, place);
        (place, old)
    }

    /// Exchange an object and its key, if it is still the same, for itself in another form.
    pub(super) fn exchange(&mut self, old: &Arc<Object>, new: &Arc<Object>) {
        let place = self.items.find(old.key());
        let item = place.and_then(|place| self.items.get_mut(place));
        if let Some(item) = item.filter(|item| Arc::ptr_eq(&item.object, old)) {
            item.key = new.key().clone();
            item.object = new.clone();
            self.sizes -= old.sizes();
            self.sizes += new.sizes();
        }
    }

    pub(super) fn remove(&mut self, key: &str) -> Option<(Place, Arc<Object>)> {
        let place = self.items.find(key)?;
        let old = self.items.remove(place)?.object;
        self.sizes -= old.sizes();
        for index in &mut self.indexes {
            index.change(place, &[]);
        }
        if self.items.len() == 0 && self.items.end() > KEEP {
            // Tables do not shrink by themselves.
            *self = self.empty();
        }
        Some((place, old))
    }
}
