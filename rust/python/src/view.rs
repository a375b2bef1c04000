//! Read-only views into a cached object: a mapping and a sequence that parse what is asked for, when it is asked for.

use std::sync::Arc;

use ctrlhost_core::json::read::{Kind, Value};
use ctrlhost_core::object;
use pyo3::exceptions::{PyIndexError, PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyIterator, PyList, PyMapping, PySlice, PyString, PyTuple};

use crate::json::{key_to_python, scalar, to_python};
use crate::object::Object;

/// Where in an object's text a view looks.
#[derive(Clone)]
pub(crate) struct Window {
    object: Arc<object::Object>,
    start: usize,
    end: usize,
}

impl Window {
    pub(crate) fn new(object: &Arc<object::Object>, value: Value<'_>) -> Self {
        let start = value.offset_in(object.text());
        Self {
            object: object.clone(),
            start,
            end: start + value.0.len(),
        }
    }

    pub(crate) fn value(&self) -> Value<'_> {
        Value(
            self.object
                .text()
                .get(self.start..self.end)
                .unwrap_or_default(),
        )
    }
}

/// A view for a container, the Python object for anything else.
pub(crate) fn view<'py>(
    py: Python<'py>,
    object: &Arc<object::Object>,
    value: Value<'_>,
) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value.kind() {
        Kind::Object => Bound::new(py, MapView(Window::new(object, value)))?.into_any(),
        Kind::Array => Bound::new(py, ListView(Window::new(object, value)))?.into_any(),
        _ => scalar(py, value)?,
    })
}

/// The members of an object, the last of each name, as key and value.
fn items<'py>(
    py: Python<'py>,
    object: &Arc<object::Object>,
    value: Value<'_>,
) -> PyResult<Vec<(Bound<'py, PyString>, Bound<'py, PyAny>)>> {
    let all = PyDict::new(py);
    for (key, inner) in value.members() {
        all.set_item(key_to_python(py, key), view(py, object, inner)?)?;
    }
    all.iter()
        .map(|(key, inner)| Ok((key.cast_into()?, inner)))
        .collect()
}

/// What a path of names and positions leads to; None where something is missing or null on the way.
pub(crate) fn follow<'a>(
    value: Value<'a>,
    path: &Bound<'_, PyTuple>,
) -> PyResult<Option<Value<'a>>> {
    let mut at = value;
    for step in path.iter() {
        let next = if let Ok(name) = step.cast::<PyString>() {
            at.get(&name.to_cow()?)
        } else if let Ok(index) = step.extract::<isize>() {
            element(at, index)
        } else {
            return Err(PyTypeError::new_err(format!(
                "a step is a name or a position, not {}",
                step.repr()?
            )));
        };
        match next {
            Some(next) if next.kind() != Kind::Null => at = next,
            _ => return Ok(None),
        }
    }
    Ok(Some(at))
}

fn element(value: Value<'_>, index: isize) -> Option<Value<'_>> {
    let index = match usize::try_from(index) {
        Ok(index) => index,
        Err(_) => value.elements().count().checked_sub(index.unsigned_abs())?,
    };
    value.elements().nth(index)
}

fn no_change(what: &str) -> PyErr {
    PyTypeError::new_err(format!(
        "a cached {what} can not be changed; change a copy made with to_dict()"
    ))
}

/// Whether both say the same; the other side may be a view too.
pub(crate) fn equal(py: Python<'_>, mine: Value<'_>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
    let other = if let Ok(object) = other.cast::<Object>() {
        let text = object.get().object().text();
        if text == mine.0 {
            return Ok(true);
        }
        to_python(py, Value(text))?
    } else if let Ok(view) = other.cast::<MapView>() {
        to_python(py, view.get().value())?
    } else if let Ok(view) = other.cast::<ListView>() {
        to_python(py, view.get().value())?
    } else if !other.is_instance_of::<PyDict>()
        && mine.kind() == Kind::Object
        && other.cast::<PyMapping>().is_ok()
    {
        py.get_type::<PyDict>().call1((other,))?
    } else {
        other.clone()
    };
    to_python(py, mine)?.eq(other)
}

/// A read-only mapping over an object inside a cached object.
#[pyclass(frozen, mapping, module = "ctrlhost._core")]
pub(crate) struct MapView(Window);

impl MapView {
    pub(crate) fn value(&self) -> Value<'_> {
        match self.0.value() {
            value if value.kind() == Kind::Object => value,
            _ => Value("{}"), // What is absent, or no mapping, is an empty one.
        }
    }

    pub(crate) fn window(window: Window) -> Self {
        Self(window)
    }

    /// What stands under a key; nothing under one that is no text.
    fn find(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<Value<'_>>> {
        match key.cast::<PyString>() {
            Ok(name) => Ok(self.value().get(&name.to_cow()?)),
            Err(_) => Ok(None),
        }
    }

    pub(crate) fn key_list<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(
            py,
            items(py, &self.0.object, self.value())?
                .into_iter()
                .map(|(key, _)| key),
        )
    }

    pub(crate) fn value_list<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(
            py,
            items(py, &self.0.object, self.value())?
                .into_iter()
                .map(|(_, value)| value),
        )
    }

    pub(crate) fn item_list<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, items(py, &self.0.object, self.value())?)
    }
}

