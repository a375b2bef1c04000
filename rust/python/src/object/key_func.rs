//! Keys of objects in a store.

use std::sync::Arc;

use ctrlhost_core::object::{self, Key};
use pyo3::prelude::*;
use pyo3::types::PyString;

use super::Object;
use crate::errors;
use crate::kept::Kept;

/// Return the key of an object: by the key function if there is one, else `namespace/name`.
pub(crate) fn key_of(
    py: Python<'_>,
    key_func: Option<&Arc<Kept>>,
    object: &Arc<object::Object>,
) -> PyResult<Key> {
    let Some(func) = key_func else {
        return Ok(object.key().clone());
    };
    let call = || -> PyResult<Key> {
        let key = func.get(py)?.call1((Object::of(object.clone()),))?;
        Ok(Key::from(key.cast::<PyString>()?.to_cow()?.as_ref()))
    };
    call().map_err(|cause| {
        let what = format!("the key function failed for {}", object.describe());
        let error = errors::raise(py, "KeyFuncError", &what, "");
        error.set_cause(py, Some(cause));
        error
    })
}
