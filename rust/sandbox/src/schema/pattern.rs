//! Patterns of CRD schemas.

use kube_cel::pattern;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A regular expression in Go's syntax, matched in linear time.
#[pyclass(frozen, module = "ctrlhost_sandbox._native")]
pub(crate) struct Pattern(pattern::Pattern);

#[pymethods]
impl Pattern {
    /// Compile a pattern; ValueError if it is invalid in Go.
    #[new]
    fn new(text: &str) -> PyResult<Self> {
        pattern::Pattern::new(text)
            .map(Self)
            .map_err(|bad| PyValueError::new_err(bad.to_string()))
    }

    /// An upper bound of its size in bytes.
    #[getter]
    fn size(&self) -> usize {
        self.0.size()
    }

    /// Return whether the pattern occurs anywhere in UTF-8 text; ValueError if the text is too long for it.
    fn occurs_in(&self, py: Python<'_>, text: &[u8]) -> PyResult<bool> {
        py.detach(|| self.0.is_match(text))
            .map_err(|long| PyValueError::new_err(long.to_string()))
    }
}
