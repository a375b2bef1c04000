//! The engine of one informer: reads bytes, updates the store, notifies handlers.
//!
//! One thread (the reflector's) feeds and processes; every other call may come from any thread. No lock is held during
//! calls beyond the border. What must not happen at once takes turns instead: feeding (the intake is handed over),
//! processing (the FIFO hands out one batch at a time), notifying one handler. Nobody who reads the state of an informer,
//! adds a handler or removes one waits for a turn of another thread.
//!
//! A batch enters the store and its handlers are determined under one lock, so a late handler gets every object exactly
//! once: as initial, or as a change.

mod attached;
mod follow;
mod intake;
mod registry;
mod stats;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use attached::{Attached, Handlers};
pub use follow::{FollowError, Followed};
pub use intake::WatchProgress;
use intake::{Input, Intake};
use registry::Registry;
pub use registry::{Handler, HandlerId, Resync};
pub(crate) use stats::Counters;
pub use stats::Stats;

use crate::decode::{DecodeError, ListMeta, MAX_OBJECT_BYTES};
use crate::delta_fifo::{DeltaFifo, DeltaObject, DeltaType, Popped};
use crate::handlers::Change;
use crate::object::{Object, Projection};
use crate::store::{Store, Write};
use crate::sync::{Mutex, Rank, Turn};

