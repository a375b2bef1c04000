//! Transforms written in Python.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ctrlhost_core::informer::Transform;
use ctrlhost_core::object;
use pyo3::prelude::*;

use crate::errors;
use crate::interpreter;
use crate::kept::Kept;
use crate::object::Object;
use crate::object::input::from_any;

/// A callable that returns the object to cache.
pub(crate) struct PyTransform {
    func: Arc<Kept>,
    errors: AtomicU64,
}

impl PyTransform {
    pub(crate) fn shared(func: Arc<Kept>) -> Arc<Self> {
        Arc::new(Self {
            func,
            errors: AtomicU64::new(0),
        })
    }

    pub(crate) fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }
}

impl Transform for PyTransform {
    fn apply(&self, object: &Arc<object::Object>) -> Option<Arc<object::Object>> {
        interpreter::attach(|py| {
            let call = || from_any(&self.func.get(py)?.call1((Object::of(object.clone()),))?);
            let log = |error: &PyErr| {
                if self.errors.fetch_add(1, Ordering::Relaxed) == 0 {
                    let name = object.describe();
                    let what = format!("the transform failed for {name}; caching the original");
                    errors::log_failure(py, &what, error);
                }
            };
            call().inspect_err(log).ok()
        })
    }
}
