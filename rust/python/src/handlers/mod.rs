//! Arguments of handlers: owners, predicates, mappings, and the queue that the handlers feed.

pub(crate) mod mappings;

use std::collections::BTreeSet;
use std::sync::Arc;

use ctrlhost_core::handlers::{
    self, Causes, DesiredState, OwnerScope, RequestRef, RequestSink, Selection,
};
use ctrlhost_core::owner;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyList, PyTuple};
use pyo3::{PyTraverseError, PyVisit};

use crate::errors;
use crate::interpreter;
use crate::kept::{Keeps, Kept};
use crate::key::request_type;
use crate::labels::{Labels, requirements};
use crate::object::Object;
use crate::queue::WorkQueue;
use mappings::predicate;

/// The owner that a handler enqueues, in any version.
#[pyclass(frozen, module = "ctrlhost._core")]
pub(crate) struct Owner {
    api_version: String,
    kind: String,
    controller: bool,
    pub(crate) scope: Arc<OwnerScope>,
}

#[pymethods]
impl Owner {
    #[new]
    #[pyo3(signature = (api_version, kind, *, controller=true, cluster_scoped=Some(false)))]
    fn new(
        api_version: String,
        kind: String,
        controller: bool,
        cluster_scoped: Option<bool>,
    ) -> Self {
        let scope = Arc::new(OwnerScope::new(cluster_scoped));
        Self {
            api_version,
            kind,
            controller,
            scope,
        }
    }

    #[getter]
    fn api_version(&self) -> &str {
        &self.api_version
    }

    #[getter]
    fn kind(&self) -> &str {
        &self.kind
    }

    #[getter]
    fn controller(&self) -> bool {
        self.controller
    }

    /// Whether the owner has no namespace; None while that is unknown.
    #[getter]
    fn cluster_scoped(&self) -> Option<bool> {
        self.scope.is_cluster_scoped()
    }

    /// Note whether the owner has no namespace, and queue the requests that waited for it.
    fn resolve(&self, py: Python<'_>, cluster_scoped: bool) {
        let scope = &self.scope;
        interpreter::detach(py, || scope.resolve(cluster_scoped));
    }

    /// Drop the requests that wait: the handler was removed.
    fn drop_waiting(&self) {
        self.scope.drop_waiting();
    }

    fn __repr__(&self) -> String {
        format!("Owner({:?}, {:?})", self.api_version, self.kind)
    }
}

impl Owner {
    pub(crate) fn owner(&self) -> owner::Owner {
        owner::Owner::new(&self.api_version, &self.kind, self.controller)
    }
}

/// A condition on a change, evaluated in Rust.
#[pyclass(frozen, module = "ctrlhost._core")]
pub(crate) struct Predicate {
    pub(crate) condition: handlers::Predicate,
    keeps: Keeps,
}

impl From<handlers::Predicate> for Predicate {
    fn from(condition: handlers::Predicate) -> Self {
        let keeps = Keeps::default();
        Self { condition, keeps }
    }
}

impl Predicate {
    /// Combine others.
    fn of<'py>(
        predicates: impl IntoIterator<Item = Bound<'py, PyAny>>,
        combine: impl FnOnce(Vec<handlers::Predicate>) -> handlers::Predicate,
    ) -> PyResult<Self> {
        let keeps = Keeps::default();
        let read = predicates.into_iter().map(|one| predicate(&one, &keeps));
        let condition = combine(read.collect::<PyResult<_>>()?);
        Ok(Self { condition, keeps })
    }
}

fn negated(mut predicates: Vec<handlers::Predicate>) -> handlers::Predicate {
    let inner = predicates
        .pop()
        .unwrap_or(handlers::Predicate::All(Vec::new()));
    handlers::Predicate::Not(Box::new(inner))
}

#[pymethods]
impl Predicate {
    #[staticmethod]
    fn generation_changed() -> Self {
        handlers::Predicate::GenerationChanged.into()
    }

    #[staticmethod]
    fn labels_changed() -> Self {
        handlers::Predicate::LabelsChanged.into()
    }

    #[staticmethod]
    fn annotations_changed() -> Self {
        handlers::Predicate::AnnotationsChanged.into()
    }

    /// `finalizers` are those that the controller adds and removes itself.
    #[staticmethod]
    #[pyo3(signature = (*finalizers))]
    fn desired_state_changed(finalizers: Vec<String>) -> Self {
        handlers::Predicate::DesiredStateChanged(DesiredState::ignoring(finalizers)).into()
    }

