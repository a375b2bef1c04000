//! The clocks in Python, and durations as arguments.

use std::sync::Arc;
use std::time::Duration;

use ctrlhost_core::clock::{self, Clock, Tick};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt};

use crate::interpreter::{self, Local};

/// The machine's monotonic clock.
#[pyclass(frozen, subclass, module = "ctrlhost._core")]
pub(crate) struct SystemClock;

#[pymethods]
impl SystemClock {
    #[new]
    fn new() -> Self {
        Self
    }

    fn now(&self) -> f64 {
        clock::SystemClock.now().as_secs()
    }

    fn time(&self) -> f64 {
        clock::SystemClock.unix_time()
    }
}

/// A clock that moves only when `advance` is called.
#[pyclass(frozen, subclass, module = "ctrlhost._core")]
pub(crate) struct ManualClock(Local<Arc<clock::ManualClock>>);

#[pymethods]
impl ManualClock {
    #[new]
    #[pyo3(signature = (start=0.0))]
    fn new(start: f64) -> PyResult<Self> {
        let start = Tick::ZERO.after(duration("start", start)?);
        Ok(Self(Local::new(Arc::new(clock::ManualClock::new(start)))))
    }

    fn now(&self) -> PyResult<f64> {
        Ok(self.0.get()?.now().as_secs())
    }

    fn time(&self) -> PyResult<f64> {
        Ok(self.0.get()?.unix_time())
    }

    fn advance(&self, py: Python<'_>, seconds: f64) -> PyResult<()> {
        let step = duration("seconds", seconds)?;
        // Listeners take their own locks.
        let clock = self.0.get()?;
        interpreter::detach(py, || clock.advance(step));
        Ok(())
    }

    fn waiters(&self) -> PyResult<usize> {
        Ok(self.0.get()?.waiters())
    }
}

/// A duration given to a constructor, in seconds.
#[derive(Clone, Copy)]
pub(crate) struct Seconds(pub(crate) f64);

impl<'py> FromPyObject<'_, 'py> for Seconds {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(number) = value.extract() {
            return Ok(Self(number));
        }
        seconds(&value).map(Self)
    }
}

/// Read a duration in seconds: an `int`, a `float`, a text such as `30s`, or a `timedelta`.
fn seconds(value: &Bound<'_, PyAny>) -> PyResult<f64> {
    let number = value.is_instance_of::<PyFloat>() || value.is_instance_of::<PyInt>();
    if number && !value.is_instance_of::<PyBool>() {
        return value.extract();
    }
    let module = value.py().import("ctrlhost.duration")?;
    module.call_method1("in_seconds", (value,))?.extract()
}

/// Read a delay; zero unless it is positive.
pub(crate) fn delay(value: &Bound<'_, PyAny>) -> PyResult<Duration> {
    let seconds = seconds(value)?;
    if seconds.is_nan() {
        return Err(PyValueError::new_err("seconds must not be NaN"));
    }
    Ok(clock::seconds(seconds))
}

/// Read the longest time to wait; None and infinity are endless.
pub(crate) fn timeout(value: &Bound<'_, PyAny>) -> PyResult<Option<Duration>> {
    if value.is_none() {
        return Ok(None);
    }
    let timeout = duration("timeout", seconds(value)?)?;
    Ok(Some(timeout).filter(|&timeout| timeout != Duration::MAX))
}

/// Read a number of seconds that may not be negative or NaN.
pub(crate) fn duration(what: &str, seconds: f64) -> PyResult<Duration> {
    not_negative(what, seconds).map(clock::seconds)
}

/// Return `seconds`, or raise ValueError if they are negative or NaN.
pub(crate) fn not_negative(what: &str, seconds: f64) -> PyResult<f64> {
    if seconds.is_nan() || seconds < 0.0 {
        return Err(PyValueError::new_err(format!(
            "{what} must not be negative or NaN, got {seconds}"
        )));
    }
    Ok(seconds)
}

/// Return the core's clock behind one of our clocks.
///
/// Clocks written in Python are refused: they would be called with the queue's lock held.
pub(crate) fn core_clock(value: &Bound<'_, PyAny>) -> PyResult<Arc<dyn Clock>> {
    if let Ok(manual) = value.cast::<ManualClock>() {
        return manual.get().0.get().map(|clock| clock.clone() as _);
    }
    if value.is_instance_of::<SystemClock>() {
        return Ok(Arc::new(clock::SystemClock));
    }
    let kind = value.get_type().name()?;
    Err(PyTypeError::new_err(format!(
        "clock must be a ctrlhost.clock.SystemClock or a ctrlhost.testing.ManualClock, got {kind}"
    )))
}
