//! Calls, time and errors of the Python functions that handlers call.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

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
    func: Py<PyAny>,
    counts: Arc<Counts>,
}

impl CallbackMetrics {
    /// Return the function and its counts; those of a bare function are discarded.
    pub(crate) fn of(func: &Bound<'_, PyAny>) -> (Py<PyAny>, Arc<Counts>) {
        let Ok(metrics) = func.cast::<Self>().map(Bound::get) else {
            return (func.clone().unbind(), Arc::default());
        };
        (metrics.func.clone_ref(func.py()), metrics.counts.clone())
    }
}

#[pymethods]
impl CallbackMetrics {
    #[new]
    fn new(func: Py<PyAny>) -> Self {
        Self {
            func,
            counts: Arc::default(),
        }
    }

    #[getter]
    fn function(&self, py: Python<'_>) -> Py<PyAny> {
        self.func.clone_ref(py)
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
}
