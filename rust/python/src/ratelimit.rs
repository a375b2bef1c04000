//! Rate limiters of the core, and those written in Python.

use std::sync::Arc;
use std::time::Duration;

use ctrlhost_core::clock::seconds;
use ctrlhost_core::key::KeyRef;
use ctrlhost_core::ratelimit::{self as core, LimiterError, RateLimiter};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use pyo3::{PyTraverseError, PyVisit};

use crate::clock::{Seconds, core_clock, duration};
use crate::interpreter::{self, Local};
use crate::kept::{Keeps, Kept};
use crate::key::buffer::KeyBuffer;
use crate::key::{Key, Probe};

/// A limiter of the core, for keys from Python.
pub(crate) type SharedLimiter = Arc<dyn RateLimiter<Key>>;

/// The base of all limiters.
#[pyclass(frozen, subclass, name = "_RateLimiter", module = "ctrlhost.workqueue")]
pub(crate) struct Limiter {
    limiter: Local<SharedLimiter>,
    keeps: Keeps,
}

#[pymethods]
impl Limiter {
    /// Return how many seconds `key` has to wait this time.
    fn when(&self, key: &Bound<'_, PyAny>) -> PyResult<f64> {
        let wait = self
            .limiter
            .get()?
            .when(&Probe::new(key, &mut KeyBuffer::new())?);
        let wait = wait.map_err(into_py_err)?;
        Ok(if wait == Duration::MAX {
            f64::INFINITY
        } else {
            wait.as_secs_f64()
        })
    }

    /// Reset `key`, which succeeded or was given up.
    fn forget(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        self.limiter
            .get()?
            .forget(&Probe::new(key, &mut KeyBuffer::new())?)
            .map_err(into_py_err)
    }

    /// Return how often `when` was called for `key` since it was last forgotten.
    fn num_requeues(&self, key: &Bound<'_, PyAny>) -> PyResult<u64> {
        self.limiter
            .get()?
            .num_requeues(&Probe::new(key, &mut KeyBuffer::new())?)
            .map_err(into_py_err)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.keeps.traverse(&visit)
    }

    fn __clear__(&self) {
        self.keeps.clear();
    }
}

impl Limiter {
    fn of(limiter: impl RateLimiter<Key> + 'static) -> PyClassInitializer<Self> {
        Self::keeping(limiter, Keeps::default())
    }

    fn keeping(limiter: impl RateLimiter<Key> + 'static, keeps: Keeps) -> PyClassInitializer<Self> {
        let limiter = Local::new(Arc::new(limiter) as _);
        PyClassInitializer::from(Self { limiter, keeps })
    }
}

/// A limiter that doubles the wait with each failure of a key: `base_delay` seconds first, `max_delay` at most.
#[pyclass(frozen, extends = Limiter, module = "ctrlhost.workqueue")]
pub(crate) struct ItemExponentialFailureRateLimiter;

#[pymethods]
impl ItemExponentialFailureRateLimiter {
    #[new]
    fn new(base_delay: Seconds, max_delay: Seconds) -> PyResult<PyClassInitializer<Self>> {
        let base = duration("base_delay", base_delay.0)?;
        let max = duration("max_delay", max_delay.0)?;
        Ok(Limiter::of(core::ItemExponentialFailureRateLimiter::new(base, max)).add_subclass(Self))
    }
}

/// A limiter that waits `fast_delay` seconds for the first `max_fast_attempts` failures of a key, then `slow_delay`.
#[pyclass(frozen, extends = Limiter, module = "ctrlhost.workqueue")]
pub(crate) struct ItemFastSlowRateLimiter;

#[pymethods]
impl ItemFastSlowRateLimiter {
    #[new]
    fn new(
        fast_delay: Seconds,
        slow_delay: Seconds,
        max_fast_attempts: i64,
    ) -> PyResult<PyClassInitializer<Self>> {
        let fast = duration("fast_delay", fast_delay.0)?;
        let slow = duration("slow_delay", slow_delay.0)?;
        let attempts = u64::try_from(max_fast_attempts).map_err(|_| {
            PyValueError::new_err(format!(
                "max_fast_attempts must not be negative, got {max_fast_attempts}"
            ))
        })?;
        let limiter = core::ItemFastSlowRateLimiter::new(fast, slow, attempts);
        Ok(Limiter::of(limiter).add_subclass(Self))
    }
}

/// A token bucket: `qps` keys a second pass, at most `burst` at once; the others wait their turn.
///
/// Without a `clock` it uses that of the first queue it is passed to.
#[pyclass(frozen, extends = Limiter, module = "ctrlhost.workqueue")]
pub(crate) struct BucketRateLimiter;

