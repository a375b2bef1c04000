//! Indexes that are added to a store with objects: built beside it, a piece at a time, while others read and write.

use std::sync::Arc;

use super::change::Change;
use super::content::Columns;
use super::index::{Index, IndexFunc};
use super::slots::Place;
use super::{Store, StoreError};
use crate::object::Object;

/// Keys that are indexed between two looks at the store.
const KEYS: usize = 1_000;

/// A build in progress; the store forgets it when this is dropped.
struct Build<'a> {
    store: &'a Store,
    id: u64,
}

impl Store {
    /// Add indexes; they contain all current items when the call returns. No lock is held for longer than a piece of
    /// the items takes to copy.
    ///
    /// # Errors
    /// There already is an index of one of the names; nothing was added.
    pub fn add_indexes(&self, new: &[(Box<str>, Arc<dyn IndexFunc>)]) -> Result<(), StoreError> {
        let build = Build::begin(self, new)?;
        let funcs: Vec<_> = new.iter().map(|(_, func)| func.clone()).collect();
        let make = |(name, func): &(Box<str>, Arc<dyn IndexFunc>)| Index::new(name, func.clone());
        let mut indexes: Vec<_> = new.iter().map(make).collect();
        // All that is there, then what changed meanwhile, then what changed during that, and so on: each round is
        // shorter.
        while let Some(changed) = build.changed_or_install(&mut indexes) {
            for keys in changed.chunks(KEYS) {
                add(&mut indexes, &funcs, &self.at(keys));
            }
        }
        Ok(())
    }

    /// Return the objects at these places; None where there is none.
    fn at(&self, places: &[Place]) -> Vec<(Place, Option<Arc<Object>>)> {
        let state = self.state.read();
        let object = |place| Some(state.content.items.get(place)?.object.clone());
        let places = places.iter().copied();
        places.map(|place| (place, object(place))).collect()
    }
}

/// Set the values of objects; those that are gone have none.
fn add(
    indexes: &mut [Index],
    funcs: &[Arc<dyn IndexFunc>],
    objects: &[(Place, Option<Arc<Object>>)],
) {
    let present: Vec<_> = objects.iter().filter_map(|(_, one)| one.as_ref()).collect();
    let mut values = Columns::compute(0, funcs, &present);
    for (place, object) in objects {
        if object.is_some() {
            values.next(indexes, *place);
        } else {
            for index in &mut *indexes {
                index.change(*place, &[]);
            }
        }
    }
}

impl<'a> Build<'a> {
    fn begin(store: &'a Store, new: &[(Box<str>, Arc<dyn IndexFunc>)]) -> Result<Self, StoreError> {
        let mut state = store.state.write();
        state.check_new(new.iter().map(|(name, _)| &**name))?;
        let id = state
            .builds
            .iter()
            .map(|one| one.build + 1)
            .max()
            .unwrap_or(0);
        let all_below = state.content.items.end();
        let names = new.iter().map(|(name, _)| name.clone()).collect();
        state.builds.push(Change::new(id, names, all_below));
        Ok(Self { store, id })
    }

    /// Return the places that have changed since the last call; if there are none, add the indexes to the store.
    fn changed_or_install(&self, indexes: &mut Vec<Index>) -> Option<Vec<Place>> {
        // What is on its way into the content has to be in the indexes, too.
        let _writing = self.store.writing();
        let mut state = self.store.state.write();
        let change = state.builds.iter_mut().find(|one| one.build == self.id);
        let places = change.map(Change::take).unwrap_or_default();
        if places.is_empty() {
            state.content.indexes.append(indexes);
            state.shape += 1;
            return None;
        }
        Some(places)
    }
}

impl Drop for Build<'_> {
    fn drop(&mut self) {
        let mut state = self.store.state.write();
        state.builds.retain(|one| one.build != self.id);
    }
}