#[pymethods]
impl MapView {
    pub(crate) fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match self.find(key)? {
            Some(inner) => view(py, &self.0.object, inner),
            None => Err(PyKeyError::new_err(key.clone().unbind())),
        }
    }

    #[pyo3(signature = (key, default=None))]
    pub(crate) fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // Not by way of the KeyError: PyO3 detaches to look into an error, and coming back can take a while.
        match self.find(key)? {
            Some(inner) => view(py, &self.0.object, inner),
            None => Ok(or_none(py, default)),
        }
    }

    #[pyo3(signature = (*path, default=None))]
    fn get_path<'py>(
        &self,
        py: Python<'py>,
        path: &Bound<'py, PyTuple>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match follow(self.value(), path)? {
            Some(inner) => view(py, &self.0.object, inner),
            None => Ok(or_none(py, default)),
        }
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.find(key)?.is_some())
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(items(py, &self.0.object, self.value())?.len())
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.keys(py)?.try_iter()
    }

    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.key_list(py)
    }

    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.value_list(py)
    }

    fn items<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.item_list(py)
    }

    fn __setitem__(&self, _key: &Bound<'_, PyAny>, _value: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(no_change("object"))
    }

    fn __delitem__(&self, _key: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(no_change("object"))
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        equal(py, self.value(), other)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(to_python(py, self.value())?.repr()?.to_cow()?.into_owned())
    }

    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, self.value())
    }

    fn __copy__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __deepcopy__<'py>(
        &self,
        py: Python<'py>,
        _memo: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, self.value())
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let plain = to_python(py, self.value())?;
        (py.get_type::<PyDict>(), (plain,))
            .into_pyobject(py)
            .map(Bound::into_any)
    }
}

pub(crate) fn or_none<'py>(py: Python<'py>, value: Option<Bound<'py, PyAny>>) -> Bound<'py, PyAny> {
    value.unwrap_or_else(|| py.None().into_bound(py))
}

/// A read-only sequence over a list inside a cached object.
#[pyclass(frozen, sequence, module = "ctrlhost._core")]
pub(crate) struct ListView(Window);

impl ListView {
    pub(crate) fn value(&self) -> Value<'_> {
        self.0.value()
    }

    fn all<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for inner in self.value().elements() {
            list.append(view(py, &self.0.object, inner)?)?;
        }
        Ok(list)
    }
}

#[pymethods]
impl ListView {
    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if index.is_instance_of::<PySlice>() {
            return self.all(py)?.into_any().get_item(index);
        }
        let found = element(self.value(), index.extract()?);
        match found {
            Some(inner) => view(py, &self.0.object, inner),
            None => Err(PyIndexError::new_err("list index out of range")),
        }
    }

    fn __len__(&self) -> usize {
        self.value().elements().count()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.all(py)?.try_iter()
    }

    fn __reversed__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.all(py)?.call_method0("__reversed__")
    }

    fn __contains__<'py>(&self, py: Python<'py>, value: &Bound<'py, PyAny>) -> PyResult<bool> {
        self.all(py)?.contains(value)
    }

    fn index<'py>(&self, py: Python<'py>, value: &Bound<'py, PyAny>) -> PyResult<usize> {
        self.all(py)?.index(value)
    }

    fn count<'py>(
        &self,
        py: Python<'py>,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.all(py)?.call_method1("count", (value,))
    }

    fn __setitem__(&self, _index: &Bound<'_, PyAny>, _value: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(no_change("list"))
    }

    fn __delitem__(&self, _index: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(no_change("list"))
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        equal(py, self.value(), other)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(to_python(py, self.value())?.repr()?.to_cow()?.into_owned())
    }

    fn to_list<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, self.value())
    }

    fn __copy__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __deepcopy__<'py>(
        &self,
        py: Python<'py>,
        _memo: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, self.value())
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let plain = to_python(py, self.value())?;
        (py.get_type::<PyList>(), (plain,))
            .into_pyobject(py)
            .map(Bound::into_any)
    }
}

/// Make `match`, `isinstance(…, Mapping)` and the rest of the abstract base classes know the views.
pub(crate) fn register(py: Python<'_>) -> PyResult<()> {
    let abc = py.import("collections.abc")?;
    abc.getattr("Mapping")?
        .call_method1("register", (py.get_type::<MapView>(),))?;
    abc.getattr("Mapping")?
        .call_method1("register", (py.get_type::<Object>(),))?;
    abc.getattr("Sequence")?
        .call_method1("register", (py.get_type::<ListView>(),))?;
    Ok(())
}
