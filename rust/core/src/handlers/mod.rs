//! Handlers: the reaction to each change of a cached object, without a call of Python.

mod causes;
mod desired_state;
mod listener;
mod mapping;
mod owner_scope;
mod pending;
mod predicate;
mod queue_handler;
mod selection;

use std::sync::Arc;

pub use causes::{Cause, Causes};
pub use desired_state::DesiredState;
pub use listener::{Bounds, Listener, Next, OnFull, Replay, SharedListener};
pub use mapping::{LabelNamespace, MapFunc, Mapping, OwnedRequest};
pub use owner_scope::OwnerScope;
pub use predicate::{Predicate, PredicateFunc};
pub use queue_handler::QueueHandler;
pub(crate) use selection::Labels;
pub use selection::{LabelRequirement, Selection};

use crate::delta_fifo::DeltaObject;
use crate::object::{Key, Object};

/// The key of one reconcile, borrowed from the object from which it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestRef<'a> {
    /// The object's name, or whatever names the unit of work.
    pub name: &'a str,
    /// The object's namespace; empty for a cluster-scoped object.
    pub namespace: &'a str,
    /// The cluster's name; empty while only one is configured.
    pub cluster: &'a str,
}

/// The destination of requests; a work queue beyond the border implements it.
pub trait RequestSink: Send + Sync {
    /// Add the requests in order, under one lock. Without a priority, a queued key keeps its own and a new key gets
    /// 0.
    fn add_requests(&self, requests: &[RequestRef<'_>], priority: Option<i32>);

    /// Return whether adding requests calls nothing beyond the border.
    fn is_native(&self) -> bool {
        true
    }

    /// Return the record of the changes that add requests; None if there is none.
    fn causes(&self) -> Option<&Causes> {
        None
    }
}

/// One change of an object; the store already contains it.
#[derive(Clone, Debug)]
pub enum Change {
    /// The key is new.
    Add {
        /// The new object.
        object: Arc<Object>,
        /// It belongs to the first list, or was there when the handler was added.
        initial: bool,
    },
    /// The key was known.
    Update {
        /// The state before.
        old: Arc<Object>,
        /// The state now.
        new: Arc<Object>,
    },
    /// The object is gone; its last state from the server, or a tombstone.
    Delete {
        /// The object's key.
        key: Key,
        /// What is known of it.
        object: DeltaObject,
    },
}

impl Change {
    /// Return the states before and after, for predicates and mappings. A tombstone may have neither.
    pub fn states(&self) -> (Option<&Arc<Object>>, Option<&Arc<Object>>) {
        match self {
            Self::Add { object, .. } => (None, Some(object)),
            Self::Update { old, new } => (Some(old), Some(new)),
            Self::Delete { object, .. } => (object.object(), None),
        }
    }

    /// Return the key of the object that changed.
    pub fn key(&self) -> &Key {
        match self {
            Self::Add { object, .. } | Self::Update { new: object, .. } => object.key(),
            Self::Delete { key, .. } => key,
        }
    }

    /// Return whether nothing changed on the server: an update with equal resource versions, from a resync or a
    /// relist.
    pub fn is_sync(&self) -> bool {
        match self {
            Self::Update { old, new } => {
                Arc::ptr_eq(old, new)
                    || (!new.resource_version().is_empty()
                        && old.resource_version() == new.resource_version())
            }
            Self::Add { .. } | Self::Delete { .. } => false,
        }
    }

    /// Return whether it belongs to a first list, so that real changes may overtake it.
    pub fn is_initial(&self) -> bool {
        matches!(self, Self::Add { initial: true, .. })
    }
}

/// Return a pod with this metadata.
#[cfg(test)]
pub(crate) fn pod(metadata: &str) -> Arc<Object> {
    let text = format!(r#"{{"metadata":{{{metadata}}}}}"#);
    let pod = crate::object::Builder::new("v1", "Pod").parse(text.as_bytes());
    Arc::new(pod.expect("a pod"))
}
