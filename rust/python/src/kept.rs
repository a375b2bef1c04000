//! Python objects that objects of ours keep, as the garbage collector sees them.
//!
//! The core holds callbacks deep in its structures, where the collector cannot follow. So each reference is in a
//! [`Kept`], which belongs to the [`Keeps`] of exactly one Python object: that object visits it, once, and empties it
//! when it is garbage. Whoever uses a structure of another object (its store, its limiter) keeps that object, too.
//!
//! The locks are taken only while attached to the interpreter, and never while Python runs, so the collector never
//! waits for them.

use std::sync::Arc;

use parking_lot::Mutex;
use pyo3::exceptions::PyReferenceError;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

/// A reference that the garbage collector can visit and clear.
pub(crate) struct Kept(Mutex<Option<Py<PyAny>>>);

impl Kept {
    pub(crate) fn new(object: Py<PyAny>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Some(object))))
    }

    /// Return the object.
    ///
    /// # Errors
    /// `ReferenceError` if the garbage collector has cleared it; only finalizers of other garbage can see that.
    pub(crate) fn get<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let object = self.0.lock().as_ref().map(|object| object.clone_ref(py));
        object
            .map(|object| object.into_bound(py))
            .ok_or_else(|| PyReferenceError::new_err("the garbage collector has cleared this"))
    }

    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&*self.0.lock())
    }

    pub(crate) fn clear(&self) {
        let object = self.0.lock().take();
        // Without the lock: this may run Python.
        drop(object);
    }
}

/// All references of one Python object of ours.
#[derive(Default)]
pub(crate) struct Keeps(Mutex<Vec<Arc<Kept>>>);

impl Keeps {
    /// Keep an object.
    pub(crate) fn add(&self, object: &Bound<'_, PyAny>) -> Arc<Kept> {
        let kept = Kept::new(object.clone().unbind());
        self.0.lock().push(kept.clone());
        kept
    }

    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.0
            .lock()
            .iter()
            .try_for_each(|kept| kept.traverse(visit))
    }

    pub(crate) fn clear(&self) {
        let kept = std::mem::take(&mut *self.0.lock());
        for kept in kept {
            kept.clear();
        }
    }
}
