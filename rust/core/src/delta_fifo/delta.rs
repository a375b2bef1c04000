//! Deltas: what happened to one object.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::object::Object;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeltaType {
    /// The object is new.
    Added,
    /// The object changed.
    Updated,
    /// The object is gone.
    Deleted,
    /// The object was in a relist.
    Replaced,
    /// The object was in a resync; nothing changed.
    Sync,
    /// The object is held no longer, which is told to nobody.
    Dropped,
}

/// The object of a delta.
#[derive(Clone, Debug)]
pub enum DeltaObject {
    /// A state that the server sent.
    Live(Arc<Object>),
    /// The object vanished during a gap in the watch; its last known state, if there is one.
    Tombstone(Option<Arc<Object>>),
}

impl DeltaObject {
    /// Return the last known state.
    pub fn object(&self) -> Option<&Arc<Object>> {
        match self {
            Self::Live(object) => Some(object),
            Self::Tombstone(object) => object.as_ref(),
        }
    }
}

/// The changes of one key, oldest first. Most keys get one or two, which need no allocation.
pub type Deltas = SmallVec<[Delta; 2]>;

/// One change of one object.
#[derive(Clone, Debug)]
pub struct Delta {
    /// What happened.
    pub kind: DeltaType,
    /// The object to which it happened.
    pub object: DeltaObject,
}

impl Delta {
    /// Create a change to a state that the server sent.
    pub fn live(kind: DeltaType, object: Arc<Object>) -> Self {
        Self {
            kind,
            object: DeltaObject::Live(object),
        }
    }
}
