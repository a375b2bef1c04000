//! Cached objects in Python.

pub(crate) mod input;
mod key_func;
mod owner_reference;
pub(crate) mod plain;
mod repr;
mod to_json;
pub(crate) mod tombstone;
pub(crate) mod transform;
pub(crate) mod view;

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use ctrlhost_core::json::path::Step;
use ctrlhost_core::json::read::Kind;
use ctrlhost_core::object::{self, Document, Part};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyIterator, PyList, PyString, PyTuple};

use crate::errors;
use crate::json::to_python;
use crate::recurring::recurring;
use input::from_any;
pub(crate) use owner_reference::OwnerReference;
use owner_reference::uid_of;
use repr::repr;
use view::{
    AnyResult, MapView, Window, equal, no_attribute, one_step_each, or_none, read_only, steps, view,
};

/// An immutable view of one object.
#[pyclass(frozen, mapping, module = "ctrlhost._core")]
pub(crate) struct Object(
    pub(crate) Arc<object::Object>,
    OnceLock<Document>,
    /// The same with a plain body, once something was read of a compressed one.
    OnceLock<Arc<object::Object>>,
);

impl Object {
    pub(crate) fn of(object: Arc<object::Object>) -> Self {
        Self(object, OnceLock::new(), OnceLock::new())
    }

    /// Return the object with a plain body, which is decompressed once.
    fn plain(&self, py: Python<'_>) -> PyResult<&Arc<object::Object>> {
        if !self.0.is_packed() {
            return Ok(&self.0);
        }
        if let Some(plain) = self.2.get() {
            return Ok(plain);
        }
        let plain = self
            .0
            .plain()
            .map_err(|error| errors::damaged(py, &error))?;
        Ok(self.2.get_or_init(|| plain))
    }

    /// Return the document, which all views share.
    pub(crate) fn document(&self, py: Python<'_>) -> PyResult<&Document> {
        if let Some(document) = self.1.get() {
            return Ok(document);
        }
        let document = Document::of(self.plain(py)?);
        let document = document.map_err(|error| errors::damaged(py, &error))?;
        Ok(self.1.get_or_init(|| document))
    }

    fn as_view(&self, py: Python<'_>) -> PyResult<MapView> {
        let document = self.document(py)?;
        Ok(MapView(Window::new(document.part(document.value()))))
    }

    /// Return the value at the end of a path; without a document while nothing else needs one.
    fn part(&self, py: Python<'_>, path: &[Step]) -> PyResult<Option<Part>> {
        if let Some(document) = self.1.get() {
            return Ok(part_of(document, path));
        }
        let object = if self.0.is_in_head(path) {
            &self.0
        } else {
            self.plain(py)?
        };
        let part = object.part(path);
        part.map_err(|error| errors::damaged(py, &error))
    }

    /// Return a view of a map in the metadata; absent is the same as empty.
    fn map_view<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, MapView>> {
        let path = ["metadata", name].map(|name| Step::Key(name.into()));
        let part = self.part(py, &path)?;
        let part = part.unwrap_or_else(Document::nothing);
        Bound::new(py, MapView(Window::new(part)))
    }
}

/// Return the value at the end of a path in a document.
fn part_of(document: &Document, path: &[Step]) -> Option<Part> {
    let mut at = document.value();
    for step in path {
        at = match step {
            Step::Key(name) => at.get(name)?,
            Step::Index(index) => at.elements().nth(*index)?,
            Step::All => return None,
        };
    }
    (at.kind() != Kind::Null).then(|| document.part(at))
}

#[pymethods]
impl Object {
    #[new]
    fn new(raw: &Bound<'_, PyAny>) -> PyResult<Self> {
        from_any(raw).map(Self::of)
    }