#[pymethods]
impl BucketRateLimiter {
    #[new]
    #[pyo3(signature = (qps, burst, clock=None))]
    fn new(
        qps: f64,
        burst: i64,
        clock: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyClassInitializer<Self>> {
        if qps.is_nan() || qps <= 0.0 {
            return Err(PyValueError::new_err(format!(
                "qps must be greater than 0, got {qps}"
            )));
        }
        let burst = u32::try_from(burst)
            .ok()
            .filter(|&burst| burst >= 1)
            .ok_or_else(|| {
                PyValueError::new_err(format!("burst must be from 1 to {}, got {burst}", u32::MAX))
            })?;
        let clock = clock.map(core_clock).transpose()?;
        Ok(Limiter::of(core::BucketRateLimiter::new(qps, burst, clock)).add_subclass(Self))
    }
}

/// The longest wait of all `limiters`; none without limiters.
#[pyclass(frozen, extends = Limiter, module = "ctrlhost.workqueue")]
pub(crate) struct MaxOfRateLimiter;

#[pymethods]
impl MaxOfRateLimiter {
    #[new]
    #[pyo3(signature = (*limiters))]
    fn new(limiters: &Bound<'_, PyTuple>) -> PyResult<PyClassInitializer<Self>> {
        let keeps = Keeps::default();
        let limiters = limiters
            .iter()
            .map(|limiter| core_limiter(&limiter, &keeps))
            .collect::<PyResult<Vec<_>>>()?;
        let limiter = core::MaxOfRateLimiter::new(limiters);
        Ok(Limiter::keeping(limiter, keeps).add_subclass(Self))
    }
}

/// The wait of another limiter, at most `max_delay` seconds.
#[pyclass(frozen, extends = Limiter, module = "ctrlhost.workqueue")]
pub(crate) struct WithMaxWaitRateLimiter;

#[pymethods]
impl WithMaxWaitRateLimiter {
    #[new]
    fn new(limiter: &Bound<'_, PyAny>, max_delay: Seconds) -> PyResult<PyClassInitializer<Self>> {
        let max = duration("max_delay", max_delay.0)?;
        let keeps = Keeps::default();
        let limiter = core::WithMaxWaitRateLimiter::new(core_limiter(limiter, &keeps)?, max);
        Ok(Limiter::keeping(limiter, keeps).add_subclass(Self))
    }
}

/// A limiter written in Python, with the three methods.
struct PythonLimiter(Arc<Kept>);

impl PythonLimiter {
    fn call<R>(
        &self,
        method: &str,
        key: &dyn KeyRef<Key>,
        read: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<R>,
    ) -> Result<R, LimiterError> {
        let answer = interpreter::attach(|py| {
            let key = key.content().to_object(py)?;
            read(&self.0.get(py)?.call_method1(method, (key,))?)
        });
        answer.map_err(Into::into)
    }
}

impl RateLimiter<Key> for PythonLimiter {
    fn when(&self, key: &dyn KeyRef<Key>) -> Result<Duration, LimiterError> {
        self.call("when", key, |answer| {
            let wait: f64 = answer.extract().map_err(|_| {
                PyTypeError::new_err(format!(
                    "a rate limiter's when() must return a number of seconds, got {answer}"
                ))
            })?;
            if wait.is_nan() {
                return Err(PyValueError::new_err(
                    "a rate limiter's when() must return a number of seconds, got NaN",
                ));
            }
            Ok(seconds(wait))
        })
    }

    fn forget(&self, key: &dyn KeyRef<Key>) -> Result<(), LimiterError> {
        self.call("forget", key, |_| Ok(()))
    }

    fn num_requeues(&self, key: &dyn KeyRef<Key>) -> Result<u64, LimiterError> {
        self.call("num_requeues", key, |answer| answer.extract())
    }
}

/// Return the core's limiter behind one of ours, or wrap one written in Python.
pub(crate) fn core_limiter(value: &Bound<'_, PyAny>, keeps: &Keeps) -> PyResult<SharedLimiter> {
    if let Ok(limiter) = value.cast::<Limiter>() {
        keeps.add(value);
        return limiter.get().limiter.get().cloned();
    }
    for method in ["when", "forget", "num_requeues"] {
        if !value
            .getattr_opt(method)?
            .is_some_and(|method| method.is_callable())
        {
            let kind = value.get_type().fully_qualified_name()?;
            return Err(PyTypeError::new_err(format!(
                "{kind} is not a rate limiter: missing method {method}()"
            )));
        }
    }
    Ok(Arc::new(PythonLimiter(keeps.add(value))))
}

/// Return client-go's default for controllers: 5 ms to 1000 s by key, and ten keys a second overall, 100 at once.
#[pyfunction]
#[pyo3(signature = (clock=None))]
pub(crate) fn default_controller_rate_limiter<'py>(
    py: Python<'py>,
    clock: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, MaxOfRateLimiter>> {
    let clock = clock.map(core_clock).transpose()?;
    Bound::new(
        py,
        Limiter::of(core::default_controller_rate_limiter(clock)).add_subclass(MaxOfRateLimiter),
    )
}

/// Convert a limiter's error; exceptions raised in Python stay as they are.
pub(crate) fn into_py_err(error: LimiterError) -> PyErr {
    match error.downcast::<PyErr>() {
        Ok(error) => *error,
        Err(error) => PyRuntimeError::new_err(error.to_string()),
    }
}
