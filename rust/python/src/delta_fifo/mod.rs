//! The delta FIFO in Python.

pub(crate) mod delta;

use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Duration;

use ctrlhost_core::delta_fifo::{self, DeltaObject, KnownObjects, Taken};
use ctrlhost_core::object::{self, Key};
use ctrlhost_core::store::Store;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};
use pyo3::{PyTraverseError, PyVisit};

use crate::clock::timeout;
use crate::errors;
use crate::interpreter::{self, Local};
use crate::kept::{Keeps, Kept};
use crate::object::input::{Intake, from_any};
use crate::object::tombstone::DeletedFinalStateUnknown;
use crate::queue::wait::wait_in_slices;
use crate::store::Indexer;
use delta::Delta;

enum Known {
    Store(Arc<Store>),
    Python(Arc<Kept>),
}

/// One comparison with the known objects; keeps the error that Python raised.
struct Comparison<'a> {
    known: &'a Known,
    failure: Mutex<Option<PyErr>>,
}

impl Comparison<'_> {
    fn keep<T>(&self, result: PyResult<T>) -> Option<T> {
        result
            .map_err(|error| *self.failure.lock() = Some(error))
            .ok()
    }
}

impl KnownObjects for Comparison<'_> {
    fn list_keys(&self) -> Option<Vec<Key>> {
        match self.known {
            Known::Store(store) => store.list_keys(),
            Known::Python(known) => interpreter::attach(|py| {
                let list = || -> PyResult<Vec<Key>> {
                    let keys = known.get(py)?.call_method0("list_keys")?;
                    keys.try_iter()?
                        .map(|key| Ok(key?.cast::<PyString>()?.to_cow()?.as_ref().into()))
                        .collect()
                };
                self.keep(list())
            }),
        }
    }

    fn get_by_key(&self, key: &str) -> Option<Arc<object::Object>> {
        match self.known {
            Known::Store(store) => store.get(key),
            Known::Python(known) => interpreter::attach(|py| {
                let get = || -> PyResult<Option<Arc<object::Object>>> {
                    let known_object = known.get(py)?.call_method1("get_by_key", (key,))?;
                    (!known_object.is_none())
                        .then(|| from_any(&known_object))
                        .transpose()
                };
                // After a failed look-up only the tombstone's object is missing.
                get().unwrap_or_else(|error| {
                    let what = format!("known_objects.get_by_key({key:?}) failed");
                    errors::log_failure(py, &what, &error);
                    None
                })
            }),
        }
    }
}

/// A queue of the changes of each key since it was last handed out.
#[pyclass(frozen, module = "ctrlhost._core")]
pub(crate) struct DeltaFIFO {
    fifo: Local<delta_fifo::DeltaFifo>,
    known: Option<Known>,
    intake: Intake,
    keeps: Keeps,
    /// The thread that runs `process`.
    popping: Mutex<Option<ThreadId>>,
}

impl DeltaFIFO {
    /// Run a comparison with the known objects, detached from the interpreter.
    fn compare(
        &self,
        py: Python<'_>,
        run: impl FnOnce(&delta_fifo::DeltaFifo, Option<&dyn KnownObjects>) + Send,
    ) -> PyResult<()> {
        let fifo = self.fifo.get()?;
        let comparison = self.known.as_ref().map(|known| Comparison {
            known,
            failure: Mutex::new(None),
        });
        interpreter::detach(py, || {
            let known = comparison.as_ref().map(|one| one as &dyn KnownObjects);
            run(fifo, known);
        });
        let failure = comparison.and_then(|comparison| comparison.failure.into_inner());
        failure.map_or(Ok(()), Err)
    }
}

/// Marks this thread as the one that runs `process`, until it is dropped.
struct Popping<'a>(&'a Mutex<Option<ThreadId>>);

impl<'a> Popping<'a> {
    fn begin(thread: &'a Mutex<Option<ThreadId>>) -> Self {
        *thread.lock() = Some(std::thread::current().id());
        Self(thread)
    }
}

impl Drop for Popping<'_> {
    fn drop(&mut self) {
        *self.0.lock() = None;
    }
}

#[pymethods]
impl DeltaFIFO {
    #[new]
    #[pyo3(signature = (known_objects=None, *, key_func=None, transform=None, emit_replaced=true))]
    fn new(
        known_objects: Option<&Bound<'_, PyAny>>,
        key_func: Option<&Bound<'_, PyAny>>,
        transform: Option<&Bound<'_, PyAny>>,
        emit_replaced: bool,
    ) -> PyResult<Self> {
        let keeps = Keeps::default();
        let known = known_objects.map(|known| {
            let kept = keeps.add(known);
            match known.cast::<Indexer>() {
                Ok(indexer) => indexer.get().store().cloned().map(Known::Store),
                Err(_) => Ok(Known::Python(kept)),
            }
        });
        Ok(Self {
            fifo: Local::new(delta_fifo::DeltaFifo::new(emit_replaced)),
            known: known.transpose()?,
            intake: Intake::new(key_func, transform, &keeps),
            keeps,
            popping: Mutex::new(None),
        })
    }

