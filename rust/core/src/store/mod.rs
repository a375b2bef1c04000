//! The indexed store: the last known state of every object of one informer.
//!
//! Index functions may call Python, so they run before the lock is taken; a write starts over if an index was added or
//! removed meanwhile. Those of [`DeferredIndex`] are called later. Readers take the lock only to copy pointers, writers
//! for a few writes. More than these become visible at one moment through an overlay.

mod build;
mod change;
mod content;
mod deferred;
mod deferred_index;
mod disposal;
mod exchange;
mod index;
mod overlay;
mod progress;
mod read;
mod slots;
mod state;
mod write;

use std::sync::Arc;

pub use deferred_index::DeferredIndex;
pub(crate) use disposal::dispose;
pub(crate) use exchange::Twins;
pub use index::{IndexFailed, IndexFunc, NamespaceIndex, PathIndex, Values};
pub use progress::Lag;
pub(crate) use write::Writing;

use crate::object::{Key, Object};
use crate::sync::{Mutex, Rank, RwLock};
use state::State;

/// Writes under one lock. The models of loom have few objects.
const PIECE: usize = if cfg!(feature = "loom") { 1 } else { 64 };

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
pub struct Store {
    /// Held by who writes, or needs the content to stay as it is; readers do not care.
    turn: Mutex<()>,
    state: RwLock<State>,
}

impl Default for Store {
    fn default() -> Self {
        Self::new()
    }
}

impl Store {
    /// Create an empty store without indexes.
    pub fn new() -> Self {
        Self {
            turn: Mutex::new(Rank::Writing, ()),
            state: RwLock::new(Rank::Store, State::default()),
        }
    }

    /// Run `work` under the lock that readers and writers wait for: for tests of who waits how.
    pub fn hold<R>(&self, work: impl FnOnce() -> R) -> R {
        let _state = self.state.write();
        work()
    }
}
