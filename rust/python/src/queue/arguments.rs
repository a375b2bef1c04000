//! What calls on a queue take besides keys.

use std::time::Duration;

use ctrlhost_core::clock::seconds;
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt};

/// A priority: an `int` of 32 bits.
#[derive(Clone, Copy)]
pub(crate) struct Priority(pub(crate) i32);

impl<'py> FromPyObject<'_, 'py> for Priority {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if !object.is_instance_of::<PyInt>() || object.is_instance_of::<PyBool>() {
            let kind = object.get_type().name()?;
            return Err(PyTypeError::new_err(format!(
                "a priority is an int, not {kind}"
            )));
        }
        object.extract::<i32>().map(Self).map_err(|_| {
            PyOverflowError::new_err("a priority is an int from -2147483648 to 2147483647")
        })
    }
}

/// A number of seconds: an `int` or a `float`.
#[derive(Clone, Copy)]
pub(crate) struct Seconds(f64);

impl Seconds {
    pub(crate) const ZERO: Self = Self(0.0);

    /// As a delay, where what is not positive is none.
    pub(crate) fn delay(self) -> PyResult<Duration> {
        if self.0.is_nan() {
            return Err(PyValueError::new_err(
                "a delay must be a number of seconds, not NaN",
            ));
        }
        Ok(seconds(self.0))
    }
}

impl<'py> FromPyObject<'_, 'py> for Seconds {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let number = object.is_instance_of::<PyFloat>() || object.is_instance_of::<PyInt>();
        if !number || object.is_instance_of::<PyBool>() {
            let kind = object.get_type().name()?;
            return Err(PyTypeError::new_err(format!(
                "a number of seconds is an int or a float, not {kind}"
            )));
        }
        object.extract::<f64>().map(Self)
    }
}

/// As the longest wait; none for infinity.
pub(crate) fn timeout(given: Option<Seconds>) -> PyResult<Option<Duration>> {
    match given {
        None => Ok(None),
        Some(Seconds(given)) if given.is_nan() || given < 0.0 => Err(PyValueError::new_err(
            format!("timeout must be a number of seconds from 0 on, not {given}"),
        )),
        Some(Seconds(given)) => {
            Ok(Some(seconds(given)).filter(|&timeout| timeout != Duration::MAX))
        }
    }
}
