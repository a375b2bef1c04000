//! Calls of the Python functions of handlers and indexes: their number, time and errors, and who watches over them.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

use crate::errors;
use crate::kept::{Keeps, Kept};

/// Counts of one function.
#[derive(Default)]
struct Counts {
    calls: AtomicU64,
    nanoseconds: AtomicU64,
    errors: AtomicU64,
    /// The kinds of errors that were logged.
    logged: Mutex<HashSet<String>>,
}

impl Counts {
    /// Count a failure; return whether it is the first of its kind.
    fn fail(&self, py: Python<'_>, error: &PyErr) -> bool {
        self.errors.fetch_add(1, Ordering::Relaxed);
        let kind = error.get_type(py).fully_qualified_name();
        let kind = kind.map_or_else(|_| String::new(), |kind| kind.to_string());
        self.logged.lock().insert(kind)
    }
}

/// A Python function, with its counts and the entry that watches its calls, if there is one.
#[derive(Clone)]
pub(crate) struct Function {
    func: Arc<Kept>,
    entry: Option<Arc<Kept>>,
    counts: Arc<Counts>,
}

impl Function {
    /// Keep a callable, or the function of a [`CallbackMetrics`]. None if it cannot be called.
    pub(crate) fn of(
        function_or_metrics: &Bound<'_, PyAny>,
        keeps: &Keeps,
    ) -> PyResult<Option<Self>> {
        let py = function_or_metrics.py();
        let Ok(metrics) = function_or_metrics
            .cast::<CallbackMetrics>()
            .map(Bound::get)
        else {
            let function = || Self {
                func: keeps.add(function_or_metrics),
                entry: None,
                counts: Arc::default(),
            };
            return Ok(function_or_metrics.is_callable().then(function));
        };
        let watched = &metrics.function;
        let func = watched.func.get(py)?;
        let entry = watched.entry.as_ref().map(|entry| entry.get(py));
        Ok(func.is_callable().then_some(Self {
            func: keeps.add(&func),
            entry: entry.transpose()?.map(|entry| keeps.add(&entry)),
            counts: watched.counts.clone(),
        }))
    }

    /// Call `work` with the function, as one call about `subject`. A failure is counted, and the first of each kind is
    /// logged as `what` failed; None then.
    pub(crate) fn call<R>(
        &self,
        py: Python<'_>,
        subject: &str,
        what: impl FnOnce() -> String,
        work: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<R>,
    ) -> Option<R> {
        let since = Instant::now();
        let entry = |method: &str, subject: Option<&str>| -> PyResult<()> {
            let Some(entry) = &self.entry else {
                return Ok(());
            };
            let entry = entry.get(py)?;
            match subject {
                Some(subject) => entry.call_method1(method, (subject,))?,
                None => entry.call_method0(method)?,
            };
            Ok(())
        };
        let begun = entry("begin", Some(subject));
        let result = begun.and_then(|()| work(&self.func.get(py)?));
        let result = entry("end", None).and(result);
        let spent = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.counts.calls.fetch_add(1, Ordering::Relaxed);
        self.counts.nanoseconds.fetch_add(spent, Ordering::Relaxed);
        result
            .inspect_err(|error| {
                if self.counts.fail(py, error) {
                    errors::log_failure(py, &what(), error);
                }
            })
            .ok()
    }
}

/// A function whose calls are counted, and watched by an entry of its plugin.
#[pyclass(frozen, module = "ctrlhost._core")]
pub(crate) struct CallbackMetrics {
    function: Function,
}

#[pymethods]
impl CallbackMetrics {
    #[new]
    #[pyo3(signature = (func, entry=None))]
    fn new(func: Py<PyAny>, entry: Option<Py<PyAny>>) -> Self {
        let function = Function {
            func: Kept::new(func),
            entry: entry.map(Kept::new),
            counts: Arc::default(),
        };
        Self { function }
    }

    #[getter]
    fn function<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.function.func.get(py)
    }

    #[getter]
    fn calls(&self) -> u64 {
        self.function.counts.calls.load(Ordering::Relaxed)
    }

    #[getter]
    fn seconds(&self) -> f64 {
        let spent = self.function.counts.nanoseconds.load(Ordering::Relaxed);
        Duration::from_nanos(spent).as_secs_f64()
    }

    #[getter]
    fn errors(&self) -> u64 {
        self.function.counts.errors.load(Ordering::Relaxed)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.function.func.traverse(&visit)?;
        self.function
            .entry
            .iter()
            .try_for_each(|entry| entry.traverse(&visit))
    }

    fn __clear__(&self) {
        self.function.func.clear();
        self.function.entry.iter().for_each(|entry| entry.clear());
    }
}
