//! Tombstones in Python.

use std::sync::Arc;

use ctrlhost_core::delta_fifo::DeltaObject;
use ctrlhost_core::object::{self, Key};
use pyo3::prelude::*;

use crate::object::Object;
use crate::object::input::from_any;

/// A tombstone: the object disappeared while no watch was running.
#[pyclass(frozen, module = "ctrlhost._core")]
pub(crate) struct DeletedFinalStateUnknown {
    pub(crate) key: Key,
    pub(crate) object: Option<Arc<object::Object>>,
}

#[pymethods]
impl DeletedFinalStateUnknown {
    #[new]
    #[pyo3(signature = (key, object=None))]
    fn new(key: &str, object: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        Ok(Self {
            key: key.into(),
            object: object.map(from_any).transpose()?,
        })
    }

    /// `namespace/name`, or the name alone.
    #[getter(key)]
    fn key_text(&self) -> &str {
        &self.key
    }

    /// The last known state, which may be stale; None if there is none.
    #[getter]
    fn object(&self) -> Option<Object> {
        self.object.clone().map(Object::of)
    }

    /// The namespace; empty for cluster-scoped objects.
    #[getter]
    fn namespace(&self) -> &str {
        self.key
            .split_once('/')
            .map_or("", |(namespace, _)| namespace)
    }

    /// The name.
    #[getter]
    fn name(&self) -> &str {
        self.key
            .split_once('/')
            .map_or(&*self.key, |(_, name)| name)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| {
            let other = other.get();
            self.key == other.key && self.object == other.object
        })
    }

    fn __repr__(&self) -> String {
        format!("DeletedFinalStateUnknown({:?})", self.key)
    }
}

/// Return the object or its tombstone.
pub(crate) fn object_or_tombstone<'py>(
    py: Python<'py>,
    key: &Key,
    object: &DeltaObject,
) -> PyResult<Bound<'py, PyAny>> {
    Ok(match object {
        DeltaObject::Live(object) => Bound::new(py, Object::of(object.clone()))?.into_any(),
        DeltaObject::Tombstone(last) => {
            let (key, object) = (key.clone(), last.clone());
            Bound::new(py, DeletedFinalStateUnknown { key, object })?.into_any()
        }
    })
}
