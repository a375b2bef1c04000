//! Arguments of handlers: owners, predicates, mappings, and the queue that the handlers feed.

pub(crate) mod callback_metrics;
pub(crate) mod listener;
pub(crate) mod mappings;

use std::sync::Arc;

use ctrlhost_core::handlers::{self, LabelRequirement, RequestRef, RequestSink, Selection};
use ctrlhost_core::object;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyList, PyTuple};

use crate::errors;
use crate::key::request_type;
use crate::object::Object;
use crate::queue::WorkQueue;
use mappings::predicate;

/// The owner that a handler enqueues, in any version.
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

impl Owner {
    pub(crate) fn owner(&self) -> object::Owner {
        let (controller, cluster_scoped) = (self.controller, self.cluster_scoped);
        object::Owner::new(&self.api_version, &self.kind, controller, cluster_scoped)
    }
}

/// A condition on a change, evaluated in Rust.
#[pyclass(frozen, module = "ctrlhost._core")]
pub(crate) struct Predicate(pub(crate) handlers::Predicate);

impl Predicate {
    fn with(&self, other: &Bound<'_, PyAny>) -> PyResult<Vec<handlers::Predicate>> {
        Ok(vec![self.0.clone(), predicate(other)?])
    }
}

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
        let requirement = |(key, values, negated)| LabelRequirement {
            key,
            values,
            negated,
        };
        let selection = Selection {
            namespaces,
            name,
            labels: labels.into_iter().map(requirement).collect(),
        };
        let predicates = all_of(predicates)?;
        Ok(Self(handlers::Predicate::Within(selection, predicates)))
    }

    fn __call__(&self, old: Option<&Bound<'_, Object>>, new: Option<&Bound<'_, Object>>) -> bool {
        self.0
            .passes(old.map(|old| &old.get().0), new.map(|new| &new.get().0))
    }

    fn __and__(&self, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self(handlers::Predicate::All(self.with(other)?)))
    }

    fn __or__(&self, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self(handlers::Predicate::Any(self.with(other)?)))
    }

    fn __invert__(&self) -> Self {
        Self(handlers::Predicate::Not(Box::new(self.0.clone())))
    }

    fn __repr__(&self) -> String {
        format!("<Predicate {:?}>", self.0)
    }
}

/// Any Python object with `add_many(keys, priority=…)` as a queue.
struct PySink(Py<PyAny>);

impl RequestSink for PySink {
    fn add_requests(&self, requests: &[RequestRef<'_>], priority: Option<i32>) {
        Python::attach(|py| {
            let add = || -> PyResult<()> {
                let kind = request_type(py)?;
                let made = requests
                    .iter()
                    .map(|one| kind.call1((one.name, one.namespace, one.cluster)));
                let keys = PyList::new(py, made.collect::<PyResult<Vec<_>>>()?)?;
                let kwargs = [("priority", priority)].into_py_dict(py)?;
                self.0
                    .bind(py)
                    .call_method("add_many", (keys,), Some(&kwargs))?;
                Ok(())
            };
            if let Err(error) = add() {
                let what = format!("adding {} requests to a queue failed", requests.len());
                errors::log_failure(py, &what, &error);
            }
        });
    }
}

/// Return the queue behind a Python object; our own takes requests without entering Python.
pub(crate) fn sink(queue: &Bound<'_, PyAny>) -> Arc<dyn RequestSink> {
    match queue.cast::<WorkQueue>() {
        Ok(queue) => Arc::clone(&queue.get().shared) as _,
        Err(_) => Arc::new(PySink(queue.clone().unbind())),
    }
}
