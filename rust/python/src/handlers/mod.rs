//! What handlers are told from Python: owners, predicates, mappings, and the queue they feed.

pub(crate) mod callback_metrics;
pub(crate) mod listener;
pub(crate) mod mappings;

use std::sync::Arc;

use ctrlhost_core::handlers::{self, LabelRequirement, RequestRef, RequestSink, Selection};
use ctrlhost_core::object;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::errors;
use crate::object::Object;
use crate::queue::WorkQueue;
use mappings::predicate;

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

impl Owner {
    pub(crate) fn owner(&self) -> object::Owner {
        object::Owner::new(
            &self.api_version,
            &self.kind,
            self.controller,
            self.cluster_scoped,
        )
    }
}

/// A condition on a change that is looked at in Rust.
#[pyclass(frozen, module = "ctrlhost._core")]
pub(crate) struct Predicate(handlers::Predicate);

impl Predicate {
    pub(crate) fn condition(&self) -> &handlers::Predicate {
        &self.0
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
        self.0
            .passes(old.map(|old| &old.get().0), new.map(|new| &new.get().0))
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
        return Ok(Arc::clone(&queue.get().shared) as _);
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
