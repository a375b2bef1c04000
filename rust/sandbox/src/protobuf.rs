//! Request bodies in protobuf, read as JSON.

use ctrlhost_core::proto::{self, Table};
use pyo3::exceptions::{PyLookupError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Return `apiVersion`, `kind` and the JSON of an object in protobuf, with its envelope.
///
/// ValueError if it is malformed, LookupError for a kind that is not built in. Every group registers the options of a
/// deletion again, with the same fields.
#[pyfunction]
pub(crate) fn json_from_protobuf<'py>(
    py: Python<'py>,
    body: &[u8],
) -> PyResult<(String, String, Bound<'py, PyBytes>)> {
    let malformed = |error: proto::ProtoError| PyValueError::new_err(error.to_string());
    let envelope = proto::envelope(body).map_err(malformed)?;
    let version = match &*envelope.kind {
        "DeleteOptions" => "v1",
        _ => &*envelope.api_version,
    };
    let message = Table::kind(version, &envelope.kind)
        .ok_or_else(|| PyLookupError::new_err(envelope.kind.clone().into_owned()))?;
    let mut json = Vec::new();
    proto::write_json(message, envelope.raw.bytes(), &mut json, false).map_err(malformed)?;
    Ok((
        envelope.api_version.into_owned(),
        envelope.kind.into_owned(),
        PyBytes::new(py, &json),
    ))
}
