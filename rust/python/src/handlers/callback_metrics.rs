//! Calls, time and errors of the Python functions that handlers call.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

use crate::kept::{Keeps, Kept};

/// Counts of one function.
#[derive(Default)]
pub(crate) struct Counts {
    calls: AtomicU64,
    nanoseconds: AtomicU64,
    errors: AtomicU64,
}

impl Counts {
    /// Count a call, including its wait for the interpreter, and return the number of earlier failures.
    pub(crate) fn add(&self, since: Instant, failed: bool) -> u64 {
        let spent = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.nanoseconds.fetch_add(spent, Ordering::Relaxed);
        self.errors.fetch_add(u64::from(failed), Ordering::Relaxed)
    }
}

/// A predicate or map function whose calls are counted.
#[pyclass(frozen, module = "ctrlhost._core")]
pub(crate) struct CallbackMetrics {
    func: Arc<Kept>,
    counts: Arc<Counts>,
}

impl CallbackMetrics {
    /// Keep a callable and return it with its counts; those of a bare function are discarded. None if it cannot be
    /// called.
    pub(crate) fn of(
        given: &Bound<'_, PyAny>,
        keeps: &Keeps,
    ) -> PyResult<Option<(Arc<Kept>, Arc<Counts>)>> {
        let (func, counts) = match given.cast::<Self>().map(Bound::get) {
            Ok(metrics) => (metrics.func.get(given.py())?, metrics.counts.clone()),
            Err(_) => (given.clone(), Arc::default()),
        };
        Ok(func.is_callable().then(|| (keeps.add(&func), counts)))
    }
}

#[pymethods]
impl CallbackMetrics {
    #[new]
    fn new(func: Py<PyAny>) -> Self {
        Self {
            func: Kept::new(func),
            counts: Arc::default(),
        }
    }

    #[getter]
    fn function<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.func.get(py)
    }

    #[getter]
    fn calls(&self) -> u64 {
        self.counts.calls.load(Ordering::Relaxed)
    }

    #[getter]
    fn seconds(&self) -> f64 {
        Duration::from_nanos(self.counts.nanoseconds.load(Ordering::Relaxed)).as_secs_f64()
    }

    #[getter]
    fn errors(&self) -> u64 {
        self.counts.errors.load(Ordering::Relaxed)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.func.traverse(&visit)
    }

    fn __clear__(&self) {
        self.func.clear();
    }
}
