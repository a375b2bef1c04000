//! One informer in Python: its engine, its indexer, and its handlers.

mod arguments;
mod engine;
pub(crate) mod following;
pub(crate) mod listener;
pub(crate) mod progress;

use std::sync::{Arc, Weak};
use std::time::Instant;

use ctrlhost_core::clock::Tick;
use ctrlhost_core::decode::MAX_OBJECT_BYTES;
use ctrlhost_core::handlers::Bounds;
use ctrlhost_core::informer::{self, Config, Handler, Transform};
use parking_lot::Mutex;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};
use pyo3::{PyTraverseError, PyVisit};

use crate::allocator;
use crate::budget::MemoryBudget;
use crate::clock::not_negative;
use crate::errors;
use crate::interpreter;
use crate::kept::{Keeps, Kept};
use crate::object::Object;
use crate::object::transform::PyTransform;
use crate::queue::wait::wait_in_slices;
use crate::shards::{by_of, ranges_of};
use crate::store::{Indexer, by_namespace};
use arguments::{compression_of, handler_id, projection, queue_handler, resync_of};
use engine::Engine;
use listener::{Listener, bounds};
use progress::{ListMeta, WatchProgress};

/// The number of notifications for a handler in Python from which those of an object are merged.
const MERGE_FROM: usize = 1024;

/// The engine of one informer.
#[pyclass(frozen, module = "ctrlhost._core")]
pub(crate) struct SharedInformer {
    pub(crate) engine: Engine,
    clock: Option<Arc<Kept>>,
    indexer: Arc<Kept>,
    /// The clock, the indexer and the transform.
    keeps: Keeps,
    /// What the handlers keep, until the engine drops them.
    handlers: Mutex<Vec<Weak<Keeps>>>,
}

impl SharedInformer {
    fn now(&self, py: Python<'_>) -> PyResult<f64> {
        match &self.clock {
            Some(clock) => clock.get(py)?.call_method0("now")?.extract(),
            None => py.import("time")?.call_method0("monotonic")?.extract(),
        }
    }

    pub(crate) fn add_handler(
        &self,
        py: Python<'_>,
        handler: Handler,
        resync: Option<f64>,
    ) -> PyResult<u64> {
        let resync = resync_of(resync)?;
        let now = self.now(py)?;
        let engine = &**self.engine.get()?;
        let added = interpreter::detach(py, || engine.add_handler(handler, resync, now));
        added.map(|id| id.0).ok_or_else(|| {
            let resource = self.resource().unwrap_or_default();
            let what = format!("handler of {resource} was not added to shared informer because it has stopped already");
            errors::raise(py, "Closed", &what, "")
        })
    }
}

