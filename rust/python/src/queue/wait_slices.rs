//! Waits of Python's threads, cut into slices so that signals are looked at between them.

use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// How long a wait lasts before signals are looked at.
const SLICE: Duration = Duration::from_millis(50);

/// The end of a wait; None for one without end.
pub(crate) fn deadline(timeout: Option<f64>) -> PyResult<Option<Instant>> {
    let Some(seconds) = timeout else {
        return Ok(None);
    };
    if seconds.is_nan() || seconds < 0.0 {
        return Err(PyValueError::new_err(format!(
            "timeout must not be negative: {seconds}"
        )));
    }
    Ok(Duration::try_from_secs_f64(seconds)
        .ok()
        .and_then(|wait| Instant::now().checked_add(wait)))
}

/// The end of the next slice of a wait.
pub(crate) fn slice_end(deadline: Option<Instant>) -> Instant {
    let slice = Instant::now() + SLICE;
    deadline.map_or(slice, |end| end.min(slice))
}

/// Whether a wait is over.
pub(crate) fn is_over(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|end| end <= Instant::now())
}
