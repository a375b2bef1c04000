//! Certificates for servers.

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

#[pyfunction]
pub(super) fn certificate_authority(
    py: Python<'_>,
    name: &str,
    not_before: i64,
    not_after: i64,
) -> PyResult<(String, String)> {
    detach(py, || certificate::authority(name, not_before, not_after))
        .map_err(PyValueError::new_err)
}

#[pyfunction]
pub(super) fn signed_certificate(
    py: Python<'_>,
    names: Vec<String>,
    not_before: i64,
    not_after: i64,
    issuer: &str,
    issuer_key: &str,
) -> PyResult<(String, String)> {
    detach(py, || {
        certificate::signed(names, not_before, not_after, (issuer, issuer_key))
    })
    .map_err(PyValueError::new_err)
}
