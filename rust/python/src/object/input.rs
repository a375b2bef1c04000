//! What Python hands over as an object.

use std::sync::Arc;

use ctrlhost_core::object::{self, Builder};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMapping, PyString};

use crate::json::from_python;
use crate::object::Object;

/// Take what Python calls an object: an `Object`, a mapping, or JSON text.
pub(crate) fn from_any(raw: &Bound<'_, PyAny>) -> PyResult<Arc<object::Object>> {
    if let Ok(object) = raw.cast::<Object>() {
        return Ok(object.get().object().clone());
    }
    let parse = |bytes: &[u8]| {
        let built = Builder::new("", "").parse(bytes);
        built
            .map(Arc::new)
            .map_err(|error| PyValueError::new_err(error.to_string()))
    };
    if let Ok(bytes) = raw.cast::<PyBytes>() {
        return parse(bytes.as_bytes());
    }
    if let Ok(text) = raw.cast::<PyString>() {
        return parse(text.to_cow()?.as_bytes());
    }
    if raw.cast::<PyMapping>().is_ok() {
        let mut text = Vec::new();
        from_python(&mut text, raw)?;
        return parse(&text);
    }
    Err(PyTypeError::new_err(format!(
        "an object is an Object, a mapping or JSON bytes, not {}",
        raw.get_type().name()?
    )))
}