    /// Queue the addition of an object. KeyFuncError if the key function fails.
    fn add(&self, obj: &Bound<'_, PyAny>) -> PyResult<()> {
        let (key, object) = self.intake.read(obj)?;
        self.fifo.get()?.add(key, object);
        Ok(())
    }

    /// Queue the update of an object. KeyFuncError if the key function fails.
    fn update(&self, obj: &Bound<'_, PyAny>) -> PyResult<()> {
        let (key, object) = self.intake.read(obj)?;
        self.fifo.get()?.update(key, object);
        Ok(())
    }

    /// Queue the deletion of an object or a tombstone's object; ignored for a key that is neither queued nor known.
    fn delete(&self, obj: &Bound<'_, PyAny>) -> PyResult<()> {
        let (key, object) = if let Ok(tombstone) = obj.cast::<DeletedFinalStateUnknown>() {
            let tombstone = tombstone.get();
            (
                tombstone.key.clone(),
                DeltaObject::Tombstone(tombstone.object.clone()),
            )
        } else {
            let (key, object) = self.intake.read(obj)?;
            (key, DeltaObject::Live(object))
        };
        self.compare(obj.py(), |fifo, known| fifo.delete(key, object, known))
    }

    /// Replace the whole content with `objs`: other queued or known objects get a tombstone.
    fn replace(
        &self,
        py: Python<'_>,
        objs: &Bound<'_, PyAny>,
        resource_version: &str,
    ) -> PyResult<()> {
        let _ = resource_version;
        let objects = objs
            .try_iter()?
            .map(|raw| self.intake.read(&raw?))
            .collect::<PyResult<Vec<_>>>()?;
        self.compare(py, |fifo, known| fifo.replace(objects, known, false))
    }

    /// Queue a Sync for each known object without queued deltas.
    fn resync(&self, py: Python<'_>) -> PyResult<()> {
        self.compare(py, |fifo, known| {
            if let Some(known) = known {
                fifo.resync(known);
            }
        })
    }

    /// Wait for a key, pass its deltas, oldest first, to `process(deltas, is_in_initial_list)`, and return them.
    ///
    /// No lock is held meanwhile; a second `pop` waits. Exceptions of `process` are raised; the key is not requeued.
    /// Raises `queue.Empty` after `timeout` seconds, and Closed once the FIFO is closed and empty.
    #[pyo3(signature = (process, timeout=None))]
    fn pop<'py>(
        &self,
        py: Python<'py>,
        process: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = timeout)] timeout: Option<Duration>,
    ) -> PyResult<Bound<'py, PyList>> {
        let fifo = self.fifo.get()?;
        if *self.popping.lock() == Some(std::thread::current().id()) {
            return Err(errors::reentered("pop"));
        }
        let taken = wait_in_slices(py, timeout, |end| match fifo.take(1, Some(end)) {
            Taken::TimedOut => None,
            taken => Some(taken),
        })?;
        let mut batch = match taken {
            Some(Taken::Items(batch)) => batch,
            Some(Taken::Closed) => {
                return Err(errors::raise(py, "Closed", "the delta FIFO is closed", ""));
            }
            Some(Taken::TimedOut) | None => return Err(interpreter::empty(py)),
        };
        // Dropped before the batch, whose end lets another thread pop.
        let _popping = Popping::begin(&self.popping);
        let deltas = PyList::empty(py);
        for item in batch.take_items() {
            for delta in item.deltas {
                deltas.append(Delta::wrap(&item.key, delta))?;
            }
            process.call1((&deltas, item.is_initial))?;
        }
        Ok(deltas)
    }

    /// Return whether all of the first list was processed.
    fn has_synced(&self) -> PyResult<bool> {
        Ok(self.fifo.get()?.has_synced())
    }

    /// Stop accepting changes and wake all waiters; queued deltas are still handed out.
    fn close(&self) -> PyResult<()> {
        self.fifo.get()?.close();
        Ok(())
    }

    /// Whether the FIFO is closed.
    #[getter]
    fn closed(&self) -> PyResult<bool> {
        Ok(self.fifo.get()?.is_closed())
    }

    /// How often the transform failed.
    #[getter]
    fn transform_errors(&self) -> u64 {
        self.intake.transform_errors()
    }

    /// Return the queued keys, in order.
    fn list_keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.fifo.get()?.keys().iter().map(|key| &**key))
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(self.fifo.get()?.len())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.keeps.traverse(&visit)
    }

    fn __clear__(&self) {
        self.keeps.clear();
    }
}