/// Keys that are processed together: one lock of the store, one lock of each queue. The keys of a list enter the store
/// together, however many they are.
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
    intake: Turn<Box<Intake>>,
    /// What the intake has reported.
    input: Mutex<Input>,
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
            intake: Turn::new(Box::new(Intake::new(&config, counters.clone()))),
            input: Mutex::new(Rank::Input, Input::default()),
            registry: Mutex::new(Rank::Registry, Registry::new(config.resync)),
            fifo: DeltaFifo::new(true),
            config,
            store,
            reached: Mutex::new(Rank::Reached, String::new()),
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

    /// Use the intake, and wait for its turn if another thread uses it. No lock is held: transforms may be called.
    fn feed<R>(&self, work: impl FnOnce(&mut Intake) -> R) -> R {
        let mut intake = self.intake.take();
        let result = work(&mut intake);
        intake.report(&mut self.input.lock());
        result
    }

    /// Begin to stage a list; drop what was staged before.
    pub fn begin_list(&self) {
        self.started.store(true, Ordering::Release);
        self.registry.lock().start();
        self.feed(Intake::begin_list);
    }

    /// Drop what is staged; the store stays as it is.
    pub fn abort_list(&self) {
        self.feed(Intake::abort_list);
    }

    /// Take more of a list page.
    ///
    /// # Errors
    /// The page is malformed; see [`DecodeError`].
    pub fn feed_list(&self, chunk: &[u8]) -> Result<(), DecodeError> {
        self.feed(|intake| intake.feed_list(chunk, &self.store))
    }

    /// Note the end of a page.
    ///
    /// # Errors
    /// The page is incomplete, or is not a list.
    pub fn end_page(&self) -> Result<ListMeta, DecodeError> {
        self.feed(Intake::end_page)
    }

    /// Make the staged objects the whole content: the next `process` notifies handlers of the difference.
    pub fn replace(&self, resource_version: &str) {
        self.counters.relists.add(1);
        self.feed(|intake| {
            let staged = intake.take_staged(resource_version);
            self.fifo.replace(staged, Some(&*self.store), true);
        });
    }

    /// Take more of a watch stream: deltas for `process`, or staged objects between `begin_list` and `replace`.
    ///
    /// # Errors
    /// A frame is malformed. The frames before it were taken.
    pub fn feed_watch(&self, chunk: &[u8]) -> Result<WatchProgress, DecodeError> {
        self.feed(|intake| intake.feed_watch(chunk, &self.store, &self.fifo))
    }

    /// Note the end of the watch stream.
    ///
    /// # Errors
    /// The stream was cut in the middle of a frame.
    pub fn end_watch(&self) -> Result<WatchProgress, DecodeError> {
        self.feed(|intake| intake.end_watch(&self.store, &self.fifo))
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
            let Some(mut batch) = self.fifo.take_whole(BATCH) else {
                break;
            };
            processed += batch.len();
            let (changes, handlers) = self.apply(batch.take_items());
            let objects = self.store.len();
            let pieces = changes.chunks(BATCH);
            let merged =
                pieces.flat_map(|piece| handlers.iter().map(move |one| one.notify(piece, objects)));
            self.counters.merged.add(merged.sum());
        }
        if !self.synced.load(Ordering::Acquire) && self.fifo.has_synced() {
            let handlers = self.registry.lock().informer_synced();
            for handler in &*handlers {
                handler.notify_synced();
            }
            self.synced.store(true, Ordering::Release);
        }
        processed
    }

    /// Record that everything taken in is in the store, so that this is as current as the stream; return false if
    /// not.
    fn record_reached(&self) -> bool {
        let mut reached = self.reached.lock();
        // Read before the FIFO is: what it had up to this version has been processed then.
        let version = self.input.lock().resource_version.clone();
        if !self.fifo.is_idle() {
            return false;
        }
        if !version.is_empty() {
            self.store.bookmark(&version);
            *reached = version;
        }
        true
    }

    /// Write a batch to the store. Return the changes, and the handlers that did not find them there when they were
    /// added. The flag marks changes for resyncing handlers only.
    fn apply(&self, popped: Vec<Popped>) -> (Vec<(Change, bool)>, Handlers) {
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
        let mut prepared = self.store.prepare(writes);
        let (olds, handlers) = loop {
            let registry = self.registry.lock();
            match self.store.commit(prepared) {
                Ok(olds) => break (olds, registry.handlers()),
                Err(writes) => {
                    drop(registry);
                    prepared = self.store.prepare(writes);
                }
            }
        };
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
        (changes, handlers)
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
    ///
    /// The calling thread notifies it of those. May be called from a callback of any handler.
    pub fn add_handler(&self, handler: Handler, resync: Resync, now: f64) -> Option<HandlerId> {
        let attached = Arc::new(Attached::new(handler));
        let mut registry = self.registry.lock();
        if registry.is_closed() {
            return None;
        }
        let known = self.store.list();
        let synced = self.fifo.has_synced() || registry.is_synced();
        let id = registry.add(attached.clone(), resync, now);
        drop(registry);
        let initial = |object| Change::Add {
            object,
            initial: true,
        };
        let replay: Vec<Change> = known.into_iter().map(initial).collect();
        attached.replay(&replay, synced);
        Some(id)
    }

    /// Remove a handler; an unknown one is no error. No notification of it begins after this has returned, and one that
    /// another thread has begun ends at its next change; see [`SharedInformer::wait_removed`]. May be called from a
    /// callback of any handler.
    pub fn remove_handler(&self, id: HandlerId) {
        if let Some(removed) = self.take_out(id) {
            removed.remove();
        }
    }

    fn take_out(&self, id: HandlerId) -> Option<Arc<Attached>> {
        let mut registry = self.registry.lock();
        let idle = registry.forget_idle();
        let removed = registry.remove(id);
        drop(registry);
        drop(idle);
        removed
    }

    /// Wait until no other thread notifies a handler that was removed; false if one does at the deadline (None: wait for
    /// ever). A callback must not wait: two of them could wait for each other.
    pub fn wait_removed(&self, id: HandlerId, deadline: Option<Instant>) -> bool {
        let removed = self.take_out(id);
        removed.is_none_or(|removed| removed.wait_idle(deadline))
    }

    /// Return the number of notifications that listeners have not handled.
    pub fn pending(&self) -> usize {
        let handlers = self.registry.lock().handlers();
        handlers.iter().map(|handler| handler.pending()).sum()
    }

    /// Return the number of handlers.
    pub fn handler_count(&self) -> usize {
        self.registry.lock().len()
    }

    /// Stop for good: all handlers are removed, listeners are closed, and no further handlers can be added.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.fifo.close();
        let closed = self.registry.lock().close();
        for handler in closed {
            handler.remove();
        }
        let idle = self.registry.lock().forget_idle();
        drop(idle);
        self.store.close_deferred();
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
