//! Predicates and mappings of handlers: data that Rust evaluates, or Python functions as the fallback.

use std::collections::HashSet;
use std::sync::Arc;

use ctrlhost_core::handlers::{
    self, LabelNamespace, MapFunc, Mapping, OwnedRequest, PredicateFunc,
};
use ctrlhost_core::object;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;
use pyo3::{PyTraverseError, PyVisit};

use crate::callback_metrics::Function;
use crate::handlers::{Owner, Predicate};
use crate::interpreter::{self, UNTIL_OTHERS};
use crate::kept::{Keeps, Kept};
use crate::object::Object;
use crate::store::Indexer;

/// The object that a label names.
#[pyclass(frozen, eq, get_all, module = "ctrlhost._core")]
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ByLabel {
    name: String,
    namespace: Option<String>,
    cluster_scoped: bool,
}

#[pymethods]
impl ByLabel {
    #[new]
    #[pyo3(signature = (name, *, namespace=None, cluster_scoped=false))]
    fn new(name: String, namespace: Option<String>, cluster_scoped: bool) -> Self {
        Self {
            name,
            namespace,
            cluster_scoped,
        }
    }

    fn __repr__(&self) -> String {
        format!("ByLabel({:?})", self.name)
    }
}

impl ByLabel {
    fn mapping(&self) -> Mapping {
        let namespace = match &self.namespace {
            Some(key) => LabelNamespace::Label(key.as_str().into()),
            None if self.cluster_scoped => LabelNamespace::Cluster,
            None => LabelNamespace::Same,
        };
        Mapping::Label {
            name: self.name.as_str().into(),
            namespace,
        }
    }
}

/// The objects that an index lists under the key of the changed object.
#[pyclass(frozen, module = "ctrlhost._core")]
pub(crate) struct ByIndex {
    indexer: Arc<Kept>,
    index: String,
}

#[pymethods]
impl ByIndex {
    #[new]
    fn new(indexer: Py<Indexer>, index: String) -> Self {
        let indexer = Kept::new(indexer.into_any());
        Self { indexer, index }
    }

    fn __repr__(&self) -> String {
        format!("ByIndex({:?})", self.index)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.indexer.traverse(&visit)
    }

    fn __clear__(&self) {
        self.indexer.clear();
    }
}

/// Read a predicate: one of ours, or a callable `(old, new) -> bool`.
pub(crate) fn predicate(one: &Bound<'_, PyAny>, keeps: &Keeps) -> PyResult<handlers::Predicate> {
    if let Ok(ready) = one.cast::<Predicate>() {
        keeps.add(one);
        return Ok(ready.get().condition.clone());
    }
    let Some(function) = Function::of(one, keeps)? else {
        return Err(PyTypeError::new_err(format!(
            "predicate must be a callable (old, new) -> bool, got {}",
            one.repr()?
        )));
    };
    Ok(handlers::Predicate::Custom(Arc::new(PyPredicate(function))))
}

fn wrapped(object: Option<&Arc<object::Object>>) -> Option<Object> {
    object.cloned().map(Object::of)
}

fn name_of(old: Option<&Arc<object::Object>>, new: Option<&Arc<object::Object>>) -> String {
    new.or(old)
        .map(|object| object.describe())
        .unwrap_or_default()
}

struct PyPredicate(Function);

impl PredicateFunc for PyPredicate {
    fn passes(&self, old: Option<&Arc<object::Object>>, new: Option<&Arc<object::Object>>) -> bool {
        let key = new.or(old).map_or("", |object| object.key());
        let failed = || {
            let name = name_of(old, new);
            format!("a predicate failed for {name}; the event passes")
        };
        interpreter::attach(|py| {
            let call =
                |func: &Bound<'_, PyAny>| func.call1((wrapped(old), wrapped(new)))?.is_truthy();
            self.0.call(py, key, failed, call).unwrap_or(true)
        })
    }
}

struct PyMap(Function);

impl PyMap {
    /// Return the requests for one state, each once.
    fn of(
        py: Python<'_>,
        func: &Bound<'_, PyAny>,
        object: &Arc<object::Object>,
        removed: &dyn Fn() -> bool,
    ) -> PyResult<Vec<OwnedRequest>> {
        let returned = func.call1((Object::of(object.clone()),))?;
        let wrong = |what: &str, value: &Bound<'_, PyAny>| {
            let value = value
                .repr()
                .map_or_else(|_| "an object".to_owned(), |text| text.to_string());
            PyTypeError::new_err(format!("a map function must return {what}, got {value}"))
        };
        if returned.is_none() || returned.is_instance_of::<PyString>() {
            return Err(wrong("an iterable of Requests", &returned));
        }
        let (mut out, mut seen) = (Vec::new(), HashSet::new());
        for (number, request) in returned.try_iter()?.enumerate() {
            if number % UNTIL_OTHERS == UNTIL_OTHERS - 1 {
                if removed() {
                    break;
                }
                interpreter::detach(py, || {});
            }
            let request = request?;
            let Ok(key) = request.extract::<(String, String, String)>() else {
                return Err(wrong("Requests", &request));
            };
            if seen.insert(key.clone()) {
                let (name, namespace, cluster) = key;
                out.push(OwnedRequest {
                    name,
                    namespace,
                    cluster,
                });
            }
        }
        Ok(out)
    }
}

impl MapFunc for PyMap {
    fn requests(
        &self,
        old: Option<&Arc<object::Object>>,
        new: Option<&Arc<object::Object>>,
        removed: &dyn Fn() -> bool,
    ) -> Vec<OwnedRequest> {
        let mut out = Vec::new();
        let failed = || format!("a map function failed for {}", name_of(old, new));
        interpreter::attach(|py| {
            for object in [old, new].into_iter().flatten() {
                if removed() {
                    break;
                }
                let call = |func: &Bound<'_, PyAny>| Self::of(py, func, object, removed);
                let mapped = self.0.call(py, object.key(), failed, call);
                out.extend(mapped.into_iter().flatten());
            }
        });
        out
    }
}

/// Read a mapping: `"object"`, an `Owner`, `ByLabel`, `ByIndex`, or a callable `obj -> Iterable[Request]`.
pub(crate) fn read_mapping(raw: &Bound<'_, PyAny>, keeps: &Keeps) -> PyResult<Mapping> {
    if let Ok(owner) = raw.cast::<Owner>() {
        let owner = owner.get();
        return Ok(Mapping::Owner(owner.owner(), owner.scope.clone()));
    }
    if let Ok(name) = raw.cast::<PyString>() {
        return match &*name.to_cow()? {
            "object" => Ok(Mapping::Object),
            other => Err(PyValueError::new_err(format!(
                "mapping must be \"object\", an Owner or a callable, got {other:?}"
            ))),
        };
    }
    if let Ok(label) = raw.cast::<ByLabel>() {
        return Ok(label.get().mapping());
    }
    if let Ok(by) = raw.cast::<ByIndex>() {
        let indexer = by.get().indexer.get(raw.py())?;
        keeps.add(&indexer);
        return Ok(Mapping::Index {
            store: indexer.cast::<Indexer>()?.get().store()?.clone(),
            index: by.get().index.as_str().into(),
        });
    }
    if let Some(function) = Function::of(raw, keeps)? {
        return Ok(Mapping::Custom(Arc::new(PyMap(function))));
    }
    Err(PyTypeError::new_err(format!(
        "mapping must be \"object\", an Owner or a callable, got {}",
        raw.repr()?
    )))
}
