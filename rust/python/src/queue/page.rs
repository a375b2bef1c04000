//! Pages of a queue, and the state of one key, as NamedTuples of `ctrlhost.workqueue`.

use ctrlhost_core::queue::{Cursor, Known, Part, Snapshot};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::snapshot::{class, snapshot};
use crate::key::{Shown, new_tuple};
use crate::ratelimit::SharedLimiter;

/// Read the name of a part.
pub(super) fn part(name: &str) -> PyResult<Part> {
    match name {
        "queued" => Ok(Part::Queued),
        "processing" => Ok(Part::Processing),
        "delayed" => Ok(Part::Delayed),
        _ => Err(PyValueError::new_err(format!(
            "part must be queued, processing or delayed, got {name}"
        ))),
    }
}

/// Read a cursor.
pub(super) fn cursor(text: &str) -> PyResult<Cursor> {
    let numbers = text.split_once('-').and_then(|(time, place)| {
        Some(Cursor {
            time: time.parse().ok()?,
            place: place.parse().ok()?,
        })
    });
    numbers.ok_or_else(|| PyValueError::new_err(format!("invalid cursor {text}")))
}

/// Make a `QueuePage`.
pub(super) fn page(
    py: Python<'_>,
    part: Part,
    keys: Snapshot<Shown>,
    next: Option<Cursor>,
    limiter: &SharedLimiter,
) -> PyResult<Py<PyAny>> {
    let counts = keys.counts;
    let (place, total) = match part {
        Part::Queued => (0, counts.queued),
        Part::Processing => (1, counts.processing),
        Part::Delayed => (2, counts.delayed),
    };
    let keys = snapshot(py, keys, limiter)?.bind(py).get_item(place)?;
    let next = next.map(|next| format!("{}-{}", next.time, next.place));
    let fields = (keys, next, total).into_pyobject(py)?;
    new_tuple(&class(py, "QueuePage")?, &fields)
}

/// Make a `KeyState`.
pub(super) fn known(
    py: Python<'_>,
    known: Known<Shown>,
    limiter: &SharedLimiter,
) -> PyResult<Py<PyAny>> {
    let parts = snapshot(py, known.parts, limiter)?;
    let only = |place: usize| -> PyResult<Option<Bound<'_, PyAny>>> {
        let mut keys = parts.bind(py).get_item(place)?.try_iter()?;
        keys.next().transpose()
    };
    let fields = (only(0)?, only(1)?, only(2)?, known.ahead).into_pyobject(py)?;
    new_tuple(&class(py, "KeyState")?, &fields)
}
