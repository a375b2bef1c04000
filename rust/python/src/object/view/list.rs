//! A sequence over a list inside a cached object.

use ctrlhost_core::json::read::Value;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyList, PySlice};

use super::repr::repr;
use super::{AnyResult, Window, element, equal, read_only, reduce};
use crate::json::to_python;

/// A read-only sequence over a list inside a cached object.
#[pyclass(frozen, sequence, module = "ctrlhost._core")]
pub(crate) struct ListView(pub(super) Window);

impl ListView {
    pub(crate) fn value(&self) -> Value<'_> {
        self.0.value()
    }

    fn all<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for inner in self.value().elements() {
            list.append(self.0.view(py, inner)?)?;
        }
        Ok(list)
    }
}

#[pymethods]
impl ListView {
    fn __getitem__<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>) -> AnyResult<'py> {
        if index.is_instance_of::<PySlice>() {
            return self.all(py)?.into_any().get_item(index);
        }
        let item = element(self.value(), index.extract()?, &self.0.lookup);
        match item {
            Some(inner) => self.0.view(py, inner),
            None => Err(PyIndexError::new_err("list index out of range")),
        }
    }

    fn __len__(&self) -> usize {
        self.0.lookup.count(self.value())
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.all(py)?.try_iter()
    }

    fn __reversed__<'py>(&self, py: Python<'py>) -> AnyResult<'py> {
        self.all(py)?.call_method0("__reversed__")
    }

    fn __contains__<'py>(&self, py: Python<'py>, value: &Bound<'py, PyAny>) -> PyResult<bool> {
        self.all(py)?.contains(value)
    }

    /// Return the position of the first item that equals `value`; ValueError if there is none.
    fn index<'py>(&self, py: Python<'py>, value: &Bound<'py, PyAny>) -> PyResult<usize> {
        self.all(py)?.index(value)
    }

    /// Return how many items equal `value`.
    fn count<'py>(&self, py: Python<'py>, value: &Bound<'py, PyAny>) -> AnyResult<'py> {
        self.all(py)?.call_method1("count", (value,))
    }

    fn __setitem__(&self, _index: &Bound<'_, PyAny>, _value: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(read_only("list"))
    }

    fn __delitem__(&self, _index: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(read_only("list"))
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        equal(py, self.value(), other)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        repr(py, self.value())
    }

    /// Return a mutable copy.
    fn to_list<'py>(&self, py: Python<'py>) -> AnyResult<'py> {
        to_python(py, self.value())
    }

    fn __copy__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __deepcopy__<'py>(slf: Bound<'py, Self>, _memo: &Bound<'py, PyAny>) -> Bound<'py, Self> {
        slf
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> AnyResult<'py> {
        reduce::<PyList>(py, self.value())
    }
}
