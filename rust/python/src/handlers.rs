//! What handlers are told from Python: owners, predicates, mappings, and the queue they feed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ctrlhost_core::handlers::{
    self, LabelRequirement, MapFunc, Mapping, OwnedRequest, PredicateFunc, RequestRef, RequestSink,
    Selection,
};
use ctrlhost_core::object;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

use crate::errors;
use crate::object::Object;
use crate::queue::WorkQueue;

/// The owner that a handler enqueues, in whatever version a reference names it.
#[pyclass(frozen, eq, get_all, module = "ctrlhost._core")]
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    api_version: String,
    kind: String,
    controller: bool,
    cluster_scoped: bool,
}

#[pymethods]
impl Owner {
    #[new]
    #[pyo3(signature = (api_version, kind, *, controller=true, cluster_scoped=false))]
    fn new(api_version: String, kind: String, controller: bool, cluster_scoped: bool) -> Self {
        Self {
            api_version,
            kind,
            controller,
            cluster_scoped,
        }
    }

    fn __repr__(&self) -> String {
        format!("Owner({:?}, {:?})", self.api_version, self.kind)
    }
}

/// A condition on a change that is looked at in Rust.
#[pyclass(frozen, module = "ctrlhost._core")]
pub(crate) struct Predicate(handlers::Predicate);

fn all_of(predicates: &Bound<'_, PyTuple>) -> PyResult<Vec<handlers::Predicate>> {
    predicates.iter().map(|one| predicate(&one)).collect()
}

#[pymethods]
impl Predicate {
    #[staticmethod]
    fn generation_changed() -> Self {
        Self(handlers::Predicate::GenerationChanged)
    }

    #[staticmethod]
    fn labels_changed() -> Self {
        Self(handlers::Predicate::LabelsChanged)
    }

    #[staticmethod]
    fn annotations_changed() -> Self {
        Self(handlers::Predicate::AnnotationsChanged)
    }

    #[staticmethod]
    fn resource_version_changed() -> Self {
        Self(handlers::Predicate::ResourceVersionChanged)
    }

    #[staticmethod]
    #[pyo3(signature = (*predicates))]
    fn all_of(predicates: &Bound<'_, PyTuple>) -> PyResult<Self> {
        Ok(Self(handlers::Predicate::All(all_of(predicates)?)))
    }

    #[staticmethod]
    #[pyo3(signature = (*predicates))]
    fn any_of(predicates: &Bound<'_, PyTuple>) -> PyResult<Self> {
        Ok(Self(handlers::Predicate::Any(all_of(predicates)?)))
    }

    #[staticmethod]
    fn negate(inner: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self(handlers::Predicate::Not(Box::new(predicate(inner)?))))
    }

    /// `labels` are (key, values or None, negated).
    #[staticmethod]
    #[pyo3(signature = (predicates, *, namespaces=None, name=None, labels=Vec::new()))]
    fn within(
        predicates: &Bound<'_, PyTuple>,
        namespaces: Option<Vec<String>>,
        name: Option<String>,
        labels: Vec<(String, Option<Vec<String>>, bool)>,
    ) -> PyResult<Self> {
        let labels = labels
            .into_iter()
            .map(|(key, values, negated)| LabelRequirement {
                key,
                values,
                negated,
            });
        let selection = Selection {
            namespaces,
            name,
            labels: labels.collect(),
        };
        Ok(Self(handlers::Predicate::Within(
            selection,
            all_of(predicates)?,
        )))
    }

    fn __call__(&self, old: Option<&Bound<'_, Object>>, new: Option<&Bound<'_, Object>>) -> bool {
        self.0.passes(
            old.map(|old| old.get().object()),
            new.map(|new| new.get().object()),
        )
    }

    fn __and__(&self, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self(handlers::Predicate::All(vec![
            self.0.clone(),
            predicate(other)?,
        ])))
    }

    fn __or__(&self, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self(handlers::Predicate::Any(vec![
            self.0.clone(),
            predicate(other)?,
        ])))
    }

    fn __invert__(&self) -> Self {
        Self(handlers::Predicate::Not(Box::new(self.0.clone())))
    }

    fn __repr__(&self) -> String {
        format!("<Predicate {:?}>", self.0)
    }
}

/// A predicate from Python: one of ours, or a callable `(old, new) -> bool`.
pub(crate) fn predicate(one: &Bound<'_, PyAny>) -> PyResult<handlers::Predicate> {
    if let Ok(ready) = one.cast::<Predicate>() {
        return Ok(ready.get().0.clone());
    }
    if !one.is_callable() {
        return Err(PyTypeError::new_err(format!(
            "a predicate is a callable (old, new) -> bool, not {}",
            one.repr()?
        )));
    }
    let custom = PyPredicate {
        func: one.clone().unbind(),
        errors: AtomicU64::new(0),
    };
    Ok(handlers::Predicate::Custom(Arc::new(custom)))
}

