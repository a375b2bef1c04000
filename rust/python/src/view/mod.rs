//! Read-only views into a cached object: a mapping and a sequence that parse what is asked for, when it is asked for.

use std::sync::Arc;

use ctrlhost_core::json::read::{Kind, Value};
use ctrlhost_core::object;
use pyo3::PyTypeInfo;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping, PyString, PyTuple};

use crate::json::{scalar, to_python};
use crate::object::Object;

mod list;
mod map;

pub(crate) use list::ListView;
pub(crate) use map::MapView;

/// Where in an object's text a view looks.
#[derive(Clone)]
pub(crate) struct Window {
    object: Arc<object::Object>,
    place: object::Place,
}

impl Window {
    pub(crate) fn new(object: &Arc<object::Object>, value: Value<'_>) -> Self {
        Self {
            object: object.clone(),
            place: object.place_of(value),
        }
    }

    pub(crate) fn value(&self) -> Value<'_> {
        self.object.at(self.place)
    }
}

/// A view for a container, the Python object for anything else.
pub(crate) fn view<'py>(
    py: Python<'py>,
    object: &Arc<object::Object>,
    value: Value<'_>,
) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value.kind() {
        Kind::Object => Bound::new(py, MapView::over(Window::new(object, value)))?.into_any(),
        Kind::Array => Bound::new(py, ListView::over(Window::new(object, value)))?.into_any(),
        _ => scalar(py, value)?,
    })
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
        let value = object.get().object().value();
        if value == mine {
            return Ok(true);
        }
        to_python(py, value)?
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

/// As Python writes it out.
fn repr(py: Python<'_>, value: Value<'_>) -> PyResult<String> {
    Ok(to_python(py, value)?.repr()?.to_cow()?.into_owned())
}

/// What `pickle` is told: the plain copy, made by its own class.
fn reduced<'py, T: PyTypeInfo>(py: Python<'py>, value: Value<'_>) -> PyResult<Bound<'py, PyAny>> {
    (py.get_type::<T>(), (to_python(py, value)?,))
        .into_pyobject(py)
        .map(Bound::into_any)
}

pub(crate) fn or_none<'py>(py: Python<'py>, value: Option<Bound<'py, PyAny>>) -> Bound<'py, PyAny> {
    value.unwrap_or_else(|| py.None().into_bound(py))
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
