//! Whose turn a key uses in a fair queue.

use std::borrow::Cow;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use pyo3::{PyTraverseError, PyVisit};

/// The option `fair_by`.
pub(crate) enum FairBy {
    /// First come, first served.
    Off,
    /// By the key's namespace.
    Namespace,
    /// By what a callable makes of the key.
    Callable(Py<PyAny>),
}

impl FairBy {
    pub(crate) fn new(given: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        match given {
            None => Ok(Self::Off),
            Some(given) if given.is_callable() => Ok(Self::Callable(given.clone().unbind())),
            Some(given)
                if given
                    .cast::<PyString>()
                    .is_ok_and(|text| text == "namespace") =>
            {
                Ok(Self::Namespace)
            }
            Some(given) => Err(PyTypeError::new_err(format!(
                "fair_by must be None, \"namespace\" or a callable, not {given}"
            ))),
        }
    }

    pub(crate) fn is_fair(&self) -> bool {
        !matches!(self, Self::Off)
    }

    /// The group of a key. Runs Python, so never under a queue's lock.
    #[inline]
    pub(crate) fn group<'a>(&self, key: &'a Bound<'_, PyAny>) -> PyResult<Cow<'a, str>> {
        match self {
            Self::Off => Ok(Cow::Borrowed("")),
            Self::Namespace => namespace(key),
            Self::Callable(callable) => {
                let group = callable.bind(key.py()).call1((key,))?;
                let group = group.cast::<PyString>().map_err(|_| {
                    PyTypeError::new_err(format!(
                        "fair_by must give the name of a group as a str, not {group}"
                    ))
                })?;
                Ok(Cow::Owned(group.to_string_lossy().into_owned()))
            }
        }
    }

    /// The groups of many keys; none at all for a queue that is not fair.
    pub(crate) fn groups(&self, keys: &[Bound<'_, PyAny>]) -> PyResult<Vec<String>> {
        if !self.is_fair() {
            return Ok(Vec::new());
        }
        keys.iter()
            .map(|object| self.group(object).map(Cow::into_owned))
            .collect()
    }

    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            Self::Callable(callable) => visit.call(callable),
            Self::Off | Self::Namespace => Ok(()),
        }
    }
}

/// The field `namespace`, or what stands before the slash of a `str`; else the empty one.
fn namespace<'a>(key: &'a Bound<'_, PyAny>) -> PyResult<Cow<'a, str>> {
    if let Ok(text) = key.cast::<PyString>() {
        return Ok(match text.to_string_lossy().split_once('/') {
            Some((namespace, _)) => Cow::Owned(namespace.to_owned()),
            None => Cow::Borrowed(""),
        });
    }
    if !key.is_instance_of::<PyTuple>() {
        return Ok(Cow::Borrowed(""));
    }
    let namespace = key.getattr_opt("namespace")?;
    let text = namespace
        .as_ref()
        .and_then(|namespace| namespace.cast::<PyString>().ok());
    Ok(text.map_or(Cow::Borrowed(""), |text| {
        Cow::Owned(text.to_string_lossy().into_owned())
    }))
}
