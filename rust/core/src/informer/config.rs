//! What an informer is made with.

use std::sync::Arc;

use crate::object::{Object, Projection};

/// Changes an object before it is cached; must keep its key, uid and resource version.
pub trait Transform: Send + Sync {
    /// The object to cache; None keeps the object as it is, whose reason the transform has reported.
    fn apply(&self, object: &Arc<Object>) -> Option<Arc<Object>>;
}

/// What an informer is of, and how it keeps its objects.
#[derive(Clone)]
pub struct Config {
    /// What errors call the resource, for example `pods`.
    pub resource: String,
    /// Stamped on objects whose list items carry none; objects of another one are skipped.
    pub api_version: String,
    /// Likewise.
    pub kind: String,
    /// The kind of a list; of built-in kinds `kind` and `List` unless told otherwise, of custom ones not known.
    pub list_kind: Option<String>,
    /// Which part of each object is kept; None for all of it.
    pub projection: Option<Projection>,
    /// Applied once to each object that comes in.
    pub transform: Option<Arc<dyn Transform>>,
    /// The largest object that is taken.
    pub max_object_bytes: usize,
    /// Seconds after which handlers that ask for no period of their own want a resync; 0 is never.
    pub resync: f64,
}
