//! Long answers: copied without the interpreter, and handed out so that other threads run in between.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ctrlhost_core::object;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};

use crate::interpreter::{self, UNTIL_OTHERS};
use crate::object::Object;

/// Call `copy`, which copies so many pointers: without the interpreter if they are many.
pub(super) fn copied<R: Send>(
    py: Python<'_>,
    pointers: usize,
    copy: impl FnOnce() -> R + Send,
) -> R {
    if pointers > UNTIL_OTHERS {
        interpreter::detach(py, copy)
    } else {
        copy()
    }
}

/// Return a list of Python objects. Code in C never lets other threads have the interpreter, so this does so as often as
/// Python code would.
fn list<'py, T>(
    py: Python<'py>,
    items: Vec<T>,
    mut show: impl FnMut(T) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    let interval = if items.len() > UNTIL_OTHERS {
        let seconds = py.import("sys")?.call_method0("getswitchinterval")?;
        Duration::from_secs_f64(seconds.extract()?)
    } else {
        Duration::MAX
    };
    let mut items = items.into_iter();
    let mut since = Instant::now();
    while items.len() > 0 {
        for item in items.by_ref().take(UNTIL_OTHERS) {
            list.append(show(item)?)?;
        }
        if since.elapsed() > interval {
            interpreter::detach(py, || {});
            since = Instant::now();
        }
    }
    Ok(list)
}

/// Return a list of objects.
pub(super) fn of_objects(
    py: Python<'_>,
    objects: Vec<Arc<object::Object>>,
) -> PyResult<Bound<'_, PyList>> {
    list(py, objects, |one| {
        let object = Bound::new(py, Object::of(one))?.into_any();
        // SAFETY: a new object, which the garbage collector may leave out: it refers to no object of Python but its type,
        // which lives as long as the module. Tracked, 100,000 of them are some 10 ms of the interpreter in each full collection.
        unsafe { ffi::PyObject_GC_UnTrack(object.as_ptr().cast()) };
        Ok(object)
    })
}

/// Return a list of `str`.
pub(super) fn of_texts(py: Python<'_>, texts: Vec<Arc<str>>) -> PyResult<Bound<'_, PyList>> {
    list(py, texts, |one| Ok(PyString::new(py, &one).into_any()))
}
