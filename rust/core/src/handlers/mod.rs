//! Handlers: what happens with each change of a cached object, without entering Python.

mod coalesce;
mod listener;
mod mapping;
mod predicate;
mod queue_handler;
mod selection;

use std::sync::Arc;

pub use listener::{COALESCE_AFTER, Listener, Next, Notification, SharedListener};
pub use mapping::{LabelNamespace, MapFunc, Mapping, OwnedRequest};
pub use predicate::{Predicate, PredicateFunc};
pub use queue_handler::QueueHandler;
pub use selection::{LabelRequirement, Selection};

use crate::delta_fifo::DeltaObject;
use crate::object::{Key, Object};

/// The key of one reconcile, borrowed from the object it was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestRef<'a> {
    /// The object's name, or whatever names the unit of work.
    pub name: &'a str,
    /// The object's namespace; empty for a cluster-scoped object.
    pub namespace: &'a str,
    /// The cluster's name; empty while only one is configured.
    pub cluster: &'a str,
}

/// Where handlers put the requests they made; a work queue behind the border implements it.
pub trait RequestSink: Send + Sync {
    /// Adds the requests in order, under one lock. `None` keeps the priority a queued key has, and is 0 for a new one.
    fn add_requests(&self, requests: &[RequestRef<'_>], priority: Option<i32>);
}

/// One change as handlers see it; the store holds it already.
#[derive(Clone, Debug)]
pub enum Change {
    /// The key was not known.
    Add {
        /// The new object.
        object: Arc<Object>,
        /// It belongs to the first list, or was there when the handler came.
        initial: bool,
    },
    /// The key was known.
    Update {
        /// The state before.
        old: Arc<Object>,
        /// The state now.
        new: Arc<Object>,
    },
    /// The object is gone; the last state as the server sent it, or a tombstone.
    Delete {
        /// The object's key.
        key: Key,
        /// What is known of it.
        object: DeltaObject,
    },
}

impl Change {
    /// The state before and the state after, as predicates and mappings see them. A tombstone may have neither.
    pub fn states(&self) -> (Option<&Arc<Object>>, Option<&Arc<Object>>) {
        match self {
            Self::Add { object, .. } => (None, Some(object)),
            Self::Update { old, new } => (Some(old), Some(new)),
            Self::Delete { object, .. } => (object.object(), None),
        }
    }

    /// The key of the object that changed.
    pub fn key(&self) -> &Key {
        match self {
            Self::Add { object, .. } | Self::Update { new: object, .. } => object.key(),
            Self::Delete { key, .. } => key,
        }
    }

    /// Whether nothing changed at the server: an update with equal resource versions, as of a resync or a relist.
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

    /// Whether it belongs to a first list, so that real changes may overtake it.
    pub fn is_initial(&self) -> bool {
        matches!(self, Self::Add { initial: true, .. })
    }
}

/// Return a pod with this metadata.
#[cfg(test)]
fn pod(metadata: &str) -> Arc<Object> {
    let text = format!(r#"{{"metadata":{{{metadata}}}}}"#);
    let pod = crate::object::Builder::new("v1", "Pod").parse(text.as_bytes());
    Arc::new(pod.expect("a pod"))
}
