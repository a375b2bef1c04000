//! Indexes that are added to a store with objects: built beside it, a piece at a time, while others read and write.

use std::sync::Arc;

use hashbrown::HashSet;

use super::index::{Index, IndexFunc};
use super::slots::Place;
use super::state::{Columns, State};
use super::{Store, StoreError};
use crate::object::Object;

/// Objects that are read under one lock.
const PIECE: usize = 4096;

/// What has changed in the store since a build began.
pub(super) struct Change {
    build: u64,
    names: Vec<Box<str>>,
    places: Vec<Place>,
}

impl Change {
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }
}

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
        let mut from = 0;
        while let Some(piece) = self.piece(from) {
            add(&mut indexes, &funcs, &piece);
            from += PIECE;
        }
        // What changed meanwhile, then what changed during that, and so on: each round is shorter.
        while let Some(changed) = build.changed_or_install(&mut indexes) {
            add(&mut indexes, &funcs, &changed);
        }
        Ok(())
    }

    /// Return the objects from a place on; None after the last place.
    fn piece(&self, from: usize) -> Option<Vec<(Place, Option<Arc<Object>>)>> {
        let state = self.state.read();
        let objects = state.items.range(from, from + PIECE);
        let objects = objects.map(|(place, item)| (place, Some(item.object.clone())));
        (from < state.items.end()).then(|| objects.collect())
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
        state.builds.push(Change {
            build: id,
            names: new.iter().map(|(name, _)| name.clone()).collect(),
            places: Vec::new(),
        });
        Ok(Self { store, id })
    }

    /// Return the objects that have changed since the last call; if there are none, add the indexes to the store.
    fn changed_or_install(
        &self,
        indexes: &mut Vec<Index>,
    ) -> Option<Vec<(Place, Option<Arc<Object>>)>> {
        let mut state = self.store.state.write();
        let change = state.builds.iter_mut().find(|one| one.build == self.id);
        let places = change.map(|change| std::mem::take(&mut change.places));
        let places: HashSet<Place> = places.unwrap_or_default().into_iter().collect();
        if places.is_empty() {
            state.indexes.append(indexes);
            state.shape += 1;
            return None;
        }
        let object = |place| Some(state.items.get(place)?.object.clone());
        Some(
            places
                .into_iter()
                .map(|place| (place, object(place)))
                .collect(),
        )
    }
}

impl Drop for Build<'_> {
    fn drop(&mut self) {
        let mut state = self.store.state.write();
        state.builds.retain(|one| one.build != self.id);
    }
}

impl State {
    /// Note a write for the builds in progress.
    pub(super) fn note_changed(&mut self, place: Place) {
        for build in &mut self.builds {
            build.places.push(place);
        }
    }

    /// Note that all objects up to a place were replaced.
    pub(super) fn note_all_changed(&mut self, end: usize) {
        for build in &mut self.builds {
            build
                .places
                .extend((0..end).filter_map(|place| Place::try_from(place).ok()));
        }
    }
}
