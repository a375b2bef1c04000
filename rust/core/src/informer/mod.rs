//! The engine of one informer: reads bytes, updates the store, notifies handlers.
//!
//! One thread (the reflector's) feeds and processes; every other call may come from any thread. No lock is held
//! during calls beyond the border, except in `process`, whose lock prevents handlers from being added within a batch:
//! a late handler gets every object exactly once.

mod follow;
mod intake;
mod registry;
mod stats;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

pub use follow::{FollowError, Followed};
use intake::Intake;
pub use intake::WatchProgress;
use registry::Registry;
pub use registry::{Handler, HandlerId, Resync};
pub(crate) use stats::Counters;
pub use stats::Stats;

use crate::decode::{DecodeError, ListMeta, MAX_OBJECT_BYTES};
use crate::delta_fifo::{DeltaFifo, DeltaObject, DeltaType, Popped};
use crate::handlers::Change;
use crate::object::{Object, Projection};
use crate::store::{Store, Write};

/// Keys that are processed together: one lock of the store, one lock of each queue.
const BATCH: usize = 1_000;

/// Changes an object before it is cached; its name, namespace, uid and resource version stay as the server sent them.
pub trait Transform: Send + Sync {
    /// Return the object to cache; None keeps the object as it is, for a reason that the transform has reported.
    fn apply(&self, object: &Arc<Object>) -> Option<Arc<Object>>;
}

/// The configuration of an informer.
#[derive(Clone)]
pub struct Config {
    /// The name of the resource in errors, for example `pods`.
    pub resource: String,
    /// Set on objects whose list items have none; objects of another one are skipped.
    pub api_version: String,
    /// Likewise.
    pub kind: String,
    /// The kind of a list; the default is `kind` with `List` for built-in kinds, and any for custom ones.
    pub list_kind: Option<String>,
    /// The part of each object that is kept; None for all of it.
    pub projection: Option<Projection>,
    /// Applied once to each incoming object.
    pub transform: Option<Arc<dyn Transform>>,
    /// The largest accepted object.
    pub max_object_bytes: usize,
    /// The resync period, in seconds, of handlers without their own; 0 is never.
    pub resync: f64,
}

impl Config {
    /// Configure an informer of whole objects without a transform and without resyncs.
    pub fn new(resource: &str, api_version: &str, kind: &str) -> Self {
        Self {
            resource: resource.to_owned(),
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            list_kind: None,
            projection: None,
            transform: None,
            max_object_bytes: MAX_OBJECT_BYTES,
            resync: 0.0,
        }
    }
}

/// See the module.
pub struct SharedInformer {
    config: Config,
    store: Arc<Store>,
    fifo: DeltaFifo,
    intake: Mutex<Intake>,
    /// Held while a batch is processed and while a handler is added.
    registry: Mutex<Registry>,
    /// The version up to which everything was processed.
    reached: Mutex<String>,
    counters: Arc<Counters>,
    started: AtomicBool,
    stopped: AtomicBool,
    synced: AtomicBool,
}

impl SharedInformer {
    /// Create an informer. The store should have the namespace index.
    pub fn new(config: Config, store: Arc<Store>) -> Self {
        let counters = Arc::<Counters>::default();
        Self {
            intake: Mutex::new(Intake::new(&config, counters.clone())),
            registry: Mutex::new(Registry::new(config.resync)),
            fifo: DeltaFifo::new(true),
            config,
            store,
            reached: Mutex::default(),
            counters,
            started: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            synced: AtomicBool::new(false),
        }
    }

    /// Return the configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Return the last known state of every object.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Begin to stage a list; drop what was staged before.
    pub fn begin_list(&self) {
        self.started.store(true, Ordering::Release);
        self.registry.lock().start();
        self.intake.lock().begin_list();
    }

    /// Drop what is staged; the store stays as it is.
    pub fn abort_list(&self) {
        self.intake.lock().abort_list();
    }

    /// Take more of a list page.
    ///
    /// # Errors
    /// The page is malformed; see [`DecodeError`].
    pub fn feed_list(&self, chunk: &[u8]) -> Result<(), DecodeError> {
        self.intake.lock().feed_list(chunk, &self.store)
    }

    /// Note the end of a page.
    ///
    /// # Errors
    /// The page is incomplete, or is not a list.
    pub fn end_page(&self) -> Result<ListMeta, DecodeError> {
        self.intake.lock().end_page()
    }

    /// Make the staged objects the whole content: the next `process` notifies handlers of the difference.
    pub fn replace(&self, resource_version: &str) {
        self.counters.relists.add(1);
        let mut intake = self.intake.lock();
        let staged = intake.take_staged(resource_version);
        self.fifo.replace(staged, Some(&*self.store), true);
    }

    /// Take more of a watch stream: deltas for `process`, or staged objects between `begin_list` and `replace`.
    ///
    /// # Errors
    /// A frame is malformed. The frames before it were taken.
    pub fn feed_watch(&self, chunk: &[u8]) -> Result<WatchProgress, DecodeError> {
        self.intake
            .lock()
            .feed_watch(chunk, &self.store, &self.fifo)
    }