    #[staticmethod]
    fn resource_version_changed() -> Self {
        handlers::Predicate::ResourceVersionChanged.into()
    }

    #[staticmethod]
    #[pyo3(signature = (*predicates))]
    fn all_of(predicates: &Bound<'_, PyTuple>) -> PyResult<Self> {
        Self::of(predicates, handlers::Predicate::All)
    }

    #[staticmethod]
    #[pyo3(signature = (*predicates))]
    fn any_of(predicates: &Bound<'_, PyTuple>) -> PyResult<Self> {
        Self::of(predicates, handlers::Predicate::Any)
    }

    #[staticmethod]
    fn negate(inner: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::of([inner.clone()], negated)
    }

    #[staticmethod]
    #[pyo3(signature = (predicates, *, namespaces=None, name=None, labels=Vec::new()))]
    fn within(
        predicates: &Bound<'_, PyTuple>,
        namespaces: Option<Vec<String>>,
        name: Option<String>,
        labels: Labels,
    ) -> PyResult<Self> {
        let selection = Selection {
            namespaces: namespaces.map(BTreeSet::from_iter),
            name,
            labels: requirements(labels),
        };
        Self::of(predicates, |all| {
            handlers::Predicate::Within(selection, all)
        })
    }

    fn __call__(&self, old: Option<&Bound<'_, Object>>, new: Option<&Bound<'_, Object>>) -> bool {
        self.condition
            .passes(old.map(|old| &old.get().0), new.map(|new| &new.get().0))
    }

    fn __and__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::of(
            [slf.as_any().clone(), other.clone()],
            handlers::Predicate::All,
        )
    }

    fn __or__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::of(
            [slf.as_any().clone(), other.clone()],
            handlers::Predicate::Any,
        )
    }

    fn __invert__(slf: &Bound<'_, Self>) -> PyResult<Self> {
        Self::of([slf.as_any().clone()], negated)
    }

    fn __repr__(&self) -> String {
        format!("<Predicate {:?}>", self.condition)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.keeps.traverse(&visit)
    }

    fn __clear__(&self) {
        self.keeps.clear();
    }
}

/// Any Python object with `add_many(keys, priority=…)` as a queue.
struct PySink(Arc<Kept>);

impl RequestSink for PySink {
    fn add_requests(&self, requests: &[RequestRef<'_>], priority: Option<i32>) {
        interpreter::attach(|py| {
            let add = || -> PyResult<()> {
                let kind = request_type(py)?;
                let keyed = requests
                    .iter()
                    .map(|one| kind.call1((one.name, one.namespace, one.cluster)));
                let keys = PyList::new(py, keyed.collect::<PyResult<Vec<_>>>()?)?;
                let kwargs = [("priority", priority)].into_py_dict(py)?;
                self.0
                    .get(py)?
                    .call_method("add_many", (keys,), Some(&kwargs))?;
                Ok(())
            };
            if let Err(error) = add() {
                let what = format!("adding {} requests to a queue failed", requests.len());
                errors::log_failure(py, &what, &error);
            }
        });
    }

    fn is_native(&self) -> bool {
        false
    }
}

/// The queue of a handler, with what the handler keeps for as long as it lives.
struct KeepingSink {
    sink: Arc<dyn RequestSink>,
    #[expect(dead_code, reason = "only its lifetime matters")]
    keeps: Arc<Keeps>,
}

impl RequestSink for KeepingSink {
    fn add_requests(&self, requests: &[RequestRef<'_>], priority: Option<i32>) {
        self.sink.add_requests(requests, priority);
    }

    fn is_native(&self) -> bool {
        self.sink.is_native()
    }

    fn causes(&self) -> Option<&Causes> {
        self.sink.causes()
    }
}

/// Return the queue behind a Python object; our own takes requests without entering Python.
pub(crate) fn sink(queue: &Bound<'_, PyAny>, keeps: &Arc<Keeps>) -> PyResult<Arc<dyn RequestSink>> {
    let kept = keeps.add(queue);
    let sink: Arc<dyn RequestSink> = match queue.cast::<WorkQueue>() {
        Ok(queue) => {
            queue.get().shared.queue()?;
            Arc::clone(&queue.get().shared) as _
        }
        Err(_) => Arc::new(PySink(kept)),
    };
    let keeps = Arc::clone(keeps);
    Ok(Arc::new(KeepingSink { sink, keeps }))
}