    /// The group and version, such as `apps/v1`; empty if neither the object nor its list has it.
    #[getter]
    fn api_version<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        recurring(py, self.0.api_version())
    }

    /// The kind.
    #[getter]
    fn kind<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        recurring(py, self.0.kind())
    }

    /// The name.
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    /// The namespace; empty for cluster-scoped objects.
    #[getter]
    fn namespace(&self) -> &str {
        self.0.namespace()
    }

    /// `namespace/name`, or the name alone.
    #[getter]
    fn key(&self) -> &str {
        self.0.key()
    }

    /// The uid; empty if there is none.
    #[getter]
    fn uid(&self) -> String {
        self.0.uid().into_owned()
    }

    /// The version, to compare for equality only; empty if there is none.
    #[getter]
    fn resource_version(&self) -> String {
        self.0.resource_version().into_owned()
    }

    /// The generation; 0 if there is none.
    #[getter]
    fn generation(&self) -> i64 {
        self.0.generation()
    }

    /// When the deletion began, as the server wrote it; None if the object is not being deleted.
    #[getter]
    fn deletion_timestamp(&self) -> Option<String> {
        self.0.deletion_timestamp().map(Cow::into_owned)
    }

    /// The labels, a read-only mapping; empty if there are none.
    #[getter]
    fn labels<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, MapView>> {
        self.map_view(py, "labels")
    }

    /// The annotations, a read-only mapping; empty if there are none.
    #[getter]
    fn annotations<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, MapView>> {
        self.map_view(py, "annotations")
    }

    /// The owners, in the object's order.
    #[getter]
    fn owner_references<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let all: Vec<_> = self
            .0
            .owner_references()
            .into_iter()
            .map(OwnerReference::of)
            .collect();
        PyTuple::new(py, all)
    }

    /// The owner reference with `controller: true`; None if there is none.
    #[getter]
    fn controller(&self) -> Option<OwnerReference> {
        let all = self.0.owner_references();
        all.into_iter()
            .find(|one| one.controller)
            .map(OwnerReference::of)
    }

    /// Return whether `owner` is the object's controller: an Object, a mapping or a model, compared by uid.
    fn is_controlled_by(&self, owner: &Bound<'_, PyAny>) -> PyResult<bool> {
        let uid = uid_of(owner)?;
        let all = self.0.owner_references();
        let controller = all.into_iter().find(|one| one.controller);
        Ok(!uid.is_empty() && controller.is_some_and(|one| one.uid == *uid))
    }

    /// The finalizers, in the object's order.
    #[getter]
    fn finalizers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        if !self.0.may_have_finalizers() {
            return Ok(PyTuple::empty(py));
        }
        let finalizers = self.plain(py)?.finalizers();
        PyTuple::new(py, finalizers.map_err(|error| errors::damaged(py, &error))?)
    }

    /// Whether only a part of the object is cached: fields missing here may exist on the server.
    #[getter]
    fn partial(&self) -> bool {
        self.0.partial()
    }

    /// Only called for what is no attribute: say how members are read.
    fn __getattr__(&self, name: &str) -> PyResult<()> {
        Err(no_attribute("Object", name))
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> AnyResult<'py> {
        self.as_view(py)?.__getitem__(py, key)
    }

    /// Return a member as a read-only view; `default` if there is none.
    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> AnyResult<'py> {
        self.as_view(py)?.get(py, key, default)
    }

    /// Follow names and positions; return `default` if anything on the way is missing or null.
    #[pyo3(signature = (*path, default=None))]
    fn get_path<'py>(
        &self,
        py: Python<'py>,
        path: &Bound<'py, PyTuple>,
        default: Option<Bound<'py, PyAny>>,
    ) -> AnyResult<'py> {
        one_step_each(path)?;
        let value = match steps(path)? {
            Some(steps) => self.part(py, &steps)?,
            None => return self.as_view(py)?.get_path(py, path, default),
        };
        match value {
            Some(part) => view(py, part),
            None => Ok(or_none(py, default)),
        }
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Ok(name) = key.cast::<PyString>() else {
            return Ok(false);
        };
        Ok(self.document(py)?.value().get(&name.to_cow()?).is_some())
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.document(py)?.value().members().count())
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.keys(py)?.try_iter()
    }

    /// Return the names of the members.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.as_view(py)?.keys(py)
    }

    /// Return the members as read-only views.
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.as_view(py)?.values(py)
    }

    /// Return the members with their names, as read-only views.
    fn items<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.as_view(py)?.items(py)
    }

    fn __setitem__(&self, _key: &Bound<'_, PyAny>, _value: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(read_only("object"))
    }

    fn __delitem__(&self, _key: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(read_only("object"))
    }

    /// Return a mutable copy. PartialObject if only a part is cached: written back, it would erase the rest.
    pub(crate) fn to_dict<'py>(&self, py: Python<'py>) -> AnyResult<'py> {
        if self.0.partial() {
            let what = format!(
                "only a part of {} is cached: writing it back would erase the rest",
                self.0.describe()
            );
            let hint = "declare what you read with reads=, or get the whole object from the server with client.get()";
            return Err(errors::raise(py, "PartialObject", &what, hint));
        }
        to_python(py, self.document(py)?.value())
    }

    /// Return the object as JSON, as it is cached.
    fn to_json<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(
            py,
            self.document(py)?.value().json().as_bytes(),
        ))
    }

    /// Convert the object to a `msgspec.Struct`; msgspec.ValidationError where it does not fit.
    fn decode<'py>(&self, py: Python<'py>, r#type: &Bound<'py, PyAny>) -> AnyResult<'py> {
        py.import("ctrlhost.typed_json")?
            .call_method1("decode", (self.to_json(py)?, r#type))
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        if let Ok(other) = other.cast::<Self>()
            && self.0.has_equal_bytes(&other.get().0)
        {
            return Ok(true);
        }
        equal(py, self.document(py)?.value(), other)
    }

    fn __repr__(&self) -> String {
        repr(&self.0)
    }

    fn __copy__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __deepcopy__<'py>(slf: Bound<'py, Self>, _memo: &Bound<'py, PyAny>) -> Bound<'py, Self> {
        slf
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> AnyResult<'py> {
        let restore = py.get_type::<Self>().getattr("_restore")?;
        (restore, (self.to_json(py)?, self.0.partial()))
            .into_pyobject(py)
            .map(Bound::into_any)
    }

    #[staticmethod]
    fn _restore(text: &Bound<'_, PyBytes>, partial: bool) -> PyResult<Self> {
        input::parse(text.as_bytes(), partial).map(Self::of)
    }
}
