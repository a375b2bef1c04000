//! Writing to a store: who writes has the turn, and the lock for a few writes at a time.

use std::sync::Arc;

use super::content::Columns;
use super::deferred::Deferred;
use super::index::Index;
use super::overlay::Overlay;
use super::state::{State, Written};
use super::{PIECE, Store, Write};
use crate::object::{Key, Object};
use crate::sync::MutexGuard;

/// Writes with the index values of their objects; see [`Store::prepare`].
pub(crate) struct Prepared {
    writes: Vec<Write>,
    values: Columns,
}

/// The turn of a writer. The content stays as it is, but for what this writes.
pub(crate) struct Writing<'a> {
    store: &'a Store,
    _turn: MutexGuard<'a, ()>,
}

impl Store {
    /// Wait for the turn to write.
    pub(crate) fn writing(&self) -> Writing<'_> {
        Writing {
            store: self,
            _turn: self.turn.lock(),
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

    /// Apply writes in order; return the former object of each. Readers see none of them or all.
    pub fn apply(&self, writes: Vec<Write>) -> Vec<Option<Arc<Object>>> {
        let mut prepared = self.prepare(writes);
        loop {
            let writing = self.writing();
            let committed = writing.commit(prepared, true);
            drop(writing);
            prepared = match committed {
                Ok(written) => return written.into_iter().map(|one| one.old).collect(),
                Err(writes) => self.prepare(writes),
            }
        }
    }

    /// Call the index functions for writes.
    pub(crate) fn prepare(&self, writes: Vec<Write>) -> Prepared {
        let objects: Vec<_> = writes.iter().filter_map(Write::indexed).collect();
        let values = self.columns(&objects);
        Prepared { writes, values }
    }

    /// Replace the whole content. Readers see the old content or the new one, never a mixture.
    pub fn replace(&self, objects: Vec<(Key, Arc<Object>)>, resource_version: Option<&str>) {
        loop {
            let all: Vec<_> = objects.iter().map(|(_, object)| object).collect();
            let mut values = self.columns(&all);
            let writing = self.writing();
            let mut content = {
                let state = self.state.read();
                if state.shape != values.shape {
                    continue;
                }
                state.content.empty()
            };
            for (key, object) in objects {
                content.put(key, object, &mut values);
            }
            let mut state = self.state.write();
            let (old, cleared) = state.exchange(content);
            if let Some(resource_version) = resource_version {
                resource_version.clone_into(&mut state.resource_version);
            }
            drop(state);
            drop(writing);
            drop(cleared);
            old.dispose();
            return;
        }
    }

    /// Note that the store is current up to that resource version.
    pub fn bookmark(&self, resource_version: &str) {
        resource_version.clone_into(&mut self.state.write().resource_version);
    }

    /// Remove indexes; unknown names are no error.
    pub fn remove_indexes(&self, names: &[&str]) {
        let writing = self.writing();
        let mut state = self.state.write();
        let is_kept = |index: &Index| !names.contains(&&*index.name);
        let removed: Vec<_> = state
            .content
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
        drop(writing);
        // The end of their functions may call the store.
        drop((removed, deferred));
    }

    /// Call the functions of all indexes for these objects.
    fn columns(&self, objects: &[&Arc<Object>]) -> Columns {
        let state = self.state.read();
        let indexes = state.content.indexes.iter();
        let funcs: Vec<_> = indexes.map(|index| index.func.clone()).collect();
        let shape = state.shape;
        drop(state);
        Columns::compute(shape, &funcs, objects)
    }
}

impl Writing<'_> {
    /// Apply prepared writes in order; return what each has changed. If they are a `whole`, readers see none of them or
    /// all.
    ///
    /// # Errors
    /// An index was added meanwhile. Nothing was written; the writes have to be prepared again.
    pub(crate) fn commit(
        &self,
        prepared: Prepared,
        whole: bool,
    ) -> Result<Vec<Written>, Vec<Write>> {
        let Prepared { writes, mut values } = prepared;
        // It changes only when nobody else has the turn.
        if self.store.state.read().shape != values.shape {
            return Err(writes);
        }
        if whole && writes.len() > PIECE {
            return Ok(self.commit_whole(writes, &mut values));
        }
        let mut written = Vec::with_capacity(writes.len());
        let mut writes = writes.into_iter();
        while writes.len() > 0 {
            let mut state = self.store.state.write();
            for write in writes.by_ref().take(PIECE) {
                if let Some(object) = write.object() {
                    state.note_version(object);
                }
                written.push(state.write(write, &mut values));
            }
        }
        Ok(written)
    }

    fn commit_whole(&self, writes: Vec<Write>, values: &mut Columns) -> Vec<Written> {
        let store = self.store;
        let mut overlay = Overlay::over(&store.state.read().content);
        let mut written = Vec::with_capacity(writes.len());
        for piece in writes.chunks(PIECE) {
            let state = store.state.read();
            let collected = piece
                .iter()
                .map(|write| overlay.collect(&state.content, write, values));
            written.extend(collected.map(|(place, old)| Written { old, place }));
        }
        let newest = writes.iter().rev().filter_map(Write::object);
        let newest = newest
            .clone()
            .find(|one| !one.resource_version().is_empty());
        let mut state = store.state.write();
        if let Some(newest) = newest {
            state.note_version(newest);
        }
        if state.content.items.len() == 0 {
            let (old, cleared) = state.exchange(overlay.content);
            drop(state);
            drop((old, cleared));
            return written;
        }
        state.overlay = Some(overlay);
        drop(state);
        self.enter(writes, values, &mut written);
        written
    }

    /// Move what readers see already into the content.
    fn enter(&self, writes: Vec<Write>, values: &mut Columns, written: &mut [Written]) {
        values.rewind();
        let mut writes = writes.into_iter().zip(written);
        loop {
            let mut state = self.store.state.write();
            for (write, written) in writes.by_ref().take(PIECE) {
                written.place = state.write(write, values).place;
            }
            if writes.len() == 0 {
                let overlay = state.overlay.take();
                drop(state);
                if let Some(overlay) = overlay {
                    overlay.content.dispose();
                }
                return;
            }
        }
    }

    /// Return the objects of so many places from one on, and where to continue; None after the last one.
    pub(crate) fn piece(&self, from: usize, places: usize) -> (Vec<Arc<Object>>, Option<usize>) {
        let State { content, .. } = &*self.store.state.read();
        let to = from.saturating_add(places);
        let entries = content.items.range(from, to);
        let objects = entries.map(|(_, item)| item.object.clone()).collect();
        (objects, Some(to).filter(|to| *to < content.items.end()))
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

    /// Return the object with the version of the write.
    fn object(&self) -> Option<&Arc<Object>> {
        match self {
            Self::Upsert(_, object) => Some(object),
            Self::Delete(_, object) => object.as_ref(),
        }
    }
}
