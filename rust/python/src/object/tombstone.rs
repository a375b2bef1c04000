//! Deltas and tombstones in Python.

use std::sync::Arc;

use ctrlhost_core::delta_fifo::{self, DeltaObject, DeltaType};
use ctrlhost_core::object::{self, Key};
use pyo3::prelude::*;
use pyo3::types::PyString;

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
        self.object.clone().map(Object)
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

/// One change of one object.
#[pyclass(frozen, module = "ctrlhost._core")]
pub(crate) struct Delta {
    kind: DeltaType,
    key: Key,
    object: DeltaObject,
}

impl Delta {
    pub(crate) fn wrap(key: &Key, delta: delta_fifo::Delta) -> Self {
        Self {
            kind: delta.kind,
            key: key.clone(),
            object: delta.object,
        }
    }
}

/// Return the object or its tombstone.
pub(crate) fn object_or_tombstone<'py>(
    py: Python<'py>,
    key: &Key,
    object: &DeltaObject,
) -> PyResult<Bound<'py, PyAny>> {
    Ok(match object {
        DeltaObject::Live(object) => Bound::new(py, Object(object.clone()))?.into_any(),
        DeltaObject::Tombstone(last) => {
            let (key, object) = (key.clone(), last.clone());
            Bound::new(py, DeletedFinalStateUnknown { key, object })?.into_any()
        }
    })
}

#[pymethods]
impl Delta {
    /// Added, Updated, Deleted, Replaced (by a relist) or Sync (by a resync).
    #[getter]
    fn r#type<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        let name = match self.kind {
            DeltaType::Added => "Added",
            DeltaType::Updated => "Updated",
            DeltaType::Deleted => "Deleted",
            DeltaType::Replaced => "Replaced",
            DeltaType::Sync => "Sync",
        };
        PyString::intern(py, name)
    }

    /// The object, or the tombstone of a deletion that no watch reported.
    #[getter]
    fn object<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        object_or_tombstone(py, &self.key, &self.object)
    }

    fn __repr__(&self) -> String {
        let tombstone = if matches!(self.object, DeltaObject::Tombstone(_)) {
            " tombstone"
        } else {
            ""
        };
        format!("<Delta {:?}{tombstone} {}>", self.kind, self.key)
    }
}
