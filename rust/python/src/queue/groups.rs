//! The groups that take turns in a fair queue.

use std::borrow::Cow;
use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use crate::kept::{Keeps, Kept};

/// The option `fair_by`.
pub(crate) enum FairBy {
    /// First come, first served.
    Off,
    /// By the key's namespace.
    Namespace,
    /// By what a callable returns for the key.
    Callable(Arc<Kept>),
}

impl FairBy {
    pub(crate) fn new(grouping: Option<&Bound<'_, PyAny>>, keeps: &Keeps) -> PyResult<Self> {
        let Some(grouping) = grouping else {
            return Ok(Self::Off);
        };
        if grouping.is_callable() {
            return Ok(Self::Callable(keeps.add(grouping)));
        }
        if grouping.eq("namespace")? {
            return Ok(Self::Namespace);
        }
        Err(PyTypeError::new_err(format!(
            "fair_by must be None, \"namespace\" or a callable, got {grouping}"
        )))
    }

    pub(crate) fn is_fair(&self) -> bool {
        !matches!(self, Self::Off)
    }

    /// Return whether a group is known without a call of Python.
    pub(crate) fn is_native(&self) -> bool {
        !matches!(self, Self::Callable(_))
    }

    /// Return the group of a key. Runs Python, so never under a queue's lock.
    #[inline]
    pub(crate) fn group<'a>(&self, key: &'a Bound<'_, PyAny>) -> PyResult<Cow<'a, str>> {
        match self {
            Self::Off => Ok(Cow::Borrowed("")),
            Self::Namespace => namespace(key),
            Self::Callable(callable) => {
                let group = callable.get(key.py())?.call1((key,))?;
                let group = group.cast::<PyString>().map_err(|_| {
                    PyTypeError::new_err(format!("fair_by must return a str, got {group}"))
                })?;
                Ok(Cow::Owned(group.to_string_lossy().into_owned()))
            }
        }
    }

    /// Return the groups of many keys; an empty list for a queue that is not fair.
    pub(crate) fn groups(&self, keys: &[Bound<'_, PyAny>]) -> PyResult<Vec<String>> {
        if !self.is_fair() {
            return Ok(Vec::new());
        }
        keys.iter()
            .map(|object| self.group(object).map(Cow::into_owned))
            .collect()
    }
}

/// Return the field `namespace`, or the part of a `str` before the slash; else the empty namespace.
fn namespace<'a>(key: &'a Bound<'_, PyAny>) -> PyResult<Cow<'a, str>> {
    if let Ok(text) = key.cast::<PyString>() {
        let text = text.to_string_lossy();
        let namespace = text.split_once('/').map(|(namespace, _)| namespace);
        return Ok(Cow::Owned(namespace.unwrap_or_default().to_owned()));
    }
    if !key.is_instance_of::<PyTuple>() {
        return Ok(Cow::Borrowed(""));
    }
    let namespace = key.getattr_opt("namespace")?;
    let text = namespace.as_ref().map(|namespace| namespace.cast());
    Ok(text
        .and_then(Result::ok)
        .map_or(Cow::Borrowed(""), |text: &Bound<'_, PyString>| {
            Cow::Owned(text.to_string_lossy().into_owned())
        }))
}
