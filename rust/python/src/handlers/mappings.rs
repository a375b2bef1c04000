//! Predicates and mappings of handlers: data that Rust evaluates, or Python functions as the fallback.

use std::sync::Arc;
use std::time::Instant;

use ctrlhost_core::handlers::{
    self, LabelNamespace, MapFunc, Mapping, OwnedRequest, PredicateFunc,
};
use ctrlhost_core::object;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;
use pyo3::{PyTraverseError, PyVisit};

use crate::errors;
use crate::handlers::callback_metrics::{CallbackMetrics, Counts};
use crate::handlers::{Owner, Predicate};
use crate::interpreter;
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
    let Some((func, counts)) = CallbackMetrics::of(one, keeps)? else {
        return Err(PyTypeError::new_err(format!(
            "predicate must be a callable (old, new) -> bool, got {}",
            one.repr()?
        )));
    };
    let custom = Arc::new(PyPredicate { func, counts });
    Ok(handlers::Predicate::Custom(custom))
}

fn wrapped(object: Option<&Arc<object::Object>>) -> Option<Object> {
    object.cloned().map(Object)
}

fn name_of(old: Option<&Arc<object::Object>>, new: Option<&Arc<object::Object>>) -> String {
    new.or(old)
        .map(|object| object.describe())
        .unwrap_or_default()
}

struct PyPredicate {
    func: Arc<Kept>,
    counts: Arc<Counts>,
}

impl PredicateFunc for PyPredicate {
    fn passes(&self, old: Option<&Arc<object::Object>>, new: Option<&Arc<object::Object>>) -> bool {
        let since = Instant::now();
        interpreter::attach(|py| {
            let call = || self.func.get(py)?.call1((wrapped(old), wrapped(new)));
            let passes = call().and_then(|answer| answer.is_truthy());
            let failures = self.counts.add(since, passes.is_err());
            passes.unwrap_or_else(|error| {
                if failures == 0 {
                    let what = format!(
                        "a predicate failed for {}; the event passes",
                        name_of(old, new)
                    );
                    errors::log_failure(py, &what, &error);
                }
                true
            })
        })
    }
}

struct PyMap {
    func: Arc<Kept>,
    counts: Arc<Counts>,
}

impl PyMap {
    fn of(
        &self,
        py: Python<'_>,
        object: &Arc<object::Object>,
        out: &mut Vec<OwnedRequest>,
    ) -> PyResult<()> {
        let found = self.func.get(py)?.call1((Object(object.clone()),))?;
        if found.is_none() {
            return Ok(());
        }
        for request in found.try_iter()? {
            let request = request?;
            let Ok((name, namespace, cluster)) = request.extract() else {
                let what = format!(
                    "a map function must return Requests, got {}",
                    request.repr()?
                );
                return Err(PyTypeError::new_err(what));
            };
            out.push(OwnedRequest {
                name,
                namespace,
                cluster,
            });
        }
        Ok(())
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
        let since = Instant::now();
        interpreter::attach(|py| {
            let mut failed = None;
            for object in [old, new].into_iter().flatten() {
                if removed() {
                    break;
                }
                if let Err(error) = self.of(py, object, &mut out) {
                    failed = Some(error);
                }
            }
            let failures = self.counts.add(since, failed.is_some());
            if let (Some(error), 0) = (failed, failures) {
                let what = format!("a map function failed for {}", name_of(old, new));
                errors::log_failure(py, &what, &error);
            }
        });
        out
    }
}

/// Read a mapping: `"object"`, an `Owner`, `ByLabel`, `ByIndex`, or a callable `obj -> Iterable[Request]`.
pub(crate) fn read_mapping(raw: &Bound<'_, PyAny>, keeps: &Keeps) -> PyResult<Mapping> {
    if let Ok(owner) = raw.cast::<Owner>() {
        return Ok(Mapping::Owner(owner.get().owner()));
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
    if let Some((func, counts)) = CallbackMetrics::of(raw, keeps)? {
        return Ok(Mapping::Custom(Arc::new(PyMap { func, counts })));
    }
    Err(PyTypeError::new_err(format!(
        "mapping must be \"object\", an Owner or a callable, got {}",
        raw.repr()?
    )))
}