#[pymethods]
impl SharedInformer {
    #[new]
    #[pyo3(signature = (resource, api_version, kind, *, list_kind=None, reads=None, transform=None, clock=None,
                        max_object_bytes=MAX_OBJECT_BYTES, resync=0.0, deferred=None, budget=None,
                        compression="off", shard_by=None))]
    #[expect(
        clippy::too_many_arguments,
        reason = "keyword arguments of a Python constructor"
    )]
    fn new(
        py: Python<'_>,
        resource: String,
        api_version: String,
        kind: String,
        list_kind: Option<String>,
        reads: Option<&Bound<'_, PyAny>>,
        transform: Option<&Bound<'_, PyAny>>,
        clock: Option<&Bound<'_, PyAny>>,
        max_object_bytes: usize,
        resync: Option<f64>,
        deferred: Option<&Bound<'_, PyAny>>,
        budget: Option<&MemoryBudget>,
        compression: &str,
        shard_by: Option<&str>,
    ) -> PyResult<Self> {
        allocator::return_early();
        let keeps = Keeps::default();
        let transform = transform.map(|func| PyTransform::shared(keeps.add(func)));
        let config = Config {
            resource,
            api_version,
            kind,
            list_kind,
            projection: projection(reads)?,
            transform: transform.map(|transform| transform as Arc<dyn Transform>),
            max_object_bytes: max_object_bytes.min(u32::MAX as usize),
            compression: compression_of(compression)?,
            resync: not_negative("resync", resync.unwrap_or(0.0))?,
            budget: budget.map(|budget| budget.0.clone()),
            shard_by: shard_by.map(by_of).transpose()?,
        };
        let store = by_namespace()?;
        let indexer = Bound::new(py, Indexer::wrap(store.clone(), deferred))?;
        Ok(Self {
            engine: Engine::new(config, store),
            clock: clock.map(|clock| keeps.add(clock)),
            indexer: keeps.add(&indexer),
            keeps,
            handlers: Mutex::default(),
        })
    }

    fn set_reads(&self, py: Python<'_>, reads: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let projection = projection(reads)?;
        self.engine.work(py, "set_reads", |engine| {
            engine.set_projection(projection);
        })
    }

    fn begin_list(&self, py: Python<'_>) -> PyResult<()> {
        self.engine
            .work(py, "begin_list", informer::SharedInformer::begin_list)
    }

    fn begin_range(&self, py: Python<'_>, ranges: Vec<(u64, u128)>) -> PyResult<()> {
        let ranges = ranges_of(ranges)?;
        self.engine
            .work(py, "begin_range", |engine| engine.begin_range(ranges))
    }

    fn hold(&self, py: Python<'_>, ranges: Vec<(u64, u128)>) -> PyResult<()> {
        let ranges = ranges_of(ranges)?;
        self.engine.work(py, "hold", |engine| engine.hold(ranges))
    }

    fn hashes(&self, py: Python<'_>) -> PyResult<Vec<(u64, u64)>> {
        let engine = self.engine.get()?;
        Ok(interpreter::detach(py, || engine.hashes()))
    }

    fn objects_of(&self, py: Python<'_>, ranges: Vec<(u64, u128)>) -> PyResult<Vec<Object>> {
        let ranges = ranges_of(ranges)?;
        let engine = self.engine.get()?;
        let objects = interpreter::detach(py, || engine.objects_of(&ranges));
        Ok(objects.into_iter().map(Object::of).collect())
    }

    fn abort_list(&self, py: Python<'_>) -> PyResult<()> {
        self.engine
            .work(py, "abort_list", informer::SharedInformer::abort_list)
    }

    #[pyo3(signature = (content_type=None))]
    fn begin_page(&self, py: Python<'_>, content_type: Option<&str>) -> PyResult<()> {
        self.engine
            .work(py, "begin_page", |engine| engine.begin_page(content_type))
    }

    #[pyo3(signature = (content_type=None))]
    fn begin_watch(&self, py: Python<'_>, content_type: Option<&str>) -> PyResult<()> {
        self.engine
            .work(py, "begin_watch", |engine| engine.begin_watch(content_type))
    }

    fn feed_list(&self, py: Python<'_>, chunk: &[u8]) -> PyResult<()> {
        self.engine
            .work(py, "feed_list", |engine| engine.feed_list(chunk))?
            .map_err(|error| self.engine.refused(py, &error))
    }

    fn end_page(&self, py: Python<'_>) -> PyResult<ListMeta> {
        let meta = self
            .engine
            .work(py, "end_page", informer::SharedInformer::end_page)?
            .map_err(|error| self.engine.malformed(py, &error))?;
        Ok(meta.into())
    }

    fn replace(&self, py: Python<'_>, resource_version: &str) -> PyResult<()> {
        self.engine
            .work(py, "replace", |engine| engine.replace(resource_version))?
            .map_err(|over| errors::over_budget(py, &over))
    }

    fn feed_watch(&self, py: Python<'_>, chunk: &[u8]) -> PyResult<WatchProgress> {
        let progress = self
            .engine
            .work(py, "feed_watch", |engine| engine.feed_watch(chunk))?
            .map_err(|error| self.engine.refused(py, &error))?;
        WatchProgress::wrap(py, progress)
    }

    fn end_watch(&self, py: Python<'_>) -> PyResult<WatchProgress> {
        let progress = self
            .engine
            .work(py, "end_watch", informer::SharedInformer::end_watch)?
            .map_err(|error| self.engine.refused(py, &error))?;
        WatchProgress::wrap(py, progress)
    }

    fn process(&self, py: Python<'_>) -> PyResult<usize> {
        self.engine
            .work(py, "process", informer::SharedInformer::process)
    }

    #[pyo3(signature = (queue, mapping=None, *, predicates=None, priority=None, low_priority=Some(-100),
                        resync=None, limits=None, full=None))]
    #[expect(
        clippy::too_many_arguments,
        reason = "keyword arguments of a Python method"
    )]
    fn enqueue_to(
        slf: &Bound<'_, Self>,
        queue: &Bound<'_, PyAny>,
        mapping: Option<&Bound<'_, PyAny>>,
        predicates: Option<&Bound<'_, PyAny>>,
        priority: Option<i32>,
        low_priority: Option<i32>,
        resync: Option<f64>,
        limits: Option<(usize, usize)>,
        full: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        let keeps = Arc::new(Keeps::default());
        let handler = queue_handler(queue, mapping, predicates, priority, low_priority, &keeps)?;
        if !handler.is_native() {
            // Every change counts by itself for a native handler; this one may be behind.
            let bounds = Bounds {
                both_states: true,
                ..bounds(0, limits)
            };
            return Listener::attach(slf, bounds, full, resync, Some(handler), keeps)?
                .into_py_any(py);
        }
        let mut handlers = this.handlers.lock();
        handlers.retain(|keeps| keeps.strong_count() > 0);
        handlers.push(Arc::downgrade(&keeps));
        drop(handlers);
        this.add_handler(py, Handler::Queue(handler), resync)?
            .into_py_any(py)
    }

    #[pyo3(signature = (resync=None, *, every_change=false, limits=None, full=None))]
    fn add_listener(
        slf: &Bound<'_, Self>,
        resync: Option<f64>,
        every_change: bool,
        limits: Option<(usize, usize)>,
        full: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Listener> {
        let merge_from = if every_change { usize::MAX } else { MERGE_FROM };
        let functions = Arc::new(Keeps::default());
        Listener::attach(
            slf,
            bounds(merge_from, limits),
            full,
            resync,
            None,
            functions,
        )
    }

    /// Remove a handler, and wait for a call that another thread has begun, which is short: of a queue of ours, or of a
    /// buffer.
    fn remove_handler(&self, py: Python<'_>, handle: &Bound<'_, PyAny>) -> PyResult<()> {
        let id = handler_id(handle)?;
        let engine = &**self.engine.get()?;
        engine.remove_handler(id);
        if !engine.wait_removed(id, Some(Instant::now())) {
            wait_in_slices(py, None, |end| {
                engine.wait_removed(id, Some(end)).then_some(())
            })?;
        }
        Ok(())
    }

    #[getter]
    fn pending(&self) -> PyResult<usize> {
        Ok(self.engine.get()?.pending())
    }

    #[getter]
    fn handler_count(&self) -> PyResult<usize> {
        Ok(self.engine.get()?.handler_count())
    }

    fn resync(&self, py: Python<'_>) -> PyResult<bool> {
        let now = self.now(py)?;
        let engine = self.engine.get()?;
        Ok(interpreter::detach(py, || engine.resync(now)))
    }

    #[getter]
    fn resync_check_period(&self) -> PyResult<f64> {
        Ok(self.engine.get()?.resync_check_period())
    }

    fn stop(&self) -> PyResult<()> {
        self.engine.get()?.stop();
        Ok(())
    }

    #[getter]
    fn started(&self) -> PyResult<bool> {
        Ok(self.engine.get()?.has_started())
    }

    #[getter]
    fn stopped(&self) -> PyResult<bool> {
        Ok(self.engine.get()?.is_stopped())
    }

    #[getter]
    fn indexer<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.indexer.get(py)
    }

    #[getter]
    fn resource(&self) -> PyResult<&str> {
        Ok(&self.engine.get()?.config().resource)
    }

    #[getter]
    fn has_synced(&self) -> PyResult<bool> {
        Ok(self.engine.get()?.has_synced())
    }

    #[getter]
    fn last_resource_version(&self) -> PyResult<String> {
        Ok(self.engine.get()?.last_resource_version())
    }

    /// Change one bit of the compressed body of a cached object; return whether it has one. For tests of damage.
    fn falsify(&self, key: &str, bit: usize) -> PyResult<bool> {
        Ok(self.engine.get()?.falsify(key, bit))
    }

    /// Return the events so far, when the last byte and the last event arrived, and the objects of the list in progress.
    fn arrived(&self) -> PyResult<(u64, Option<f64>, Option<f64>, usize)> {
        let arrived = self.engine.get()?.arrived();
        let (byte, event) = (arrived.last_byte, arrived.last_event);
        let seconds = |time: Option<Tick>| time.map(Tick::as_secs);
        Ok((
            arrived.events,
            seconds(byte),
            seconds(event),
            arrived.staged,
        ))
    }

    #[getter]
    fn transforms(&self) -> PyResult<bool> {
        Ok(self.engine.get()?.config().transform.is_some())
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.engine.get()?.stats();
        let dict = PyDict::new(py);
        for (name, value) in stats.counts {
            dict.set_item(name, value)?;
        }
        dict.set_item("memory", stats.memory.parts().into_py_dict(py)?)?;
        dict.set_item("last_skip", stats.last_skip)?;
        dict.set_item("last_unknown", stats.last_unknown)?;
        dict.set_item("encoding", stats.encoding)?;
        Ok(dict)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.keeps.traverse(&visit)?;
        let handlers = self.handlers.lock();
        let mut keeps = handlers.iter().filter_map(Weak::upgrade);
        keeps.try_for_each(|keeps| keeps.traverse(&visit))
    }

    fn __clear__(&self) {
        self.keeps.clear();
        let handlers = std::mem::take(&mut *self.handlers.lock());
        for keeps in handlers.iter().filter_map(Weak::upgrade) {
            keeps.clear();
        }
    }
}
