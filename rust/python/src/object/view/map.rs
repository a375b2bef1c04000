//! A mapping over an object inside a cached object.

use ctrlhost_core::json::read::{Kind, Value};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyIterator, PyList, PyString, PyTuple};

use super::repr::repr;
use super::{AnyResult, Window, equal, follow, no_attribute, or_none, read_only, reduce};
use crate::json::{key_to_python, to_python};

/// A read-only mapping over an object inside a cached object.
#[pyclass(frozen, mapping, module = "ctrlhost._core")]
pub(crate) struct MapView(pub(crate) Window);

impl MapView {
    pub(crate) fn value(&self) -> Value<'_> {
        match self.0.value() {
            value if value.kind() == Kind::Object => value,
            _ => Value::of_json("{}"), // Absent values and other types show as an empty mapping.
        }
    }

    /// Return the value of a key; None for a key that is not a `str`.
    fn find(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<Value<'_>>> {
        match key.cast::<PyString>() {
            Ok(name) => Ok(self.0.lookup.get(self.value(), &name.to_cow()?)),
            Err(_) => Ok(None),
        }
    }

    /// Return the members by name, the last one of each.
    fn members<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        for (key, inner) in self.value().members() {
            all.set_item(key_to_python(py, key), self.0.view(py, inner)?)?;
        }
        Ok(all)
    }
}

#[pymethods]
impl MapView {
    /// Only called for what is no attribute: say how members are read.
    fn __getattr__(&self, name: &str) -> PyResult<()> {
        Err(no_attribute("MapView", name))
    }

    pub(crate) fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> AnyResult<'py> {
        match self.find(key)? {
            Some(inner) => self.0.view(py, inner),
            None => Err(PyKeyError::new_err(key.clone().unbind())),
        }
    }

    /// Return a member as a read-only view; `default` if there is none.
    #[pyo3(signature = (key, default=None))]
    pub(crate) fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> AnyResult<'py> {
        // Not through KeyError: PyO3 detaches to inspect an error, and reattaching can take a while.
        match self.find(key)? {
            Some(inner) => self.0.view(py, inner),
            None => Ok(or_none(py, default)),
        }
    }

    /// Follow names and positions; return `default` if anything on the way is missing or null.
    #[pyo3(signature = (*path, default=None))]
    pub(crate) fn get_path<'py>(
        &self,
        py: Python<'py>,
        path: &Bound<'py, PyTuple>,
        default: Option<Bound<'py, PyAny>>,
    ) -> AnyResult<'py> {
        match follow(self.value(), path)? {
            Some(inner) => self.0.view(py, inner),
            None => Ok(or_none(py, default)),
        }
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.find(key)?.is_some())
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.keys(py)?.len())
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.keys(py)?.try_iter()
    }

    /// Return the names of the members.
    pub(crate) fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let names = PyDict::new(py);
        for (key, _) in self.value().members() {
            names.set_item(key_to_python(py, key), py.None())?;
        }
        Ok(names.keys())
    }

    /// Return the members as read-only views.
    pub(crate) fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        Ok(self.members(py)?.values())
    }

    /// Return the members with their names, as read-only views.
    pub(crate) fn items<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        Ok(self.members(py)?.items())
    }

    fn __setitem__(&self, _key: &Bound<'_, PyAny>, _value: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(read_only("object"))
    }

    fn __delitem__(&self, _key: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(read_only("object"))
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        equal(py, self.value(), other)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        repr(py, self.value())
    }

    /// Return a mutable copy.
    fn to_dict<'py>(&self, py: Python<'py>) -> AnyResult<'py> {
        to_python(py, self.value())
    }

    fn __copy__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __deepcopy__<'py>(slf: Bound<'py, Self>, _memo: &Bound<'py, PyAny>) -> Bound<'py, Self> {
        slf
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> AnyResult<'py> {
        reduce::<PyDict>(py, self.value())
    }
}
