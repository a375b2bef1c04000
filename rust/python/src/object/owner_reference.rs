//! The Python face of an owner reference.

use ctrlhost_core::object;
use pyo3::prelude::*;

/// One entry of `metadata.ownerReferences`.
#[pyclass(frozen, eq, hash, get_all, module = "ctrlhost._core")]
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct OwnerReference {
    /// Its group and version.
    api_version: String,
    /// Its kind.
    kind: String,
    /// Its name.
    name: String,
    /// Its uid.
    uid: String,
    /// Whether it is the one owner that controls the object.
    controller: bool,
    /// Whether a deletion of the owner in the foreground waits for this object.
    block_owner_deletion: bool,
}

impl OwnerReference {
    pub(crate) fn of(reference: object::OwnerReference<'_>) -> Self {
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
