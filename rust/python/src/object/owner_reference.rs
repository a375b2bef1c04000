//! Owner references in Python.

use ctrlhost_core::owner;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyMapping;

use crate::object::Object;

/// One entry of `metadata.ownerReferences`.
#[pyclass(frozen, eq, hash, get_all, module = "ctrlhost._core")]
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct OwnerReference {
    /// The owner's group and version.
    api_version: String,
    /// The owner's kind.
    kind: String,
    /// The owner's name.
    name: String,
    /// The owner's uid.
    uid: String,
    /// Whether this is the one owner that controls the object.
    controller: bool,
    /// Whether a foreground deletion of the owner waits for this object.
    block_owner_deletion: bool,
}

impl OwnerReference {
    pub(crate) fn of(reference: owner::OwnerReference<'_>) -> Self {
        Self {
            api_version: reference.api_version.into_owned(),
            kind: reference.kind.into_owned(),
            name: reference.name.into_owned(),
            uid: reference.uid.into_owned(),
            controller: reference.controller,
            block_owner_deletion: reference.block_owner_deletion,
        }
    }
}

#[pymethods]
impl OwnerReference {
    fn __repr__(&self) -> String {
        let Self {
            api_version,
            kind,
            name,
            uid,
            controller,
            block_owner_deletion,
        } = self;
        let truth = |value: &bool| if *value { "True" } else { "False" };
        format!(
            "OwnerReference(api_version={api_version:?}, kind={kind:?}, name={name:?}, uid={uid:?}, controller={}, \
             block_owner_deletion={})",
            truth(controller),
            truth(block_owner_deletion)
        )
    }
}

/// Return the uid of an Object, a mapping or a model; empty if it has none.
pub(super) fn uid_of(owner: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(object) = owner.cast::<Object>() {
        return Ok(object.get().0.uid().into_owned());
    }
    let uid = match member(owner, "metadata")? {
        Some(metadata) => member(&metadata, "uid")?,
        None => None,
    };
    Ok(match uid {
        Some(uid) if !uid.is_none() => uid.extract()?,
        _ => String::new(),
    })
}

/// Return the item of a mapping or the attribute of a model; None if a mapping lacks it.
fn member<'py>(of: &Bound<'py, PyAny>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    if let Ok(mapping) = of.cast::<PyMapping>() {
        let present = mapping.contains(name)?;
        return present.then(|| mapping.get_item(name)).transpose();
    }
    let value = of.getattr_opt(name)?;
    if value.is_none() {
        return Err(PyTypeError::new_err(format!(
            "owner must be an Object, a mapping or a model, got {}",
            of.get_type().name()?
        )));
    }
    Ok(value)
}
