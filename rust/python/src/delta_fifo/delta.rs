//! Deltas in Python.

use ctrlhost_core::delta_fifo::{self, DeltaObject, DeltaType};
use ctrlhost_core::object::Key;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::object::tombstone::object_or_tombstone;

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
            DeltaType::Dropped => "Dropped",
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
