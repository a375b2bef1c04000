//! The indexed store in Python.

pub(crate) mod deferred;
pub(crate) mod index_functions;
mod lists;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ctrlhost_core::handlers::LabelRequirement;
use ctrlhost_core::object::{self, Key};
use ctrlhost_core::store::{IndexFunc, NamespaceIndex, Store, Write};
use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyMapping, PyString, PyTuple};
use pyo3::{PyTraverseError, PyVisit};

use crate::errors::store_error;
use crate::interpreter::{self, Local};
use crate::kept::{Keeps, Kept};
use crate::labels::{Labels, requirements};
use crate::object::Object;
use crate::object::input::{Intake, from_any};
use crate::object::tombstone::DeletedFinalStateUnknown;
use deferred::Deferred;
use index_functions::index_function;
use lists::copied;

/// Make a store with the default index.
pub(crate) fn by_namespace() -> PyResult<Arc<Store>> {
    let store = Store::new();
    let default: Arc<dyn IndexFunc> = Arc::new(NamespaceIndex);
    store
        .add_indexes(&[("namespace".into(), default)])
        .map_err(store_error)?;
    Ok(Arc::new(store))
}

/// A thread-safe store with secondary indexes.
#[pyclass(frozen, module = "ctrlhost._core")]
pub(crate) struct Indexer {
    store: Local<Arc<Store>>,
    intake: Intake,
    index_errors: Arc<AtomicU64>,
    /// Makes a function into one that another thread calls; None if each write calls it.
    deferred: Option<Arc<Kept>>,
    /// What the index functions keep, by the name of the index.
    functions: Mutex<HashMap<String, Keeps>>,
    keeps: Keeps,
}

impl Indexer {
    pub(crate) fn wrap(store: Arc<Store>, deferred: Option<&Bound<'_, PyAny>>) -> Self {
        let indexer = Self::reading(store, None, None);
        let deferred = deferred.map(|deferred| indexer.keeps.add(deferred));
        Self {
            deferred,
            ..indexer
        }
    }

    fn reading(
        store: Arc<Store>,
        key_func: Option<&Bound<'_, PyAny>>,
        transform: Option<&Bound<'_, PyAny>>,
    ) -> Self {
        let keeps = Keeps::default();
        Self {
            store: Local::new(store),
            intake: Intake::new(key_func, transform, &keeps),
            index_errors: Arc::default(),
            deferred: None,
            functions: Mutex::default(),
            keeps,
        }
    }

    pub(crate) fn store(&self) -> PyResult<&Arc<Store>> {
        self.store.get()
    }

    /// Return the key, and the object unless `raw` is a tombstone.
    fn key(&self, raw: &Bound<'_, PyAny>) -> PyResult<(Key, Option<Arc<object::Object>>)> {
        if let Ok(tombstone) = raw.cast::<DeletedFinalStateUnknown>() {
            return Ok((tombstone.get().key.clone(), None));
        }
        let object = from_any(raw)?;
        Ok((self.intake.key(raw.py(), &object)?, Some(object)))
    }
}

#[pymethods]
impl Indexer {
    #[new]
    #[pyo3(signature = (indexers=None, *, key_func=None, transform=None))]
    fn new(
        py: Python<'_>,
        indexers: Option<&Bound<'_, PyMapping>>,
        key_func: Option<&Bound<'_, PyAny>>,
        transform: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<Self>> {
        let store = indexers.map_or_else(by_namespace, |_| Ok(Arc::default()))?;
        let indexer = Bound::new(py, Self::reading(store, key_func, transform))?;
        if let Some(indexers) = indexers {
            Self::add_indexers(&indexer, indexers)?;
        }
        Ok(indexer.unbind())
    }

    /// Store an object in place of the one with its key. KeyFuncError, and no change, if the key function fails.
    fn add(&self, obj: &Bound<'_, PyAny>) -> PyResult<()> {
        let (key, object) = self.intake.read(obj)?;
        self.store()?.upsert(key, object);
        Ok(())
    }

    /// Do the same as `add`.
    fn update(&self, obj: &Bound<'_, PyAny>) -> PyResult<()> {
        self.add(obj)
    }

    /// Delete the object with this object's key, if there is one.
    fn delete(&self, obj: &Bound<'_, PyAny>) -> PyResult<()> {
        let (key, object) = self.key(obj)?;
        self.store()?.delete(key, object);
        Ok(())
    }

    /// Delete the object with a key, if there is one.
    fn delete_by_key(&self, key: &str) -> PyResult<()> {
        self.store()?.delete(key.into(), None);
        Ok(())
    }

    /// Return the object with this object's key; None if there is none.
    fn get(&self, obj: &Bound<'_, PyAny>) -> PyResult<Option<Object>> {
        Ok(self.store()?.get(&self.key(obj)?.0).map(Object::of))
    }

    /// Return the object with a key; None if there is none.
    fn get_by_key(&self, key: &str) -> PyResult<Option<Object>> {
        Ok(self.store()?.get(key).map(Object::of))
    }

    /// Return all objects, as of one instant and in no order.
    fn list<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let store = self.store()?;
        lists::of_objects(py, copied(py, store.len(), || store.list()))
    }

