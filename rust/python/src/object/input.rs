//! Objects passed in from Python.

use std::sync::Arc;

use ctrlhost_core::informer::Transform;
use ctrlhost_core::object::{self, Builder, Key};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMapping, PyString};

use super::Object;
use super::key_func::key_of;
use super::to_json::from_python;
use super::transform::PyTransform;
use crate::kept::{Keeps, Kept};

/// Read an object: an `Object`, a mapping, or JSON text.
pub(crate) fn from_any(raw: &Bound<'_, PyAny>) -> PyResult<Arc<object::Object>> {
    if let Ok(object) = raw.cast::<Object>() {
        return Ok(object.get().0.clone());
    }
    if let Ok(bytes) = raw.cast::<PyBytes>() {
        return parse(bytes.as_bytes(), false);
    }
    if let Ok(text) = raw.cast::<PyString>() {
        return parse(text.to_cow()?.as_bytes(), false);
    }
    if raw.cast::<PyMapping>().is_ok() {
        let mut text = Vec::new();
        from_python(&mut text, raw)?;
        return parse(&text, false);
    }
    Err(PyTypeError::new_err(format!(
        "object must be an Object, a mapping or JSON, got {}",
        raw.get_type().name()?
    )))
}

/// Build an object from JSON; `partial` if it is only a part of the server's.
pub(super) fn parse(text: &[u8], partial: bool) -> PyResult<Arc<object::Object>> {
    let built = Builder::new("", "").partial(partial).parse(text);
    built
        .map(Arc::new)
        .map_err(|error| PyValueError::new_err(error.to_string()))
}

/// How a store or a FIFO reads the objects passed to it.
pub(crate) struct Intake {
    key_func: Option<Arc<Kept>>,
    transform: Option<Arc<PyTransform>>,
}

impl Intake {
    pub(crate) fn new(
        key_func: Option<&Bound<'_, PyAny>>,
        transform: Option<&Bound<'_, PyAny>>,
        keeps: &Keeps,
    ) -> Self {
        Self {
            key_func: key_func.map(|func| keeps.add(func)),
            transform: transform.map(|func| PyTransform::shared(keeps.add(func))),
        }
    }

    /// Return the key that an object has in the store.
    pub(crate) fn key(&self, py: Python<'_>, object: &Arc<object::Object>) -> PyResult<Key> {
        key_of(py, self.key_func.as_ref(), object)
    }

    /// Return the object to keep, and the key of the object passed in.
    pub(crate) fn read(&self, raw: &Bound<'_, PyAny>) -> PyResult<(Key, Arc<object::Object>)> {
        let object = from_any(raw)?;
        let key = self.key(raw.py(), &object)?;
        let object = match &self.transform {
            Some(transform) => transform.apply(&object).unwrap_or(object),
            None => object,
        };
        Ok((key, object))
    }

    pub(crate) fn transform_errors(&self) -> u64 {
        self.transform
            .as_ref()
            .map_or(0, |transform| transform.errors())
    }
}
