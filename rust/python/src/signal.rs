//! Signals between threads of Python.

use std::sync::Arc;

use ctrlhost_core::sync;
use pyo3::prelude::*;

use crate::interpreter::{self, Local};

/// Wakes a thread that calls functions of a plugin.
#[pyclass(frozen, module = "ctrlhost._core")]
pub(crate) struct Signal(pub(crate) Local<Arc<sync::Signal>>);

#[pymethods]
impl Signal {
    #[new]
    fn new() -> Self {
        Self(Local::new(Arc::default()))
    }

    fn set(&self) -> PyResult<()> {
        self.0.get()?.raise();
        Ok(())
    }

    /// Wait without the interpreter; only for threads that handle no signals of the system.
    fn wait(&self, py: Python<'_>) -> PyResult<()> {
        let signal = self.0.get()?;
        interpreter::detach(py, || signal.wait(None));
        Ok(())
    }
}