    /// Note the end of the watch stream.
    ///
    /// # Errors
    /// The stream was cut in the middle of a frame.
    pub fn end_watch(&self) -> Result<WatchProgress, DecodeError> {
        self.intake.lock().end_watch(&self.store, &self.fifo)
    }

    /// Update the store and notify the handlers; return the number of keys.
    pub fn process(&self) -> usize {
        let mut processed = 0;
        // A resync that came in between is processed too: the caller finds all of it reached afterwards.
        while {
            processed += self.process_batches();
            !self.record_reached()
        } {}
        self.counters.processed.add(processed);
        processed
    }

    fn process_batches(&self) -> usize {
        let mut processed = 0;
        loop {
            let mut registry = self.registry.lock();
            let Some(mut batch) = self.fifo.take_ready(BATCH) else {
                break;
            };
            processed += batch.len();
            let changes = self.apply(batch.take_items());
            registry.notify(&changes);
        }
        if !self.synced.load(Ordering::Acquire) && self.fifo.has_synced() {
            self.registry.lock().informer_synced();
            self.synced.store(true, Ordering::Release);
        }
        processed
    }

    /// Record that everything taken in is in the store, so that this is as current as the stream; return false if
    /// not.
    fn record_reached(&self) -> bool {
        let intake = self.intake.lock();
        if !self.fifo.is_idle() {
            return false;
        }
        if !intake.resource_version().is_empty() {
            self.store.bookmark(intake.resource_version());
            intake
                .resource_version()
                .clone_into(&mut self.reached.lock());
        }
        true
    }

    /// Write a batch to the store and return the changes. The flag marks changes for resyncing handlers only.
    fn apply(&self, popped: Vec<Popped>) -> Vec<(Change, bool)> {
        let mut writes = Vec::with_capacity(popped.len());
        let mut sources = Vec::with_capacity(popped.len());
        for popped in popped {
            for delta in popped.deltas {
                let key = &popped.key;
                let object = delta.object.object().cloned();
                match (&delta.object, delta.kind, object) {
                    (_, DeltaType::Deleted, object) => {
                        let version_of =
                            object.filter(|_| matches!(delta.object, DeltaObject::Live(_)));
                        writes.push(Write::Delete(key.clone(), version_of));
                    }
                    (_, _, Some(object)) => writes.push(Write::Upsert(key.clone(), object)),
                    (_, _, None) => continue,
                }
                sources.push((key.clone(), delta, popped.is_initial));
            }
        }
        let olds = self.store.apply(writes);
        let mut changes = Vec::with_capacity(sources.len());
        for ((key, delta, initial), old) in sources.into_iter().zip(olds) {
            let change = match (delta.kind, delta.object, old) {
                (DeltaType::Deleted, object, _) => Change::Delete { key, object },
                (_, DeltaObject::Live(new), Some(old)) => Change::Update { old, new },
                (_, DeltaObject::Live(object), None) => Change::Add { object, initial },
                (_, DeltaObject::Tombstone(_), _) => continue,
            };
            changes.push((change, delta.kind == DeltaType::Sync));
        }
        changes
    }

    /// Queue a resync if the period of a handler has passed; return whether one was queued. `now` is in seconds.
    pub fn resync(&self, now: f64) -> bool {
        let due = self.registry.lock().resync_due(now);
        if due {
            self.fifo.resync(&*self.store);
        }
        due
    }

    /// Return how often the caller should call `resync`, in seconds; 0 for never.
    pub fn resync_check_period(&self) -> f64 {
        self.registry.lock().check_period()
    }

    /// Add a handler, which gets everything cached as initial adds. Return None if the informer was stopped.
    pub fn add_handler(&self, handler: Handler, resync: Resync, now: f64) -> Option<HandlerId> {
        let mut registry = self.registry.lock();
        if self.stopped.load(Ordering::Acquire) {
            return None;
        }
        let known = self.store.list();
        let synced = self.fifo.has_synced();
        Some(registry.add(handler, resync, now, known, synced))
    }

    /// Remove a handler; an unknown one is no error.
    pub fn remove_handler(&self, id: HandlerId) {
        let removed = self.registry.lock().remove(id);
        drop(removed);
    }

    /// Return whether listeners wait for news.
    #[cfg(unix)]
    fn has_listeners(&self) -> bool {
        self.registry.lock().has_listeners()
    }

    /// Return the number of handlers.
    pub fn handler_count(&self) -> usize {
        self.registry.lock().len()
    }

    /// Stop for good: all handlers are dropped, listeners are closed, and no further handlers can be added.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.fifo.close();
        let dropped = self.registry.lock().close();
        drop(dropped);
    }

    /// Return whether a list was ever begun.
    pub fn has_started(&self) -> bool {
        self.started.load(Ordering::Acquire)
    }

    /// Return whether it was stopped.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Return whether the store has the first list and the handlers were notified of all of it; never false again
    /// afterwards.
    pub fn has_synced(&self) -> bool {
        self.synced.load(Ordering::Acquire)
    }

    /// Return the resource version of the store of which all handlers were notified; empty before the first list.
    ///
    /// Data fed since the last `process` does not count, so that the objects of a version returned here are in the
    /// store.
    pub fn last_resource_version(&self) -> String {
        self.reached.lock().clone()
    }
}
