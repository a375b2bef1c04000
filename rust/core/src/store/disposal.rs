//! The end of many objects, which takes long: nobody waits for it.

use std::thread;

use super::Store;
use super::content::Content;
use super::index::Index;
use crate::memory::release;

/// So many objects are dropped by whoever has them: that takes a part of a millisecond.
const FEW: usize = 1_000;

/// Drop something that holds so many objects; if they are many, on a thread of its own, which returns their memory.
pub(crate) fn dispose<T: Send + 'static>(what: T, objects: usize) {
    if objects > FEW {
        let thread = thread::Builder::new().name("ctrlhost-drop".to_owned());
        // Without a thread the closure is dropped here, with everything in it.
        drop(thread.spawn(move || {
            drop(what);
            release();
        }));
    }
}

impl Content {
    /// Drop the objects, and the tables of the indexes; their functions end on this thread.
    pub(super) fn dispose(self) {
        let objects = self.items.len();
        let tables: Vec<_> = self.indexes.into_iter().map(Index::into_tables).collect();
        dispose((self.items, tables), objects);
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let state = std::mem::take(self.state.get_mut());
        if let Some(over) = state.overlay {
            over.content.dispose();
        }
        for deferred in state.deferred {
            let tables = deferred.index.into_tables();
            dispose(tables, state.content.items.len());
        }
        state.content.dispose();
    }
}
