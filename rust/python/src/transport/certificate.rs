//! Self-signed certificates for servers.

use ctrlhost_transport::certificate;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::interpreter::detach;

#[pyfunction]
pub(super) fn self_signed_certificate(
    py: Python<'_>,
    names: Vec<String>,
    not_before: i64,
    not_after: i64,
) -> PyResult<(String, String)> {
    detach(py, || {
        certificate::self_signed(names, not_before, not_after)
    })
    .map_err(PyValueError::new_err)
}
