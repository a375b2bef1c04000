//! The memory budget that the informers of a factory share.

use std::sync::Arc;

use ctrlhost_core::budget::Budget;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// See `_core.pyi`.
#[pyclass(frozen, module = "ctrlhost._core")]
pub(crate) struct MemoryBudget(pub(crate) Arc<Budget>);

#[pymethods]
impl MemoryBudget {
    #[new]
    fn new(limit: u64) -> PyResult<Self> {
        Ok(Self(Arc::new(Budget::new(positive(limit)?))))
    }

    #[getter]
    fn limit(&self) -> u64 {
        self.0.limit()
    }

    #[setter]
    fn set_limit(&self, limit: u64) -> PyResult<()> {
        self.0.set_limit(positive(limit)?);
        Ok(())
    }

    #[getter]
    fn used(&self) -> u64 {
        self.0.used()
    }

    fn take_warning(&self) -> bool {
        self.0.take_warning()
    }
}

fn positive(limit: u64) -> PyResult<u64> {
    if limit == 0 {
        return Err(PyValueError::new_err("a memory budget must be positive"));
    }
    Ok(limit)
}
