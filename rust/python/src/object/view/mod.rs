//! Read-only views into a cached object: a mapping and a sequence that parse lazily.

use ctrlhost_core::json::lookup::Lookup;
use ctrlhost_core::json::path::Step;
use ctrlhost_core::json::read::{Kind, Value};
use ctrlhost_core::json::same::same;
use ctrlhost_core::object::Part;
use pyo3::PyTypeInfo;
use pyo3::exceptions::{PyAttributeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping, PyString, PyTuple};

use crate::json::{scalar, to_python};
use crate::object::Object;

mod list;
mod map;
mod repr;

pub(crate) use list::ListView;
pub(crate) use map::MapView;
pub(crate) use repr::cut;

/// The result of a method that returns any object.
pub(crate) type AnyResult<'py> = PyResult<Bound<'py, PyAny>>;

/// The part of an object's document that a view shows.
pub(crate) struct Window {
    part: Part,
    lookup: Lookup,
}

impl Window {
    pub(crate) fn new(part: Part) -> Self {
        Self {
            part,
            lookup: Lookup::default(),
        }
    }

    pub(crate) fn value(&self) -> Value<'_> {
        self.part.value()
    }

    /// Return a view for a container in this part, a Python object for anything else.
    fn view<'py>(&self, py: Python<'py>, value: Value<'_>) -> AnyResult<'py> {
        match value.kind() {
            Kind::Object | Kind::Array => view(py, self.part.inner(value)),
            _ => scalar(py, value),
        }
    }
}

/// Return a view for a container, a Python object for anything else.
pub(crate) fn view(py: Python<'_>, part: Part) -> AnyResult<'_> {
    Ok(match part.value().kind() {
        Kind::Object => Bound::new(py, MapView(Window::new(part)))?.into_any(),
        Kind::Array => Bound::new(py, ListView(Window::new(part)))?.into_any(),
        _ => scalar(py, part.value())?,
    })
}

/// Follow a path of names and positions; return None if something on the way is missing or null.
pub(crate) fn follow<'a>(
    value: Value<'a>,
    path: &Bound<'_, PyTuple>,
) -> PyResult<Option<Value<'a>>> {
    let mut at = value;
    for step in path.iter() {
        let next = if let Ok(name) = step.cast::<PyString>() {
            at.get(&name.to_cow()?)
        } else if let Ok(index) = step.extract::<isize>() {
            element(at, index, &Lookup::default())
        } else {
            return Err(not_a_step(&step)?);
        };
        match next {
            Some(next) if next.kind() != Kind::Null => at = next,
            _ => return Ok(None),
        }
    }
    Ok(Some(at))
}

/// Return a path as steps; None if a position counts from the end.
pub(crate) fn steps(path: &Bound<'_, PyTuple>) -> PyResult<Option<Vec<Step>>> {
    let mut steps = Vec::with_capacity(path.len());
    for step in path.iter() {
        if let Ok(name) = step.cast::<PyString>() {
            steps.push(Step::Key(name.to_cow()?.into()));
        } else if let Ok(index) = step.extract::<isize>() {
            match usize::try_from(index) {
                Ok(index) => steps.push(Step::Index(index)),
                Err(_) => return Ok(None),
            }
        } else {
            return Err(not_a_step(&step)?);
        }
    }
    Ok(Some(steps))
}

/// Refuse a first step such as `spec.size`: no member of an object has a dot in its name, those of maps may.
pub(crate) fn one_step_each(path: &Bound<'_, PyTuple>) -> PyResult<()> {
    let Ok(first) = path.get_borrowed_item(0) else {
        return Ok(());
    };
    let Ok(first) = first.cast::<PyString>() else {
        return Ok(());
    };
    let first = first.to_cow()?;
    if !first.contains('.') {
        return Ok(());
    }
    let names = first.split('.').map(|name| Ok(format!("\"{name}\"")));
    let others = path
        .iter()
        .skip(1)
        .map(|step| match step.cast::<PyString>() {
            Ok(name) => Ok(format!("\"{}\"", name.to_cow()?)),
            Err(_) => Ok(step.repr()?.to_cow()?.into_owned()),
        });
    let call: Vec<String> = names.chain(others).collect::<PyResult<_>>()?;
    Err(PyValueError::new_err(format!(
        "one argument per step: get_path({})",
        call.join(", ")
    )))
}

fn not_a_step(step: &Bound<'_, PyAny>) -> PyResult<PyErr> {
    let step = step.repr()?;
    Ok(PyTypeError::new_err(format!(
        "path step must be a name or a position, got {step}"
    )))
}

fn element<'a>(value: Value<'a>, index: isize, lookup: &Lookup) -> Option<Value<'a>> {
    let index = match usize::try_from(index) {
        Ok(index) => index,
        Err(_) => lookup.count(value).checked_sub(index.unsigned_abs())?,
    };
    lookup.nth(value, index)
}

/// The error for an attribute that an object or a view lacks: its members are items.
pub(crate) fn no_attribute(what: &str, name: &str) -> PyErr {
    let hint = match (what, name) {
        ("Object", "metadata") => {
            "use `obj.name`, `obj.namespace`, `obj.labels` …, or `obj[\"metadata\"]`".to_owned()
        }
        _ => format!("members are items: `obj[\"{name}\"]`, or `obj.get(\"{name}\")`"),
    };
    PyAttributeError::new_err(format!("'{what}' has no attribute '{name}'; {hint}"))
}

pub(crate) fn read_only(what: &str) -> PyErr {
    PyTypeError::new_err(format!(
        "a cached {what} cannot be changed; change a copy made with to_dict() or ctrlhost.plain()"
    ))
}

/// Return whether both are equal; the other side may be a view too.
pub(crate) fn equal(py: Python<'_>, mine: Value<'_>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
    if let Ok(object) = other.cast::<Object>() {
        return Ok(same(mine, object.get().document(py)?.value()));
    }
    if let Ok(view) = other.cast::<MapView>() {
        return Ok(same(mine, view.get().value()));
    }
    if let Ok(view) = other.cast::<ListView>() {
        return Ok(same(mine, view.get().0.value()));
    }
    let other = if !other.is_instance_of::<PyDict>()
        && mine.kind() == Kind::Object
        && other.cast::<PyMapping>().is_ok()
    {
        py.get_type::<PyDict>().call1((other,))?
    } else {
        other.clone()
    };
    to_python(py, mine)?.eq(other)
}

/// Return what `pickle` stores: the plain copy, made by its own class.
fn reduce<'py, T: PyTypeInfo>(py: Python<'py>, value: Value<'_>) -> AnyResult<'py> {
    (py.get_type::<T>(), (to_python(py, value)?,))
        .into_pyobject(py)
        .map(Bound::into_any)
}

pub(crate) fn or_none<'py>(py: Python<'py>, value: Option<Bound<'py, PyAny>>) -> Bound<'py, PyAny> {
    value.unwrap_or_else(|| py.None().into_bound(py))
}

/// Register the views with the abstract base classes, for `match` and `isinstance(…, Mapping)`.
pub(crate) fn register(py: Python<'_>) -> PyResult<()> {
    let abc = py.import("collections.abc")?;
    let mapping = abc.getattr("Mapping")?;
    mapping.call_method1("register", (py.get_type::<MapView>(),))?;
    mapping.call_method1("register", (py.get_type::<Object>(),))?;
    let sequence = abc.getattr("Sequence")?;
    sequence.call_method1("register", (py.get_type::<ListView>(),))?;
    Ok(())
}
