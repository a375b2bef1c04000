//! What Python asks about built-in kinds and protobuf: which kinds are known, and what a failure says.

use ctrlhost_core::proto::{self, Table};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Return whether objects of a kind can be read from protobuf.
#[pyfunction]
pub(crate) fn knows_protobuf(api_version: &str, kind: &str) -> bool {
    Table::kind(api_version, kind).is_some()
}

/// Return `apiVersion`, kind, plural and whether it is namespaced, of the resources that every API server has.
#[pyfunction]
pub(crate) fn builtin_resources() -> Vec<(&'static str, &'static str, &'static str, bool, bool)> {
    let tuple = |of: proto::Resource| {
        (
            of.api_version,
            of.kind,
            of.plural,
            of.namespaced,
            of.has_status,
        )
    };
    Table::resources().map(tuple).collect()
}

/// Return the release of Kubernetes whose built-in kinds can be read from protobuf.
#[pyfunction]
pub(crate) fn protobuf_release() -> &'static str {
    Table::release()
}

/// Return a `Status` in protobuf, with its envelope, as JSON; ValueError if it is none.
#[pyfunction]
pub(crate) fn status_from_protobuf<'py>(
    py: Python<'py>,
    body: &[u8],
) -> PyResult<Bound<'py, PyBytes>> {
    let invalid = |error: proto::ProtoError| PyValueError::new_err(error.to_string());
    let envelope = proto::envelope(body).map_err(invalid)?;
    if envelope.kind != "Status" {
        let what = format!("the failure is a {}, not a Status", envelope.kind);
        return Err(PyValueError::new_err(what));
    }
    let status = proto::status(envelope.raw.bytes()).map_err(invalid)?;
    Ok(PyBytes::new(py, status.as_bytes()))
}
