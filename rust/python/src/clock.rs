//! The clocks, as Python sees them.

use std::sync::Arc;

use ctrlhost_core::clock::{self, Clock, Tick};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

/// The machine's monotonic clock.
#[pyclass(frozen, subclass, module = "ctrlhost._core")]
pub(crate) struct SystemClock {
    clock: clock::SystemClock,
}

#[pymethods]
impl SystemClock {
    #[new]
    fn new() -> Self {
        Self {
            clock: clock::SystemClock,
        }
    }

    fn now(&self) -> f64 {
        self.clock.now().as_secs()
    }

    fn time(&self) -> f64 {
        self.clock.unix_time()
    }
}

/// A clock that moves only when it is told to.
#[pyclass(frozen, subclass, module = "ctrlhost._core")]
pub(crate) struct ManualClock {
    clock: Arc<clock::ManualClock>,
}

#[pymethods]
impl ManualClock {
    #[new]
    #[pyo3(signature = (start=0.0))]
    fn new(start: f64) -> PyResult<Self> {
        let start = Tick::ZERO.after(clock::seconds(not_negative("start", start)?));
        Ok(Self {
            clock: Arc::new(clock::ManualClock::new(start)),
        })
    }

    fn now(&self) -> f64 {
        self.clock.now().as_secs()
    }

    fn time(&self) -> f64 {
        self.clock.unix_time()
    }

    fn advance(&self, py: Python<'_>, seconds: f64) -> PyResult<()> {
        let step = clock::seconds(not_negative("seconds", seconds)?);
        // Those who listen take their own locks.
        py.detach(|| self.clock.advance(step));
        Ok(())
    }

    fn waiters(&self) -> usize {
        self.clock.waiters()
    }
}

/// Refuses what is no span of time.
pub(crate) fn not_negative(what: &str, seconds: f64) -> PyResult<f64> {
    if seconds.is_nan() || seconds < 0.0 {
        return Err(PyValueError::new_err(format!(
            "{what} must be at least 0 seconds, got {seconds}"
        )));
    }
    Ok(seconds)
}

/// The core's clock behind a clock of ours; the machine's where there is none.
///
/// A clock written in Python can not be had: it would be asked with the queue's lock held.
pub(crate) fn core_clock(given: Option<&Bound<'_, PyAny>>) -> PyResult<Arc<dyn Clock>> {
    let Some(given) = given.filter(|given| !given.is_none()) else {
        return Ok(Arc::new(clock::SystemClock));
    };
    if let Ok(manual) = given.cast::<ManualClock>() {
        return Ok(manual.get().clock.clone());
    }
    if given.is_instance_of::<SystemClock>() {
        return Ok(Arc::new(clock::SystemClock));
    }
    let kind = given.get_type().name()?;
    Err(PyTypeError::new_err(format!(
        "clock must be a ctrlhost.clock.SystemClock or a ctrlhost.testing.ManualClock, not {kind}"
    )))
}