    /// Return the objects of a namespace, or of all, with these labels: (key, values or None, negated).
    fn select<'py>(
        &self,
        py: Python<'py>,
        namespace: Option<&str>,
        labels: Labels,
    ) -> PyResult<Bound<'py, PyList>> {
        let (store, wanted) = (self.store()?, requirements(labels));
        let all = store.len();
        let count = namespace.map_or(all, |value| store.index_count("namespace", value));
        let met = |object: &object::Object| LabelRequirement::all_are_met(&wanted, object);
        let objects = copied(py, count, || store.select(namespace, met));
        lists::of_objects(py, objects.map_err(store_error)?)
    }

    /// Return all keys, as of one instant and in no order.
    fn list_keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let store = self.store()?;
        lists::of_texts(py, copied(py, store.len(), || store.keys()))
    }

    /// Replace the whole content with `objs`, in one step.
    #[pyo3(signature = (objs, resource_version=None))]
    fn replace(
        &self,
        py: Python<'_>,
        objs: &Bound<'_, PyAny>,
        resource_version: Option<&str>,
    ) -> PyResult<()> {
        let objects = objs
            .try_iter()?
            .map(|raw| self.intake.read(&raw?))
            .collect::<PyResult<Vec<_>>>()?;
        let store = self.store()?;
        interpreter::detach(py, || store.replace(objects, resource_version));
        Ok(())
    }

    /// Do nothing: a store has no handlers.
    fn resync(&self) {}

    /// Apply `("add" | "update" | "delete", object)` in one step; TransactionError if keys could not be computed.
    fn transaction(&self, py: Python<'_>, operations: &Bound<'_, PyAny>) -> PyResult<()> {
        let (mut writes, mut successful, mut failures) = (Vec::new(), Vec::new(), Vec::new());
        for (index, operation) in operations.try_iter()?.enumerate() {
            let (what, raw): (String, Bound<'_, PyAny>) = operation?.extract()?;
            let write = match what.as_str() {
                "add" | "update" => self
                    .intake
                    .read(&raw)
                    .map(|(key, object)| Write::Upsert(key, object)),
                "delete" => self
                    .key(&raw)
                    .map(|(key, object)| Write::Delete(key, object)),
                _ => {
                    return Err(PyValueError::new_err(format!(
                        "operation must be add, update or delete, got {what}"
                    )));
                }
            };
            match write {
                Ok(write) => {
                    writes.push(write);
                    successful.push(index);
                }
                Err(error) => failures.push(error.into_value(py)),
            }
        }
        let store = self.store()?;
        drop(interpreter::detach(py, || store.apply(writes)));
        if failures.is_empty() {
            return Ok(());
        }
        let total = failures.len() + successful.len();
        let class = py.import("ctrlhost.errors")?.getattr("TransactionError")?;
        let successful = PyTuple::new(py, successful)?;
        let failures = PyTuple::new(py, failures)?;
        Err(PyErr::from_value(
            class.call1((successful, total, failures))?,
        ))
    }

    /// Return the objects that share a value of index `name` with `obj`. KeyError for an unknown index.
    fn index<'py>(&self, name: &str, obj: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        let (py, object) = (obj.py(), from_any(obj)?);
        let store = self.caught_up(py, name)?;
        let objects = interpreter::detach(py, || store.index(name, &object));
        lists::of_objects(py, objects.map_err(store_error)?)
    }

    /// Return the objects that have `value` in index `name`. KeyError for an unknown index.
    fn by_index<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        value: &str,
    ) -> PyResult<Bound<'py, PyList>> {
        let store = self.caught_up(py, name)?;
        let count = store.index_count(name, value);
        let objects = copied(py, count, || store.by_index(name, value));
        lists::of_objects(py, objects.map_err(store_error)?)
    }

    /// Return the keys of the objects that have `value` in index `name`. KeyError for an unknown index.
    fn index_keys<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        value: &str,
    ) -> PyResult<Bound<'py, PyList>> {
        let store = self.caught_up(py, name)?;
        let count = store.index_count(name, value);
        let keys = copied(py, count, || store.index_keys(name, value));
        lists::of_texts(py, keys.map_err(store_error)?)
    }

    /// Return the values that index `name` has objects for. KeyError for an unknown index.
    fn list_index_func_values<'py>(
        &self,
        py: Python<'py>,
        name: &str,
    ) -> PyResult<Bound<'py, PyList>> {
        let store = self.caught_up(py, name)?;
        let count = store.index_value_count(name);
        let values = copied(py, count, || store.index_values(name));
        lists::of_texts(py, values.map_err(store_error)?)
    }

    /// Add indexes. They are complete when this returns, or their readers wait for them where another thread calls the
    /// function. If a name is taken, raise ValueError.
    fn add_indexers(slf: &Bound<'_, Self>, indexers: &Bound<'_, PyMapping>) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        let native = py.import("ctrlhost._core")?.getattr("namespace_index")?;
        let mut new: Vec<(Box<str>, Arc<dyn IndexFunc>)> = Vec::new();
        let mut kept: Vec<(String, Keeps)> = Vec::new();
        let mut later: Vec<(String, Bound<'_, PyAny>)> = Vec::new();
        for item in indexers.items()?.iter() {
            let (name, func): (String, Bound<'_, PyAny>) = item.extract()?;
            if func.is_instance_of::<Deferred>() {
                later.push((name, func));
            } else if let Some(deferred) = this
                .deferred
                .as_ref()
                .filter(|_| func.is_callable() && !func.is(&native))
            {
                later.push((name, deferred.get(py)?.call1((func,))?));
            } else {
                let keeps = Keeps::default();
                let built = index_function(&name, &func, &native, &this.index_errors, &keeps)?;
                kept.push((name.clone(), keeps));
                new.push((name.into(), built));
            }
        }
        let store = this.store()?;
        interpreter::detach(py, || store.add_indexes(&new)).map_err(store_error)?;
        this.functions.lock().extend(kept);
        let mut added: Vec<&str> = new.iter().map(|(name, _)| &**name).collect();
        for (name, func) in &later {
            if let Err(error) = Self::defer(slf, name, func) {
                store.remove_indexes(&added);
                return Err(error);
            }
            added.push(name);
        }
        Ok(())
    }

    /// Remove indexes; unknown names are no error.
    fn remove_indexers(&self, py: Python<'_>, names: Vec<String>) -> PyResult<()> {
        let store = self.store()?;
        let borrowed: Vec<&str> = names.iter().map(String::as_str).collect();
        interpreter::detach(py, || store.remove_indexes(&borrowed));
        let mut functions = self.functions.lock();
        let removed: Vec<_> = names
            .into_iter()
            .filter_map(|name| functions.remove(&name))
            .collect();
        drop(functions);
        drop(removed);
        Ok(())
    }

    /// The names of the indexes.
    #[getter]
    fn indexers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.store()?.index_names().iter().map(|name| &**name))
    }

    /// How often an index function failed; the object is then missing from the index.
    #[getter]
    fn index_errors(&self) -> u64 {
        self.index_errors.load(Ordering::Relaxed)
    }

    /// How often the transform failed.
    #[getter]
    fn transform_errors(&self) -> u64 {
        self.intake.transform_errors()
    }

    /// The version of the last write, list or bookmark; empty initially.
    #[getter]
    fn resource_version(&self) -> PyResult<String> {
        Ok(self.store()?.resource_version())
    }

    /// Record the version of the content.
    fn bookmark(&self, resource_version: &str) -> PyResult<()> {
        self.store()?.bookmark(resource_version);
        Ok(())
    }

    /// The approximate size of the objects in bytes, without tables and indexes.
    #[getter]
    fn memory(&self) -> PyResult<usize> {
        let memory = self.store()?.memory();
        Ok(memory.header + memory.body)
    }

    /// Call `work` under the lock that readers and writers wait for: for tests.
    fn _hold<'py>(&self, work: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (py, store, work) = (work.py(), self.store()?, work.clone().unbind());
        let call = || interpreter::attach(|py| work.call0(py));
        Ok(interpreter::detach(py, || store.hold(call))?.into_bound(py))
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(self.store()?.len())
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Ok(key) = key.cast::<PyString>() else {
            return Ok(false);
        };
        Ok(self.store()?.get(&key.to_cow()?).is_some())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let functions = self.functions.lock();
        functions
            .values()
            .try_for_each(|keeps| keeps.traverse(&visit))?;
        self.keeps.traverse(&visit)
    }

    fn __clear__(&self) {
        let functions = std::mem::take(&mut *self.functions.lock());
        functions.values().for_each(Keeps::clear);
        self.keeps.clear();
    }
}
