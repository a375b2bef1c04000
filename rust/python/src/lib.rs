//! The border between `ctrlhost-core` and Python: converts, detaches from the interpreter, calls, and maps errors.
#![allow(
    missing_docs,
    reason = "the Python-facing documentation lives in `ctrlhost/_core.pyi` and in the docstrings"
)]

mod clock;

use pyo3::prelude::*;

/// `ctrlhost._core`.
#[pymodule(gil_used = false)]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<clock::SystemClock>()?;
    module.add_class::<clock::ManualClock>()?;
    Ok(())
}