fn wrapped(object: Option<&Arc<object::Object>>) -> Option<Object> {
    object.cloned().map(Object::wrap)
}

fn name_of(old: Option<&Arc<object::Object>>, new: Option<&Arc<object::Object>>) -> String {
    new.or(old)
        .map(|object| format!("{} {}", object.kind(), object.key()))
        .unwrap_or_default()
}

struct PyPredicate {
    func: Py<PyAny>,
    errors: AtomicU64,
}

impl PredicateFunc for PyPredicate {
    fn passes(&self, old: Option<&Arc<object::Object>>, new: Option<&Arc<object::Object>>) -> bool {
        Python::attach(|py| {
            let call = || {
                self.func
                    .bind(py)
                    .call1((wrapped(old), wrapped(new)))?
                    .is_truthy()
            };
            call().unwrap_or_else(|error| {
                if self.errors.fetch_add(1, Ordering::Relaxed) == 0 {
                    errors::log_failure(
                        py,
                        &format!("a predicate failed for {}; it passes", name_of(old, new)),
                        &error,
                    );
                }
                true
            })
        })
    }
}

struct PyMap {
    func: Py<PyAny>,
    errors: AtomicU64,
}

impl PyMap {
    fn of(
        &self,
        py: Python<'_>,
        object: &Arc<object::Object>,
        out: &mut Vec<OwnedRequest>,
    ) -> PyResult<()> {
        let found = self.func.bind(py).call1((Object::wrap(object.clone()),))?;
        if found.is_none() {
            return Ok(());
        }
        for request in found.try_iter()? {
            let request = request?;
            let parts: Option<(String, String, String)> = request.extract().ok();
            let Some((name, namespace, cluster)) = parts else {
                let what = format!("a map function gives Requests, not {}", request.repr()?);
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
    ) -> Vec<OwnedRequest> {
        let mut out = Vec::new();
        Python::attach(|py| {
            for object in [old, new].into_iter().flatten() {
                if let Err(error) = self.of(py, object, &mut out) {
                    let count = self.errors.fetch_add(1, Ordering::Relaxed);
                    if count == 0 {
                        let what = format!("a map function failed for {}", name_of(old, new));
                        errors::log_failure(py, &what, &error);
                    }
                }
            }
        });
        out
    }
}

/// A mapping from Python: `"object"`, an `Owner`, or a callable `obj -> Iterable[Request]`.
pub(crate) fn read_mapping(raw: &Bound<'_, PyAny>) -> PyResult<Mapping> {
    if let Ok(owner) = raw.cast::<Owner>() {
        let Owner {
            api_version,
            kind,
            controller,
            cluster_scoped,
        } = owner.get();
        return Ok(Mapping::Owner(object::Owner::new(
            api_version,
            kind,
            *controller,
            *cluster_scoped,
        )));
    }
    if let Ok(name) = raw.cast::<PyString>() {
        return match &*name.to_cow()? {
            "object" => Ok(Mapping::Object),
            other => Err(PyValueError::new_err(format!(
                "unknown mapping {other:?}: \"object\", an Owner or a callable"
            ))),
        };
    }
    if raw.is_callable() {
        return Ok(Mapping::Custom(Arc::new(PyMap {
            func: raw.clone().unbind(),
            errors: AtomicU64::new(0),
        })));
    }
    Err(PyTypeError::new_err(format!(
        "a mapping is \"object\", an Owner or a callable, not {}",
        raw.repr()?
    )))
}

/// Any Python object with `add_many(keys, priority=…)` as a queue.
struct PySink {
    queue: Py<PyAny>,
    request: Py<PyAny>,
}

impl RequestSink for PySink {
    fn add_requests(&self, requests: &[RequestRef<'_>], priority: Option<i32>) {
        Python::attach(|py| {
            let add = || -> PyResult<()> {
                let list = PyList::empty(py);
                for one in requests {
                    list.append(self.request.bind(py).call1((
                        one.name,
                        one.namespace,
                        one.cluster,
                    ))?)?;
                }
                let kwargs = PyDict::new(py);
                kwargs.set_item("priority", priority)?;
                self.queue
                    .bind(py)
                    .call_method("add_many", (list,), Some(&kwargs))
                    .map(|_| ())
            };
            if let Err(error) = add() {
                errors::log_failure(
                    py,
                    &format!("{} requests could not be queued", requests.len()),
                    &error,
                );
            }
        });
    }
}

/// The queue behind a Python object; our own takes requests without entering Python.
pub(crate) fn sink(queue: &Bound<'_, PyAny>) -> PyResult<Arc<dyn RequestSink>> {
    if let Ok(queue) = queue.cast::<WorkQueue>() {
        return Ok(queue.get().sink());
    }
    let request = queue
        .py()
        .import("ctrlhost.request")?
        .getattr("Request")?
        .unbind();
    Ok(Arc::new(PySink {
        queue: queue.clone().unbind(),
        request,
    }))
}
